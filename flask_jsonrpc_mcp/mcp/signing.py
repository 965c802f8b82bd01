"""What leaves the server and must come back unaltered: signed with the app's ``SECRET_KEY``."""

from __future__ import annotations

from flask import current_app
from itsdangerous import URLSafeTimedSerializer


def signer(salt: str) -> URLSafeTimedSerializer:
    """Make what signs and checks things of one kind."""
    # The newest key last: it signs, and the others are still believed.
    keys = [*(current_app.config.get("SECRET_KEY_FALLBACKS") or []), current_app.secret_key]
    return URLSafeTimedSerializer(keys, salt=salt)
