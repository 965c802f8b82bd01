"""A Flask-AppBuilder site with users in its database, who sign in with JSON Web Tokens."""

from flask import Flask
from flask_appbuilder import AppBuilder
from flask_appbuilder.utils.legacy import get_sqla_class
from werkzeug.security import generate_password_hash

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.sign_in import AppBuilderAuth
from tests.host_apps.shared_tools import add_tools

app = Flask(__name__)
app.config.update(SECRET_KEY="a-secret-key-of-at-least-32-bytes", SQLALCHEMY_DATABASE_URI="sqlite:///site.sqlite3")
with app.app_context():
    builder = AppBuilder(app, get_sqla_class()(app).session)
    for name, role in {"ada": "Admin", "ben": "Public"}.items():
        if builder.sm.find_user(name) is None:
            hashed = generate_password_hash("a long secret", "pbkdf2:sha256:1")
            found = builder.sm.find_role(role)
            builder.sm.add_user(name, name, name, f"{name}@site.example", found, hashed_password=hashed)

# The glue.
app.register_blueprint(add_tools(McpBlueprint(auth=AppBuilderAuth())))
