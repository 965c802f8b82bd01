"""Keep ``flask mcp worker`` running beside gunicorn, in a process that imports nothing of the app.

``flask_jsonrpc_mcp.gunicorn`` runs this file. It reads commands from gunicorn's master: ``r`` replaces the worker, and
``q`` ends it after what it runs. If the master is gone, the pipe ends, and so does everything here.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

# Unlike SIGTERM, which the machine may send to all processes of a service at once, these can be sent again.
DRAIN, LEAVE = signal.SIGHUP, signal.SIGQUIT

LOOK_EVERY = 0.2
MAX_PAUSE = 30.0
"""Maximum seconds before a worker that ends at once is started again."""


class Supervisor:
    """Runs one worker, and waits for those that it has replaced.

    :param seconds: How long a worker may finish what it runs when the server stops.
    """

    def __init__(self, command: list[str], seconds: float) -> None:
        self._command = command
        self._seconds = seconds
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._started = self._pause = 0.0
        self._worker = self._start()

    def run(self) -> None:
        """Follow the commands until the end."""
        while True:
            ready, _, _ = select.select([sys.stdin.fileno()], [], [], LOOK_EVERY)
            commands = os.read(sys.stdin.fileno(), 64) if ready else None
            if commands == b"":
                return self._end(0)  # the master was killed
            if commands is not None and b"q" in commands:
                return self._end(self._seconds)
            if commands is not None:
                self._leaving.append(self._worker)
                self._worker.send_signal(DRAIN)
                self._worker = self._start()
            self._look()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started = time.monotonic()
        return subprocess.Popen(self._command, stdin=subprocess.DEVNULL)  # noqa: S603 (the hooks made it)

    def _look(self) -> None:
        self._leaving = [worker for worker in self._leaving if worker.poll() is None]
        code = self._worker.poll()
        if code is None:
            self._pause = 0.0 if time.monotonic() - self._started > MAX_PAUSE else self._pause
        # It ends with 0 if the app has nothing for it to do.
        elif code != 0 and time.monotonic() - self._started >= self._pause:
            self._pause = min(self._pause * 2 or 1.0, MAX_PAUSE)
            self._worker = self._start()

    def _end(self, seconds: float) -> None:
        workers, deadline = [*self._leaving, self._worker], time.monotonic() + seconds
        for number in (DRAIN, LEAVE, signal.SIGKILL):
            for worker in workers:
                if worker.poll() is None:
                    worker.send_signal(number)
            while any(worker.poll() is None for worker in workers) and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY)
            deadline = time.monotonic() + 3


if __name__ == "__main__":
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    Supervisor(sys.argv[2:], float(sys.argv[1])).run()
