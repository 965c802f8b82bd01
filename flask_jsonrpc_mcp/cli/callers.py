"""As whom a command runs, and in which blueprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from flask import Flask
from flask.cli import ScriptInfo
from werkzeug.exceptions import HTTPException

from ..access import LOCAL, Caller
from ..core import Core
from ..current import this_app
from ..faces.discovery import EXTENSION
from ..local_requests import local_request

F = TypeVar("F", bound=Callable[..., Any])

DEVELOPER = "developer"


@dataclass(frozen=True)
class Session:
    """A caller at a blueprint, inside a request."""

    core: Core
    caller: Caller


def blueprint_option(command: F) -> F:
    """Add ``--blueprint``."""
    return click.option(
        "--blueprint",
        metavar="NAME",
        shell_complete=_complete_blueprint,
        help="The McpBlueprint to look at, where the app has several.",
    )(command)


def caller_options(command: F) -> F:
    """Add the options that say as whom a command runs, and ``--blueprint``."""
    command = click.option(
        "--as-permissions",
        metavar="A,B",
        help="Have these permissions and no others; '' for none.",
    )(command)
    command = click.option("--user", metavar="NAME", help="Be this user, found by the app's @rpc.user_loader.")(command)
    return blueprint_option(command)


@contextmanager
def session(
    blueprint: str | None, user: str | None, as_permissions: str | None, *, anyone: bool = False
) -> Iterator[Session]:
    """Be a caller inside a request of the app, as the options say.

    :param anyone: Without options be someone who has not signed in, rather than a developer, who may do everything.
    """
    app = this_app()
    name, core = find_blueprint(app, blueprint)
    with local_request(app, path=mcp_path(app, name) or "/"):
        _prepare_request(app)
        yield Session(core, _caller(core, user, as_permissions, anyone=anyone))


def _prepare_request(app: Flask) -> None:
    """Do what the app does before each request, such as opening its database."""
    try:
        answer = app.preprocess_request()
    except HTTPException as refusal:
        answer = refusal.get_response()
    if answer is not None:
        status = app.make_response(answer).status
        raise click.ClickException(f"A before_request function of the app answered by itself, with {status}")


def find_blueprint(app: Flask, name: str | None) -> tuple[str, Core]:
    """Find the blueprint that is meant.

    :raises click.UsageError: when there is none, or nobody has said which.
    """
    blueprints = blueprints_of(app)
    if not blueprints:
        raise click.UsageError("This app has no McpBlueprint; register one with app.register_blueprint(rpc)")
    names = ", ".join(blueprints)
    if name is None:
        if len(blueprints) > 1:
            raise click.UsageError(f"This app has several McpBlueprints; choose with --blueprint one of {names}")
        [name] = blueprints
    elif name not in blueprints:
        raise click.UsageError(f"There is no McpBlueprint {name!r} here; there is {names}")
    return name, blueprints[name]


def blueprints_of(app: Flask) -> dict[str, Core]:
    """Find all blueprints of ours in an app."""
    found: dict[str, Core] = app.extensions.get(EXTENSION, {})
    return found


def mcp_path(app: Flask, blueprint: str) -> str | None:
    """Find the path of a blueprint's MCP endpoint; ``None`` when its prefix has variables, so that there are many."""
    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    return None if rule.arguments else rule.rule


def app_being_typed(context: click.Context) -> Flask | None:
    """Load the app to complete a word of the command line; ``None`` when that fails."""
    info = context.find_object(ScriptInfo)
    try:
        return None if info is None else info.load_app()
    # While someone types is no time for tracebacks.
    except (Exception, SystemExit):
        return None


def _caller(core: Core, user: str | None, as_permissions: str | None, *, anyone: bool) -> Caller:
    caller = Caller(name=DEVELOPER, scheme=LOCAL, permissions=core.permissions, principal=f"{LOCAL}:")
    if user is not None:
        caller = _user(core, user)
    elif anyone:
        # There is nothing to sign in with here.
        caller = core.authenticator.identify()._replace(may_sign_in=False)
    if as_permissions is not None:
        wanted = frozenset(filter(None, map(str.strip, as_permissions.split(","))))
        for permission in sorted(wanted - core.permissions):
            click.secho(f"Nothing here needs the permission {permission!r}", fg="yellow", err=True)
        caller = caller._replace(permissions=wanted)
    return caller


def _user(core: Core, name: str) -> Caller:
    if core.authenticator.user_loader is None:
        raise click.UsageError("--user needs to know how users are found; register a function with @rpc.user_loader")
    caller = core.authenticator.identify_by_name(name)
    if caller is None:
        raise click.UsageError(f"There is no user {name!r}")
    return caller


def _complete_blueprint(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    app = app_being_typed(context)
    names = [] if app is None else blueprints_of(app)
    return [CompletionItem(name) for name in names if name.startswith(word)]
