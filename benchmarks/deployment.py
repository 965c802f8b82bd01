"""What a deployment can choose, measured: ``make bench-deployment``.

Workers and threads for short and for long tools, gunicorn against granian; what a password costs, and what remembering
it saves; what a cache in front of GET saves. It writes ``benchmarks/DEPLOYMENT.md``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import load
from benchmarks.contenders import GRANIAN, GTHREAD, NUMBERS, Stand, signed
from benchmarks.load import Sample
from benchmarks.run import FOLDER
from benchmarks.servers import Size, check, serve
from benchmarks.table import format_table, median_sample
from tests.support import faces
from tests.support.faces import Asked
from tests.support.servers import Server, nginx

ROUNDS, SECONDS = 3, 2
CONNECTIONS = 32
WAIT = 0.05
SIZES = (Size(1, 1), Size(1, 8), Size(1, 32), Size(2, 1), Size(2, 8), Size(2, 32), Size(4, 8))

SHORT, LONG = faces.rest("add", NUMBERS), faces.rest("wait", {"seconds": WAIT})
BY_GET = faces.jsonrpc_get("add", NUMBERS)


def stand(server: str) -> Stand:
    return Stand("flask", "benchmarks.apps.ours:app", server)


def workers_and_threads(folder: Path) -> str:
    rows = []
    for server in (GTHREAD, GRANIAN):
        for size in SIZES:
            where = folder / f"{server}-{size.workers}-{size.threads}"
            with serve(stand(server), where, size) as served:
                short, long = (measure(served, asked, where) for asked in (SHORT, LONG))
            numbers = [f"{short.rate:,.0f}", f"{short.p99:.0f}", f"{long.rate:,.0f}", f"{long.p99:.0f}"]
            rows.append([server, str(size.workers), str(size.threads), *numbers, f"{short.megabytes:.0f}"])
    header = ["", "workers", "threads", "short, req/s", "p99 ms", "long, req/s", "p99 ms", "MB per worker"]
    return format_table(header, rows)


def passwords(folder: Path) -> str:
    """Without sign-in, with a password that is remembered, and with one hash for every call."""
    kinds = {"no sign-in": SHORT, "remembered": signed(), "hashed each time": signed("/hashed")}
    with serve(stand(GTHREAD), folder) as served:
        # Few connections: each hash takes a tenth of a second of CPU and 32 MB.
        samples = {name: measure(served, asked, folder, connections=2) for name, asked in kinds.items()}
    return _beside_first(samples)


def cache_in_front(folder: Path) -> str:
    """The same GET, from the app and from an nginx in front that may keep it for a minute."""
    with serve(stand(GTHREAD), folder) as served:
        (folder / "nginx").mkdir()
        direct = measure(served, BY_GET, folder)
        with nginx(served, folder / "nginx") as front:
            kept = median_sample([_by_proxy(front, served, folder) for _ in range(ROUNDS)])
    return _beside_first({"from the app": direct, "from nginx's cache": kept})


def _by_proxy(front: Server, served: Server, folder: Path) -> Sample:
    return load.run(front, _for_host(served, BY_GET), folder, seconds=SECONDS, connections=CONNECTIONS)


def _for_host(served: Server, asked: Asked) -> Asked:
    """A request that the app behind a proxy takes for its own."""
    return Asked(asked.path, asked.payload, {**asked.headers, "Host": str(urlsplit(served.url).netloc)})


def measure(server: Server, asked: Asked, folder: Path, connections: int = CONNECTIONS) -> Sample:
    """Warm a server up, and measure it a few times."""
    check(server.request(asked.path, data=asked.payload, headers=asked.headers), asked.path)
    rounds = [load.run(server, asked, folder, seconds=SECONDS, connections=connections) for _ in range(ROUNDS + 1)]
    return median_sample(rounds[1:])


def _beside_first(samples: dict[str, Sample]) -> str:
    base = next(iter(samples.values()))
    rows = [
        [name, f"{s.rate:,.0f}", f"{s.rate / base.rate:.3f}", f"{s.cpu:,.0f}", f"{s.p99:.0f}"]
        for name, s in samples.items()
    ]
    return format_table(["", "req/s", "over the first", "CPU µs/req", "p99 ms"], rows)


def main() -> None:
    load.wrk()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = f"""# What a deployment can choose

Written by `make bench-deployment`: {CONNECTIONS} connections that are kept, by REST, medians of {ROUNDS} rounds.

## Workers and threads

A short tool adds two numbers; a long one waits {WAIT * 1000:.0f} ms for something else, as most do.

{workers_and_threads(folder)}
## Passwords

HTTP Basic with werkzeug's default hash, scrypt.

{passwords(folder / "passwords")}
## A cache in front of GET

A tool with `max_age=60` by `GET /jsonrpc?query=`.

{cache_in_front(folder / "cache")}"""
    print(text)
    (FOLDER / "DEPLOYMENT.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
