"""How a request opens, which tells the era of its client: a modern one says everything with every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..envelope import Request
from ..errors import InvalidRequest, MalformedParams, UnsupportedVersion
from . import protocol
from .sessions import features_of


class Opening(NamedTuple):
    """What a modern request says of itself."""

    version: str
    capabilities: frozenset[str]
    params: Mapping[str, Any]
    meta: Mapping[str, Any]


def is_modern(message: Any) -> bool:
    """Tell whether a message is of a modern client: it names its version, or asks what only such a client asks."""
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return message.get("method") == protocol.DISCOVER or (isinstance(meta, dict) and protocol.PROTOCOL_VERSION in meta)


def require_id(request: Request) -> None:
    """Refuse what JSON-RPC has and MCP has not: an id that is null."""
    if request.wants_reply and request.id is None:
        raise InvalidRequest("id must be a string or a number")


def read_opening(request: Request) -> Opening:
    """Read what a modern request says of itself, of whatever version."""
    params = request.params
    if not isinstance(params, dict):
        raise InvalidRequest("params must be an object")
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise MalformedParams("params._meta is missing")
    version, capabilities = meta.get(protocol.PROTOCOL_VERSION), meta.get(protocol.CLIENT_CAPABILITIES)
    if not isinstance(version, str):
        raise MalformedParams(f"params._meta must have {protocol.PROTOCOL_VERSION}")
    if not isinstance(capabilities, dict):
        raise MalformedParams(f"params._meta must have {protocol.CLIENT_CAPABILITIES}")
    return Opening(version, features_of(capabilities, version), params, meta)


def require_version(version: str) -> None:
    """Refuse a version other than the modern one that we speak."""
    if version != protocol.MODERN:
        raise UnsupportedVersion(version, [protocol.MODERN])
