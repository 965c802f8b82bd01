"""MCP's constants, the `RequestContext`, what is signed, and the checks of ``_meta`` and headers of 2026-07-28.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from flask import Flask
from itsdangerous import SignatureExpired, URLSafeTimedSerializer
from werkzeug.datastructures import Headers

from ..ask import NO_ANSWERS, Answers
from ..auth import Caller
from ..call import COMPLETION, LOG_LEVELS, MCP, METHOD, PROMPT, RESOURCE, Call, Cancellation
from ..config import NO_DOTS, PREFIX
from ..envelope import RpcRequest, is_id, notification
from ..errors import HeaderMismatch, InvalidRequest, MalformedParams, UnsupportedVersion
from ..problems import MAX_QUOTED, one_line
from ..registry import Registry
from ..schema import MirroredArgument
from ..task_options import TASKS_EXTENSION, TASKS_FEATURE
from . import extensions

MODERN = "2026-07-28"
"""Stateless: every request has its version and the client's capabilities in ``_meta``."""

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""``initialize`` negotiates the version of a session. Newest first."""

WITH_BATCHES = "2025-03-26"
"""The only version with JSON-RPC batches. A legacy request without a version counts as this one."""

VERSIONS = (MODERN, *LEGACY)

VERSION_HEADER = "MCP-Protocol-Version"

METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"

DISCOVER = "server/discover"
INITIALIZE = "initialize"
CANCELLED = "notifications/cancelled"
LISTEN = "subscriptions/listen"

# Keys of `_meta`.
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
PROGRESS_TOKEN = "progressToken"  # noqa: S105 (a name, not a secret)

TARGETS = {"tools/call": (METHOD, "name"), "prompts/get": (PROMPT, "name"), "resources/read": (RESOURCE, "uri")}
"""The methods that run user code: the kind of call, and the param with the name. Only these stream, ask the client, and
need ``Mcp-Name``."""

Send = Callable[[dict[str, Any]], None]
"""Sends a message to the client before the response to its request."""

LEEWAY = 60
"""Seconds by which the clocks of two machines may differ."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.0+)?")
_BASE64_START, _BASE64_END = "=?base64?", "?="


@dataclass
class LogLevel:
    """The lowest log level to send to a client; ``None`` to send none. Lasts for a request or a connection."""

    level: str | None = None

    def get(self) -> str | None:
        return self.level

    def set(self, level: str) -> None:
        self.level = level


@dataclass
class Progress:
    """The last progress sent for a request. It is kept when the method runs again after a question."""

    done: float | None = None


class RequestContext(NamedTuple):
    """Everything about a request besides its method and params.

    :param mount: Returns the blueprint and its URL. What is signed at one is not valid at another.
    :param headers: The HTTP headers; ``None`` on stdio.
    :param named_version: The ``MCP-Protocol-Version`` header.
    :param capabilities: The client capabilities that methods can use.
    :param meta: The ``_meta`` of the request.
    :param send: Sends notifications to the client; ``None`` if that is not possible.
    :param answers: The client's answers to questions of earlier runs.
    """

    app: Flask
    registry: Registry
    caller: Caller
    version: str
    cancellation: Cancellation
    log_level: LogLevel
    progress: Progress
    mount: Callable[[], str] = lambda: ""
    headers: Headers | None = None
    named_version: str | None = None
    capabilities: frozenset[str] = frozenset()
    meta: Mapping[str, Any] = MappingProxyType({})
    send: Send | None = None
    answers: Answers = NO_ANSWERS

    @classmethod
    def new(
        cls, app: Flask, registry: Registry, caller: Caller, cancellation: Cancellation | None = None, **others: Any
    ) -> RequestContext:
        """Build the context of a request before its ``_meta`` or its session is known."""
        return cls(app, registry, caller, MODERN, cancellation or Cancellation(), LogLevel(), Progress(), **others)

    def setting(self, name: str) -> Any:
        """Return the setting ``JSONRPC_MCP_<name>``."""
        return self.app.config[PREFIX + name]

    @property
    def server_info(self) -> dict[str, str]:
        """The name and version of this server."""
        config = self.app.config
        return {"name": config[PREFIX + "SERVER_NAME"] or self.app.name, "version": config[PREFIX + "SERVER_VERSION"]}

    @property
    def server_is_ending(self) -> bool:
        """Whether the server waits for its requests to end; see ``JSONRPC_MCP_IS_ENDING``."""
        is_ending = self.setting("IS_ENDING")
        return is_ending is not None and bool(is_ending())

    @property
    def waits_for_tasks(self) -> bool:
        """Whether a request waits for the task of its tool, because the client has no tasks; see `tasks_extension`."""
        return (
            TASKS_EXTENSION in self.registry.extensions
            and TASKS_FEATURE not in self.capabilities
            and self.setting("TASK_WAIT") > 0
        )

    def tool_name(self, name: str) -> str:
        """Return the name of the tool that a client means, which may use its alias without dots."""
        methods = self.registry.methods
        return methods.name_behind(name) if methods.has_aliases and self.setting("TOOL_NAME_STYLE") == NO_DOTS else name

    def call(self, kind: str, name: str, arguments: Any) -> Call:
        """Build the call of a method, prompt, resource or completer."""
        return Call(
            name,
            arguments,
            self.caller,
            MCP,
            kind,
            # completion/complete cannot be answered with a question in any version.
            frozenset() if kind == COMPLETION else self.capabilities,
            self.answers,
            None if self.send is None else Notifier(self.send, self),
            self.cancellation,
            self.meta,
            detachable=bool(self.registry.extensions) and (TASKS_FEATURE in self.capabilities or self.waits_for_tasks),
        )


