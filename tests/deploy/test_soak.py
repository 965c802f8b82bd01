"""Nothing stays behind of a call, however it ends: no memory, no file descriptor, no thread."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.soak import Soaking, descriptors, serve_one_worker, worker_of
from tests.support.load import wait_until
from tests.support.servers import ROOT

CALLS = 400


def blocks_kept(*options: str) -> list[int]:
    """Count in a process of its own, where neither pytest nor what it has captured is counted too."""
    command = [sys.executable, "-m", "benchmarks.soak", "--in-process", "--calls", str(CALLS), *options]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    kept: list[int] = json.loads(ran.stdout)
    return kept


def test_no_call_leaves_memory_behind() -> None:
    """Caches that fill and modules that are imported late add to one window of calls or another, a leak to each."""
    assert min(blocks_kept()) < CALLS / 2


def test_one_object_kept_for_each_call_would_be_seen() -> None:
    assert min(blocks_kept("--leak")) > CALLS / 2


def test_clients_that_go_away_leave_no_descriptor_behind(tmp_path: Path) -> None:
    with serve_one_worker(tmp_path) as server:
        soaking = Soaking(server)
        soaking.run(CALLS)
        worker = worker_of(server)
        settled = settle(worker)
        soaking.run(CALLS)
        assert soaking.left >= CALLS / 50
        assert worker_of(server) == worker
        wait_until(lambda: descriptors(worker) <= settled, "every connection is closed")


def settle(worker: int) -> int:
    """Wait until the number of open descriptors is the same for a while, when every client has gone."""
    counts = [descriptors(worker)]

    def is_settled() -> bool:
        counts.append(descriptors(worker))
        return len(counts) > 100 and len(set(counts[-100:])) == 1

    wait_until(is_settled, "the server is idle")
    return counts[-1]
