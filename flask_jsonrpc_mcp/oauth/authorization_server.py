"""Send requests to an authorization server, and discover its metadata (RFC 8414, OpenID Connect Discovery)."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from ..errors import MAX_QUOTED, ParseError, one_line
from ..origins import is_secure_url
from ..strict_json import read
from ..version import __version__

TIMEOUT = 5.0
"""Seconds that one request may take."""

MAX_BYTES = 256 * 1024
"""Maximum size of a response."""


class ServerFailure(Exception):
    """The authorization server cannot be reached, or its response cannot be used. The text is for the log.

    :param status: The HTTP status, if there was a response.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(one_line(reason, 2 * MAX_QUOTED))
        self.status = status


@dataclass(frozen=True)
class Document:
    """A JSON object that the server sent."""

    members: Mapping[str, Any]
    headers: httpx.Headers


def fetch(url: str, form: Mapping[str, str] | None = None, authorization: str | None = None) -> Document:
    """Send a request, and parse the response.

    :param form: What to POST; ``None`` for a GET.
    :raises ServerFailure: unless the response is 200 with a JSON object.
    """
    deadline = time.monotonic() + TIMEOUT
    headers = {} if authorization is None else {"Authorization": authorization}
    received = bytearray()
    try:
        with _client().stream("GET" if form is None else "POST", url, data=form, headers=headers) as response:
            status = response.status_code
            if status != 200:
                raise ServerFailure(f"{url} answered with {status}", status)
            for chunk in response.iter_raw():
                received += chunk
                if len(received) > MAX_BYTES:
                    raise ServerFailure(f"{url} answered with more than {MAX_BYTES} bytes", status)
                # The timeout of httpx is for each read, so a server that sends byte by byte never exceeds it.
                if time.monotonic() > deadline:
                    raise ServerFailure(f"{url} took more than {TIMEOUT:g} seconds")
            members = read(bytes(received))
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ServerFailure(f"{url} cannot be reached: {type(error).__name__}: {error}") from error
    except ParseError as error:
        raise ServerFailure(f"{url} answered with something that is not JSON", status) from error
    if not isinstance(members, dict):
        raise ServerFailure(f"{url} answered with something that is not a JSON object", status)
    return Document(members, response.headers)


@functools.cache
def _client() -> httpx.Client:
    # Connections are not kept: an idle one may be closed at the moment it is reused, or belong to a parent process.
    return httpx.Client(
        timeout=TIMEOUT,
        follow_redirects=False,
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"flask-jsonrpc-mcp/{__version__}",
        },
    )


def discover(issuer: str) -> Mapping[str, Any]:
    """Return the metadata of an authorization server, from the first URL that has it.

    :raises ServerFailure: if there is none, or it names another issuer.
    """
    reasons = []
    for url in metadata_urls(issuer):
        try:
            metadata = fetch(url).members
        except ServerFailure as failure:
            if failure.status is None:
                raise  # the other URLs are on the same server
            reasons.append(str(failure))
            continue
        if metadata.get("issuer") == issuer:
            return metadata
        reasons.append(f"{url} is the metadata of the issuer {metadata.get('issuer')!r}, not of {issuer!r}")
    raise ServerFailure("; ".join(reasons), 200)


def metadata_urls(issuer: str) -> Iterator[str]:
    """Yield the URLs that may have the metadata: of RFC 8414, and two of OpenID Connect."""
    url = urlsplit(issuer)
    origin, path = f"{url.scheme}://{url.netloc}", url.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


def endpoint_in(metadata: Mapping[str, Any], member: str) -> str:
    """Return a URL of the metadata.

    :raises ServerFailure: if it is missing, or neither https nor on this machine.
    """
    url = metadata.get(member)
    if not isinstance(url, str) or not is_secure_url(url):
        raise ServerFailure(
            f"the metadata of {metadata.get('issuer')} has the {member} {url!r}, which is not https", 200
        )
    return url
