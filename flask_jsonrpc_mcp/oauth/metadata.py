"""The public URLs of a blueprint, and its metadata as a protected resource (RFC 9728)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from flask import Response, current_app, request, url_for
from flask.sansio.app import App
from werkzeug.exceptions import HTTPException

from ..call import new_id
from ..config import PREFIX
from ..errors import NoSuchPath, RpcError, ServerFault
from ..http.io import json_response, no_content, rest_error
from ..http.routes import check_host
from ..origins import host_name, is_loopback
from ..registry import EXTENSION, Registry

if TYPE_CHECKING:
    from .bearer import OAuthSignIn
    from .resource import OAuthResource

WELL_KNOWN = "/.well-known/oauth-protected-resource"
ENDPOINT = "jsonrpc_mcp_protected_resource"
PUBLIC_URLS = "jsonrpc_mcp_public_urls"
"""``app.extensions["jsonrpc_mcp_public_urls"]`` has the `PublicUrls` of blueprints whose URLs are always the same."""

MAX_AGE = 300
_MCP = ".mcp"
_VERBS = "GET, HEAD, OPTIONS"


class PublicUrls(NamedTuple):
    """The public URLs of a blueprint.

    :param resource: The URL of its MCP endpoint, which is the audience of its tokens.
    :param metadata: The URL of its metadata.
    """

    resource: str
    metadata: str


def public_urls_of(blueprint: str, variables: Mapping[str, Any] | None = None) -> PublicUrls:
    """Return the URLs of a blueprint in the current request.

    :param variables: Values for its ``url_prefix``; by default those of the current request.
    :raises ServerFault: if the public URL is not known, or has another host than the blueprint.
    :raises werkzeug.routing.BuildError: if there is no value for a variable.
    """
    known: dict[str, PublicUrls] = current_app.extensions[PUBLIC_URLS]
    if blueprint in known:
        return known[blueprint]
    [rule, *_] = current_app.url_map.iter_rules(blueprint + _MCP)
    if variables is None:
        # Not request.view_args, which url_value_preprocessor functions of the app may have changed.
        variables = _adapter().match()[1] if rule.arguments else {}
    used = {name: value for name, value in variables.items() if name in rule.arguments}
    has_host = bool(rule.subdomain or rule.host)
    url = url_for(blueprint + _MCP, _external=has_host, **used)
    host, slash, path = url.partition("://")[2].partition("/") if has_host else ("", "", url)
    # Without SCRIPT_NAME, which the public URL has already, and without a query string that url_defaults may add.
    path = (slash + path).removeprefix(request.script_root).partition("?")[0]
    public = public_url()
    if has_host and urlsplit(public).hostname != host_name(host).lower():
        # Otherwise two blueprints at the same path of different hosts would accept each other's tokens.
        raise _fault(f"OAuth does not work on {host}: it is not the host of the public URL, which is {public}")
    urls = PublicUrls(public + path, f"{public}{WELL_KNOWN}{path}")
    if not rule.arguments and current_app.config[PREFIX + "PUBLIC_URL"] is not None:
        known[blueprint] = urls
    return urls


def public_url() -> str:
    """Return the public URL of the app.

    :raises ServerFault: if it is not known.
    """
    configured: str | None = current_app.config[PREFIX + "PUBLIC_URL"]
    if configured is not None:
        return configured
    # A client can send any Host, and the audience of tokens must not depend on it.
    if not is_loopback(host_name(request.host)):
        raise _fault(
            f"OAuth needs the public URL of this app: set {PREFIX}PUBLIC_URL, such as 'https://site.example'; without"
            " it only requests to localhost work"
        )
    return f"{request.scheme}://{request.host}{request.script_root}"


def _fault(reason: str) -> ServerFault:
    fault = ServerFault(new_id())
    facts = {"reason": reason, "id": fault.error_id}
    current_app.logger.error("%(reason)s, id=%(id)s", facts, extra=facts)
    return fault


def add_routes(app: App) -> None:
    """Add the routes of the metadata, once for all blueprints of an app."""
    if ENDPOINT in app.view_functions:
        return
    app.extensions[PUBLIC_URLS] = {}
    for path in (WELL_KNOWN, f"{WELL_KNOWN}/<path:suffix>"):
        app.add_url_rule(
            path,
            ENDPOINT,
            serve_metadata,
            methods=["GET", "OPTIONS"],
            merge_slashes=False,
            provide_automatic_options=False,
        )


def serve_metadata(suffix: str | None = None) -> Response:
    """Serve the metadata of the blueprint whose MCP endpoint has this path, or of the only blueprint with OAuth."""
    try:
        check_host(request)
        response = no_content() if request.method == "OPTIONS" else _respond(suffix)
    except RpcError as error:
        response = rest_error(error)
    # The metadata has no secrets, and clients in browsers have to fetch it first.
    return allow_all_origins(response, _VERBS)


def allow_all_origins(response: Response, verbs: str) -> Response:
    """Add CORS headers that let pages of all sites send requests, without cookies."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    if request.method == "OPTIONS":
        response.headers["Allow"] = response.headers["Access-Control-Allow-Methods"] = verbs
        requested = request.headers.get("Access-Control-Request-Headers")
        if requested is not None:
            response.headers["Access-Control-Allow-Headers"] = requested
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def find_resource(url: str | None, auth: OAuthResource) -> str | None:
    """Return the URL of the MCP endpoint that a client names, if it accepts the tokens of an auth object.

    :param url: The URL that the client names, with or without a slash at the end; ``None`` for the only endpoint.
    :returns: ``None`` if there is no such endpoint, or if the client names none and there are several.
    """
    public = public_url()
    url = None if url is None else url.removesuffix("/")
    if url is not None and not url.startswith(f"{public}/"):
        return None
    try:
        blueprint, variables = _only_blueprint() if url is None else _blueprint_at(url.removeprefix(public))
        sign_in = _oauth_of(current_app.extensions.get(EXTENSION, {}).get(blueprint))
    except NoSuchPath:
        return None
    if sign_in is None or sign_in.auth is not auth:
        return None
    resource = public_urls_of(blueprint, variables).resource
    return resource if url in (None, resource) else None


