"""A flask-smorest API with HTTP Basic."""

from flask import Flask
from flask_httpauth import HTTPBasicAuth
from flask_smorest import Api, Blueprint
from marshmallow import Schema, fields

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_tools import add_tools

ROLES = {"ada": ["Admin"], "ben": []}

app = Flask(__name__)
app.config.update(API_TITLE="Books", API_VERSION="v1", OPENAPI_VERSION="3.0.3", SECRET_KEY="key")
api = Api(app)
auth = HTTPBasicAuth()
auth.verify_password(lambda username, password: username if username in ROLES and password == "a long secret" else None)
auth.get_user_roles(ROLES.get)
books = Blueprint("books", "books", url_prefix="/books")


class Book(Schema):
    title = fields.String()


@books.route("/")
@books.response(200, Book(many=True))
def list_books() -> list[dict[str, str]]:
    return [{"title": "Emma"}]


api.register_blueprint(books)

# The glue.
app.register_blueprint(add_tools(McpBlueprint(auth=auth)))
