"""Tools of an MCP server, granted one by one: code calls what was granted, and nothing else.

Run it: python -m examples.upstream
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from fastmcp import FastMCP

from go_ent.composer import Composer, Config, McpSource

server: FastMCP = FastMCP("shop")


@server.tool(annotations={"readOnlyHint": True})
def orders(customer: str) -> list[float]:
    """What a customer has ordered, in euros."""
    return [12.5, 30.0] if customer == "ann" else [7.25]


@server.tool
def refund(customer: str) -> str:
    """Pay everything back."""
    return f"{customer} got everything back"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Config(allow=("shop.orders",))
        async with Composer(Path(folder), config=config, sources=[McpSource.from_server("shop", server)]) as composer:
            for code in ("sum(await tools.shop.orders(customer='ann'))", "await tools.shop.refund(customer='ann')"):
                run = await composer.code.execute(code)
                print(code)
                print(f"  {run.status}: {run.result if run.error is None else run.error.message}")


if __name__ == "__main__":
    asyncio.run(main())
