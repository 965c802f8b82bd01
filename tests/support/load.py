"""Clients of a real server: eight in a loop that compare every answer with what they asked, and slow ones."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE = 30
"""Seconds until a test gives up waiting. Nothing is measured by it."""

CLIENTS = 8
INVOKE = "/mcp/tools/invoke"
BATCH = "/jsonrpc"


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look again and again until something is so."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} seconds: {what}"
        time.sleep(0.01)


@dataclass(frozen=True)
class Lost:
    """A call that got no answer, and the worker that had answered on its connection before, if any."""

    error: Exception
    worker: int | None


class Load:
    """What eight clients that call ``echo`` in a loop have seen so far.

    :param keep_alive: Each client keeps its connection, instead of opening one for every call. Where all of them are
        with one worker, some open another, until they are not.
    """

    def __init__(self, port: int, *, keep_alive: bool) -> None:
        self.answered = 0
        self.wrong: list[tuple[int, bytes]] = []
        self.lost: list[Lost] = []
        self.workers: dict[int, int] = {}  # by client, the one that has answered on its connection
        self._port = port
        self._keep_alive = keep_alive
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def wait_for_answers(self, number: int) -> None:
        """Wait until there are so many more answers than now."""
        wanted = self.answered + number
        wait_until(lambda: self.answered >= wanted, f"{number} more answers")

    def connections(self) -> Counter[int]:
        """Wait until every client is connected, and they are spread; return how many connections each worker has."""
        wait_until(lambda: len(self.workers) == CLIENTS and not self._are_together(), "the clients are spread")
        return Counter(self.workers.values())

    def run(self, client: int) -> None:
        """Be one of the clients."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        while not self._ended.is_set():
            number = next(self._numbers)
            try:
                status, body = self._echo(connection, number)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                with self._lock:
                    self.lost.append(Lost(error, self.workers.pop(client, None)))
                continue
            with self._lock:
                self._judge(client, number, status, body)
                if self._keep_alive and self._are_together():
                    connection.close()
                    del self.workers[client]
        connection.close()

    def end(self) -> None:
        self._ended.set()

    def _are_together(self) -> bool:
        return len(self.workers) == CLIENTS and len(set(self.workers.values())) == 1

    def _echo(self, connection: http.client.HTTPConnection, number: int) -> tuple[int, bytes]:
        body = json.dumps({"name": "echo", "arguments": {"number": number}})
        kept = {} if self._keep_alive else {"Connection": "close"}
        connection.request("POST", INVOKE, body, {"Content-Type": "application/json", **kept})
        response = connection.getresponse()
        return response.status, response.read()

    def _judge(self, client: int, number: int, status: int, body: bytes) -> None:
        self.answered += 1
        result = json.loads(body)["result"] if status == 200 else None
        if result is None or result[0] != number:
            self.wrong.append((status, body))
        elif self._keep_alive:
            self.workers[client] = result[1]


@contextmanager
def load(port: int, *, keep_alive: bool = False) -> Iterator[Load]:
    """Keep a server busy with eight clients, none of whom may ever get a wrong answer."""
    running = Load(port, keep_alive=keep_alive)
    threads = [threading.Thread(target=running.run, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        running.wait_for_answers(CLIENTS)
        yield running
    finally:
        running.end()
        for thread in threads:
            thread.join()
    assert running.wrong == []


def request_bytes(called: str | list[Any], arguments: object = None) -> bytes:
    """A call by REST, or a batch, as it goes over the wire."""
    path, payload = (INVOKE, {"name": called, "arguments": arguments}) if isinstance(called, str) else (BATCH, called)
    body = json.dumps(payload).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class RawClient:
    """A connection that sends a call, or a batch, as slowly as it is told to."""

    def __init__(
        self, port: int, called: str | list[Any], arguments: object = None, *, receive_buffer: int | None = None
    ) -> None:
        self._socket = socket.socket()
        self._socket.settimeout(PATIENCE)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.connect(("127.0.0.1", port))
        self._unsent = request_bytes(called, arguments)

    def send(self, number: int | None = None) -> None:
        """Send so many bytes more, or all; all but so many when the number is negative."""
        number = len(self._unsent) if number is None else number
        self._socket.sendall(self._unsent[:number])
        self._unsent = self._unsent[number:]

    def result(self) -> object:
        """Send the rest, and read the result."""
        self.send()
        answer = b""
        while part := self._socket.recv(65536):
            answer += part
        self._socket.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])["result"]

    def vanish(self, *, reset: bool = False) -> None:
        """Go away in the middle: by FIN, or by RST."""
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self._socket.close()
