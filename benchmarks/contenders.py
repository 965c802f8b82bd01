"""Who is measured, where it runs, and what it is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import basic
from tests.support import faces
from tests.support.faces import Asked
from tests.support.tokens import Signer, bearer, make_claims

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".peers"

NUMBERS = {"a": 1, "b": 2}
MODERN, LEGACY, REST, JSONRPC, SIGNED = "2026-07-28", "2025-11-25", "REST", "/jsonrpc", "REST, password"
OWN_TOKEN, ACCESS_TOKEN = "REST, own token", "REST, access token"
GTHREAD, GEVENT, GRANIAN, UVICORN = "gunicorn gthread", "gunicorn gevent", "granian", "uvicorn"
GTHREAD_8 = "gunicorn gthread, 8 threads"
"""As in our reference deployment, whose tools may take their time; what takes none is fastest on one thread."""

BARE, RAW, OURS, OURS_SPEED = "bare Flask", "raw WSGI", "this package", "this package + speed"
SDK, SDK_PLAIN, FASTMCP = "MCP Python SDK, async", "MCP Python SDK, plain function", "FastMCP"
FLASK_JSONRPC = "Flask-JSONRPC"

SESSION_ID = 95
"""As many characters as the id of a session has here."""

# The servers that want it are asked for both kinds of answer, as the protocol has it.
_ACCEPT = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Stand:
    """An app on a server, which may answer several kinds of calls.

    :param environment: Which of the environments below ``.peers/`` has what it needs.
    """

    environment: str
    app: str
    server: str
    env: tuple[tuple[str, str], ...] = ()

    @property
    def python(self) -> str:
        return str(PEERS / self.environment / "bin" / "python")

    @property
    def is_asgi(self) -> bool:
        return self.server == UVICORN

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its process. Modules are compiled once, as where they are installed."""
        return {**os.environ, **dict(self.env), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Contender:
    """One line of the table."""

    who: str
    face: str
    stand: Stand
    asked: Asked

    @property
    def key(self) -> tuple[str, str, str]:
        return self.who, self.face, self.stand.server

    @property
    def has_sessions(self) -> bool:
        return self.face == LEGACY and self.who != BARE


def mcp_modern(name: str = "add") -> Asked:
    asked = faces.mcp_modern(name, NUMBERS)
    return Asked(asked.path, asked.payload, {**asked.headers, **_ACCEPT})


def mcp_legacy(name: str = "add") -> Asked:
    asked = faces.mcp_legacy(name, NUMBERS)
    return Asked(asked.path, asked.payload, {**asked.headers, **_ACCEPT})


def signed(prefix: str = "/signed") -> Asked:
    asked = faces.rest("add", NUMBERS)
    return Asked(prefix + asked.path, asked.payload, basic("ada", "lovelace"))


_FACES: Mapping[str, Asked] = {
    MODERN: mcp_modern(),
    LEGACY: mcp_legacy(),
    REST: faces.rest("add", NUMBERS),
    JSONRPC: faces.jsonrpc("add", NUMBERS),
    SIGNED: signed(),
}


def ours(server: str, *, speed: bool, faces: tuple[str, ...] = tuple(_FACES)) -> list[Contender]:
    stand = Stand("flask", "benchmarks.apps.ours:app", server, () if speed else (("BENCH_SPEED", "off"),))
    return [Contender(OURS_SPEED if speed else OURS, face, stand, _FACES[face]) for face in faces]


def with_tokens() -> list[Contender]:
    """A token that the app knows, and one of an authorization server, which is remembered after the first call."""
    signer = Signer("key")
    stand = Stand(
        "flask", "benchmarks.apps.tokens:app", GTHREAD, (("BENCH_KEYS", json.dumps({"keys": [signer.jwk()]})),)
    )
    access_token = signer.token(make_claims("https://login.example", aud="https://site.example/oauth/mcp"))
    asked = faces.rest("add", NUMBERS)
    return [
        Contender(OURS_SPEED, face, stand, Asked(prefix + asked.path, asked.payload, bearer(token)))
        for face, prefix, token in ((OWN_TOKEN, "/own", "lovelace"), (ACCESS_TOKEN, "/oauth", access_token))
    ]


def bare(server: str, face: str = MODERN) -> Contender:
    """Bare Flask, sent what a face is sent: by an older client also the id of a session."""
    asked = _FACES[face]
    if face == LEGACY:
        asked = Asked(asked.path, asked.payload, {**asked.headers, "Mcp-Session-Id": "x" * SESSION_ID})
    return Contender(BARE, face, Stand("flask", "benchmarks.apps.bare_flask:app", server), asked)


def bare_by_face() -> list[Contender]:
    """Bare Flask with what each face is sent; the first is what everyone is compared with who has no face of ours."""
    return [bare(GTHREAD, face) for face in (MODERN, LEGACY, REST, JSONRPC)]


def others() -> list[Contender]:
    """The peers, each on the fastest server that it documents."""
    sdk = Stand("mcp", "benchmarks.peers.python_sdk:app", UVICORN)
    fast = Stand("fastmcp", "benchmarks.peers.fast_mcp:app", UVICORN)
    flask_jsonrpc = Stand("flask-jsonrpc", "benchmarks.peers.flask_json_rpc:app", GTHREAD)
    return [
        Contender(RAW, MODERN, Stand("flask", "benchmarks.apps.raw_wsgi:app", GTHREAD), mcp_modern()),
        Contender(SDK, MODERN, sdk, mcp_modern()),
        Contender(SDK, LEGACY, sdk, mcp_legacy()),
        Contender(SDK_PLAIN, MODERN, sdk, mcp_modern("add_plain")),
        Contender(SDK_PLAIN, LEGACY, sdk, mcp_legacy("add_plain")),
        Contender(FASTMCP, MODERN, fast, mcp_modern()),
        Contender(FASTMCP, LEGACY, fast, mcp_legacy()),
        Contender(FLASK_JSONRPC, JSONRPC, flask_jsonrpc, _FACES[JSONRPC]),
    ]


def over_http() -> list[Contender]:
    """Everyone who is measured with a load over HTTP; the first are what the others are compared with."""
    return [
        *bare_by_face(),
        *ours(GTHREAD, speed=False),
        *ours(GTHREAD, speed=True),
        *others(),
        bare(GRANIAN),
        *ours(GRANIAN, speed=False, faces=(MODERN, LEGACY)),
        *ours(GRANIAN, speed=True, faces=(MODERN, LEGACY)),
        bare(GEVENT),
        *ours(GEVENT, speed=True, faces=(MODERN,)),
        bare(GTHREAD_8),
        *ours(GTHREAD_8, speed=True, faces=(MODERN,)),
    ]


def in_process() -> list[Contender]:
    """Everyone whose CPU time for one call is measured, without a network; the first is the measure."""
    # Those that are compared stand next to each other, and so meet the same neighbours on the machine.
    plain, quick = ours(GTHREAD, speed=False), ours(GTHREAD, speed=True)
    everyone = sorted([*bare_by_face(), *plain, *quick], key=lambda contender: list(_FACES).index(contender.face))
    return [*everyone, *with_tokens(), *others()]
