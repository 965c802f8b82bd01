"""`Route`: a path of the blueprint, its views by HTTP method, and the checks before them.

``Host`` is checked because of DNS rebinding: such a page is same-origin for the browser, and its GETs have no
``Origin``. ``Origin`` is checked because the browser may add cached credentials to requests of other sites.

Every failure becomes a JSON error in the format of the path's face. Flask answers some requests before one of our views
runs: one with another HTTP method, or one that a ``before_request`` function of the app rejects. These responses would
be HTML; `answer_rejected_requests` and `HostApp` replace them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Request, Response, current_app, request, url_for
from flask.sansio.app import App
from werkzeug.exceptions import HTTPException, MethodNotAllowed, default_exceptions
from werkzeug.sansio.utils import host_is_trusted

from ..auth import Caller
from ..call import log_unexpected, new_id
from ..config import PREFIX
from ..errors import Forbidden, RpcError, ServerFault, VerbNotAllowed
from ..failures import http_failure
from ..origins import is_dns_name, is_near, read_origin, same_origin
from ..registry import Registry
from .io import no_content

ANY_VERB = "*"

_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")

ENDPOINTS = {
    "mcp": "mcp",
    "jsonrpc": "jsonrpc",
    "list": "list_tools",
    "describe": "describe_tool",
    "invoke": "invoke_tool",
}
"""The endpoints that clients use, by the names under which they are published."""

EXPOSED_HEADERS = ("Mcp-Session-Id", "WWW-Authenticate", "ETag", "Retry-After")
"""The response headers that a page's script may read."""

EXTENSION = "jsonrpc_mcp_host_app"

View = Callable[..., Response]
"""Called with the request, the registry, the caller and the variables of the path."""


@dataclass(frozen=True)
class Route:
    """A path below the blueprint.

    :param views: By HTTP method; that of GET serves HEAD too.
    :param error_response: Builds the response to an error, in the format of this face.
    :param open: Serve everyone, and do not check credentials.
    :param any_host: Do not check ``Host``: probes call a server by its address, or by a name of their own.
    :param page: The name of a page below this path, to which browsers are redirected if the blueprint has it.
    """

    path: str
    endpoint: str
    views: Mapping[str, View]
    error_response: Callable[[RpcError], Response]
    open: bool = False
    any_host: bool = False
    page: str | None = None

    @property
    def methods(self) -> list[str]:
        """The HTTP methods of the URL rule."""
        if ANY_VERB in self.views:
            return ["GET", "POST"]
        return sorted([*self.views, *(["HEAD"] if "GET" in self.views else []), "OPTIONS"])

    def add_to(self, target: Blueprint | App, registry: Registry, routes: Mapping[str, Route], **options: Any) -> None:
        """Add the URL rule to a blueprint or an app. See `view_for`."""
        target.add_url_rule(
            self.path,
            self.endpoint,
            self.view_for(registry, routes),
            methods=self.methods,
            strict_slashes=False,
            provide_automatic_options=False,
            **options,
        )

    def view_for(self, registry: Registry, routes: Mapping[str, Route]) -> Callable[..., Response]:
        """Return the view function for Flask.

        :param routes: All routes of the blueprint by path. ``POST /mcp/tools/list`` matches the rule of
            ``/mcp/tools/<name>``, but it is the route of the list that must answer.
        """
        own_variables = _VARIABLE.findall(self.path)

        def view(**variables: Any) -> Response:
            # The other variables are those of the blueprint's url_prefix; methods find them in request.view_args.
            own = {name: variables[name] for name in own_variables} if own_variables else {}
            current = request._get_current_object()  # type: ignore[attr-defined]
            origin = current.headers.get("Origin")
            route = routes.get(_VARIABLE.sub(lambda found: own[found[1]], self.path).rstrip("/"), self) if own else self
            try:
                response = route._serve(current, origin, registry, routes, own if route is self else {})
            except HTTPException:
                raise  # abort() in a callback of the auth object; Flask passes it to `answer_rejected_requests`
            # Callbacks of the app run here too, such as a verify_password that calls sys.exit().
            except BaseException as error:
                fault = ServerFault(new_id())
                log_unexpected(error, fault.error_id)
                response = route.error_response(fault)
            if origin is not None:
                allow_origin(current, origin, response)
            response.headers.add("X-Content-Type-Options", "nosniff")
            return response

        view.__name__ = f"{registry.name}_{self.endpoint}"  # Flask-WTF tells views apart by their names
        return view

    def _serve(
        self,
        request: Request,
        origin: str | None,
        registry: Registry,
        routes: Mapping[str, Route],
        variables: Mapping[str, Any],
    ) -> Response:
        try:
            if not self.any_host:
                check_host(request)
            if origin is not None:
                check_origin(request, origin)
            view = self.views.get("GET" if request.method == "HEAD" else request.method) or self.views.get(ANY_VERB)
            if view is None and f"{self.path}/{self.page}" in routes and _is_browser(request):
                return self._show_page(request)
            if view is None:
                return self._answer_without_view(request.method)
            if registry.pending and not self.open:
                registry.load()
            # Without a url_rule `HostApp` calls this for another HTTP method. Only the view of unknown paths gets here
            # then, and it answers 404. Credentials are not checked, because a before_request function that limits
            # password guesses by endpoint does not see them.
            is_open = self.open or request.url_rule is None
            is_mcp = self.endpoint == ENDPOINTS["mcp"]
            caller = Caller() if is_open else registry.auth.admit(request, is_mcp=is_mcp)
            return view(request, registry, caller, **variables)
        except RpcError as error:
            return self.error_response(error)

    def _show_page(self, request: Request) -> Response:
        response = no_content(303)
        # Relative, so that no part of the request can lead to another site.
        start = "" if request.path.endswith("/") else f"{self.path.rpartition('/')[2]}/"
        response.headers["Location"] = f"{start}{self.page}"
        return response

    def _answer_without_view(self, verb: str) -> Response:
        if verb != "OPTIONS":
            raise VerbNotAllowed(self.methods)
        response = no_content()
        response.headers["Allow"] = ", ".join(self.methods)
        return response


