"""A server whose tool has a side effect, so that a test sees whether a smuggled request was served."""

from hubbub import Server

server = Server("counter", version="1")
_labels: list[str] = []


@server.tool
async def count(label: str) -> str:
    """Record that this call was served."""
    _labels.append(label)
    return "counted"


@server.tool
async def counted() -> dict[str, list[str]]:
    """Return the labels of all calls that were served."""
    return {"labels": _labels}
