"""Fetch the document of a client whose id is a URL, but never from this machine or a private network.

https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from authlib.oauth2 import OAuth2Error
from flask import current_app

from ..oauth.authorization_server import Document, ServerFailure, fetch
from .app_clients import Client, RedirectRules, read_registration

MAX_BYTES = 5 * 1024
MIN_AGE, MAX_AGE = 5 * 60, 24 * 3600
"""Limits, in seconds, for how long a document is cached. Within them, its ``max-age`` decides."""
STALE = 7 * 24 * 3600
"""Seconds for which a cached document is used while it cannot be fetched again."""
PAUSE = 30
"""Seconds between a failure and the next try."""
MAX_DOCUMENTS = 256

_URL = re.compile(r"https://[a-z0-9.:\[\]-]+/[!$-\[\]-~]+", re.ASCII | re.IGNORECASE)
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})", re.IGNORECASE)
# IPv6 addresses that contain an IPv4 address, to which a gateway forwards, and those that are global in older Pythons.
_REFUSED = [
    ipaddress.ip_network(each)
    for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "192.0.0.0/24", "192.88.99.0/24")
]


@dataclass
class _Copy:
    """The cached client of a document; ``None`` if the document was never usable."""

    client: Client | None = None
    fetched_at: float = 0
    next_fetch: float = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class ClientDocuments:
    """Fetches documents, and caches them in this process."""

    def __init__(self) -> None:
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, client_id: str, rules: RedirectRules) -> Client | None:
        """Return the client whose document is at the URL ``client_id``; ``None`` if the document cannot be used."""
        if not is_document_url(client_id):
            return None
        with self._lock:
            copy = self._copies.setdefault(client_id, _Copy())
            self._copies.move_to_end(client_id)
            if len(self._copies) > MAX_DOCUMENTS:
                self._copies.popitem(last=False)
        # One thread fetches. The others use the cached copy, or wait if there is none.
        if copy.lock.acquire(blocking=copy.client is None):
            try:
                if time.monotonic() >= copy.next_fetch:
                    self._fetch(client_id, rules, copy)
            finally:
                copy.lock.release()
        return copy.client if time.monotonic() < copy.fetched_at + STALE else None

    def _fetch(self, client_id: str, rules: RedirectRules, copy: _Copy) -> None:
        copy.next_fetch = time.monotonic() + PAUSE
        try:
            document = fetch(client_id, address=public_address(client_id), max_bytes=MAX_BYTES)
            client = _read(client_id, document, rules)
        except (ServerFailure, OAuth2Error) as failure:
            facts = {"reason": str(failure)}
            current_app.logger.warning("the document of an OAuth client cannot be used: %(reason)s", facts, extra=facts)
            return
        now = time.monotonic()
        found = _MAX_AGE.search(document.headers.get("Cache-Control", ""))
        age = int(found[1]) if found else 0
        copy.client, copy.fetched_at, copy.next_fetch = client, now, now + min(max(age, MIN_AGE), MAX_AGE)


def is_document_url(client_id: str) -> bool:
    """Whether a client id can be the URL of a document: https, with a path, no user, fragment or dots in the path."""
    if len(client_id) > 1000 or not _URL.fullmatch(client_id):
        return False
    try:
        url = urlsplit(client_id)
        name, _ = url.hostname, url.port
    except ValueError:
        return False
    dots = {".", "..", "%2e", "%2e%2e", ".%2e", "%2e."}
    return bool(name) and dots.isdisjoint(url.path.lower().split("/"))


def public_address(url: str) -> str:
    """Resolve the host of a URL, and return an address to connect to.

    All addresses of the host must be public. Connect to the returned one: the next lookup may return another.

    :raises ServerFailure: if the host has no address, or one of this machine or of a private network.
    """
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ServerFailure(f"{url} cannot be resolved: {error}") from error
    addresses = [str(answer[4][0]) for answer in found]
    if not addresses or not all(map(_is_public, addresses)):
        raise ServerFailure(f"{url} is not on the internet: its host has the address {', '.join(addresses)}")
    return addresses[0]


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # with a zone, such as fe80::1%eth0
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    return address.is_global and not any(address in network for network in _REFUSED)


def _read(client_id: str, document: Document, rules: RedirectRules) -> Client:
    if document.members.get("client_id") != client_id:
        raise ServerFailure(f"{client_id} has another client_id than its own URL", 200)
    if document.members.get("token_endpoint_auth_method", "none") != "none":
        raise ServerFailure(
            f"{client_id} has a token_endpoint_auth_method other than 'none', which this server does not support", 200
        )
    return replace(read_registration(document.members, rules), client_id=client_id, is_proven=True)
