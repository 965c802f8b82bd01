"""A Flask-Security site with users in its database, who sign in with authentication tokens."""

from flask import Flask
from flask_security import Security, SQLAlchemyUserDatastore, hash_password
from flask_security.models import fsqla_v3
from flask_sqlalchemy import SQLAlchemy

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.sign_in import FlaskSecurityAuth
from tests.host_apps.shared_tools import add_tools

app = Flask(__name__)
app.config.update(
    SECRET_KEY="a-secret-key-of-at-least-32-bytes",
    SECURITY_PASSWORD_SALT="1234567890",
    SECURITY_PASSWORD_HASH="plaintext",
    SECURITY_PASSWORD_SCHEMES=["plaintext"],
    # The clients of the tests send no other header.
    SECURITY_TOKEN_AUTHENTICATION_HEADER="Authorization",
    SQLALCHEMY_DATABASE_URI="sqlite:///site.sqlite3",
    WTF_CSRF_ENABLED=False,
)
db = SQLAlchemy(app)
fsqla_v3.FsModels.set_db_info(db)


class Role(db.Model, fsqla_v3.FsRoleMixin):
    pass


class User(db.Model, fsqla_v3.FsUserMixin):
    pass


store = SQLAlchemyUserDatastore(db, User, Role)
Security(app, store)
with app.app_context():
    db.create_all()
    for name, roles in {"ada": ["Admin"], "ben": []}.items():
        email = f"{name}@site.example"
        if store.find_user(email=email) is None:
            made = [store.find_or_create_role(role) for role in roles]
            store.create_user(email=email, username=name, password=hash_password("a long secret"), roles=made)
    db.session.commit()

# The glue.
app.register_blueprint(add_tools(McpBlueprint(auth=FlaskSecurityAuth())))
