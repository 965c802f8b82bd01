"""An authorization server of our own for tests, on a loopback port: its metadata, keys and introspection.

It has no pages to sign in. But it can be down, slow and wrong in many ways, and it knows what it was asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.support.servers import free_port
from tests.support.tokens import Signer, make_claims, private_key

METADATA = "/.well-known/oauth-authorization-server"
JWKS = "/jwks"
INTROSPECTION = "/introspect"


@dataclass(frozen=True)
class Answer:
    """What the server answers with."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        handler.send_response(self.status)
        for name, value in {"Content-Type": "application/json", **self.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


Reply = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Asked:
    """One request that came in."""

    path: str
    headers: Mapping[str, str]
    form: Mapping[str, list[str]]


class Issuer:
    """An authorization server with one key of each kind.

    :param path: The path of its issuer identifier.
    """

    def __init__(self, path: str = "", number: int = 0) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}{path}"
        self.asked: list[Asked] = []
        self.rsa = Signer("rsa-1", "RS256", private_key("RS256", number))
        self.ec = Signer("ec-1", "ES256", private_key("ES256", number))
        self.ed = Signer("ed-1", "EdDSA", private_key("EdDSA", number))
        self.keys = [self.rsa.jwk(), self.ec.jwk(), self.ed.jwk(alg=None)]  # EdDSA has two names
        self.max_age: int | None = None
        self.metadata: dict[str, Any] = {
            "issuer": self.url,
            "jwks_uri": f"http://127.0.0.1:{self.port}{JWKS}",
            "introspection_endpoint": f"http://127.0.0.1:{self.port}{INTROSPECTION}",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        self.metadata_path = f"{METADATA}{path}"
        self.replies: dict[str, Reply] = {}
        """What to do instead of the right thing, by path."""
        self.introspected: dict[str, Any] = {}
        """What introspection says, by token; every other one is inactive."""
        self.released = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    def token(self, **claims: Any) -> str:
        """A good token, with these claims changed."""
        return self.rsa.token(make_claims(self.url, **claims))

    def answer(self, path: str, body: Any, status: int = 200, **headers: str) -> None:
        """Answer requests for a path with this from now on."""
        self.replies[path] = Answer(body, status, {name.replace("_", "-"): headers[name] for name in headers}).send

    def count(self, path: str = JWKS) -> int:
        """How often a path was asked for."""
        return sum(asked.path == path for asked in self.asked)

    def rotate(self, signer: Signer) -> Signer:
        """Publish another key in the place of the RSA key, and sign with it."""
        self.keys[0], self.rsa = signer.jwk(), signer
        return signer

    def start(self) -> None:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer._respond(self)

            def do_POST(self) -> None:
                issuer._respond(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.released.clear()
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        self.released.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def stall(self, handler: BaseHTTPRequestHandler) -> None:
        """A reply that does not come before the server is stopped."""
        self.released.wait()

    def _respond(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        form = parse_qs(handler.rfile.read(length).decode())
        self.asked.append(Asked(handler.path, dict(handler.headers), form))
        reply = self.replies.get(handler.path)
        try:
            if reply is not None:
                reply(handler)
            else:
                self._right_answer(handler.path, form).send(handler)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has heard enough

    def _right_answer(self, path: str, form: Mapping[str, list[str]]) -> Answer:
        if path == self.metadata_path:
            return Answer(self.metadata)
        if path == JWKS:
            return Answer({"keys": self.keys}, headers=self._cache_headers)
        if path == INTROSPECTION:
            return Answer(self.introspected.get(form["token"][0], {"active": False}))
        return Answer({"error": "not_found"}, 404)

    @property
    def _cache_headers(self) -> dict[str, str]:
        return {} if self.max_age is None else {"Cache-Control": f"max-age={self.max_age}"}


@contextmanager
def issuing(path: str = "", number: int = 0) -> Iterator[Issuer]:
    """Run an authorization server until the block is left."""
    issuer = Issuer(path, number)
    issuer.start()
    try:
        yield issuer
    finally:
        issuer.stop()


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A reply of a gigabyte, sent until the client closes the connection."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(2**30))
    handler.end_headers()
    handler.wfile.write(b'{"keys": [')
    for _ in range(2**30 // 2**16):
        handler.wfile.write(b" " * 2**16)
