"""Sessions without a session store, for clients from before 2026-07-28.

The id of a session is a signed token with everything there is to know of it: the version that was agreed on, what the
client can do, and whose it is. Every worker of every machine can check it, and none has to remember it. Having one
proves nothing about who is calling: each request is authenticated by itself, and must be by the same caller.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from itsdangerous import BadData, URLSafeTimedSerializer

from ..access import Caller
from ..current import this_app
from ..errors import SessionNotFound
from ..settings import setting
from . import protocol
from .signing import signer

_SALT = "flask-jsonrpc-mcp.session"
_WARNED = "jsonrpc_mcp_warned_of_no_secret_key"


class Agreement(NamedTuple):
    """What client and server have agreed on."""

    version: str
    capabilities: frozenset[str]


def are_possible() -> bool:
    """Tell whether the app can sign. Without a key, clients are served without sessions, as the protocol allows."""
    if this_app().secret_key:
        return True
    if _WARNED not in this_app().extensions:
        this_app().extensions[_WARNED] = True
        this_app().logger.warning(
            "SECRET_KEY is not set, so MCP clients from before 2026-07-28 are served without sessions and tools cannot"
            " know what these clients can do; set it, the same for all workers"
        )
    return False


def mint(agreement: Agreement, caller: Caller, audience: str) -> str:
    """Make the id of a session.

    :param audience: The blueprint it is for.
    """
    content = [agreement.version, sorted(agreement.capabilities), caller.principal, audience, secrets.token_hex(8)]
    return signer(_SALT).dumps(content)


def read(token: str, caller: Caller, audience: str) -> Agreement:
    """Read the id of a session.

    :raises SessionNotFound: when it was altered, has expired, or is someone else's.
    """
    try:
        agreement, owner, issued = _open(token, signer(_SALT))
    except BadData as error:
        raise SessionNotFound() from error
    age = int(time.time()) - issued
    if not 0 <= age <= setting("SESSION_MAX_AGE") or owner != (caller.principal, audience):
        raise SessionNotFound()
    return agreement


class _Opened(NamedTuple):
    """What a token says, and says for ever."""

    agreement: Agreement
    owner: tuple[str, str]
    issued: int


# A client sends the same token with every request, and to check it takes longer than all else that we do for one.
@functools.lru_cache(maxsize=1024)
def _open(token: str, by: URLSafeTimedSerializer) -> _Opened:
    (version, capabilities, principal, audience, _), issued = by.loads(token, return_timestamp=True)
    return _Opened(Agreement(version, frozenset(capabilities)), (principal, audience), int(issued.timestamp()))


def features_of(capabilities: Mapping[str, Any], version: str) -> frozenset[str]:
    """Read what a client can do; only what we know of, so that nobody can make a session's id as long as they like."""
    if not capabilities:
        return frozenset()
    features = {name for name in ("roots", "sampling") if isinstance(capabilities.get(name), dict)}
    elicitation = capabilities.get("elicitation")
    if isinstance(elicitation, dict) and protocol.has_elicitation(version):
        # Forms came first: a client that says nothing more can show those.
        if "form" in elicitation or "url" not in elicitation:
            features.add("elicitation")
        if "url" in elicitation and protocol.has_url_elicitation(version):
            features.add("elicitation.url")
    return frozenset(features)
