"""OAuth clients. They are not stored: a client's id is the URL of a document about it, or its signed registration.

Documents are fetched from the internet only, and never from this machine or a private network.

https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/, and RFC 7591
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import ClientMixin
from flask import current_app

from ..oauth.authorization_server import Document, ServerFailure, fetch
from ..origins import host_name, is_loopback
from ..problems import is_visible
from .signed import CLIENT, sign, unsign

MAX_REDIRECTS = 10
MAX_REDIRECT_LENGTH = 500
MAX_NAME_LENGTH = 60
MAX_ID_LENGTH = 1500
"""Maximum characters of a client id that contains a registration: it is sent in URLs, which servers limit to 4 kB."""

MAX_BYTES = 5 * 1024
MIN_AGE, MAX_AGE = 5 * 60, 24 * 3600
"""Limits, in seconds, for how long a document is cached. Within them, its ``max-age`` decides."""
STALE = 7 * 24 * 3600
"""Seconds for which a cached document is used while it cannot be fetched again."""
PAUSE = 30
"""Seconds between a failure and the next try."""
MAX_DOCUMENTS = 256

GRANT_TYPES = ("authorization_code", "refresh_token")

_URL = re.compile(r"[a-z][a-z0-9+.-]*:[!$-\[\]-~]+", re.ASCII | re.IGNORECASE)  # no "#", no quotes, no backslash
_HOST = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]", re.ASCII | re.IGNORECASE)
_DOCUMENT_URL = re.compile(r"https://[a-z0-9.:\[\]-]+/[!$-\[\]-~]+", re.ASCII | re.IGNORECASE)
# IPv6 addresses that contain an IPv4 address, to which a gateway forwards, and those that are global in older Pythons.
_REFUSED = [
    ipaddress.ip_network(each)
    for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "192.0.0.0/24", "192.88.99.0/24")
]


# Authlib has these two errors in rfc7591, which imports cryptography: 8 MB in each worker that no token of ours needs.
class InvalidClientMetadataError(OAuth2Error):  # type: ignore[misc] # Authlib has no types
    """The metadata of a client cannot be used (RFC 7591, section 3.2.2)."""

    error = "invalid_client_metadata"


class InvalidRedirectURIError(OAuth2Error):  # type: ignore[misc] # Authlib has no types
    """A redirect URI of a client is not allowed (RFC 7591, section 3.2.2)."""

    error = "invalid_redirect_uri"


@dataclass(frozen=True)
class Client(ClientMixin):  # type: ignore[misc] # Authlib has no types
    """A public client: it has no secret.

    :param is_proven: Whether its document was fetched from the URL that is its id. The name of any other client is
        only what it calls itself.
    """

    client_id: str
    name: str
    redirect_uris: tuple[str, ...] = ()
    is_proven: bool = False

    @property
    def host(self) -> str:
        """The host of its document."""
        return urlsplit(self.client_id).hostname or ""

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> None:
        return None

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Whether a redirect URI is registered. On the user's own machine, ports may differ (RFC 8252, section 7.3)."""
        return any(
            redirect_uri == each or (is_local(each) and _without_port(redirect_uri) == _without_port(each))
            for each in self.redirect_uris
        )

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in GRANT_TYPES


@dataclass(frozen=True)
class RedirectRules:
    """Which redirect URIs clients may register.

    :param hosts: Their hosts; ``None`` for all.
    :param schemes: Private schemes, of programs on the user's own machine.
    """

    hosts: frozenset[str] | None
    schemes: frozenset[str]

    def allow(self, redirect_uri: str) -> bool:
        """Whether a redirect URI is https, http on the user's own machine, or has one of the private schemes."""
        if len(redirect_uri) > MAX_REDIRECT_LENGTH or not _URL.fullmatch(redirect_uri):
            return False
        try:
            url = urlsplit(redirect_uri)
            name, _ = url.hostname or "", url.port
        except ValueError:
            return False
        if url.scheme in self.schemes:
            return True
        if not _HOST.fullmatch(url.netloc.rpartition(":")[0] if url.port else url.netloc):
            return False
        if self.hosts is not None and name not in self.hosts:
            return False
        return url.scheme == "https" or is_local(redirect_uri)