def _is_browser(request: Request) -> bool:
    """Return whether a browser opens a page. Other clients accept ``text/event-stream`` or ``*/*``."""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")


def check_host(request: Request) -> None:
    """Reject requests whose ``Host`` is not a name of this server.

    DNS rebinding is an attack on servers that only the browser can reach. So without settings, requests from this
    machine and from private networks are checked. Only DNS names can be rebound, not addresses or localhost.

    :raises Forbidden: naming the setting that would allow it.
    """
    config, host = current_app.config, request.host
    if config["JSONRPC_MCP_ALLOWED_HOSTS"]:
        if not _is_one_of(host, config["JSONRPC_MCP_ALLOWED_HOSTS"]):
            raise Forbidden(f"Host not allowed: add it to {PREFIX}ALLOWED_HOSTS if this is a name of this server")
        return
    if "werkzeug.proxy_fix.orig" in request.environ or config["TRUSTED_HOSTS"]:
        return  # behind a proxy that sets the headers, or checked by Flask
    if not is_dns_name(host) or (config["SERVER_NAME"] and _is_one_of(host, [f".{config['SERVER_NAME']}"])):
        return
    if config["JSONRPC_MCP_PUBLIC_URL"] and _is_one_of(host, [urlsplit(config["JSONRPC_MCP_PUBLIC_URL"]).netloc]):
        return
    if is_near(request.remote_addr or ""):
        raise Forbidden(
            f"Host not allowed: set {PREFIX}ALLOWED_HOSTS to the names of this server, such as ['site.example']."
            " Without it, requests from this machine and from private networks must use an IP address, localhost,"
            f" the SERVER_NAME or the host of {PREFIX}PUBLIC_URL. Behind a proxy, apply werkzeug's ProxyFix"
        )


def _is_one_of(host: str, names: Iterable[str]) -> bool:
    return host_is_trusted(host.lower(), [name.lower() for name in names])


def check_origin(request: Request, origin: str) -> None:
    """Reject requests from pages of other sites.

    :raises Forbidden: naming the setting that would allow it.
    """
    if not same_origin(origin, f"{request.scheme}://{request.host}") and not _is_allowed_origin(origin):
        raise Forbidden(f"Origin not allowed: add it to {PREFIX}ALLOWED_ORIGINS to allow its pages")


