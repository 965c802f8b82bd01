"""Find what will break before a client does: checks of tools, settings and the app, in three tables.

``flask mcp doctor`` prints the findings. `examine` returns them, for tests and scripts. A check is a function that
yields one text for each problem it sees, and a row in a table with its slug, its severity and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from .config import GET_ALL, PREFIX
from .mcp.protocol import MODERN
from .mcp.versions import describe_tool
from .method import Method
from .origins import host_name, is_loopback
from .registry import EXTENSION, Registry
from .schema.walk import walk
from .strict_json import write

__all__ = ["Finding", "examine"]

ERROR = "error"
"""Something breaks, or is open to callers who should not have it."""
WARNING = "warning"
"""Something breaks with some clients or in some deployments."""
INFO = "info"
"""Something works, but not as one would expect."""

MAX_NAME_LENGTH = 64
"""The longest tool name that all model APIs accept."""
MAX_TOOL_BYTES = 8 * 1024
"""The size of a tool's description and schemas, about 2,000 tokens of every conversation."""
MAX_MIDDLEWARES = 20
HOST_SETTINGS = (PREFIX + "ALLOWED_HOSTS", "TRUSTED_HOSTS", "SERVER_NAME")

NOT_PLAIN = ("oneOf", "anyOf", "allOf", "not", "if", "enum", "const", "$ref", "$dynamicRef", "dependentSchemas")
"""Keywords that model APIs refuse at the top level of an inputSchema."""

WRITING_WORD = re.compile(
    "append|cancel|clear|create|delete|disable|edit|enable|erase|insert|modify|move|patch|publish|purge|put|rebuild"
    "|remove|rename|replace|reset|save|send|set|store|submit|truncate|update|upload|upsert|write"
)

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[(?:\\.|[^\]])*\]")
_UNBOUNDED_REPEAT = re.compile(r"[*+]|\{\d*,\}")


