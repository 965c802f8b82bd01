"""`McpBlueprint`: what a Flask app registers. It owns the methods and puts the faces' routes in place.

Two moments matter. When the module with the blueprint is imported, methods are added and checked. When the blueprint
is registered on an app, settings get their defaults and the routes appear; methods may still be added after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flask import Blueprint
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from flask_httpauth import HTTPAuth, MultiAuth

from .access import Authenticator, PermissionsLoader
from .catalogue import Catalogue
from .core import Core
from .declarations import checked_permissions
from .dispatcher import Dispatcher
from .faces import discovery, jsonrpc, mcp, rest
from .faces.explorer import ROUTES as EXPLORER_ROUTES
from .faces.routes import Route
from .methods import MethodOptions, make_method
from .rate_limits import RateLimits
from .registry import Registry
from .settings import NO_DOTS, PREFIX, set_defaults

if TYPE_CHECKING:
    from flask_limiter import Limiter
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

ROUTES: tuple[Route, ...] = (*mcp.ROUTES, *rest.ROUTES, *jsonrpc.ROUTES, *discovery.ROUTES)


class McpBlueprint(Blueprint):
    """A Flask blueprint whose methods are MCP tools, JSON-RPC methods and REST endpoints at once.

    ::

        rpc = McpBlueprint(auth=auth)

        @rpc.method("articles.create", access=["create content"])
        @mcp_tool(title="Create article")
        def create_article(title: str) -> dict: ...

        app.register_blueprint(rpc)

    :param name: The blueprint's name; several in one app need different ones, and different URL prefixes.
    :param import_name: As for any blueprint; only needed for its own templates and static files.
    :param auth: A Flask-HTTPAuth object: Basic, Token, Digest or Multi. Without one every caller is anonymous.
    :param require_auth: Refuse anonymous callers everywhere but under ``/.well-known/``.
    :param discover_access: Permissions it takes to list and describe tools.
    :param explorer: Serve a page on which people try the tools, at ``/mcp/explorer``.
    :param limiter: The app's Flask-Limiter object, for rate limits.
    :param rate_limit: How many calls one caller may make, such as ``"100/minute"``; needs a limiter.
    :param options: Everything else a :class:`flask.Blueprint` takes, such as ``url_prefix``.
    """

    def __init__(
        self,
        name: str = "mcp",
        import_name: str = __name__,
        *,
        auth: HTTPAuth | MultiAuth | None = None,
        require_auth: bool = False,
        discover_access: Iterable[str] = (),
        explorer: bool = True,
        limiter: Limiter | None = None,
        rate_limit: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, import_name, **options)
        if require_auth and auth is None:
            raise ValueError("require_auth=True needs an auth object to sign in with; pass auth= too")
        registry = Registry()
        catalogue = Catalogue(registry)
        self._rate_limits = RateLimits(name, limiter, rate_limit)
        self.core = Core(
            registry=registry,
            catalogue=catalogue,
            dispatcher=Dispatcher(catalogue, self._rate_limits),
            authenticator=Authenticator(auth),
            require_auth=require_auth,
            discover_access=checked_permissions("discover_access", discover_access),
        )
        self._routes = (*ROUTES, *EXPLORER_ROUTES) if explorer else ROUTES
        for route in self._routes:
            self.add_url_rule(
                route.path,
                route.endpoint,
                route.view_for(self.core),
                strict_slashes=False,
                merge_slashes=False,
                provide_automatic_options=False,
            )
        self.record(self._mount)

    @overload
    def method(self, name: F, /) -> F: ...

    @overload
    def method(self, name: str | None = None, **options: Unpack[MethodOptions]) -> Callable[[F], F]: ...

    def method(self, name: Any = None, **options: Any) -> Any:
        """Make a function a method. Returns the very function it got.

        :param name: How callers name it; by default the function's own name.
        :param description: What it does, for people and models; by default its docstring.
        :param params: What it takes, as a JSON Schema dict, a marshmallow schema (class, instance or dict of fields);
            by default its type hints. A marshmallow schema loads the arguments.
        :param output: What it gives, likewise; by default its return hint. A marshmallow schema dumps the result.
        :param access: The permissions a caller needs, every one of them; by default none, so anyone may call it.
        :param max_age: For how many seconds caches may keep its replies to GET; by default not at all.
        :param timeout: After how many seconds the caller is answered, whatever the method does; by default it may
            take its time. The method sees ``current_call.cancelled`` then.
        :param rate_limit: How many calls of it one caller may make, such as ``"5/minute"``.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_method(None, name, **options)
        return lambda func: self.add_method(name, func, **options)

    def add_method(self, name: str | None, func: F, **options: Unpack[MethodOptions]) -> F:
        """Make a function a method, without a decorator. See :meth:`method`."""
        self.core.registry.add(make_method(func, name, self._rate_limits, **options))
        return func

    def permissions_loader(self, loader: F) -> F:
        """Say what callers may do, instead of the auth object's ``get_user_roles``.

        The function gets what the verify callback returned, ``None`` for an anonymous caller, and returns
        the caller's permissions.
        """
        callback: PermissionsLoader = loader
        self.core.authenticator.permissions_loader = callback
        return loader

    def _mount(self, state: BlueprintSetupState) -> None:
        """Take a place in an app that registers this blueprint."""
        app, name = state.app, f"{state.name_prefix}.{state.name}".lstrip(".")
        set_defaults(app)
        if app.config[PREFIX + "TOOL_NAME_STYLE"] == NO_DOTS:
            self.core.registry.use_aliases()
        blueprints: dict[str, Core] = app.extensions.setdefault(discovery.EXTENSION, {})
        blueprints[name] = self.core
        endpoints = {f"{name}.{route.endpoint}" for route in self._routes}
        well_known = discovery.WELL_KNOWN
        if well_known.endpoint not in app.view_functions:
            app.add_url_rule(
                well_known.path,
                well_known.endpoint,
                well_known.view_for(self.core),
                strict_slashes=False,
                provide_automatic_options=False,
            )
            endpoints.add(well_known.endpoint)
        _claim(app, endpoints)


def _claim(app: App, endpoints: set[str]) -> None:
    """Let our rules match every HTTP method (see `faces.routes`), and see that nobody else has their places.

    :raises ValueError: when another blueprint of ours is there already.
    """
    places: dict[tuple[str, str | None, str | None], str] = {}
    for rule in app.url_map.iter_rules():
        place = (rule.rule, rule.subdomain, rule.host)
        if rule.endpoint in endpoints:
            rule.methods = None
            taken = places.get(place)
            if taken is not None and taken.rpartition(".")[2] == rule.endpoint.rpartition(".")[2]:
                raise ValueError(
                    f"blueprints {taken.rpartition('.')[0]!r} and {rule.endpoint.rpartition('.')[0]!r} are both at"
                    f" {rule.rule}; give one of them a url_prefix"
                )
        else:
            places[place] = rule.endpoint
