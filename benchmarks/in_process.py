"""The CPU time of one call without a network, of every contender in turn, round after round."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders import ROOT, Contender
from benchmarks.servers import INITIALIZE, body_of


@dataclass(frozen=True)
class Caller:
    """A process that makes calls when told so."""

    process: subprocess.Popen[str]

    def microseconds(self, times: int) -> float:
        """Make so many calls, and return the CPU time of one."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        return float(self._line())

    def wait_until_ready(self) -> None:
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the app could not be called; the reason is above")
        return line


@contextmanager
def calling(contender: Contender, expected: str) -> Iterator[Caller]:
    asked: dict[str, Any] = {
        "app": contender.stand.app,
        "is_asgi": contender.stand.is_asgi,
        "path": contender.asked.path,
        "headers": dict(contender.asked.headers),
        "body": body_of(contender.asked).decode(),
        "initialize": json.dumps(INITIALIZE) if contender.has_sessions else "",
        "expected": expected,
    }
    command = [contender.stand.python, "-m", "benchmarks.one_call", json.dumps(asked)]
    with subprocess.Popen(
        command, cwd=ROOT, env=contender.stand.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Caller(process)
        assert process.stdin is not None
        process.stdin.close()  # which ends it


def measure(
    contenders: Sequence[Contender], *, starts: int, rounds: int, calls: int, expected: str = "sum"
) -> dict[tuple[str, str, str], list[float]]:
    """Return the microseconds of one call of each, round by round: those of one round belong together.

    :param starts: How often everyone is started anew: two processes of the same code can differ by some percent.
    """
    samples: dict[tuple[str, str, str], list[float]] = {contender.key: [] for contender in contenders}
    for _ in range(starts):
        with ExitStack() as stack:
            callers = {contender.key: stack.enter_context(calling(contender, expected)) for contender in contenders}
            for caller in callers.values():
                caller.wait_until_ready()
                caller.microseconds(max(calls // 5, 1))
            for _ in range(rounds):
                for key, caller in callers.items():
                    samples[key].append(caller.microseconds(calls))
    return samples
