"""Tries to sign in, as anyone could: with what everyone knows, and for a few seconds only."""

from __future__ import annotations

import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPTokenAuth

from ..errors import Unauthorized, one_line
from ..local_requests import local_request
from .findings import Place

SECONDS = 10.0
"""How long one check may take: a password costs a tenth of a second of hashing, and a database may not answer."""

PASSWORDS = (
    ("admin", "admin"),
    ("admin", "password"),
    ("admin", "secret"),
    ("admin", "changeme"),
    ("admin", "123456"),
    ("editor", "editor"),
    ("user", "user"),
    ("user", "password"),
    ("test", "test"),
    ("demo", "demo"),
    ("guest", "guest"),
    ("root", "root"),
)
TOKENS = ("token", "secret", "admin", "test", "demo", "changeme")


def known_passwords(place: Place) -> list[str]:
    """Find out which of the passwords and tokens that everyone knows are good here."""
    found: dict[str, str] = {}

    def look(attempts: _Attempts) -> None:
        for header, name, secret in _credentials(place, PASSWORDS, TOKENS):
            if attempts.over:
                return
            if name not in found and attempts.signs_in(header):
                found[name] = f"anyone can sign in {name}{secret}"

    _Attempts(place, SECONDS).run(look)
    return list(found.values())


def failing_sign_in(place: Place) -> list[str]:
    """Find out whether the app's own callback can be asked at all."""
    nobodys = secrets.token_urlsafe()

    def look(attempts: _Attempts) -> None:
        for header, _, _ in _credentials(place, [("nobody", nobodys)], [nobodys]):
            attempts.signs_in(header)

    attempts = _Attempts(place, SECONDS)
    if not attempts.run(look):
        return [f"who signs in waits: the callback that verifies credentials has not answered in {SECONDS:g} seconds"]
    if attempts.error is None:
        return []
    error = one_line(f"{type(attempts.error).__name__}: {attempts.error}", 200)
    return [f"who signs in is answered with 500: the callback that verifies credentials raises {error}"]


@dataclass
class _Attempts:
    """Attempts to sign in, in a thread that nobody waits for too long."""

    place: Place
    seconds: float
    error: Exception | None = None
    _end: float = field(default=0.0, init=False)

    @property
    def over(self) -> bool:
        return self.error is not None or time.monotonic() > self._end

    def run(self, look: Callable[[_Attempts], None]) -> bool:
        """Look; tell whether it came to an end in time."""
        self._end = time.monotonic() + self.seconds
        thread = threading.Thread(target=look, args=(self,), daemon=True)
        thread.start()
        thread.join(self.seconds)
        return not thread.is_alive()

    def signs_in(self, header: dict[str, str]) -> bool:
        try:
            with local_request(self.place.app, header):
                return not self.place.core.authenticator.identify().anonymous
        except Unauthorized:
            return False
        except Exception as error:  # the app's own callback runs here
            self.error = error
            return False


def _credentials(
    place: Place, passwords: Iterable[tuple[str, str]], tokens: Iterable[str]
) -> Iterator[tuple[dict[str, str], str, str]]:
    """List headers to try, and how to tell of them."""
    for auth in place.core.authenticator.auths:
        if isinstance(auth, HTTPBasicAuth):
            for username, password in passwords:
                encoded = b64encode(f"{username}:{password}".encode()).decode()
                yield _header(auth, "Basic", encoded), f"as {username!r}", f" with the password {password!r}"
        elif isinstance(auth, HTTPTokenAuth):
            for token in tokens:
                yield _header(auth, auth.scheme, token), f"with the token {token!r}", ""


def _header(auth: HTTPAuth, scheme: str, credentials: str) -> dict[str, str]:
    if auth.header is None or auth.header == "Authorization":
        return {"Authorization": f"{scheme} {credentials}"}
    return {auth.header: credentials}
