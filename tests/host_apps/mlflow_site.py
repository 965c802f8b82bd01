"""MLflow's tracking server with its basic auth."""

from flask import g
from mlflow.server import app as mlflow_app
from mlflow.server.auth import create_app, store

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_tools import add_tools

app = create_app(mlflow_app)
if not store.has_user("ben"):
    store.create_user("ben", "a long secret")

# The glue.
rpc = McpBlueprint(auth=lambda: g.get("mlflow_authenticated_user"))
rpc.permissions_loader(lambda user: ["Admin"] if user and store.get_user(user).is_admin else [])
app.register_blueprint(add_tools(rpc))
