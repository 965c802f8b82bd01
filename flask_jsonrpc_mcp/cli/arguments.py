"""Read the options of commands: the blueprint, the caller, a method, and the arguments of a call.

Arguments are ``key=value``, or JSON from an option, a file or stdin. A value gets the type of the
method's schema. If it cannot be parsed as that type it stays a string, and the validator reports it with its path,
together with all other problems.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import click
from flask import current_app
from flask.cli import ScriptInfo

from ..auth import LOCAL, Caller
from ..call import METHOD, PROMPT, RESOURCE
from ..errors import MethodNotFound, ParseError
from ..http.routes import preprocess_request
from ..lookup import find_registry, local_request_context, mcp_path, registries_of, why_not_found
from ..method import Method
from ..problems import one_line
from ..registry import Registry
from ..schema.walk import TYPES, resolve, type_name, types_of
from ..strict_json import read

DEVELOPER = "developer"

BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
NUMBERS = frozenset({"integer", "number"})
JSON_ONLY = frozenset({"array", "object", "null"})

_MAX_DEPTH = 10

F = TypeVar("F", bound=Callable[..., Any])
Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def combine(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Combine options and arguments of commands, to add them all at once."""

    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def completing(names: Callable[[click.Context], Iterable[str]]) -> Completion:
    """Return a function that completes one of these names in a shell."""
    return lambda context, parameter, word: [name for name in names(context) if name.startswith(word)]


def completing_name_of(*kinds: str) -> Completion:
    """Return a function that completes the names of methods, prompts or resources in a shell."""
    return completing(lambda context: (method.name for method in _methods(context, kinds)))


def argument_names(context: click.Context) -> list[str]:
    """List the arguments of the prompt or resource that the command names as ``ref``."""
    completed = (each for each in _methods(context, (PROMPT, RESOURCE)) if each.name == context.params.get("ref"))
    return [name for method in completed for name in method.params.schema["properties"]]


def _methods(context: click.Context, kinds: Iterable[str]) -> list[Method]:
    chosen = context.params.get("blueprint")
    registries = [registry for name, registry in _registries(context).items() if chosen in (None, name)]
    return [method for registry in registries for kind in kinds for method in registry.finders[kind]]


def _registries(context: click.Context) -> dict[str, Registry]:
    try:
        return registries_of(context.ensure_object(ScriptInfo).load_app())
    except (Exception, SystemExit):  # a traceback would be printed into the line that is being typed
        return {}


blueprint_option = click.option(
    "--blueprint",
    metavar="NAME",
    shell_complete=completing(_registries),
    help="The McpBlueprint to use, if the app has several.",
)
caller_options = combine(
    blueprint_option,
    click.option("--user", metavar="NAME", help="Act as this user, found by the app's @rpc.user_loader."),
    click.option("--as-permissions", metavar="A,B", help="Act with exactly these permissions; '' for none."),
)
"""``--blueprint``, ``--user`` and ``--as-permissions``, the arguments of `session`."""

arguments_of_call = combine(
    click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]..."),
    click.option(
        "--json", "whole", metavar="JSON", help="All arguments as a JSON object; @FILE reads a file, - reads stdin."
    ),
)
"""``KEY=VALUE...`` and ``--json``, the arguments of `read_arguments`."""


@contextmanager
def session(
    blueprint: str | None = None, user: str | None = None, as_permissions: str | None = None, *, anonymous: bool = False
) -> Iterator[tuple[Registry, Caller]]:
    """Push a new app and request context for a caller; teardown functions run on exit.

    :param anonymous: Without ``user``, be an anonymous caller rather than a developer, who has every permission.
    """
    name, registry = find_blueprint(blueprint)
    context = local_request_context(current_app, mcp_path(current_app, name) or "/", method="POST")
    # A new app context, because Flask would reuse the one of the command, with its g.
    with current_app.app_context(), context:
        response = preprocess_request(current_app, context)  # which may open the app's database
        if response is not None:
            raise click.ClickException(f"A before_request function of the app returned a response: {response.status}")
        yield registry, _make_caller(registry, user, as_permissions, anonymous=anonymous)


def find_blueprint(name: str | None) -> tuple[str, Registry]:
    """Find a blueprint of the app by its name, or the only one.

    :raises click.UsageError: if it does not exist, or if there are several and ``name`` is ``None``.
    """
    try:
        return find_registry(current_app, name)
    except LookupError as error:
        raise click.UsageError(str(error)) from error


def find_method(registry: Registry, caller: Caller, name: str, kind: str = METHOD) -> Method:
    """Find a prompt by its name, a resource by a URI, or a method, tool or not, by its name or alias without dots.

    :raises click.UsageError: if it does not exist, or the caller lacks a permission.
    """
    name = registry.methods.name_behind(name) if kind == METHOD else name
    try:
        return registry.finders[kind].find(name, caller, listed_only=False)
    except MethodNotFound as error:
        raise click.UsageError(why_not_found(name, caller, registry, kind, listed_only=False)) from error


