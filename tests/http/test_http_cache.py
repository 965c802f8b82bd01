"""A real cache in front: replies to GET are kept where the method says so, and never shown to another caller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.conftest import asking, basic
from tests.support.servers import Reply, Server, gunicorn, nginx


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("cache")
    with gunicorn("tests.apps.cached_app:app", folder, "--workers", "1") as server, nginx(server, folder) as front:
        yield front


def get(front: Server, name: str, caller: str | None = None, path: str = "/jsonrpc") -> tuple[str, Reply]:
    query = quote(json.dumps(asking(name, id="constant")))
    reply = front.request(f"{path}?query={query}", headers=basic(caller) if caller else {})
    assert reply.status == 200
    return reply.headers["X-Cache"], reply


@pytest.mark.parametrize("path", ["/jsonrpc", "/mcp/tools/whoami"])
def test_the_second_identical_get_is_a_hit(front: Server, path: str) -> None:
    (first, made), (second, kept) = get(front, "whoami", path=path), get(front, "whoami", path=path)
    assert (first, second) == ("MISS", "HIT")
    assert kept.body == made.body


def test_no_caller_ever_gets_what_was_kept_for_another(front: Server) -> None:
    get(front, "whoami")
    seen = []
    for caller in ("reader", "writer", None, "writer", "reader", None):
        status, reply = get(front, "whoami", caller)
        assert reply.json()["result"][0] == caller
        assert status == ("HIT" if caller is None else "MISS")
        if caller is not None:
            seen.append(reply.json()["result"][1])
    assert len(seen) == len(set(seen))


def test_what_does_not_say_for_how_long_is_not_kept(front: Server) -> None:
    assert [get(front, "unsaid")[0] for _ in range(2)] == ["MISS", "MISS"]
