r"""A long import that reports its progress, and stops when the client disconnects.

    $ flask --app long_import run
    $ curl -N http://127.0.0.1:5000/mcp -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' \
        -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: contacts_import' \
        -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "contacts_import",
             "arguments": {"csv": "name,email\nAda,ada@site.example\nBob,bob@site.example\n"},
             "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                       "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 7}}}'
    data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"total":2}}

    data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2,"total":2}}

    data: {"jsonrpc":"2.0","result":{...
    $ curl http://127.0.0.1:5000/mcp/tools/invoke -H 'Content-Type: application/json' \
        -d '{"name": "contacts_import", "arguments": {"csv": "name,email\nEve\n"}}'
    {"error": {"code": "execution_error",
               "message": "Tool execution failed: Row 1 has no e-mail address; nothing was imported"}}

A client that sends no ``progressToken``, or calls by REST or JSON-RPC, gets only the result, from the same method.
``current_call.cancelled`` becomes true when the client disconnects (here with Ctrl-C), and when ``timeout=`` is over.
"""

from __future__ import annotations

import csv as csv_files
from dataclasses import dataclass
from typing import Annotated

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call

CONTACTS: dict[str, str] = {}
"""Names by e-mail address. A real app has a table, and commits once at the end."""

rpc = McpBlueprint()


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    rows: int
    contacts: Annotated[int, "How many there are now"]


@rpc.tool("contacts_import", title="Import contacts", destructive=False, idempotent=True, streams=True, timeout=600)
def import_contacts(csv: Annotated[str, "Rows of name and email, below a row that says so"]) -> Imported:
    """Import contacts from CSV, all of them or none."""
    rows = list(csv_files.DictReader(csv.splitlines()))
    found = {}
    for number, row in enumerate(rows, start=1):
        if current_call.cancelled:
            raise RpcError("Cancelled; nothing was imported")
        found[address_in(row, number)] = row["name"]
        current_call.progress(number, len(rows))
    CONTACTS.update(found)
    return Imported(rows=len(rows), contacts=len(CONTACTS))


def address_in(row: dict[str, str], number: int) -> str:
    """Check a row; this is what would take long, such as looking a domain up."""
    if "@" not in (row.get("email") or ""):
        raise RpcError(f"Row {number} has no e-mail address; nothing was imported")
    return row["email"]


app = Flask(__name__)
app.register_blueprint(rpc)
