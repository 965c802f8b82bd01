"""Sign in with OAuth 2.1.

`OAuthResource` accepts the access tokens of an authorization server. It needs the extra ``flask-jsonrpc-mcp[oauth]``.
`OAuthServer` makes the app itself an authorization server. It needs the extra ``flask-jsonrpc-mcp[oauth-server]``.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

try:
    from .resource import OAuthResource
    from .tokens import AccessToken

    if find_spec("joserfc") is None:  # imported when it is needed, see `resource`
        raise ModuleNotFoundError("No module named 'joserfc'", name="joserfc")
except ModuleNotFoundError as error:
    extras = "flask-jsonrpc-mcp[oauth], or flask-jsonrpc-mcp[oauth-server] for an OAuthServer"
    raise ModuleNotFoundError(f"{error}; install {extras}", name=error.name) from error

if TYPE_CHECKING:
    from ..oauth_server import FileGrants, Grant, OAuthServer, SqlGrants

__all__ = ["AccessToken", "FileGrants", "Grant", "OAuthResource", "OAuthServer", "SqlGrants"]


def __getattr__(name: str) -> Any:
    """Import the authorization server when it is used, because its packages may not be installed."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .. import oauth_server

    return getattr(oauth_server, name)