def allow_origin(request: Request, origin: str, response: Response) -> None:
    """Add CORS headers for pages of the allowed origins."""
    if not _is_allowed_origin(origin):
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = ", ".join(EXPOSED_HEADERS)
    response.vary.add("Origin")
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        response.headers["Access-Control-Allow-Methods"] = response.headers.get("Allow", "")
        response.headers["Access-Control-Max-Age"] = "600"
        requested = request.headers.get("Access-Control-Request-Headers")
        if requested is not None:
            # All of them: the app chooses the names of Mcp-Param-... headers, and the origin is allowed.
            response.headers["Access-Control-Allow-Headers"] = requested


def _is_allowed_origin(origin: str) -> bool:
    parsed = read_origin(origin)
    return parsed is not None and parsed in {
        read_origin(allowed) for allowed in current_app.config["JSONRPC_MCP_ALLOWED_ORIGINS"]
    }


def answer_rejected_requests(blueprint: Blueprint, routes: Mapping[str, Route]) -> None:
    """Turn exceptions of ``before_request`` functions, such as ``abort(403)``, into the route's JSON error.

    :param routes: By endpoint, without the name of the blueprint.
    """

    def answer(error: HTTPException) -> Response | HTTPException:
        route = routes.get((request.endpoint or "").rpartition(".")[2])
        if route is None:
            return error  # a route that the app itself has added to the blueprint
        failure = http_failure(error) or RpcError(error.name, code=-32603, status=error.code)
        failure.rpc_status = failure.status
        response = route.error_response(failure)
        response.headers.add("X-Content-Type-Options", "nosniff")
        return response

    # By status and not for HTTPException, because a handler of the app for just this status would come first.
    for status in default_exceptions:
        Blueprint.register_error_handler(blueprint, status, answer)


class HostApp:
    """The app that our blueprints are registered on: sends 405 as JSON for their routes, and exempts them from CSRF."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._endpoints: set[str] = set()
        self._to_exempt: set[str] = set()
        app.before_request(self._answer_other_methods)

    def add(self, endpoints: set[str], *, csrf_exempt: bool) -> None:
        """Add a blueprint.

        :param endpoints: The endpoints of its routes.
        :param csrf_exempt: Exempt them from Flask-WTF's ``CSRFProtect``. They accept only JSON bodies and check
            ``Origin``, so forms of other sites cannot reach them. Routes that the app itself adds to the blueprint stay
            protected.
        """
        self._endpoints |= endpoints
        if csrf_exempt:
            self._to_exempt |= endpoints
            self._exempt_from_csrf()

    def _exempt_from_csrf(self) -> None:
        protection = self._app.extensions.get("csrf")  # where Flask-WTF puts its CSRFProtect
        if protection is not None and hasattr(protection, "exempt"):
            while self._to_exempt:
                protection.exempt(self._app.view_functions[self._to_exempt.pop()])

    def _answer_other_methods(self) -> Any:
        """Call our view for an HTTP method that it does not serve, because the 405 response of Flask is HTML."""
        if self._to_exempt:
            self._exempt_from_csrf()  # the app may have been protected after our blueprint was registered
            self._to_exempt.clear()
        rejected = request.routing_exception
        if not isinstance(rejected, MethodNotAllowed) or not rejected.valid_methods:
            return None
        adapter = current_app.create_url_adapter(request)
        if adapter is None:
            return None
        endpoint, variables = adapter.match(method=next(iter(rejected.valid_methods)))
        return current_app.view_functions[endpoint](**variables) if endpoint in self._endpoints else None


def add_to_host(app: App, endpoints: set[str], *, csrf_exempt: bool) -> None:
    """Add the endpoints of a blueprint to the `HostApp` of an app."""
    if EXTENSION not in app.extensions:
        app.extensions[EXTENSION] = HostApp(app)
    app.extensions[EXTENSION].add(endpoints, csrf_exempt=csrf_exempt)


def own_url(endpoint: str, *, external: bool = False) -> str:
    """Return the URL of another path of the current blueprint, with the current variables of its ``url_prefix``."""
    return url_for(f".{endpoint}", _external=external, **(request.view_args or {}))


def preprocess_request(app: Flask, context: Any) -> Response | None:
    """Call the app's ``before_request`` functions for a request context, and return their response if there is one."""
    preprocess: Callable[..., Any] = app.preprocess_request
    takes_context = bool(inspect.signature(preprocess).parameters)  # since Flask 3.2
    try:
        response = preprocess(context) if takes_context else preprocess()
    except HTTPException as error:
        response = error.get_response()
    return None if response is None else app.make_response(response)
