"""A client at the other end of the loop on standard input and output, for tests."""

from __future__ import annotations

import json
import os
import threading
from io import FileIO
from typing import Any, Generic, TypeVar

from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from flask_jsonrpc_mcp.stdio import Client, Loop, Server
from tests.conftest import asking
from tests.support.mcp_messages import modern_meta

AnyServer = TypeVar("AnyServer", bound=Server)


class Connection(Generic[AnyServer]):
    """A client at the other end of a loop around a server."""

    def __init__(self, server: AnyServer) -> None:
        self.server = server
        reading, writing = os.pipe()
        self._reading, self._writing = os.fdopen(reading, "rb"), FileIO(writing, "w")
        self.loop = Loop(self.server, Client(self._writing, on_broken=lambda: None))

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.loop.receive(message if isinstance(message, bytes) else json.dumps(message).encode())

    def receive(self) -> Any:
        return json.loads(self._reading.readline())

    def ask(self, message: Any) -> Any:
        self.send(message)
        return self.receive()

    def rest(self) -> list[Any]:
        """Everything that was said until the end."""

        def close_when_answered() -> None:
            self.loop.wait()
            self._writing.close()

        self.loop.close()
        threading.Thread(target=close_when_answered).start()
        return [json.loads(line) for line in self._reading]

    def initialize(self, version: str = LEGACY[0]) -> Connection[AnyServer]:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        assert self.ask(asking("initialize", params))["result"]["protocolVersion"] == version
        self.send(asking("notifications/initialized", id=...))
        return self

    def close(self) -> None:
        self._reading.close()
        self._writing.close()


def modern(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return asking(method, {**params, "_meta": modern_meta()}, id)
