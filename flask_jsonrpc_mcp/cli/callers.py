"""Find the blueprint, the caller and the method that a command uses, from its options and arguments."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from flask import Flask, current_app, g, request
from flask.cli import ScriptInfo
from werkzeug.exceptions import HTTPException

from ..auth import LOCAL, Caller
from ..errors import MethodNotFound
from ..method import Method
from ..registry import EXTENSION, Registry

F = TypeVar("F", bound=Callable[..., Any])

DEVELOPER = "developer"


@dataclass(frozen=True)
class Session:
    """A blueprint and a caller, inside a request context."""

    registry: Registry
    caller: Caller


def blueprint_option(command: F) -> F:
    """Add ``--blueprint``."""
    return click.option(
        "--blueprint",
        metavar="NAME",
        shell_complete=_complete_blueprint,
        help="The McpBlueprint to use, if the app has several.",
    )(command)


def caller_options(command: F) -> F:
    """Add ``--user``, ``--as-permissions`` and ``--blueprint``."""
    command = click.option("--as-permissions", metavar="A,B", help="Have exactly these permissions; '' for none.")(
        command
    )
    command = click.option("--user", metavar="NAME", help="Act as this user, found by the app's @rpc.user_loader.")(
        command
    )
    return blueprint_option(command)


@contextmanager
def session(
    blueprint: str | None, user: str | None, as_permissions: str | None, *, anyone: bool = False
) -> Iterator[Session]:
    """Push a new app and request context for a caller; teardown functions run on exit.

    :param anyone: Without ``user``, be an anonymous caller rather than a developer, who has every permission.
    """
    name, registry = find_blueprint(current_app, blueprint)
    context = current_app.test_request_context(
        mcp_path(current_app, name) or "/", base_url=_base_url(current_app), method="POST"
    )
    # A new app context, because Flask would reuse the one of the command, with its g.
    with current_app.app_context(), context:
        _preprocess_request(current_app, context)
        yield Session(registry, _make_caller(registry, user, as_permissions, anyone=anyone))


def find_blueprint(app: Flask, name: str | None) -> tuple[str, Registry]:
    """Find a blueprint by its name, or the only one.

    :raises click.UsageError: if it does not exist, or if there are several and ``name`` is ``None``.
    """
    blueprints = blueprints_of(app)
    names = ", ".join(blueprints)
    if name is None and len(blueprints) > 1:
        raise click.UsageError(f"This app has several McpBlueprints; choose one with --blueprint: {names}")
    found = next(iter(blueprints)) if name is None else name
    if found not in blueprints:
        raise click.UsageError(f"This app has no McpBlueprint {found!r}; it has {names}")
    return found, blueprints[found]


def blueprints_of(app: Flask) -> dict[str, Registry]:
    """Return the blueprints of an app by their full name.

    :raises click.UsageError: if there is none.
    """
    found: dict[str, Registry] = app.extensions.get(EXTENSION, {})
    if not found:
        raise click.UsageError("This app has no McpBlueprint; register one with app.register_blueprint(rpc)")
    return found


def mcp_path(app: Flask, blueprint: str) -> str | None:
    """Return the path of a blueprint's MCP endpoint; ``None`` if its prefix has variables."""
    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    return None if rule.arguments else rule.rule


def find_method(session: Session, name: str) -> Method:
    """Find a method, tool or not, by its name or by its alias without dots.

    :raises click.UsageError: if it does not exist, or the caller lacks a permission.
    """
    registry, caller = session.registry, session.caller
    name = registry.methods.name_behind(name)
    try:
        return registry.methods.find(name, caller, listed_only=False)
    except MethodNotFound as error:
        hidden = registry.methods.get(name)
        if hidden is not None:
            # Only the developer learns this; over HTTP, hidden and missing methods get the same response.
            missing = ", ".join(sorted(hidden.access - caller.permissions))
            raise click.UsageError(f"{name} needs the permission {missing}, which this caller lacks") from error
        visible = [method.name for method in registry.methods.callable_by(caller)]
        similar = difflib.get_close_matches(name, visible)
        hint = f"did you mean {' or '.join(similar)}?" if similar else "see flask mcp list --all"
        raise click.UsageError(f"There is no tool or method {name!r}; {hint}") from error


def complete_name(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a method in a shell."""
    chosen = context.params.get("blueprint")
    registries = [registry for name, registry in _blueprints_to_complete(context).items() if chosen in (None, name)]
    return [
        CompletionItem(method.name)
        for registry in registries
        for method in registry.methods
        if method.name.startswith(word)
    ]


def _complete_blueprint(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in _blueprints_to_complete(context) if name.startswith(word)]


def _blueprints_to_complete(context: click.Context) -> dict[str, Registry]:
    try:
        return blueprints_of(context.ensure_object(ScriptInfo).load_app())
    except (Exception, SystemExit):  # a traceback would be printed into the line that is being typed
        return {}


def _base_url(app: Flask) -> str | None:
    """Return a URL that the app's TRUSTED_HOSTS accept; ``None`` if Flask's own default will do."""
    hosts = app.config["TRUSTED_HOSTS"]
    if not hosts or app.config["SERVER_NAME"]:
        return None
    return f"{app.config['PREFERRED_URL_SCHEME']}://{hosts[0].lstrip('.')}"


def _preprocess_request(app: Flask, context: Any) -> None:
    """Call the app's before_request functions, which may open its database."""
    preprocess: Callable[..., Any] = app.preprocess_request
    takes_context = bool(inspect.signature(preprocess).parameters)  # since Flask 3.2
    try:
        response = preprocess(context) if takes_context else preprocess()
    except HTTPException as error:
        response = error.get_response()
    if response is not None:
        status = app.make_response(response).status
        raise click.ClickException(f"A before_request function of the app returned a response: {status}")


def _make_caller(registry: Registry, user: str | None, as_permissions: str | None, *, anyone: bool) -> Caller:
    if user is not None and registry.auth.user_loader is None:
        raise click.UsageError("--user needs a function that finds users; register one with @rpc.user_loader")
    if user is not None:
        caller = registry.auth.identify_by_name(user)
    elif anyone:  # anonymous, and there is no way to sign in here
        caller = replace(registry.auth.identify(request), may_sign_in=False)
    else:
        g.flask_httpauth_user = None  # a before_request function may have set it
        caller = Caller(name=DEVELOPER, scheme=LOCAL, permissions=registry.permissions, principal=f"{LOCAL}:")
    if caller is None:
        raise click.UsageError(f"There is no user {user!r}")
    if as_permissions is None:
        return caller
    wanted = frozenset(filter(None, map(str.strip, as_permissions.split(","))))
    for permission in sorted(wanted - registry.permissions):
        click.secho(f"Nothing here needs the permission {permission!r}", fg="yellow", err=True)
    return replace(caller, permissions=wanted)
