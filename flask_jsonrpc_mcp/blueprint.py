"""`McpBlueprint`: what a Flask app registers. It owns the methods and puts the faces' routes in place.

Two moments matter. When the module with the blueprint is imported, methods are added and checked. When the blueprint
is registered on an app, settings get their defaults and the routes appear; methods may still be added after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flask import Blueprint, current_app, has_app_context
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from flask_httpauth import HTTPAuth, MultiAuth

from . import changes, mailbox
from .access import Authenticator, PermissionsLoader, UserLoader
from .completers import make_completer
from .core import Core
from .declarations import checked_permissions, spell
from .faces import discovery, jsonrpc, mcp, rest
from .faces.explorer import ROUTES as EXPLORER_ROUTES
from .faces.routes import Route
from .methods import CommonOptions, MethodOptions, make_method
from .prompts import PromptOptions, make_prompt
from .rate_limits import RateLimits
from .resources import ResourceOptions, make_resource
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
    :param require_auth: Refuse anonymous callers everywhere but under ``/.well-known/`` and at the explorer's page.
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
        self._rate_limits = RateLimits(name, limiter, rate_limit)
        self.core = Core(
            name,
            Authenticator(auth),
            self._rate_limits,
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
        :param validate_output: Whether results are checked against what ``output`` or the hint declares. ``False``
            saves the time for large results that are right anyway; the schema is still shown.
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
        self._announce(changes.TOOLS)
        return func

    def remove_method(self, name: str) -> None:
        """Take a method away again.

        :raises KeyError: when there is none of this name.
        """
        self.core.registry.remove(name)
        self._announce(changes.TOOLS)

    @overload
    def prompt(self, name: F, /) -> F: ...

    @overload
    def prompt(self, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(self, name: Any = None, **options: Any) -> Any:
        """Make a function a prompt: what a person starts a conversation with. Returns the very function it got.

        It returns a text, a content block, a :class:`PromptMessage`, or a list of these. Clients send arguments as
        texts; they arrive as the hints say.

        :param name: How clients name it; by default the function's own name.
        :param title: A name for people to read.
        :param description: What it is for; by default the docstring.
        :param params: What it takes, as for :meth:`method`.
        :param access: The permissions it takes, every one of them.
        :param timeout: As for :meth:`method`.
        :param rate_limit: As for :meth:`method`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_prompt(None, name, **options)
        return lambda func: self.add_prompt(name, func, **options)

    def add_prompt(self, name: str | None, func: F, **options: Unpack[PromptOptions]) -> F:
        """Make a function a prompt, without a decorator. See :meth:`prompt`."""
        self.core.prompt_registry.add(make_prompt(func, name, self._rate_limits, **options))
        self._announce(changes.PROMPTS)
        return func

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away again, and its completers.

        :raises KeyError: when there is none of this name.
        """
        self.core.remove_completers(self.core.prompt_registry.remove(name))
        self._announce(changes.PROMPTS)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Make a function a resource: something to read under a URI. Returns the very function it got.

        It returns a text, bytes, or anything else that becomes JSON; ``None`` when there is nothing under this URI; a
        list of :class:`EmbeddedResource` for several contents.

        :param uri: Its URI, or a template such as ``"articles://{id}"``, whose variables are the function's parameters.
            ``{name}`` stands for a part without a slash, ``{+path}`` for one that may have some; both arrive decoded,
            so a ``%2F`` is a slash.
        :param name: Its name in lists; by default the function's own.
        :param title: A name for people to read.
        :param description: What it is; by default the docstring.
        :param mime_type: The type of what it returns; by default plain text, bytes or JSON, as it is.
        :param annotations: For whom it is and how much it matters: ``audience``, ``priority``, ``lastModified``.
        :param access: The permissions it takes, every one of them.
        :param max_age: For how many seconds clients may keep what they have read.
        :param timeout: As for :meth:`method`.
        :param rate_limit: As for :meth:`method`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if not isinstance(uri, str):
            raise TypeError("@rpc.resource needs a URI; write @rpc.resource('articles://{id}')")
        return lambda func: self.add_resource(uri, func, **options)

    def add_resource(self, uri: str, func: F, **options: Unpack[ResourceOptions]) -> F:
        """Make a function a resource, without a decorator. See :meth:`resource`."""
        resource = make_resource(func, uri, self._rate_limits, **options)
        self.core.resources.registry_of(uri).add(resource)
        self._announce(changes.RESOURCES)
        return func

    def remove_resource(self, uri: str) -> None:
        """Take a resource away again, by the URI or template it was added with, and its completers.

        :raises KeyError: when there is none.
        """
        self.core.remove_completers(self.core.resources.registry_of(uri).remove(uri))
        self._announce(changes.RESOURCES)

    def completer(self, completed: str, argument: str, **options: Unpack[CommonOptions]) -> Callable[[F], F]:
        """Let a function suggest values for an argument. Returns the very function it got.

        It gets what was typed so far, and the other arguments that it has parameters for, which need defaults. It
        returns a list of texts, the best first. An argument with fixed choices needs no completer.

        :param completed: The name of a prompt, or the template of a resource, that is there already.
        :param argument: Which of its arguments.
        :raises TypeError, ValueError: naming the function and the fix.
        """

        def add(func: F) -> F:
            found = self.core.prompt_registry.get(completed) or self.core.resources.template_registry.get(completed)
            if found is None:
                raise ValueError(
                    f"{spell(func)}: there is no prompt or resource template {completed!r}; add it before its completer"
                )
            self.core.completer_registry.add(make_completer(func, found, argument, self._rate_limits, **options))
            return func

        return add

    def notify_changed(self, what: str) -> None:
        """Tell the clients that listen, in all workers, that something has changed.

        Adding and removing methods, prompts and resources inside an app context tells them by itself. Needs
        ``JSONRPC_MCP_SUBSCRIPTIONS``, and an app context.

        :param what: ``"tools"``, ``"prompts"`` or ``"resources"`` for that list, or the URI of a resource that reads
            differently now.
        """
        changes.announce(self.core.name, what)

    def _announce(self, what: str) -> None:
        if has_app_context() and mailbox.EXTENSION in current_app.extensions:
            self.notify_changed(what)

    def permissions_loader(self, loader: F) -> F:
        """Say what callers may do, instead of the auth object's ``get_user_roles``.

        The function gets what the verify callback returned, ``None`` for an anonymous caller, and returns
        the caller's permissions.
        """
        callback: PermissionsLoader = loader
        self.core.authenticator.permissions_loader = callback
        return loader

    def user_loader(self, loader: F) -> F:
        """Say how a user is found by name alone, for ``flask mcp call --user NAME``.

        The function gets the name and returns what the auth object's verify callback would, or ``None``.
        """
        callback: UserLoader = loader
        self.core.authenticator.user_loader = callback
        return loader

    def _mount(self, state: BlueprintSetupState) -> None:
        """Take a place in an app that registers this blueprint."""
        app, name = state.app, f"{state.name_prefix}.{state.name}".lstrip(".")
        set_defaults(app)
        mailbox.init_app(app)
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
