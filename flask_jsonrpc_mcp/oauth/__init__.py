"""Accept the access tokens of an OAuth 2.1 authorization server. Needs the extra ``flask-jsonrpc-mcp[oauth]``."""

try:
    from .resource import OAuthResource
    from .tokens import AccessToken
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install flask-jsonrpc-mcp[oauth]", name=error.name) from error

__all__ = ["AccessToken", "OAuthResource"]
