"""`CachedPasswords`: check a slow password hash once, and not with every request."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable


class CachedPasswords:
    """Caches for a short time that a password matches a hash. Use it in place of ``check_password_hash``.

    ::

        check_password = CachedPasswords(check_password_hash)

        @auth.verify_password
        def verify(username, password):
            user = find_user(username)
            if user and check_password(user.password_hash, password):
                return user

    A hash such as scrypt costs a tenth of a second of CPU by design; with this, a client pays it once per ``max_age``
    and process. The cache holds keyed digests of hash and password, under a random key of this process. A new password
    has a new hash, so the old one stops matching at once. Wrong passwords are not cached.

    :param check: Compares a stored hash with a password, such as werkzeug's ``check_password_hash``.
    :param max_age: For how many seconds a match is cached.
    :param max_size: Maximum number of cached matches.
    :param at_once: How many checks may run at the same time; each takes CPU and memory.
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
        """Whether a password matches a hash."""
        digest = self._digest(password_hash, password)
        if self._is_known(digest):
            return True
        with self._slots:
            if self._is_known(digest):
                return True  # another thread has checked it while this one waited
            if not self._check(password_hash, password):
                return False
            self._remember(digest)
        return True

    def _digest(self, password_hash: str, password: str) -> bytes:
        # The length keeps ("a", "bc") and ("ab", "c") apart.
        content = f"{len(password_hash)}:{password_hash}{password}".encode("utf-8", "surrogatepass")
        # Not an HMAC, which resists length extension but takes five times as long: the digests never leave the process.
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
