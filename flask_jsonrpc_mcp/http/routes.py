"""`Route`: a path of the blueprint, its views by HTTP method, and the checks around them.

Every failure becomes a response here, in the form of the face that the path belongs to.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Request, Response, request, url_for
from werkzeug.exceptions import HTTPException

from ..auth import Caller
from ..call import log_unexpected, new_id
from ..errors import RpcError, ServerFault, VerbNotAllowed
from ..registry import Registry
from .guard import allow_origin, check_host, check_origin
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

View = Callable[..., Response]
"""Called with the request, the registry, the caller and the variables of the path."""


class Route:
    """A path below the blueprint.

    :param views: By HTTP method; that of GET serves HEAD too.
    :param error_response: Builds the response to an error, in the form of this face.
    :param open: Serve everyone, and do not check credentials.
    :param page: The name of a page below this path, to which browsers are redirected if the blueprint has it.
    """

    def __init__(
        self,
        path: str,
        endpoint: str,
        views: Mapping[str, View],
        error_response: Callable[[RpcError], Response],
        *,
        open: bool = False,
        page: str | None = None,
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.views = {**views, "HEAD": views["GET"]} if "GET" in views else views
        self.error_response = error_response
        self.open = open
        self.page = page

    @property
    def methods(self) -> list[str]:
        """The HTTP methods of the URL rule."""
        return ["GET", "POST"] if ANY_VERB in self.views else sorted([*self.views, "OPTIONS"])

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
                raise  # abort() in a callback of the auth object; Flask passes it to host_app
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
            check_host(request)
            if origin is not None:
                check_origin(request, origin)
            view = self.views.get(request.method) or self.views.get(ANY_VERB)
            if view is None and f"{self.path}/{self.page}" in routes and _is_browser(request):
                response = self._show_page(request)
            elif view is None:
                response = self._options(request.method)
            else:
                # Without a rule `host_app` calls us, for a 404 at most. The app cannot limit guesses there.
                is_open = self.open or request.url_rule is None
                caller = Caller() if is_open else registry.auth.admit(request)
                response = view(request, registry, caller, **variables)
        except RpcError as error:
            return self.error_response(error)
        return response

    def _show_page(self, request: Request) -> Response:
        response = no_content(303)
        # Relative, so that no part of the request can lead to another site.
        start = "" if request.path.endswith("/") else f"{self.path.rpartition('/')[2]}/"
        response.headers["Location"] = f"{start}{self.page}"
        return response

    def _options(self, verb: str) -> Response:
        if verb != "OPTIONS":
            raise VerbNotAllowed(self.methods)
        response = no_content()
        response.headers["Allow"] = ", ".join(self.methods)
        return response


def _is_browser(request: Request) -> bool:
    """Return whether someone opens a page. MCP clients accept ``text/event-stream`` by GET, and programs anything."""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")


def own_url(endpoint: str, *, external: bool = False) -> str:
    """Return the URL of another path of the current blueprint, with the current variables of its ``url_prefix``."""
    return url_for(f".{endpoint}", _external=external, **(request.view_args or {}))


def local_request_context(app: Flask, path: str, **options: Any) -> Any:
    """Return the context of a request for the command line, with a host that the app trusts.

    :param options: More arguments of ``app.test_request_context``.
    """
    trusted = app.config["TRUSTED_HOSTS"]
    if trusted and not app.config["SERVER_NAME"]:
        path = f"{app.config['PREFERRED_URL_SCHEME']}://{trusted[0].lstrip('.')}{path}"
    return app.test_request_context(path, **options)


def preprocess_request(app: Flask, context: Any) -> Response | None:
    """Call the app's ``before_request`` functions for a request context, and return their response if there is one."""
    preprocess: Callable[..., Any] = app.preprocess_request
    takes_context = bool(inspect.signature(preprocess).parameters)  # since Flask 3.2
    try:
        response = preprocess(context) if takes_context else preprocess()
    except HTTPException as error:
        response = error.get_response()
    return None if response is None else app.make_response(response)