@dataclass(frozen=True)
class Finding:
    """One thing that will break.

    :param slug: The id of the check, which stays the same; see ``JSONRPC_MCP_DOCTOR_IGNORE``.
    :param severity: ``error``, ``warning`` or ``info``.
    :param why: What will happen, and to which callers.
    :param fix: What to do about it.
    :param tool: The tool it is about; ``None`` if it is about the blueprint or the whole app.
    :param blueprint: The blueprint it is about; ``None`` if it is about the whole app.
    """

    slug: str
    severity: str
    why: str
    fix: str
    tool: str | None = None
    blueprint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object that always has every member."""
        return asdict(self)

    def __str__(self) -> str:
        about = "" if self.tool is None else f" ({self.tool})"
        return f"{self.slug}{about}: {self.why}; {self.fix}"


@dataclass(frozen=True)
class Check:
    """A row of a table: ``look`` yields why, once for each problem, given a `Tool`, a `Place` or the app."""

    slug: str
    severity: str
    look: Callable[[Any], Iterator[str]]
    fix: str


@dataclass(frozen=True)
class Place:
    """A blueprint on an app."""

    app: Flask
    name: str
    registry: Registry


@dataclass(frozen=True)
class Tool:
    """A tool, and its ``described`` form as the newest clients get it."""

    place: Place
    method: Method
    described: dict[str, Any]


def examine(app: Flask, *, ignore: Iterable[str] | None = None, tools_only: bool = False) -> list[Finding]:
    """Find what will break before a client does.

    :param ignore: Checks to leave out: slugs such as ``"name-dots"``, or ``"name-dots:articles.get"`` for one tool.
        By default the setting ``JSONRPC_MCP_DOCTOR_IGNORE``.
    :param tools_only: Check the tools alone, without the settings and the app around them.
    :raises ValueError: if a slug does not exist.
    :raises LookupError: if the app has no `McpBlueprint`.
    """
    blueprints: dict[str, Registry] = app.extensions.get(EXTENSION, {})
    if not blueprints:
        raise LookupError("the app has no McpBlueprint; register one with app.register_blueprint(rpc)")
    ignored = frozenset(app.config[PREFIX + "DOCTOR_IGNORE"] if ignore is None else ignore)
    unknown = sorted(entry for entry in ignored if entry.partition(":")[0] not in SLUGS)
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r} to ignore; the checks are {', '.join(SLUGS)}")
    places = [Place(app, name, registry) for name, registry in blueprints.items()]
    findings = [*_examine_tools(places), *([] if tools_only else _examine_app(app, places))]
    return [found for found in findings if not ignored & {found.slug, f"{found.slug}:{found.tool}"}]


def _examine_tools(places: list[Place]) -> Iterator[Finding]:
    tools = [_describe(place, method) for place in places for method in place.registry.methods if method.listed]
    for check in TOOL_CHECKS:
        for tool in tools:
            for why in check.look(tool):
                yield Finding(check.slug, check.severity, why, check.fix, tool.method.name, tool.place.name)


def _examine_app(app: Flask, places: list[Place]) -> Iterator[Finding]:
    for check in BLUEPRINT_CHECKS:
        for place in places:
            for why in check.look(place):
                yield Finding(check.slug, check.severity, why, check.fix, blueprint=place.name)
    for check in APP_CHECKS:
        for why in check.look(app):
            yield Finding(check.slug, check.severity, why, check.fix)


def _describe(place: Place, method: Method) -> Tool:
    return Tool(place, method, describe_tool(method.descriptor, MODERN, place.app.config[PREFIX + "TOOL_NAME_STYLE"]))


# Checks of a tool.


def dots_in_name(tool: Tool) -> Iterator[str]:
    if "." in tool.described["name"]:
        yield "some clients and model APIs accept only letters, digits, '_' and '-' in the name of a tool"


def long_name(tool: Tool) -> Iterator[str]:
    length = len(tool.method.name)
    if length > MAX_NAME_LENGTH:
        yield f"the name has {length} characters, and model APIs accept at most {MAX_NAME_LENGTH}"


def no_description(tool: Tool) -> Iterator[str]:
    if tool.method.description == tool.method.name:
        yield "a model chooses tools by their description, and this one has only its name"


def references(tool: Tool) -> Iterator[str]:
    for role in ("inputSchema", "outputSchema"):
        schema = _without_definitions(tool.described.get(role, {}))
        if any("$ref" in part or "$dynamicRef" in part for part in walk(schema)):
            yield f"its {role} has a $ref that cannot be inlined, and many clients read it as 'anything'"


def large(tool: Tool) -> Iterator[str]:
    size = len(write(tool.described))
    if size > MAX_TOOL_BYTES:
        yield (
            f"its description and schemas take {size:,} bytes, about {size // 4:,} tokens of every conversation"
            " that includes it"
        )


def not_plain(tool: Tool) -> Iterator[str]:
    found = [keyword for keyword in NOT_PLAIN if keyword in tool.described["inputSchema"]]
    if found:
        yield f"its inputSchema has {' and '.join(found)} at the top level, where model APIs accept only a plain object"


def unbounded_pattern(tool: Tool) -> Iterator[str]:
    rest = _without_definitions(tool.described["inputSchema"])
    arguments = {f"argument {name!r}": schema for name, schema in rest.pop("properties", {}).items()}
    for name, schema in {**arguments, "inputSchema": rest}.items():
        parts = walk(schema) if isinstance(schema, dict) else ()
        patterns = [part["pattern"] for part in parts if "pattern" in part and "maxLength" not in part]
        # A pattern such as ^[a-z]{1,8}$ bounds the work by itself.
        if any(_UNBOUNDED_REPEAT.search(_ESCAPE_OR_CLASS.sub("", pattern)) for pattern in patterns):
            yield (
                f"its {name} has a pattern and no maxLength, so a text of any length, from any caller,"
                " meets a regular expression that may backtrack"
            )


def reads_and_destroys(tool: Tool) -> Iterator[str]:
    if tool.method.read_only and _annotation(tool, "destructiveHint") is True:
        yield "it has both readOnlyHint and destructiveHint: GET runs it, and clients do not ask before they call it"


def reads_by_a_writing_name(tool: Tool) -> Iterator[str]:
    words = [word for word in map(str.lower, _WORD.findall(tool.method.name)) if WRITING_WORD.fullmatch(word)]
    if tool.method.read_only and words:
        yield f"it has readOnlyHint, so GET runs it and clients do not ask first, but its name says {words[0]!r}"


def public_read(tool: Tool) -> Iterator[str]:
    if _is_public(tool) and tool.method.read_only:
        yield "anyone may call it without signing in"


def public_write(tool: Tool) -> Iterator[str]:
    if _is_public(tool) and not tool.method.read_only:
        yield "anyone may call it without signing in, and it has no readOnlyHint"


def _annotation(tool: Tool, name: str) -> Any:
    return tool.described.get("annotations", {}).get(name)


def _is_public(tool: Tool) -> bool:
    auth = tool.place.registry.auth
    return bool(auth.auths) and not auth.required and not tool.method.access


def _without_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out ``$defs``, which stay after the references to them were inlined."""
    return {keyword: value for keyword, value in schema.items() if keyword != "$defs"}


# Checks of a blueprint.


def more_than_a_page(place: Place) -> Iterator[str]:
    tools, size = sum(method.listed for method in place.registry.methods), place.app.config[PREFIX + "PAGE_SIZE"]
    if tools > size:
        yield f"there are {tools} tools, {size} on a page, and many clients read only the first page"


def writes_by_get(place: Place) -> Iterator[str]:
    writing = [method.name for method in place.registry.methods if not method.read_only]
    if place.app.config[PREFIX + "GET_METHODS"] == GET_ALL and writing:
        yield f"GET runs every method, so a link that someone follows in a browser can run {_some(writing)}"