class Notifier(NamedTuple):
    """Sends the progress and log messages of one call as notifications."""

    send: Send
    context: RequestContext

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        token, progress = self.context.meta.get(PROGRESS_TOKEN), self.context.progress
        # "The progress value MUST increase with each notification", also if the method runs again after a question.
        if not is_progress_token(token) or (progress.done is not None and done <= progress.done):
            return
        progress.done = done
        params: dict[str, Any] = {"progressToken": token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None and self.context.version >= "2025-03-26":
            params["message"] = message
        self.send(notification("notifications/progress", params))

    def log(self, level: str, data: Any, logger: str | None) -> None:
        lowest = self.context.log_level.get()
        if lowest is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(lowest):
            return
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        self.send(notification("notifications/message", params))


def is_modern(message: Any, named_version: str | None = None) -> bool:
    """Whether a message is of 2026-07-28 or later: by its version in ``_meta`` or in the header, or its method."""
    if named_version is not None and named_version not in LEGACY:
        return True
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return message.get("method") == DISCOVER or (isinstance(meta, dict) and PROTOCOL_VERSION in meta)


def read_header(headers: Headers, name: str) -> str | None:
    value = headers.get(name)
    # gunicorn strips the spaces around a value, other servers do not.
    return None if value is None else value.strip(" \t")


def is_progress_token(token: Any) -> bool:
    """Whether a value can be a progress token. It is sent with each report, so it is limited as an id is."""
    return isinstance(token, (str, int)) and is_id(token)


def require_id(message: RpcRequest) -> None:
    """Reject a null id, which JSON-RPC allows and MCP does not."""
    if message.wants_reply and message.id is None:
        raise InvalidRequest("id must be a string or a number")


def signer(app: Flask, salt: str) -> URLSafeTimedSerializer:
    """Return the serializer that signs for one purpose. The fallback keys verify, but do not sign."""
    return _serializer(salt, (*(app.config.get("SECRET_KEY_FALLBACKS") or ()), app.secret_key))


@functools.lru_cache(maxsize=32)
def _serializer(salt: str, keys: tuple[str | bytes | None, ...]) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(list(keys), salt=salt)  # type: ignore[arg-type]


def load_signed(app: Flask, salt: str, token: Any, max_age: int) -> Any:
    """Return what was signed for one purpose at most ``max_age`` seconds ago.

    :raises BadData: if it was altered or has expired.
    """
    content, issued = signer(app, salt).loads(token, return_timestamp=True)
    check_age(issued.timestamp(), max_age)
    return content


def check_age(issued: float, max_age: int) -> None:
    """Check the age of something signed.

    :raises SignatureExpired: if it is too old, or from the future.
    """
    age = time.time() - issued
    if not -LEEWAY <= age <= max_age:
        raise SignatureExpired(f"the age is {age:.0f} seconds")


def with_meta(message: RpcRequest, context: RequestContext) -> RequestContext:
    """Add the ``_meta`` of a request of 2026-07-28 to its context.

    :raises InvalidRequest: if the params are not an object.
    :raises MalformedParams: if a required member is missing.
    :raises UnsupportedVersion: if only the header has a version, and it is not supported.
    """
    params = message.params
    if not isinstance(params, dict):
        raise InvalidRequest("params must be an object")
    if params.get("_meta") is None and context.named_version not in (None, MODERN):
        # Probably an older client with a version that we do not support, which does not know of _meta.
        raise UnsupportedVersion(str(context.named_version), VERSIONS)
    meta = checked_meta(params)
    version = meta[PROTOCOL_VERSION]
    capabilities = features_of(meta[CLIENT_CAPABILITIES], version)
    if context.registry.extensions:
        capabilities |= extensions.declared(meta[CLIENT_CAPABILITIES], context.registry)
    return context._replace(
        version=version,
        capabilities=capabilities,
        meta=meta,
        log_level=LogLevel(meta.get(LOG_LEVEL)),
    )


def checked_meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``_meta`` of a request of 2026-07-28, whatever version it names.

    :raises MalformedParams: if a required member is missing.
    """
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise MalformedParams("params._meta is missing")
    if not isinstance(meta.get(PROTOCOL_VERSION), str):
        raise MalformedParams(f"params._meta must have {PROTOCOL_VERSION}")
    if not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
        raise MalformedParams(f"params._meta must have {CLIENT_CAPABILITIES}")
    level = meta.get(LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise MalformedParams(f"{LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return meta


def with_optional_meta(message: RpcRequest, context: RequestContext) -> RequestContext:
    """Add the ``_meta`` of a request from before 2026-07-28 to its context, if there is any.

    :raises InvalidRequest: if the params are not an object.
    """
    if not isinstance(message.params, dict):
        raise InvalidRequest("params must be an object")
    meta = message.params.get("_meta")
    return context._replace(meta=meta) if meta and isinstance(meta, dict) else context


def require_modern(version: str) -> None:
    """Reject versions other than 2026-07-28 in ``_meta``.

    :raises UnsupportedVersion: with the supported versions.
    """
    if version != MODERN:
        raise UnsupportedVersion(version, [MODERN])


def features_of(capabilities: Mapping[str, Any], version: str) -> frozenset[str]:
    """Read the client's capabilities that we use; only those, so that a session id cannot grow without bound."""
    if not capabilities:
        return frozenset()
    features = {name for name in ("roots", "sampling") if isinstance(capabilities.get(name), dict)}
    elicitation = capabilities.get("elicitation")
    if isinstance(elicitation, dict) and version >= "2025-06-18":
        # An empty object means forms: URLs came later, with 2025-11-25.
        if "form" in elicitation or "url" not in elicitation:
            features.add("elicitation")
        if "url" in elicitation and version >= "2025-11-25":
            features.add("elicitation.url")
    return frozenset(features)


def check_headers(message: RpcRequest, context: RequestContext) -> None:
    """Compare the headers that mirror the version, the method, the name and the marked arguments with the body.

    Proxies route and limit by these headers, so a request whose body differs from them must be rejected. The order is
    that of https://modelcontextprotocol.io/specification/2026-07-28/basic/transports

    :raises HeaderMismatch: naming the header.
    :raises UnsupportedVersion: if both name another version than 2026-07-28.
    """
    headers = context.headers
    if headers is not None and context.named_version != context.version:
        raise _mismatch(VERSION_HEADER, context.named_version, context.version)
    require_modern(context.version)
    if headers is None:
        return
    method = read_header(headers, METHOD_HEADER)
    if method != message.method:
        raise _mismatch(METHOD_HEADER, method, message.method)
    params: Any = message.params
    if message.method in TARGETS:
        _, param = TARGETS[message.method]
        name = _decoded(headers, NAME_HEADER)
        if name is None or name != params.get(param):
            raise _mismatch(NAME_HEADER, name, params.get(param))
    elif context.registry.extensions:
        extension = extensions.find(message.method, context.registry)
        named = None if extension is None else params.get(extension.name_param)
        # A missing one is accepted: a widely used client sends none with the methods of tasks.
        if named is not None and (name := _decoded(headers, NAME_HEADER)) not in (None, named):
            raise _mismatch(NAME_HEADER, name, named)
    if message.method == "tools/call":
        arguments = params.get("arguments", {})
        for argument in _mirrored_arguments(params["name"], context) if isinstance(arguments, dict) else ():
            value, header = argument.value_in(arguments), _decoded(headers, argument.header)
            if not _is_equal(header, value):
                raise HeaderMismatch(f"{argument.header} differs from the argument {argument.path[-1]!r}")


def _mirrored_arguments(name: str, context: RequestContext) -> tuple[MirroredArgument, ...]:
    """Return the arguments that a tool's schema marks with ``x-mcp-header``; none for a hidden tool."""
    tool = context.registry.methods.get(context.tool_name(name))
    if tool is None or not tool.params.mirrored or not tool.listed or not context.caller.has(tool.access):
        return ()
    return tool.params.mirrored


def _mismatch(name: str, header: str | None, value: Any) -> HeaderMismatch:
    if header is None:
        return HeaderMismatch(f"{name} is missing")
    shown = one_line(str(value), MAX_QUOTED)
    return HeaderMismatch(f"{name} is {one_line(header, MAX_QUOTED)!r}, but the body has {shown!r}")


def _decoded(headers: Headers, name: str) -> str | None:
    """Return a header whose value may be encoded in base64."""
    value = read_header(headers, name)
    if value is None:
        return None
    if value.startswith(_BASE64_START) and value.endswith(_BASE64_END):
        encoded = value[len(_BASE64_START) : -len(_BASE64_END)]
        try:
            return base64.b64decode(encoded, validate=True).decode("utf-8")
        except (binascii.Error, ValueError) as error:
            raise HeaderMismatch(f"{name} is not valid base64") from error
    if not value.isascii() or not value.isprintable():
        raise HeaderMismatch(f"{name} has characters that must be sent in base64")
    return value


def _is_equal(header: str | None, value: Any) -> bool:
    if header is None or value is None:
        return header is value
    if isinstance(value, bool):
        return header == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # Not float(header), which accepts 1_000 and 1e3, and a proxy would not.
        return bool(_INTEGER.fullmatch(header)) and int(header.partition(".")[0]) == value
    return bool(header == value)
