"""A server that does what it is asked, for the loop on standard input and output; also a program of its own."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import Any

from flask_jsonrpc_mcp.envelope import RpcRequest, notification
from flask_jsonrpc_mcp.errors import MethodNotFound
from flask_jsonrpc_mcp.mcp.sessions import Session, negotiate
from flask_jsonrpc_mcp.stdio import Client, Exchange, claim_standard_streams, serve


class ObedientServer:
    """Does what the method of a request says."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.ran: list[str] = []
        self.meeting = threading.Barrier(2, timeout=60)
        self.told = threading.Event()
        self.exchange: Exchange | None = None

    def connect(self, client: Client) -> None:
        self.client = client

    def initialize(self, request: RpcRequest) -> tuple[Session, Any]:
        session = negotiate(request)
        return session, {"protocolVersion": session.version}

    def answer(self, exchange: Exchange) -> Any:
        self.ran.append(exchange.message.method)
        self.exchange = exchange
        act = getattr(self, f"do_{exchange.message.method}", None)
        if act is None:
            raise MethodNotFound(exchange.message.method)
        return act(exchange)

    def do_echo(self, exchange: Exchange) -> Any:
        version = None if exchange.session is None else exchange.session.version
        params: Any = exchange.message.params
        return {"version": version, "text": params.get("text")}

    def do_meet(self, exchange: Exchange) -> Any:
        """Answer only when another request meets this one."""
        self.meeting.wait()
        return {}

    def do_wait(self, exchange: Exchange) -> Any:
        """Say that it runs, and wait until told to end."""
        exchange.send(notification("notifications/message", {"data": "waiting"}))
        exchange.wait()
        exchange.send(notification("notifications/message", {"data": "waited"}))
        self.told.set()
        return {"cancelled": exchange.cancellation.requested}

    def do_ask(self, exchange: Exchange) -> Any:
        params: Any = exchange.message.params
        return {"heard": exchange.ask({"method": "roots/list", "params": {}}, timeout=params.get("timeout"))}

    def do_fail(self, exchange: Exchange) -> Any:
        raise ValueError("a secret")

    def do_garble(self, exchange: Exchange) -> Any:
        return {"no": {"JSON"}}

    def do_chatter(self, exchange: Exchange) -> Any:
        """Print in every way there is, and read what is not ours."""
        print("printed")  # noqa: T201 (what it is for)
        os.write(1, b"written\n")
        subprocess.run(["echo", "echoed"], check=True)
        return {"read": os.read(0, 10).decode()}


if __name__ == "__main__":
    serve(ObedientServer(), *claim_standard_streams())
