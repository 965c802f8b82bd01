"""Load over HTTP with wrk: one client process, connections that are kept, and what it saw."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import body_of, cpu_seconds, megabytes
from tests.support.faces import Asked
from tests.support.servers import Server

CONNECTIONS = 16
ATTEMPTS = 3

# wrk prints for people; this prints for us.
_SCRIPT = """
wrk.method = {method}
wrk.body = {body}
{headers}
function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
  io.write(string.format('{{"requests": %d, "microseconds": %d, "failed": %d, "p50": %f, "p99": %f}}\\n',
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True)
class Sample:
    """What one round of load showed.

    :param cpu: Microseconds of the server's CPU time for one request, which depends least on the neighbours.
    :param p50: Milliseconds; half of the requests took no longer.
    :param p99: Milliseconds.
    """

    rate: float
    cpu: float
    p50: float
    p99: float
    megabytes: float


def wrk() -> str:
    found = shutil.which("wrk")
    if found is None:
        raise SystemExit("wrk is not installed; on Debian: apt-get install wrk")
    return found


def run(server: Server, asked: Asked, folder: Path, *, seconds: float, connections: int = CONNECTIONS) -> Sample:
    """Send as many requests as a server answers for some seconds."""
    script = folder / "wrk.lua"
    script.write_text(make_script(asked))
    # Its own limit of two seconds would make errors of slow answers.
    limits = ["--duration", f"{seconds:g}s", "--timeout", "60s"]
    command = [wrk(), "--threads", "1", "--connections", str(connections), *limits]
    command += ["--script", str(script), server.url + asked.path]
    for _ in range(ATTEMPTS):
        before = cpu_seconds(server.process.pid)
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        used = cpu_seconds(server.process.pid) - before
        sample = read_output(ran.stdout, used, megabytes(server.process.pid))
        if sample is not None:
            return sample
    raise ValueError(f"no answer from {server.url}{asked.path}")


def make_script(asked: Asked) -> str:
    """Write what wrk shall send, in its language."""
    labels = {} if asked.payload is None else {"Content-Type": "application/json"}
    headers = {**labels, **asked.headers}
    return _SCRIPT.format(
        method=_quoted("GET" if asked.payload is None else "POST"),
        body="nil" if asked.payload is None else _quoted(body_of(asked).decode()),
        headers="\n".join(f"wrk.headers[{_quoted(name)}] = {_quoted(value)}" for name, value in headers.items()),
    )


def read_output(text: str, cpu_seconds: float, megabytes: float) -> Sample | None:
    """Read what our script made wrk print; ``None`` when nothing was answered, as on a machine that is busy otherwise.

    :raises ValueError: when requests failed; their time means nothing.
    """
    [line] = [line for line in text.splitlines() if line.startswith('{"requests"')]
    counted = json.loads(line)
    if counted["failed"]:
        raise ValueError(f"{counted['failed']} requests of {counted['requests']} failed")
    if not counted["requests"]:
        return None
    return Sample(
        rate=counted["requests"] / counted["microseconds"] * 1e6,
        cpu=cpu_seconds / counted["requests"] * 1e6,
        p50=counted["p50"] / 1000,
        p99=counted["p99"] / 1000,
        megabytes=megabytes,
    )


def _quoted(text: str) -> str:
    """A string of Lua; its escapes for what we send are those of JSON."""
    assert text.isascii()
    return json.dumps(text)
