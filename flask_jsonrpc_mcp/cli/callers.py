"""Find the blueprint, the caller and the method that a command uses, from its options and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click
from flask import Flask, current_app
from flask.cli import ScriptInfo

from ..auth import LOCAL, Caller
from ..call import METHOD, PROMPT, RESOURCE
from ..errors import MethodNotFound
from ..http.routes import local_request_context, preprocess_request
from ..lookup import find_registry, registries_of, why_not_found
from ..method import Method
from ..registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

DEVELOPER = "developer"


Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def completion_of(*kinds: str) -> Completion:
    """Return a function that completes the names of methods, prompts or resources in a shell."""

    def complete(context: click.Context, parameter: click.Parameter, word: str) -> list[str]:
        return [method.name for method in _methods(context, kinds) if method.name.startswith(word)]

    return complete


def complete_argument(context: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Complete the name of an argument of the prompt or resource that was named before it."""
    completed = (each for each in _methods(context, (PROMPT, RESOURCE)) if each.name == context.params.get("ref"))
    return [name for method in completed for name in method.params.schema["properties"] if name.startswith(word)]


def _methods(context: click.Context, kinds: Iterable[str]) -> list[Method]:
    chosen = context.params.get("blueprint")
    registries = [registry for name, registry in _registries(context).items() if chosen in (None, name)]
    return [method for registry in registries for kind in kinds for method in registry.finders[kind]]


def _complete_blueprint(context: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    return [name for name in _registries(context) if name.startswith(word)]


def _registries(context: click.Context) -> dict[str, Registry]:
    try:
        return registries_of(context.ensure_object(ScriptInfo).load_app())
    except (Exception, SystemExit):  # a traceback would be printed into the line that is being typed
        return {}


blueprint_option = click.option(
    "--blueprint",
    metavar="NAME",
    shell_complete=_complete_blueprint,
    help="The McpBlueprint to use, if the app has several.",
)
_user_option = click.option("--user", metavar="NAME", help="Act as this user, found by the app's @rpc.user_loader.")
_permissions_option = click.option(
    "--as-permissions", metavar="A,B", help="Act with exactly these permissions; '' for none."
)


def caller_options(command: F) -> F:
    """Add ``--blueprint``, ``--user`` and ``--as-permissions``, the arguments of `session`."""
    return blueprint_option(_user_option(_permissions_option(command)))


@contextmanager
def session(
    blueprint: str | None, user: str | None, as_permissions: str | None, *, anyone: bool = False
) -> Iterator[tuple[Registry, Caller]]:
    """Push a new app and request context for a caller; teardown functions run on exit.

    :param anyone: Without ``user``, be an anonymous caller rather than a developer, who has every permission.
    """
    name, registry = find_blueprint(blueprint)
    context = local_request_context(current_app, mcp_path(current_app, name) or "/", method="POST")
    # A new app context, because Flask would reuse the one of the command, with its g.
    with current_app.app_context(), context:
        response = preprocess_request(current_app, context)  # which may open the app's database
        if response is not None:
            raise click.ClickException(f"A before_request function of the app returned a response: {response.status}")
        yield registry, _make_caller(registry, user, as_permissions, anyone=anyone)


def find_blueprint(name: str | None) -> tuple[str, Registry]:
    """Find a blueprint of the app by its name, or the only one.

    :raises click.UsageError: if it does not exist, or if there are several and ``name`` is ``None``.
    """
    try:
        return find_registry(current_app, name)
    except LookupError as error:
        raise click.UsageError(str(error)) from error


def mcp_path(app: Flask, blueprint: str) -> str | None:
    """Return the path of a blueprint's MCP endpoint; ``None`` if its prefix has variables."""
    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    return None if rule.arguments else rule.rule


def find_method(registry: Registry, caller: Caller, name: str, kind: str = METHOD) -> Method:
    """Find a prompt by its name, a resource by a URI, or a method, tool or not, by its name or alias without dots.

    :raises click.UsageError: if it does not exist, or the caller lacks a permission.
    """
    name = registry.methods.name_behind(name) if kind == METHOD else name
    try:
        return registry.finders[kind].find(name, caller, listed_only=False)
    except MethodNotFound as error:
        raise click.UsageError(why_not_found(name, caller, registry, kind, listed_only=False)) from error


def _make_caller(registry: Registry, user: str | None, as_permissions: str | None, *, anyone: bool) -> Caller:
    caller: Caller | None
    if user is not None:
        if registry.auth.user_loader is None:
            raise click.UsageError("--user needs a function that finds users; register one with @rpc.user_loader")
        caller = registry.auth.identify_by_name(user)
        if caller is None:
            raise click.UsageError(f"There is no user {user!r}")
    elif anyone:  # anonymous, and there is no way to sign in here
        caller = replace(registry.auth.anonymous(), may_sign_in=False, scopes=None)
    else:
        registry.auth.set_user(None)
        caller = Caller(name=DEVELOPER, scheme=LOCAL, permissions=registry.permissions, principal=f"{LOCAL}:")
    if as_permissions is None:
        return caller
    wanted = frozenset(filter(None, map(str.strip, as_permissions.split(","))))
    for permission in sorted(wanted - registry.permissions):
        click.secho(f"Nothing here needs the permission {permission!r}", fg="yellow", err=True)
    return replace(caller, permissions=wanted)
