"""Tools in an existing web app: an MCP server mounted in FastAPI, sharing its data.

Needs FastAPI and uvicorn. `uvicorn fastapi_app:app --app-dir examples` serves the app at / and MCP at /tools/mcp.
"""

from fastapi import FastAPI

from hubbub import Server, ToolError

STOCK = {"tea": 12, "coffee": 0}

server = Server("shop")


@server.tool
async def reserve(item: str, count: int = 1) -> int:
    """Reserve items of the shop, and return how many are left."""
    if STOCK.get(item, 0) < count:
        raise ToolError(f"Only {STOCK.get(item, 0)} of {item!r} are left")
    STOCK[item] -= count
    return STOCK[item]


tools = server.asgi()
app = FastAPI(lifespan=tools.lifespan)  # FastAPI does not run the lifespans of mounted apps by itself.
app.mount("/tools", tools)


@app.get("/stock")
async def stock() -> dict[str, int]:
    """What pages of the shop show."""
    return STOCK
