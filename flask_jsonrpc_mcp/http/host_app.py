"""What keeps our routes working beside the rest of an app: its CSRF protection, its hooks and its error handlers.

Flask answers some requests to our paths before one of our views runs: one with another HTTP method, or one that a
``before_request`` function of the app rejects. These responses would be HTML; here they get the form of our routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, current_app, request
from flask.sansio.app import App
from werkzeug.exceptions import HTTPException, MethodNotAllowed, default_exceptions

from ..errors import RpcError
from ..failures import http_failure
from .routes import Route

EXTENSION = "jsonrpc_mcp_host_app"


def answer_rejected_requests(blueprint: Blueprint, routes: Mapping[str, Route]) -> None:
    """Answer what the app's own ``before_request`` functions raise, such as ``abort(403)``, in the form of each route.

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
    """Our blueprints in an app. It adds one function that runs before each request of the app."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._endpoints: set[str] = set()
        self._to_exempt: set[str] = set()
        app.before_request(self._answer_other_methods)

    def add(self, endpoints: set[str], *, csrf_exempt: bool) -> None:
        """Add a blueprint.

        :param endpoints: Those of our routes.
        :param csrf_exempt: Exempt them from Flask-WTF's ``CSRFProtect``. They accept only JSON bodies and check
            ``Origin``, so that no form of another site reaches them. A route that the app itself has added to the
            blueprint does not, and stays protected.
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