def streams_with_granian(place: Place) -> Iterator[str]:
    streaming = [method.name for method in place.registry.methods if method.streams]
    if streaming and find_spec("granian") is not None:
        yield f"granian has no WSGI write callable, so under it the events of {_some(streaming)} arrive with the result"


def _some(names: list[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


# Checks of the app.


def demo_users(app: Flask) -> Iterator[str]:
    names = list(app.config[PREFIX + "DEMO_USERS"])
    if names and not (app.debug or app.testing):
        yield f"{PREFIX}DEMO_USERS names {_some(names)}, whose credentials anyone can read in the source"


def no_secret_key(app: Flask) -> Iterator[str]:
    if not app.config["SECRET_KEY"]:
        yield "session ids cannot be signed: legacy clients get no session, and no tool can ask its client anything"


def no_proxy_fix(app: Flask) -> Iterator[str]:
    signs = list(_signs_of_a_proxy(app))
    if signs and not _has_proxy_fix(app):
        yield (
            f"{signs[0]} is set for a public site; behind a proxy, every caller would have the proxy's address,"
            " and URLs the wrong scheme and host"
        )


def no_host_names(app: Flask) -> Iterator[str]:
    is_public = _has_proxy_fix(app) or any(_signs_of_a_proxy(app))
    if is_public and not any(app.config[name] for name in HOST_SETTINGS):
        yield (
            "no setting names the hosts of this site: with ProxyFix every Host is accepted, and without it requests of"
            " a proxy get 403"
        )


def _has_proxy_fix(app: Flask) -> bool:
    return any(isinstance(layer, ProxyFix) for layer in _middlewares(app))


def _signs_of_a_proxy(app: Flask) -> Iterator[str]:
    for name in HOST_SETTINGS:
        value = app.config[name]
        hosts: Iterable[str] = [value] if isinstance(value, str) else value or ()
        if any(not is_loopback(host_name(host.lstrip("."))) for host in hosts):
            yield name
    if app.config["PREFERRED_URL_SCHEME"] == "https":
        yield "PREFERRED_URL_SCHEME"


def _middlewares(app: Flask) -> Iterator[Any]:
    """Yield the WSGI middlewares from the outermost, as long as they have an attribute with what they wrap."""
    layer: Any = app.wsgi_app
    # One that wraps the app itself, and not app.wsgi_app, would lead back to the outermost for ever.
    for _ in range(MAX_MIDDLEWARES):
        yield layer
        inner = (getattr(layer, name, None) for name in ("app", "wsgi_app", "application"))
        layer = next(filter(None, inner), None)


TOOL_CHECKS = (
    Check(
        "name-dots", WARNING, dots_in_name, f"set {PREFIX}TOOL_NAME_STYLE = 'no-dots', or choose a name without dots"
    ),
    Check("name-long", ERROR, long_name, "give the method a shorter name"),
    Check("no-description", WARNING, no_description, "write a docstring, or pass description="),
    Check("schema-ref", WARNING, references, "avoid types that contain themselves"),
    Check("schema-huge", WARNING, large, "take fewer arguments, shorten texts, or split the tool"),
    Check("schema-not-plain", ERROR, not_plain, "move the alternatives into a property, or make a tool of each"),
    Check("schema-pattern", WARNING, unbounded_pattern, "add maxLength next to the pattern"),
    Check("read-only-destructive", ERROR, reads_and_destroys, "remove the hint that is wrong"),
    Check("read-only-name", WARNING, reads_by_a_writing_name, "remove readOnlyHint, or rename the method"),
    Check("public-write", ERROR, public_write, "list the permissions that it needs in access=[...]"),
    Check(
        "public-read",
        WARNING,
        public_read,
        "list the permissions that it needs in access=[...], or ignore this if everyone may call it",
    ),
)
BLUEPRINT_CHECKS = (
    Check("many-tools", WARNING, more_than_a_page, f"raise {PREFIX}PAGE_SIZE, or register fewer tools"),
    Check("get-writes", ERROR, writes_by_get, f"set {PREFIX}GET_METHODS = 'read-only'"),
    Check("granian-streams", INFO, streams_with_granian, "use another WSGI server if clients need them at once"),
)
APP_CHECKS = (
    Check("demo-users", WARNING, demo_users, f"remove these users, then set {PREFIX}DEMO_USERS = []"),
    Check("no-secret-key", WARNING, no_secret_key, "set SECRET_KEY, the same in every process"),
    Check("no-proxy-fix", WARNING, no_proxy_fix, "wrap the app: app.wsgi_app = ProxyFix(app.wsgi_app, ...)"),
    Check("no-host-names", INFO, no_host_names, f"set {PREFIX}ALLOWED_HOSTS, such as ['site.example']"),
)
SLUGS = tuple(check.slug for check in (*TOOL_CHECKS, *BLUEPRINT_CHECKS, *APP_CHECKS))
