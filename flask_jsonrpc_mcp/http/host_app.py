"""What keeps our routes working beside the rest of an app: its CSRF protection, its hooks and its error handlers.

Flask answers some requests to our paths before one of our views runs: one with another HTTP method, or one that a
``before_request`` function of the app rejects. These responses would be HTML; here they get the form of our routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response, current_app, request
from flask.sansio.app import App
from werkzeug.exceptions import HTTPException, MethodNotAllowed, default_exceptions

from ..errors import RpcError
from ..failures import http_failure
from ..registry import Registry
from .routes import Route


def answer_rejected_requests(blueprint: Blueprint, routes: Mapping[str, Route], registry: Registry) -> None:
    """Answer what the app's own ``before_request`` functions raise, such as ``abort(403)``, in the form of each route.

    :param routes: By endpoint, without the name of the blueprint.
    """

    def answer(error: HTTPException) -> Response | HTTPException:
        route = routes.get((request.endpoint or "").rpartition(".")[2])
        if route is None:
            return error  # a route that the app itself has added to the blueprint
        failure = http_failure(error) or RpcError(error.name, code=-32603, status=error.code)
        failure.rpc_status = failure.status
        response = route.respond_to(failure, registry)
        response.headers.add("X-Content-Type-Options", "nosniff")
        return response

    # By status and not for HTTPException, because a handler of the app for just this status would come first.
    for status in default_exceptions:
        Blueprint.register_error_handler(blueprint, status, answer)


def before_request(app: App, blueprint: Blueprint, endpoints: set[str], *, csrf_exempt: bool) -> None:
    """Add a function that runs before each request of the app.

    :param endpoints: Those of our routes.
    :param csrf_exempt: Exempt the blueprint from Flask-WTF's ``CSRFProtect``. Our routes accept only JSON bodies and
        check ``Origin``, so that no form of another site reaches them.
    """
    # Once now, and once before the first request, because the app may be protected later than this.
    exempt: list[Callable[[], None]] = [lambda: _exempt_from_csrf(app, blueprint)] * 2 if csrf_exempt else []
    if exempt:
        exempt.pop()()

    @app.before_request
    def answer_other_methods() -> Any:
        """Call our view for an HTTP method that it does not serve, because the 405 response of Flask is HTML."""
        if exempt:
            exempt.pop()()
        rejected = request.routing_exception
        if not isinstance(rejected, MethodNotAllowed) or not rejected.valid_methods:
            return None
        adapter = current_app.create_url_adapter(request)
        if adapter is None:
            return None
        endpoint, variables = adapter.match(method=next(iter(rejected.valid_methods)))
        return current_app.view_functions[endpoint](**variables) if endpoint in endpoints else None


def _exempt_from_csrf(app: App, blueprint: Blueprint) -> None:
    protection = app.extensions.get("csrf")  # where Flask-WTF puts its CSRFProtect
    if protection is not None and hasattr(protection, "exempt"):
        protection.exempt(blueprint)
