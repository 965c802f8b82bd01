"""A Dash app on a Flask server, with HTTP Basic."""

from dash import Dash, html
from flask import Flask
from flask_httpauth import HTTPBasicAuth

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_tools import add_tools

ROLES = {"ada": ["Admin"], "ben": []}

app = Flask(__name__)
app.secret_key = "key"
dashboard = Dash(__name__, server=app)
dashboard.layout = html.Div("Books")
auth = HTTPBasicAuth()
auth.verify_password(lambda username, password: username if username in ROLES and password == "a long secret" else None)
auth.get_user_roles(ROLES.get)

# The glue.
app.register_blueprint(add_tools(McpBlueprint(auth=auth)))
