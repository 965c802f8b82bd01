"""Sign values that clients and browsers send back to us, so that no process has to store them."""

from __future__ import annotations

import functools
import hashlib
import time
from typing import Any

from flask import current_app
from itsdangerous import BadData, URLSafeSerializer

from ..oauth.metadata import public_url

CLIENT, CONSENT, CODE, ACCESS, REFRESH = "client", "consent", "code", "access", "refresh"
"""The purposes of signatures. A signature is valid for its purpose only."""


def sign(purpose: str, *values: Any) -> str:
    """Serialise and sign values. The same values always give the same text."""
    return _serializer(purpose).dumps(values)


def unsign(purpose: str, text: str | None) -> list[Any] | None:
    """Return the values of a text of `sign`; ``None`` if the signature is not valid."""
    try:
        values: list[Any] = _serializer(purpose).loads(text or "")
    except (BadData, UnicodeError):
        return None
    return values


def sign_for(seconds: float, purpose: str, *values: Any) -> str:
    """Serialise and sign values, with an expiry."""
    return sign(purpose, *values, int(time.time() + seconds))


def unsign_in_time(purpose: str, text: str | None) -> list[Any] | None:
    """Return the values of a text of `sign_for`; ``None`` if the signature is not valid, or the text has expired."""
    values = unsign(purpose, text)
    if values is None or values[-1] <= time.time():
        return None
    return values[:-1]


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _serializer(purpose: str) -> URLSafeSerializer:
    fallbacks = current_app.config.get("SECRET_KEY_FALLBACKS") or ()
    return _make_serializer(purpose, public_url(), (*fallbacks, current_app.secret_key))


@functools.lru_cache(maxsize=64)
def _make_serializer(purpose: str, issuer: str, keys: tuple[Any, ...]) -> URLSafeSerializer:
    # The issuer is in the salt, because another app may have the same key. The last key signs, and all of them verify.
    salt = f"flask_jsonrpc_mcp.oauth_server {purpose} {issuer}"
    return URLSafeSerializer(list(keys), salt=salt, signer_kwargs={"digest_method": hashlib.sha256})
