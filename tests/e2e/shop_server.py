"""An MCP server for the real clients: two tools, over stdio."""

from fastmcp import FastMCP

server = FastMCP("shop")


@server.tool(annotations={"readOnlyHint": True})
def get_order(order_id: str) -> dict[str, str]:
    """Get one order."""
    return {"id": order_id, "state": "open"}


@server.tool(annotations={"readOnlyHint": True})
def read_report(name: str) -> str:
    """Read a report."""
    return f"all of {name}"


if __name__ == "__main__":
    server.run("stdio", show_banner=False)
