"""`McpBlueprint`: the blueprint that an app registers. It has the decorators, and adds the routes of all faces.

At import, functions are registered and checked. When the blueprint is registered on an app, settings get their defaults
and the routes are added; functions may still be registered later.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flask import Blueprint, current_app, has_app_context
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App

from . import mailbox
from .auth import Auth, Authenticator, PermissionsLoader, UserLoader
from .checks import checked_permissions, name_of
from .config import NO_DOTS, PREFIX, set_defaults
from .decorators import Declared, ToolGroup
from .endpoint_tools import EndpointTools
from .http import health, jsonrpc, rest, routes
from .http.explorer import ROUTES as EXPLORER_ROUTES
from .http.routes import Route
from .invoke import show_calls
from .mcp import discovery
from .mcp import http as mcp_http
from .method import Method, make_method
from .prompts import Completer, Prompt, completer_name
from .rate_limits import RateLimits
from .registry import EXTENSION, Registry
from .resources import Resource

if TYPE_CHECKING:
    from flask_limiter import Limiter

    from .tasks import TaskEngine
    from .telemetry.audit import Audit
    from .telemetry.metrics import Prometheus
    from .telemetry.tracing import OpenTelemetry

F = TypeVar("F", bound=Callable[..., Any])

ROUTES: tuple[Route, ...] = (
    *mcp_http.ROUTES,
    *rest.ROUTES,
    *jsonrpc.ROUTES,
    *discovery.ROUTES,
    *health.ROUTES,
)


class McpBlueprint(EndpointTools, Blueprint):
    """A Flask blueprint whose methods are MCP tools, JSON-RPC methods and REST endpoints at the same time.

    ::

        rpc = McpBlueprint(auth=auth)

        @rpc.tool("articles.create", title="Create article", access=["create content"])
        def create_article(title: str) -> dict: ...

        app.register_blueprint(rpc)

    :param name: The blueprint's name; several in one app need different ones, and different URL prefixes.
    :param import_name: As for any blueprint; only needed for its own templates and static files.
    :param auth: A Flask-HTTPAuth object; a function that returns the user of the current request, or ``None``; an
        object of ``flask_jsonrpc_mcp.sign_in``; or a list of these. Without one every caller is anonymous.
    :param require_auth: Reject anonymous callers, except under ``/.well-known/``, for the explorer's page and for
        ``/mcp/health``. With ``"mcp"`` only at ``/mcp``: AI clients sign in when they connect, and the other paths stay
        open to everyone.
    :param discover_access: The permissions needed to list and describe tools.
    :param explorer: Serve a page to try the tools at ``/mcp/explorer``.
    :param limiter: The app's Flask-Limiter object, for rate limits.
    :param rate_limit: A limit for all calls of one caller, such as ``"100/minute"``; needs a limiter.
    :param telemetry: What observes the blueprint: objects of :class:`.tracing.OpenTelemetry` and
        :class:`.metrics.Prometheus`.
    :param audit: Where to write an audit trail: an :class:`.audit.AuditLog` or :class:`.audit_table.AuditTable`, or a
        list of these.
    :param csrf_exempt: Exempt the routes of this package from Flask-WTF's ``CSRFProtect``: they accept only JSON
        bodies, and reject the pages of other sites by their ``Origin``. Routes that you add stay protected.
    :param tasks: Brings the tasks of this blueprint to workers, instead of ``JSONRPC_MCP_TASKS``.
    :param options: Other options of :class:`flask.Blueprint`, such as ``url_prefix``.
    """

    def __init__(
        self,
        name: str = "mcp",
        import_name: str = __name__,
        *,
        auth: Auth | Sequence[Auth] | None = None,
        require_auth: bool | Literal["mcp"] = False,
        discover_access: Iterable[str] = (),
        explorer: bool = True,
        limiter: Limiter | None = None,
        rate_limit: str | None = None,
        telemetry: Sequence[OpenTelemetry | Prometheus] = (),
        audit: Audit | Sequence[Audit] | None = None,
        csrf_exempt: bool = True,
        tasks: TaskEngine | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, import_name, **options)
        if require_auth not in (True, False, "mcp"):
            raise ValueError(f"require_auth must be True, False or 'mcp', not {require_auth!r}")
        if require_auth and auth is None:
            raise ValueError(f"require_auth={require_auth!r} needs an auth object to sign in with; pass auth= too")
        self._registry = Registry(
            name,
            Authenticator(
                auth,
                required=require_auth,
                discover_access=checked_permissions("discover_access", discover_access),
            ),
            RateLimits(name, limiter, rate_limit),
        )
        self._registry.task_engine = tasks
        self._observe(telemetry, audit)
        more_routes = (*(EXPLORER_ROUTES if explorer else ()), *(route for each in telemetry for route in each.routes))
        self._routes = (*ROUTES, *more_routes)
        by_path = {route.path: route for route in self._routes}
        for route in self._routes:
            route.add_to(self, self._registry, by_path, merge_slashes=False)
        routes.answer_rejected_requests(self, {route.endpoint: route for route in self._routes})
        self._csrf_exempt = csrf_exempt
        self.record(self._mount)

    def _observe(self, telemetry: Sequence[OpenTelemetry | Prometheus], audit: Audit | Sequence[Audit] | None) -> None:
        """Let telemetry observe this blueprint, and say what ``/mcp/health?ready`` checks."""
        if not isinstance(telemetry, Sequence):
            raise TypeError(f"telemetry= takes a list; write telemetry=[{type(telemetry).__name__}(...)]")
        audits: Any = [] if audit is None else audit if isinstance(audit, (list, tuple)) else [audit]
        for option, observers, member, example in (
            ("telemetry", telemetry, "routes", "[OpenTelemetry()]"),
            ("audit", audits, "write", "AuditLog(logger)"),
        ):
            for observer in observers:
                if isinstance(observer, type) or not hasattr(observer, member):
                    accepted = f"objects of flask_jsonrpc_mcp.telemetry, such as {example}"
                    raise TypeError(f"{option}= takes {accepted}, not {observer!r}")
                observer.observe(self._registry)
        readiness, registry = self._registry.readiness, self._registry
        readiness["mailbox"] = lambda: mailbox.current_mailbox().check_ready()
        if registry.rate_limits.is_used:
            readiness["rate_limits"] = registry.rate_limits.check_ready
        for sign_in in registry.auth.sign_ins:
            if sign_in.grants_scopes:
                readiness["authorization_server"] = sign_in.check_ready

    def add_group(self, group: ToolGroup, *, access: Iterable[str] = ()) -> None:
        """Register everything that a :class:`ToolGroup` declares, under its name.

        :param access: Permissions that all of it needs, besides its own.
        """
        group.register_on(self, access)

    def remove_method(self, name: str) -> None:
        """Remove a method or tool.

        :raises KeyError: if there is no such method.
        """
        self._registry.methods.remove(name)
        self._announce(mailbox.TOOLS)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt and its completers.

        :raises KeyError: if there is no such prompt.
        """
        self._registry.remove_completers(self._registry.prompts.remove(name))
        self._announce(mailbox.PROMPTS)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource and its completers, by the URI or template it was registered with.

        :raises KeyError: if there is no such resource.
        """
        self._registry.remove_completers(self._registry.resources.collection_for(uri).remove(uri))
        self._announce(mailbox.RESOURCES)

    def _register(self, declared: Declared) -> None:
        registry = self._registry
        if declared.kind is Completer:
            registry.completers.add(self._make_completer(declared))
            return
        kind, name, func, options, mark, _ = declared
        method = make_method(kind, func, name, options, registry.rate_limits.parse, mark)
        self._check_scopes(method)
        if isinstance(method, Prompt):
            registry.prompts.add(method)
            self._announce(mailbox.PROMPTS)
        elif isinstance(method, Resource):
            registry.resources.collection_for(method.name).add(method)
            self._announce(mailbox.RESOURCES)
        else:
            registry.methods.add(method)
            self._use_extensions([method])
            self._announce(mailbox.TOOLS)

    def _use_extensions(self, methods: Iterable[Method]) -> bool:
        """Announce the extension for tasks if one of these methods has ``task=``; return whether."""
        if not any(method.tool is not None and method.tool.task is not None for method in methods):
            return False
        from .mcp.tasks_extension import TASKS  # SQLAlchemy is an extra
        from .tasks import tasks_of

        self._registry.extensions[TASKS.id] = TASKS
        self._registry.queue_depths["tasks"] = lambda: tasks_of(current_app).count_queued()
        self._registry.readiness["tasks"] = lambda: tasks_of(current_app).check_ready()
        return True

    def _make_completer(self, declared: Declared) -> Completer:
        registry, func, argument, completed = self._registry, declared.func, declared.argument, declared.name or ""
        found = registry.prompts.get(completed) or registry.resources.templates.get(completed)
        if found is None:
            raise ValueError(
                f"{name_of(func)}: there is no prompt or resource template {completed!r};"
                " register it before its completer"
            )
        properties = found.params.schema["properties"]
        if argument not in properties:
            known = ", ".join(properties) or "none"
            raise ValueError(f"{name_of(func)}: {name_of(found.func)} has no argument {argument!r} (it has: {known})")
        name = completer_name(found.name, argument)
        completer = make_method(Completer, func, name, declared.options, registry.rate_limits.parse)
        self._check_scopes(completer)
        return replace(completer, access=found.access | completer.access, scopes=found.scopes | completer.scopes)

    def _check_scopes(self, method: Method) -> None:
        if method.scopes and not self._registry.auth.grants_scopes:
            raise ValueError(
                f"{name_of(method.func)}: scopes= needs access tokens; add an OAuthResource of flask_jsonrpc_mcp.oauth"
                " to auth= of the blueprint"
            )
        known = self._registry.auth.sign_ins[-1].known_scopes if method.scopes else None
        if known is not None and not method.scopes <= known:
            unknown = ", ".join(sorted(method.scopes - known))
            raise ValueError(f"{name_of(method.func)}: no token can have {unknown}; add it to OAuthServer(scopes=...)")

    def notify_changed(self, what: str) -> None:
        """Notify the listening clients of all workers of a change.

        Registering and removing methods, prompts and resources in an app context does so by itself. Needs
        ``JSONRPC_MCP_SUBSCRIPTIONS`` and an app context.

        :param what: ``"tools"``, ``"prompts"`` or ``"resources"`` for that list, or the URI of a changed resource.
        """
        mailbox.announce(self._registry.name, what)

    def _announce(self, what: str) -> None:
        # Tools that are loaded before the first request are new to no client.
        if not self._registry.is_loading and has_app_context() and mailbox.EXTENSION in current_app.extensions:
            self.notify_changed(what)

    def errorhandler(self, code_or_exception: type[Exception] | int) -> Callable[[F], F]:
        """Register a function that converts an exception of a method to an error, and return it unchanged.

        It gets the exception, and returns an :class:`RpcError`, a text, or a text and an HTTP status. As in Flask, the
        function for the most specific class is called. The error handlers of the app are not called for methods.

        :param code_or_exception: A class of exceptions, or the HTTP status of ``abort``.
        """

        def add(handler: F) -> F:
            self.register_error_handler(code_or_exception, handler)
            return handler

        return add

    def register_error_handler(self, code_or_exception: type[Exception] | int, f: Callable[[Any], Any]) -> None:
        """Register an error handler without a decorator. See :meth:`errorhandler`."""
        self._registry.error_handlers.add(code_or_exception, f)

    def around(self, hook: F) -> F:
        """Register a function that runs around each method, and return it unchanged.

        It gets the :class:`Call`, and is a generator function with one ``yield``, or returns a context manager::

            @rpc.around
            def transaction(call):
                with db.session.begin():
                    yield

        It runs in the thread and the context of the method, and the exception of the method is raised at its ``yield``.
        The function that was registered first is the outermost.
        """
        if inspect.isasyncgenfunction(hook) or inspect.iscoroutinefunction(hook):
            raise TypeError(f"{name_of(hook)}: a function around methods must not be async")
        self._registry.around.append(contextmanager(hook) if inspect.isgeneratorfunction(hook) else hook)
        return hook

    def permissions_loader(self, loader: F) -> F:
        """Register the function that returns a caller's permissions, instead of the auth object's ``get_user_roles``.

        It gets what the verify callback returned (the user name if that is ``True``), ``None`` for an anonymous caller,
        and returns the names of permissions.
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

    def carry(self, func: F) -> F:
        """Register the function that returns what a task keeps of the request that creates it.

        It returns plain JSON, which :meth:`restore` gets in the worker::

            @rpc.carry
            def carry():
                return {"tenant": g.tenant.id}
        """
        callback: Callable[[], Any] = func
        self._registry.carry = callback
        return func

    def restore(self, func: F) -> F:
        """Register the function that gets in the worker what :meth:`carry` has returned.

        It runs in the request context of the task, before the user is loaded and the tool runs, because
        ``before_request`` functions do not run there. If it raises, the task fails, and the tool does not run::

            @rpc.restore
            def restore(carried):
                g.tenant = Tenant.query.get(carried["tenant"])
        """
        callback: Callable[[Any], Any] = func
        self._registry.restore = callback
        return func

    def _mount(self, state: BlueprintSetupState) -> None:
        """On registration: set config defaults, add the well-known route, record this blueprint on the app."""
        app, name = state.app, f"{state.name_prefix}.{state.name}".lstrip(".")
        set_defaults(app)
        show_calls(app)
        mailbox.init_app(app)
        if app.config[PREFIX + "TOOL_NAME_STYLE"] == NO_DOTS:
            self._registry.methods.has_aliases = True
        self._registry.methods.check_all()
        if self._use_extensions(self._registry.methods):
            from .tasks import connect, tasks_of

            tasks_of(app)  # which checks its settings
            connect(self._registry.task_engine, app)
            if app.config[PREFIX + "TASK_WAIT"]:
                from .mcp.tasks_extension import check_names

                check_names(self._registry.methods)
        carry, restore = self._registry.carry, self._registry.restore
        alone = carry or restore
        if alone is not None and (carry is None or restore is None):
            missing = "restore" if restore is None else "carry"
            raise ValueError(f"{name_of(alone)}: @rpc.carry and @rpc.restore need each other; add @rpc.{missing} too")
        registries: dict[str, Registry] = app.extensions.setdefault(EXTENSION, {})
        registries[name] = self._registry
        for sign_in in self._registry.auth.sign_ins:
            sign_in.mount(app)
        endpoints = {f"{name}.{route.endpoint}" for route in self._routes}
        if discovery.WELL_KNOWN.endpoint not in app.view_functions:
            discovery.WELL_KNOWN.add_to(app, self._registry, {})
            endpoints.add(discovery.WELL_KNOWN.endpoint)
        _check_rules(app, endpoints)
        routes.add_to_host(app, endpoints, csrf_exempt=self._csrf_exempt)


def _check_rules(app: App, endpoints: set[str]) -> None:
    """Check that no other blueprint of ours has the same URL rules.

    :raises ValueError: naming both.
    """
    taken_by: dict[tuple[str, str | None, str | None], str] = {}
    for rule in app.url_map.iter_rules():
        place = (rule.rule, rule.subdomain, rule.host)
        taken = taken_by.setdefault(place, rule.endpoint)
        if rule.endpoint not in endpoints or taken == rule.endpoint:
            continue
        if taken.rpartition(".")[2] == rule.endpoint.rpartition(".")[2]:
            raise ValueError(
                f"blueprints {taken.rpartition('.')[0]!r} and {rule.endpoint.rpartition('.')[0]!r} are both at"
                f" {rule.rule}; give one of them a url_prefix"
            )
