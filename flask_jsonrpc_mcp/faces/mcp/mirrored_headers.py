"""The headers in which a modern MCP client repeats parts of its request, checked against the body.

Proxies route and limit by these headers; a request whose body says something else would slip past them.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from ...current import header_key, this_request
from ...errors import MAX_QUOTED, HeaderMismatch, one_line
from ...schema.mirrored import MirroredArgument

VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"

_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.0+)?")
_SENTINEL_START, _SENTINEL_END = "=?base64?", "?="


class MirroredHeaders:
    """Checks the headers of the current request. Those sent twice arrive joined by a comma, and so do not match."""

    def __init__(self) -> None:
        self._environ = this_request().environ
        self.version = self._header(VERSION_HEADER)

    def check_version(self, version: str) -> None:
        if self.version != version:
            raise _mismatch(VERSION_HEADER, self.version, version)

    def check_method(self, method: str) -> None:
        header = self._header(METHOD_HEADER)
        if header != method:
            raise _mismatch(METHOD_HEADER, header, method)

    def check_name(self, name: Any) -> None:
        header = self._decoded(NAME_HEADER)
        if header is None or header != name:
            raise _mismatch(NAME_HEADER, header, name)

    def check_arguments(self, mirrored: tuple[MirroredArgument, ...], arguments: Any) -> None:
        for argument in mirrored:
            value, header = argument.value_in(arguments), self._decoded(argument.header)
            if value is None and header is None:
                continue
            if header is None or not _says_the_same(header, value):
                raise HeaderMismatch(f"{argument.header} does not say what the argument {argument.path[-1]!r} does")

    def _header(self, name: str) -> str | None:
        value: str | None = self._environ.get(header_key(name))
        # gunicorn strips the spaces around a value, other servers leave them.
        return None if value is None else value.strip(" \t")

    def _decoded(self, name: str) -> str | None:
        """Read a header that may be in base64, because its value has characters that headers have not."""
        value = self._header(name)
        if value is None:
            return None
        if value.startswith(_SENTINEL_START) and value.endswith(_SENTINEL_END):
            encoded = value[len(_SENTINEL_START) : -len(_SENTINEL_END)]
            try:
                return base64.b64decode(encoded, validate=True).decode("utf-8")
            except (binascii.Error, ValueError) as error:
                raise HeaderMismatch(f"{name} is not valid base64") from error
        if not value.isascii() or not value.isprintable():
            raise HeaderMismatch(f"{name} has characters that must be sent in base64")
        return value


def _mismatch(name: str, header: str | None, value: Any) -> HeaderMismatch:
    if header is None:
        return HeaderMismatch(f"{name} is missing")
    shown = one_line(str(value), MAX_QUOTED)
    return HeaderMismatch(f"{name} is {one_line(header, MAX_QUOTED)!r}, the body says {shown!r}")


def _says_the_same(header: str, value: Any) -> bool:
    if isinstance(value, bool):
        return header == ("true" if value else "false")
    if isinstance(value, (int, float)):
        # Not float(header): it reads 1_000 and 1e3 too, which a proxy would read in another way.
        return bool(_WHOLE_NUMBER.fullmatch(header)) and int(header.partition(".")[0]) == value
    return bool(header == value)
