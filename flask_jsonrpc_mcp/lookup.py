"""For what runs without an HTTP request, the command line, the doctor, workers and tests: find a blueprint or a method.

Only the command line and the test client explain why a method is not found. Over HTTP, hidden and missing methods get
the same response.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from flask import Flask

from .auth import Caller
from .call import METHOD
from .registry import EXTENSION, Registry


def local_request_context(app: Flask, path: str, **options: Any) -> Any:
    """Return the context of a request that no client has sent, with a host that the app trusts.

    :param options: More arguments of ``app.test_request_context``.
    """
    trusted = app.config["TRUSTED_HOSTS"]
    if trusted and not app.config["SERVER_NAME"]:
        path = f"{app.config['PREFERRED_URL_SCHEME']}://{trusted[0].lstrip('.')}{path}"
    return app.test_request_context(path, **options)


def mcp_path(app: Flask, blueprint: str) -> str | None:
    """Return the path of a blueprint's MCP endpoint; ``None`` if its prefix has variables."""
    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    return None if rule.arguments else rule.rule


def registries_of(app: Flask, *, load: bool = True) -> dict[str, Registry]:
    """Return the registries of an app's blueprints by full blueprint name.

    :param load: Call `load_tools` for each.
    :raises LookupError: if there are none.
    """
    registries: dict[str, Registry] = app.extensions.get(EXTENSION, {})
    if not registries:
        raise LookupError("This app has no McpBlueprint; register one with app.register_blueprint(rpc)")
    for registry in registries.values() if load else ():
        load_tools(registry, app)
    return registries


def load_tools(registry: Registry, app: Flask) -> None:
    """Make the tools of ``add_view`` and ``add_openapi``, as the first request does.

    :raises LookupError: if the app lacks an endpoint.
    """
    if registry.pending:
        with local_request_context(app, "/"):
            registry.load()


def find_registry(app: Flask, blueprint: str | None) -> tuple[str, Registry]:
    """Return the full name and the registry of a blueprint, or of the only one.

    :raises LookupError: if it does not exist, or if there are several and ``blueprint`` is ``None``.
    """
    registries = registries_of(app)
    names = ", ".join(map(repr, registries))
    if blueprint is None and len(registries) > 1:
        how = "choose one with --blueprint, or in a test with blueprint="
        raise LookupError(f"This app has several McpBlueprints, {names}; {how}")
    found = next(iter(registries)) if blueprint is None else blueprint
    if found not in registries:
        raise LookupError(f"This app has no McpBlueprint {found!r}; it has {names}")
    return found, registries[found]


def why_not_found(
    name: str, caller: Caller, registry: Registry, kind: str = METHOD, *, listed_only: bool = True
) -> str:
    """Explain why a caller cannot use a method, prompt or resource."""
    finder = registry.finders[kind]
    method = next(iter(finder.candidates(name)), None)
    if method is None:
        return f"There is no {kind} {name!r}; {did_you_mean(name, [method.name for method in finder])}"
    if listed_only and not method.listed:
        return f"{name!r} is not a tool, so only JSON-RPC and the command line can call it; @rpc.tool makes it one"
    missing = ", ".join(map(repr, sorted(method.access - caller.permissions)))
    who = "an anonymous caller" if caller.anonymous else repr(caller.name)
    return f"{name!r} needs permissions that {who} does not have: {missing}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown name: similar names, or else the existing ones."""
    known = list(names)
    close = " or ".join(get_close_matches(name, known, n=2))
    return f"did you mean {close}?" if close else f"there are {', '.join(known[:10]) or 'none'}"
