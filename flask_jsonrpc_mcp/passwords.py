"""Passwords that were right a moment ago: so that a slow hash is not paid for with every request."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable


class CachedPasswords:
    """Remembers for a short time that a password fits a hash. Use it in place of ``check_password_hash``.

    ::

        check_password = CachedPasswords(check_password_hash)

        @auth.verify_password
        def verify(username, password):
            user = find_user(username)
            if user and check_password(user.password_hash, password):
                return user

    A hash such as scrypt costs a tenth of a second of CPU by design; with this, a client pays it once per ``max_age``
    and process. What is remembered is a keyed digest of hash and password, under a key that this process made up and
    never shows: neither can be read back from it. A new password has a new hash, so a changed one is never taken for
    the old one. Wrong passwords are not remembered, and cost the full work every time.

    :param check: What compares a stored hash with a password.
    :param max_age: For how many seconds a password is remembered after it was checked.
    :param max_size: How many are remembered at most.
    :param at_once: How many slow checks may run at the same time; each takes its share of CPU and memory.
    """

    def __init__(
        self,
        check: Callable[[str, str], bool],
        *,
        max_age: float = 60,
        max_size: int = 1024,
        at_once: int = 4,
    ) -> None:
        if max_age <= 0 or max_size < 1 or at_once < 1:
            raise ValueError("max_age, max_size and at_once must be greater than zero")
        self._check = check
        self._max_age = max_age
        self._max_size = max_size
        self._slots = threading.BoundedSemaphore(at_once)
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, float] = OrderedDict()

    def __call__(self, password_hash: str, password: str) -> bool:
        """Tell whether a password fits a hash."""
        digest = self._digest(password_hash, password)
        if self._is_known(digest):
            return True
        with self._slots:
            if self._is_known(digest):
                return True  # someone else has checked it while we waited
            if not self._check(password_hash, password):
                return False
            self._remember(digest)
        return True

    def _digest(self, password_hash: str, password: str) -> bytes:
        # The length keeps ("a", "bc") and ("ab", "c") apart.
        content = f"{len(password_hash)}:{password_hash}{password}".encode("utf-8", "surrogatepass")
        # HMAC would take five times as long, and keeps those from going on who have seen a digest: nobody has.
        return hashlib.sha256(self._key + content).digest()

    def _is_known(self, digest: bytes) -> bool:
        expires = self._known.get(digest)
        return expires is not None and time.monotonic() < expires

    def _remember(self, digest: bytes) -> None:
        with self._lock:
            self._known[digest] = time.monotonic() + self._max_age
            self._known.move_to_end(digest)
            while len(self._known) > self._max_size:
                self._known.popitem(last=False)
