"""Sessions of clients from before 2026-07-28, without a session store.

``Mcp-Session-Id`` is a signed token with the negotiated version, the client's capabilities and its owner, so every
worker of every machine can verify it. It does not authenticate: each request is authenticated by itself, and must have
the same caller.
"""

from __future__ import annotations

import functools
import secrets
import time
from dataclasses import dataclass
from typing import Any

from flask import Flask
from itsdangerous import BadData, SignatureExpired, URLSafeTimedSerializer

from ..envelope import RpcRequest
from ..errors import InvalidRequest, MalformedParams, SessionNotFound
from .protocol import LEGACY, RequestContext, features_of, require_id

LEEWAY = 60
"""By how many seconds the clocks of two machines may differ."""

_SALT = "flask-jsonrpc-mcp.session"
_WARNED = "jsonrpc_mcp_warned_of_no_secret_key"


@dataclass(frozen=True)
class Session:
    """What ``initialize`` negotiated."""

    version: str
    capabilities: frozenset[str]


def negotiate(message: RpcRequest) -> Session:
    """Read ``initialize``. The version is the client's if we support it, else our newest legacy one.

    :raises InvalidRequest, MalformedParams: if it is malformed.
    """
    require_id(message)
    if not message.wants_reply:
        raise InvalidRequest("initialize needs an id")
    params = message.params
    if not isinstance(params, dict) or not isinstance(params.get("protocolVersion"), str):
        raise MalformedParams("initialize needs params.protocolVersion")
    if not isinstance(params.get("capabilities"), dict) or not isinstance(params.get("clientInfo"), dict):
        raise MalformedParams("initialize needs params.capabilities and params.clientInfo")
    version = params["protocolVersion"] if params["protocolVersion"] in LEGACY else LEGACY[0]
    return Session(version, features_of(params["capabilities"], version))


def can_sign(app: Flask) -> bool:
    """Whether the app can sign session ids. Without a key clients are served without sessions, as MCP allows."""
    if app.secret_key:
        return True
    if _WARNED not in app.extensions:
        app.extensions[_WARNED] = True
        app.logger.warning(
            "SECRET_KEY is not set, so MCP clients from before 2026-07-28 are served without sessions and tools cannot"
            " know what these clients can do; set it, the same for all workers"
        )
    return False


def make_id(session: Session, context: RequestContext) -> str:
    """Build the id of a session."""
    owner = [context.caller.principal, context.mount]
    content = [session.version, sorted(session.capabilities), *owner, secrets.token_hex(8)]
    return signer(context.app, _SALT).dumps(content)


def read_id(token: str, context: RequestContext) -> Session:
    """Verify the id of a session.

    :raises SessionNotFound: if it was altered, has expired, or is another caller's.
    """
    try:
        session, owner, issued = _load(token, signer(context.app, _SALT))
        check_age(issued, context.setting("SESSION_MAX_AGE"))
    except (BadData, TypeError, ValueError) as error:  # the last two: of a release with other contents
        raise SessionNotFound() from error
    if owner != (context.caller.principal, context.mount):
        raise SessionNotFound()
    return session


def load_signed(app: Flask, salt: str, token: Any, max_age: int) -> Any:
    """Return what was signed for one purpose at most ``max_age`` seconds ago.

    :raises BadData: if it was altered or has expired.
    """
    content, issued = signer(app, salt).loads(token, return_timestamp=True)
    check_age(issued.timestamp(), max_age)
    return content


def check_age(issued: float, max_age: int) -> None:
    """Check the age of something signed, with a leeway for machines whose clocks differ.

    :raises SignatureExpired: if it is too old, or from the future.
    """
    age = time.time() - issued
    if not -LEEWAY <= age <= max_age:
        raise SignatureExpired(f"the age is {age:.0f} seconds")


def signer(app: Flask, salt: str) -> URLSafeTimedSerializer:
    """Return the serializer that signs for one purpose. The fallback keys verify, but do not sign."""
    return _serializer(salt, (*(app.config.get("SECRET_KEY_FALLBACKS") or ()), app.secret_key))


@functools.lru_cache(maxsize=32)
def _serializer(salt: str, keys: tuple[str | bytes | None, ...]) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(list(keys), salt=salt)  # type: ignore[arg-type]


# A client sends the same id with every request, and verifying it would be a tenth of our part of a call.
@functools.lru_cache(maxsize=1024)
def _load(token: str, serializer: URLSafeTimedSerializer) -> tuple[Session, tuple[str, str], int]:
    (version, capabilities, principal, blueprint, _), issued = serializer.loads(token, return_timestamp=True)
    return Session(version, frozenset(capabilities)), (principal, blueprint), int(issued.timestamp())
