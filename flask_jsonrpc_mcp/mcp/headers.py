"""Check the headers that mirror parts of a request of 2026-07-28: version, method, name and marked arguments.

Proxies route and limit by these headers, so a request whose body differs from them must be rejected.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from werkzeug.datastructures import Headers

from ..envelope import RpcRequest
from ..errors import MAX_QUOTED, HeaderMismatch, MethodNotFound, one_line
from ..schema import MirroredArgument
from . import protocol
from .protocol import RequestContext

METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.0+)?")
_BASE64_START, _BASE64_END = "=?base64?", "?="


def check(message: RpcRequest, context: RequestContext) -> None:
    """Compare the mirrored headers with the body, in the order of the specification.

    :raises HeaderMismatch: naming the header.
    """
    headers = context.headers
    if headers is None:
        protocol.require_modern(context.version)
        return
    _require_equal(protocol.VERSION_HEADER, context.named_version, context.version)
    protocol.require_modern(context.version)
    _require_equal(METHOD_HEADER, _header(headers, METHOD_HEADER), message.method)
    params: Any = message.params
    if message.method in protocol.TARGETS:
        _, param = protocol.TARGETS[message.method]
        _require_equal(NAME_HEADER, _decoded(headers, NAME_HEADER), params.get(param))
    if message.method == "tools/call":
        arguments = params.get("arguments", {})
        for argument in _mirrored_arguments(params["name"], context) if isinstance(arguments, dict) else ():
            _check_argument(argument, headers, arguments)


def _mirrored_arguments(name: str, context: RequestContext) -> tuple[MirroredArgument, ...]:
    """Return the arguments that a tool's schema marks with ``x-mcp-header``; none for a hidden tool."""
    methods = context.registry.methods
    tool = methods.get(context.tool_name(name))
    if tool is None or not tool.params.mirrored:
        return ()
    try:
        return methods.find(tool.name, context.caller).params.mirrored
    except MethodNotFound:
        return ()


def _check_argument(argument: MirroredArgument, headers: Headers, arguments: Any) -> None:
    value, header = argument.value_in(arguments), _decoded(headers, argument.header)
    if value is None and header is None:
        return
    if header is None or not _is_equal(header, value):
        raise HeaderMismatch(f"{argument.header} differs from the argument {argument.path[-1]!r}")


def _require_equal(name: str, header: str | None, value: Any) -> None:
    if header is None:
        raise HeaderMismatch(f"{name} is missing")
    if header != value:
        shown = one_line(str(value), MAX_QUOTED)
        raise HeaderMismatch(f"{name} is {one_line(header, MAX_QUOTED)!r}, but the body has {shown!r}")


def _header(headers: Headers, name: str) -> str | None:
    value = headers.get(name)
    # gunicorn strips the spaces around a value, other servers do not.
    return None if value is None else value.strip(" \t")


def _decoded(headers: Headers, name: str) -> str | None:
    """Return a header whose value may be encoded in base64."""
    value = _header(headers, name)
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


def _is_equal(header: str, value: Any) -> bool:
    if isinstance(value, bool):
        return header == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # Not float(header), which accepts 1_000 and 1e3, and a proxy would not.
        return bool(_INTEGER.fullmatch(header)) and int(header.partition(".")[0]) == value
    return bool(header == value)
