"""The app as an authorization server. Import its names from ``flask_jsonrpc_mcp.oauth``."""

try:
    from .grants import FileGrants, Grant, SqlGrants
    from .provider import OAuthServer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install flask-jsonrpc-mcp[oauth-server]", name=error.name) from error

__all__ = ["FileGrants", "Grant", "OAuthServer", "SqlGrants"]
