"""The tools that every host app gets: who is calling, one for administrators, and one that fails."""

from flask_jsonrpc_mcp import SIGNED_IN, McpBlueprint, RpcError, current_call


def add_tools(rpc: McpBlueprint) -> McpBlueprint:
    @rpc.tool(read_only=True, access=[SIGNED_IN])
    def whoami() -> str:
        """Name the caller."""
        return current_call.caller.name

    @rpc.tool(destructive=True, access=["Admin"])
    def wipe() -> str:
        """Delete everything."""
        return "wiped"

    @rpc.tool
    def lend(book: str) -> str:
        """Lend a book."""
        raise RpcError(f"{book} is already lent", status=409)

    return rpc