def _make_caller(registry: Registry, user: str | None, as_permissions: str | None, *, anonymous: bool) -> Caller:
    caller: Caller | None
    if user is not None:
        if registry.auth.user_loader is None:
            raise click.UsageError("--user needs a function that finds users; register one with @rpc.user_loader")
        caller = registry.auth.identify_by_name(user)
        if caller is None:
            raise click.UsageError(f"There is no user {user!r}")
    elif anonymous:  # stdio has no sign-in
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


def read_arguments(pairs: Iterable[str], whole: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of a call.

    :param pairs: ``key=value``, or ``key.inner=value`` for a member of an object.
    :param whole: All arguments as a JSON object, ``@FILE`` or ``-`` for stdin; pairs are added to it.
    :raises click.UsageError: if one cannot be read.
    """
    arguments = {} if whole is None else _read_whole(whole)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{pair!r} is not an argument; write key=value, or all of them as --json '{{...}}'")
        _set(arguments, key, text, schema)
    return arguments


def likely_name(path: str, root: Mapping[str, Any]) -> str | None:
    """Return the argument that was probably meant, if the last part of a JSON Pointer is none that the schema has."""
    schema: Any = root
    *outer, name = path.split("/")[1:] or [""]
    for part in outer:
        schema = _member(schema, part, root)
    names = [known for alternative in _alternatives(schema, root) for known in alternative.get("properties", ())]
    return None if name in names else next(iter(get_close_matches(name, names, n=1)), None)


def _read_whole(option: str) -> dict[str, Any]:
    text = option
    try:
        if option == "-":
            text = sys.stdin.read()
        elif option.startswith("@"):
            text = Path(option[1:]).read_text("utf-8")
        value = read(text)
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--json {option} cannot be read: {error}") from error
    except ParseError as error:
        raise click.UsageError(f"--json is not valid JSON: {one_line(text, 60)}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"--json must be an object with the arguments by name, not {one_line(text, 60)}")
    return value


def _set(arguments: dict[str, Any], key: str, text: str, root: Mapping[str, Any]) -> None:
    """Set an argument; dots lead into objects, unless a property has that very name."""
    schema: Any = root
    *outer, last = [key] if key in root.get("properties", {}) else key.split(".")
    for name in outer:
        inner = arguments.setdefault(name, {})
        if not isinstance(inner, dict):
            raise click.UsageError(f"{key}: {name} is given twice, as a value and as an object")
        arguments, schema = inner, _member(schema, name, root)
    if last in arguments:
        raise click.UsageError(f"{key} is given twice; write an array as JSON: {key}='[1, 2]'")
    types = _types_of(_member(schema, last, root), root)
    try:
        arguments[last] = _read_value(text, types)
    except ParseError as error:
        example = '["..."]' if "array" in types else '{"...": "..."}'
        raise click.UsageError(f"{key} must be JSON, such as {key}='{example}'") from error


def _member(schema: Any, name: str, root: Mapping[str, Any]) -> Any:
    """Return the schema of an object's member, from the first alternative that has it."""
    members = (alternative.get("properties", {}) for alternative in _alternatives(schema, root))
    return next((properties[name] for properties in members if name in properties), {})


def _read_value(text: str, types: frozenset[str]) -> Any:
    """Read a text as one of the types, or as the text itself if it can be one.

    :raises ParseError: if it is not JSON, and every type is written as JSON.
    """
    is_json = bool(types) and types <= JSON_ONLY
    try:
        value = read(text)
    except ParseError:
        if is_json:
            raise
        value = text
    if is_json or not types:
        return value
    if isinstance(value, str):
        value = text  # a text is taken as typed, with its quotes
    name = type_name(value)
    # A number of the wrong kind stays a number, for a better message of the validator.
    if name in types or (name in NUMBERS and types & NUMBERS):
        return value
    return BOOLEANS.get(text.lower(), text) if "boolean" in types else text


def _types_of(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Name the JSON types that a schema accepts; empty if it accepts any, or does not say."""
    types = (types_of(alternative, root) for alternative in _alternatives(schema, root))
    return frozenset().union(*(named for named in types if named != TYPES))


def _alternatives(schema: Any, root: Mapping[str, Any], left: int = _MAX_DEPTH) -> list[Mapping[str, Any]]:
    """List a schema, its alternatives and what it refers to."""
    if not isinstance(schema, Mapping) or left == 0:
        return []
    inner = [alternative for keyword in ("anyOf", "oneOf", "allOf") for alternative in schema.get(keyword, ())]
    inner.append(resolve(root, schema.get("$ref")))
    return [schema, *(found for each in inner for found in _alternatives(each, root, left - 1))]
