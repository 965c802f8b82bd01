"""Hostile requests: valid ones of each face, damaged in every way a generator can think of, the same for one seed."""

from __future__ import annotations

import io
import json
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from flask import Flask
from werkzeug.datastructures import Headers
from werkzeug.test import run_wsgi_app

from tests.support.hostile_values import BYTES, FRAMINGS, HEADERS, STARTS, TEXTS, VALUES, VERBS

Pairs = tuple[tuple[str, str], ...]

LOCAL, REMOTE = "127.0.0.1", "93.184.216.34"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Sent:
    """A request as a WSGI server hands it over, which may be one that no client library would send."""

    verb: str
    path: str
    query: str = ""
    headers: Pairs = (("Host", "localhost"),)
    body: bytes = b""
    peer: str = LOCAL

    def to(self, app: Flask) -> Answer:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": self.verb,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(self.path).decode("latin-1"),
            "QUERY_STRING": _as_bytes(self.query),
            "REMOTE_ADDR": self.peer,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(self.body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(self.body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        for name, value in self.headers:
            key = name.upper().replace("-", "_")
            key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
            repeated = key.startswith("HTTP_") and key in environ
            environ[key] = f"{environ[key]},{_as_bytes(value)}" if repeated else _as_bytes(value)
        chunks, status, headers = run_wsgi_app(app.wsgi_app, environ, buffered=True)
        return Answer(int(status.split()[0]), headers, b"".join(chunks))

    def raw(self) -> bytes:
        """The same on the wire."""
        target = self.path + (f"?{self.query}" if self.query else "")
        headers = [*self.headers, ("Content-Length", str(len(self.body)))]
        lines = [f"{self.verb} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        return "\r\n".join(lines).encode("latin-1", "replace") + self.body

    def without(self, name: str) -> Sent:
        return replace(self, headers=tuple(pair for pair in self.headers if pair[0].lower() != name.lower()))

    def having(self, name: str, value: str) -> Sent:
        return replace(self.without(name), headers=(*self.without(name).headers, (name, value)))


def _as_bytes(text: str) -> str:
    """Spell a text as WSGI does: one character for each byte."""
    return text if all(ord(character) < 256 for character in text) else text.encode("utf-8").decode("latin-1")


def post(path: str, payload: Any, **headers: str) -> Sent:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    headers_ = (("Host", "localhost"), ("Content-Type", "application/json"), *named)
    return Sent("POST", path, headers=headers_, body=json.dumps(payload).encode())


def get(path: str, **query: str) -> Sent:
    return Sent("GET", path, "&".join(f"{name}={quote(value)}" for name, value in query.items()))


def exchange(port: int, raw: bytes) -> bytes:
    """Send all there is, say that there is no more, and read until the server has closed."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            raise
        except OSError:
            pass  # refused before it was all sent or read
    return answer


class Attacker:
    """Makes hostile requests of valid ones.

    :param seeds: Valid requests of one face.
    :param free_path: Whether everything below the directory of a path belongs to the face too.
    """

    def __init__(self, seeds: list[Sent], seed: int, *, free_path: bool = False) -> None:
        self._random = random.Random(seed)
        self._seeds = seeds
        self._damages: list[Callable[[Sent], Sent]] = [
            self._damage_body,
            self._damage_body,
            self._damage_value,
            self._damage_value,
            self._damage_header,
            self._damage_header,
            self._drop_header,
            self._repeat_header,
            self._damage_query,
            self._change_verb,
        ]
        if free_path:
            self._damages.append(self._damage_path)

    def attack(self) -> Sent:
        """Make one request."""
        sent = self._random.choice(self._seeds)
        for _ in range(self._random.choice([1, 1, 1, 2, 3])):
            sent = self._random.choice(self._damages)(sent)
        return replace(sent, peer=self._random.choice([LOCAL, LOCAL, REMOTE]))

    def attack_framing(self) -> bytes:
        """Make what is hardly HTTP: a request with broken framing, or with any byte of it broken."""
        raw = self.attack().having("Host", "localhost").raw()
        kind = self._random.randrange(4)
        if kind == 0:
            line, rest = raw.split(b"\r\n", 1)
            return line + b"\r\n" + self._random.choice(FRAMINGS) + rest
        if kind == 1:
            return self._random.choice(STARTS) + raw
        return self._damage_bytes(raw) if kind == 2 else raw[: self._random.randint(0, len(raw))]

    def _damage_bytes(self, content: bytes) -> bytes:
        """Flip, cut, duplicate, splice or insert."""
        rng = self._random
        first, second = sorted((rng.randint(0, len(content)), rng.randint(0, len(content))))
        kind = rng.randrange(6)
        if kind == 0 and content:
            position = rng.randrange(len(content))
            return content[:position] + bytes([content[position] ^ (1 << rng.randrange(8))]) + content[position + 1 :]
        if kind == 1:
            return content[:first]
        if kind == 2:
            return content[:second] + content[first:second] * rng.choice([1, 2, 50]) + content[second:]
        if kind == 3:
            other = rng.choice(self._seeds).body
            return content[:first] + other[rng.randint(0, len(other)) :]
        if kind == 4:
            return content[:first] + content[second:]
        return content[:first] + rng.choice(BYTES) + content[first:]

    def _damage_body(self, sent: Sent) -> Sent:
        return replace(sent, body=self._damage_bytes(sent.body))

    def _damage_value(self, sent: Sent) -> Sent:
        """Put a hostile value in the place of one in the JSON of a body or a query."""
        try:
            text = sent.body.decode() or unquote_to_bytes(sent.query.partition("=")[2]).decode()
            document = json.loads(text)
        except (ValueError, RecursionError):
            return self._damage_body(sent)
        mark = "the place of the hostile value"
        altered = json.dumps(self._replaced(document, mark)).replace(f'"{mark}"', self._random.choice(VALUES))
        if sent.body:
            return replace(sent, body=altered.encode("utf-8", "surrogatepass"))
        return replace(sent, query=f"{sent.query.partition('=')[0]}={quote(altered, errors='surrogatepass')}")

    def _replaced(self, value: Any, mark: str) -> Any:
        if not isinstance(value, (dict, list)) or not value or self._random.random() < 0.15:
            return mark
        chosen = self._random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        copy[chosen] = self._replaced(value[chosen], mark)
        return copy

    def _damage_header(self, sent: Sent) -> Sent:
        sent_ones = [name for name, _ in sent.headers if name in HEADERS]
        name = self._random.choice(self._random.choice([sent_ones or list(HEADERS), list(HEADERS)]))
        texts = [] if name == "Host" else self._random.sample(TEXTS, 2)
        return sent.having(name, self._random.choice(HEADERS[name] + texts))

    def _drop_header(self, sent: Sent) -> Sent:
        return sent.without(self._random.choice(sent.headers)[0]) if sent.headers else sent

    def _repeat_header(self, sent: Sent) -> Sent:
        if not sent.headers:
            return sent
        name, value = self._random.choice(sent.headers)
        return replace(sent, headers=(*sent.headers, (name, self._random.choice([value, "x", ""]))))

    def _damage_query(self, sent: Sent) -> Sent:
        name = self._random.choice(["query", "name", "cursor", "access_token", "", "query[]"])
        extra = f"{name}={self._random.choice([*TEXTS, *(quote(value[:3000], errors='ignore') for value in VALUES)])}"
        damaged = self._damage_bytes(sent.query.encode("latin-1", "replace")).decode("latin-1")
        return replace(sent, query=self._random.choice([extra, f"{sent.query}&{extra}", damaged, f"{extra};{damaged}"]))

    def _change_verb(self, sent: Sent) -> Sent:
        return replace(sent, verb=self._random.choice(VERBS))

    def _damage_path(self, sent: Sent) -> Sent:
        folder, _, name = sent.path.rpartition("/")
        damaged = self._damage_bytes(name.encode()).decode("latin-1")
        name = self._random.choice([*TEXTS, damaged, f"{name}/{name}", f"{name}/", "list", "invoke", "describe"])
        # Not with a line break: Flask finds no rule for such a path, and answers by itself.
        return replace(sent, path=f"{folder}/{quote(name.replace(chr(10), ''))}")
