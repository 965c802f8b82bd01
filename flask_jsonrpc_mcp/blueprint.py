"""`McpBlueprint`: the blueprint that an app registers. It has the decorators, and adds the routes of all faces.

At import, functions are registered and checked. When the blueprint is registered on an app, settings get their defaults
and the routes are added; functions may still be registered later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flask import Blueprint, current_app, has_app_context
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from flask_httpauth import HTTPAuth, MultiAuth

from . import mailbox
from .auth import Authenticator, PermissionsLoader, UserLoader
from .config import NO_DOTS, PREFIX, set_defaults
from .http import jsonrpc, rest
from .http.explorer import ROUTES as EXPLORER_ROUTES
from .http.routes import Route
from .mcp import discovery
from .mcp import http as mcp_http
from .method import CommonOptions, Method, MethodOptions, checked_permissions, make_method, name_of, naming
from .prompts import Completer, Prompt, PromptOptions, completer_name
from .rate_limits import RateLimits
from .registry import EXTENSION, Registry
from .resources import Resource, ResourceOptions

if TYPE_CHECKING:
    from flask_limiter import Limiter
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

ROUTES: tuple[Route, ...] = (*mcp_http.ROUTES, *rest.ROUTES, *jsonrpc.ROUTES, *discovery.ROUTES)


class McpBlueprint(Blueprint):
    """A Flask blueprint whose methods are MCP tools, JSON-RPC methods and REST endpoints at the same time.

    ::

        rpc = McpBlueprint(auth=auth)

        @rpc.method("articles.create", access=["create content"])
        @mcp_tool(title="Create article")
        def create_article(title: str) -> dict: ...

        app.register_blueprint(rpc)

    :param name: The blueprint's name; several in one app need different ones, and different URL prefixes.
    :param import_name: As for any blueprint; only needed for its own templates and static files.
    :param auth: A Flask-HTTPAuth object: Basic, Token, Digest or Multi. Without one every caller is anonymous.
    :param require_auth: Reject anonymous callers, except under ``/.well-known/`` and for the explorer's page.
    :param discover_access: The permissions needed to list and describe tools.
    :param explorer: Serve a page to try the tools at ``/mcp/explorer``.
    :param limiter: The app's Flask-Limiter object, for rate limits.
    :param rate_limit: A limit for all calls of one caller, such as ``"100/minute"``; needs a limiter.
    :param options: Other options of :class:`flask.Blueprint`, such as ``url_prefix``.
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
        self._registry = Registry(
            name,
            Authenticator(
                auth,
                required=require_auth,
                discover_access=checked_permissions("discover_access", discover_access),
            ),
            RateLimits(name, limiter, rate_limit),
        )
        self._routes = (*ROUTES, *EXPLORER_ROUTES) if explorer else ROUTES
        for route in self._routes:
            self.add_url_rule(
                route.path,
                route.endpoint,
                route.view_for(self._registry),
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
        """Register a function as a method, and return it unchanged.

        :param name: Its name for callers; by default the function's name.
        :param description: What it does, for people and models; by default the docstring.
        :param params: The schema of its arguments: a JSON Schema dict or a marshmallow schema (class, instance or dict
            of fields); by default its type hints. A marshmallow schema loads the arguments.
        :param output: The schema of its result, likewise; by default the return hint. A marshmallow schema dumps it.
        :param validate_output: Whether results are validated against the output schema. ``False`` saves time for large
            results; the schema is still published.
        :param access: The permissions that a caller needs, all of them; by default none.
        :param max_age: For how many seconds caches may store its responses to GET; by default not at all.
        :param timeout: After how many seconds the caller gets an error if the method has not returned. The method runs
            in a second thread then, and sees ``current_call.cancelled``. Teardown functions do not wait for it.
        :param rate_limit: A limit for its calls by one caller, such as ``"5/minute"``.
        :param streams: Run it while its response is being sent, so that progress and log messages reach an MCP client
            that asked for them at once. A generator function always does.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_method(None, name, **options)
        return lambda func: self.add_method(name, func, **options)

    def add_method(self, name: str | None, func: F, **options: Unpack[MethodOptions]) -> F:
        """Register a function as a method without a decorator. See :meth:`method`."""
        self._registry.methods.add(make_method(Method, func, name, options, self._parse_limits))
        self._announce(mailbox.TOOLS)
        return func

    def remove_method(self, name: str) -> None:
        """Remove a method.

        :raises KeyError: if there is no such method.
        """
        self._registry.methods.remove(name)
        self._announce(mailbox.TOOLS)

    @overload
    def prompt(self, name: F, /) -> F: ...

    @overload
    def prompt(self, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(self, name: Any = None, **options: Any) -> Any:
        """Register a function as a prompt, and return it unchanged.

        The function returns a string, a content block, a :class:`PromptMessage`, or a list of these. Clients send
        arguments as strings; they are converted to the types of the hints.

        :param name: Its name for clients; by default the function's name.
        :param title: A name for people to read.
        :param description: What it is for; by default the docstring.
        :param params: The schema of its arguments, as for :meth:`method`.
        :param access: The permissions that a caller needs, all of them.
        :param timeout: As for :meth:`method`.
        :param rate_limit: As for :meth:`method`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_prompt(None, name, **options)
        return lambda func: self.add_prompt(name, func, **options)

    def add_prompt(self, name: str | None, func: F, **options: Unpack[PromptOptions]) -> F:
        """Register a function as a prompt without a decorator. See :meth:`prompt`."""
        self._registry.prompts.add(make_method(Prompt, func, name, options, self._parse_limits))
        self._announce(mailbox.PROMPTS)
        return func

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and its completers.

        :raises KeyError: if there is no such prompt.
        """
        self._registry.remove_completers(self._registry.prompts.remove(name))
        self._announce(mailbox.PROMPTS)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource, and return it unchanged.

        The function returns a string, bytes, or any other value, which becomes JSON; ``None`` if there is nothing at
        this URI; a list of :class:`EmbeddedResource` for several contents.

        :param uri: Its URI, or a template such as ``"articles://{id}"``, whose variables are the function's parameters.
            ``{name}`` matches a part without a slash, ``{+path}`` may contain slashes. Both are percent-decoded, so
            ``%2F`` becomes a slash.
        :param name: Its name in lists; by default the function's name.
        :param title: A name for people to read.
        :param description: What it is; by default the docstring.
        :param mime_type: The MIME type of its contents; by default plain text, octet-stream or JSON.
        :param annotations: MCP's ``audience``, ``priority`` and ``lastModified``.
        :param access: The permissions that a caller needs, all of them.
        :param max_age: For how many seconds clients may cache its contents.
        :param timeout: As for :meth:`method`.
        :param rate_limit: As for :meth:`method`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if not isinstance(uri, str):
            raise TypeError("@rpc.resource needs a URI; write @rpc.resource('articles://{id}')")
        return lambda func: self.add_resource(uri, func, **options)

    def add_resource(self, uri: str, func: F, **options: Unpack[ResourceOptions]) -> F:
        """Register a function as a resource without a decorator. See :meth:`resource`."""
        resource = make_method(Resource, func, uri, options, self._parse_limits)
        with naming(func):
            resource.check_variables()
        self._registry.resources.collection_for(uri).add(resource)
        self._announce(mailbox.RESOURCES)
        return func

    def remove_resource(self, uri: str) -> None:
        """Remove a resource and its completers, by the URI or template it was registered with.

        :raises KeyError: if there is no such resource.
        """
        self._registry.remove_completers(self._registry.resources.collection_for(uri).remove(uri))
        self._announce(mailbox.RESOURCES)

    def completer(self, completed: str, argument: str, **options: Unpack[CommonOptions]) -> Callable[[F], F]:
        """Register a function that suggests values for an argument, and return it unchanged.

        The function gets the value typed so far, and the other arguments that it has parameters for, which need
        defaults. It returns a list of strings, the best first. An argument with an ``enum`` needs no completer.

        :param completed: The name of a prompt or the template of a resource, registered before.
        :param argument: The name of its argument.
        :raises TypeError, ValueError: naming the function and the fix.
        """

        def add(func: F) -> F:
            registry = self._registry
            found = registry.prompts.get(completed) or registry.resources.templates.get(completed)
            if found is None:
                raise ValueError(
                    f"{name_of(func)}: there is no prompt or resource template {completed!r};"
                    " register it before its completer"
                )
            properties = found.params.schema["properties"]
            if argument not in properties:
                known = ", ".join(properties) or "none"
                raise ValueError(
                    f"{name_of(func)}: {name_of(found.func)} has no argument {argument!r} (it has: {known})"
                )
            name = completer_name(found.name, argument)
            completer = make_method(Completer, func, name, options, self._parse_limits)
            with naming(func):
                completer.check_parameters()
            registry.completers.add(replace(completer, access=found.access | completer.access))
            return func

        return add

    def notify_changed(self, what: str) -> None:
        """Notify the listening clients of all workers of a change.

        Registering and removing methods, prompts and resources in an app context does so by itself. Needs
        ``JSONRPC_MCP_SUBSCRIPTIONS`` and an app context.

        :param what: ``"tools"``, ``"prompts"`` or ``"resources"`` for that list, or the URI of a changed resource.
        """
        mailbox.announce(self._registry.name, what)

    def _announce(self, what: str) -> None:
        if has_app_context() and mailbox.EXTENSION in current_app.extensions:
            self.notify_changed(what)

    def _parse_limits(self, limits: str | None) -> tuple[Any, ...]:
        return self._registry.rate_limits.parse(limits)

    def permissions_loader(self, loader: F) -> F:
        """Register the function that returns a caller's permissions, instead of the auth object's ``get_user_roles``.

        It gets what the verify callback returned (the user name if that is ``True``), ``None`` for an anonymous caller.
        """
        callback: PermissionsLoader = loader
        self._registry.auth.permissions_loader = callback
        return loader

    def user_loader(self, loader: F) -> F:
        """Register the function that returns a user by name, for ``flask mcp call --user NAME``.

        It returns what the auth object's verify callback would, or ``None``.
        """
        callback: UserLoader = loader
        self._registry.auth.user_loader = callback
        return loader

    def _mount(self, state: BlueprintSetupState) -> None:
        """On registration: set config defaults, add the well-known route, record this blueprint on the app."""
        app, name = state.app, f"{state.name_prefix}.{state.name}".lstrip(".")
        set_defaults(app)
        mailbox.init_app(app)
        if app.config[PREFIX + "TOOL_NAME_STYLE"] == NO_DOTS:
            self._registry.methods.has_aliases = True
        self._registry.methods.check_all()
        registries: dict[str, Registry] = app.extensions.setdefault(EXTENSION, {})
        registries[name] = self._registry
        endpoints = {f"{name}.{route.endpoint}" for route in self._routes}
        well_known = discovery.WELL_KNOWN
        if well_known.endpoint not in app.view_functions:
            app.add_url_rule(
                well_known.path,
                well_known.endpoint,
                well_known.view_for(self._registry),
                strict_slashes=False,
                provide_automatic_options=False,
            )
            endpoints.add(well_known.endpoint)
        _accept_all_methods(app, endpoints)


def _accept_all_methods(app: App, endpoints: set[str]) -> None:
    """Let our URL rules match every HTTP method, because Flask's own 405 response is HTML (see `http.routes`).

    :raises ValueError: if another blueprint of ours has the same rules.
    """
    taken_by: dict[tuple[str, str | None, str | None], str] = {}
    for rule in app.url_map.iter_rules():
        place = (rule.rule, rule.subdomain, rule.host)
        if rule.endpoint in endpoints:
            rule.methods = None
            taken = taken_by.get(place)
            if taken is not None and taken.rpartition(".")[2] == rule.endpoint.rpartition(".")[2]:
                raise ValueError(
                    f"blueprints {taken.rpartition('.')[0]!r} and {rule.endpoint.rpartition('.')[0]!r} are both at"
                    f" {rule.rule}; give one of them a url_prefix"
                )
        else:
            taken_by[place] = rule.endpoint