def is_local(redirect_uri: str) -> bool:
    """Whether a redirect URI is http on the user's own machine."""
    url = urlsplit(redirect_uri)
    return url.scheme == "http" and is_loopback(url.hostname or "")


def _without_port(redirect_uri: str) -> tuple[str, ...]:
    url = urlsplit(redirect_uri)
    return url.scheme, host_name(url.netloc), url.path, url.query


def read_registration(metadata: Any, rules: RedirectRules) -> Client:
    """Build a client from its metadata, which it sends to register or publishes as a document.

    :raises OAuth2Error: if the metadata cannot be used.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidClientMetadataError("The metadata must be a JSON object.")
    redirect_uris = metadata.get("redirect_uris")
    if not isinstance(redirect_uris, list) or not 1 <= len(redirect_uris) <= MAX_REDIRECTS:
        raise InvalidRedirectURIError(f"redirect_uris must be a list of 1 to {MAX_REDIRECTS} URLs.")
    if not all(isinstance(each, str) and rules.allow(each) for each in redirect_uris):
        raise InvalidRedirectURIError(
            "A redirect URI must be https without a fragment, http on localhost, or of a scheme that this server knows."
        )
    for member, needed in (("grant_types", "authorization_code"), ("response_types", "code")):
        offered = metadata.get(member)
        if offered is not None and (not isinstance(offered, list) or needed not in offered):
            raise InvalidClientMetadataError(f"{member} must include '{needed}'.")
    name = metadata.get("client_name")
    return Client("", shown_name(name if isinstance(name, str) else ""), tuple(redirect_uris))


def register(metadata: Any, rules: RedirectRules) -> dict[str, Any]:
    """Return the response to a registration (RFC 7591, section 3.2.1): the metadata, and the id of the client.

    :raises OAuth2Error: if the metadata cannot be used.
    """
    client = read_registration(metadata, rules)
    client_id = sign(CLIENT, client.name, *client.redirect_uris)
    if len(client_id) > MAX_ID_LENGTH:
        raise InvalidRedirectURIError("The redirect URIs are too long.")
    return {
        "client_id": client_id,
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": list(GRANT_TYPES),
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def read_client_id(client_id: str) -> Client | None:
    """Read the registration in a client id; ``None`` if this server has not signed it."""
    registered = unsign(CLIENT, client_id) if len(client_id) <= MAX_ID_LENGTH else None
    if registered is None:
        return None
    name, *redirect_uris = registered
    return Client(client_id, name, tuple(redirect_uris))


def shown_name(name: str) -> str:
    """Return a name that a page can show: one short line of visible characters."""
    text = "".join(each if is_visible(each) else " " for each in name[: 10 * MAX_NAME_LENGTH])
    words = " ".join(text.split())
    return words if len(words) <= MAX_NAME_LENGTH else words[: MAX_NAME_LENGTH - 1] + "…"


def checked_schemes(schemes: Collection[str]) -> frozenset[str]:
    """Check the private schemes of redirect URIs.

    :raises ValueError: if one is malformed, or is not private, such as ``http`` or ``javascript``.
    """
    for scheme in schemes:
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) or scheme in _OTHER_SCHEMES:
            raise ValueError(f"redirect_schemes: {scheme!r} is not a private scheme, such as 'vscode'")
    return frozenset(schemes)


_OTHER_SCHEMES = ("http", "https", "javascript", "data", "vbscript", "file", "blob", "about", "ftp", "ws", "wss")


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
        age = min(max(document.max_age or 0, MIN_AGE), MAX_AGE)
        copy.client, copy.fetched_at, copy.next_fetch = client, now, now + age


def is_document_url(client_id: str) -> bool:
    """Whether a client id can be the URL of a document: https, with a path, no user, fragment or dots in the path."""
    if len(client_id) > 1000 or not _DOCUMENT_URL.fullmatch(client_id):
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
