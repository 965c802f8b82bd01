"""What leaves the server and must come back unaltered: signed with the app's ``SECRET_KEY``."""

from __future__ import annotations

import functools

from itsdangerous import URLSafeTimedSerializer

from ..current import this_app


def signer(salt: str) -> URLSafeTimedSerializer:
    """Find what signs and checks things of one kind."""
    app = this_app()
    # The newest key last: it signs, and the others are still believed.
    return _signer(salt, (*(app.config.get("SECRET_KEY_FALLBACKS") or ()), app.secret_key))


@functools.lru_cache(maxsize=32)
def _signer(salt: str, keys: tuple[str | bytes | None, ...]) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(list(keys), salt=salt)  # type: ignore[arg-type]