def _respond(suffix: str | None) -> Response:
    blueprint, variables = _only_blueprint() if suffix is None else _blueprint_at(f"/{suffix}")
    sign_in = _oauth_of(current_app.extensions.get(EXTENSION, {}).get(blueprint))
    if sign_in is None:
        raise NoSuchPath()
    response = json_response(sign_in.document(public_urls_of(blueprint, variables).resource))
    response.headers["Cache-Control"] = f"public, max-age={MAX_AGE}"
    return response


def _only_blueprint() -> tuple[str, dict[str, Any]]:
    registries: dict[str, Registry] = current_app.extensions.get(EXTENSION, {})
    names = [name for name, registry in registries.items() if _oauth_of(registry) is not None]
    if len(names) != 1:
        raise NoSuchPath()
    [rule, *_] = current_app.url_map.iter_rules(names[0] + _MCP)
    if rule.arguments:
        raise NoSuchPath()
    return names[0], {}


def _blueprint_at(path: str) -> tuple[str, Mapping[str, Any]]:
    try:
        endpoint, variables = _adapter().match(path, method="POST")
    except HTTPException as error:
        raise NoSuchPath() from error
    name, _, last = endpoint.rpartition(".")
    if f".{last}" != _MCP:
        raise NoSuchPath()
    return name, variables


def _adapter() -> Any:
    return current_app.create_url_adapter(request)


def _oauth_of(registry: Registry | None) -> OAuthSignIn | None:
    if registry is None or not registry.auth.grants_scopes:
        return None
    return registry.auth.sign_ins[-1]  # type: ignore[return-value]
