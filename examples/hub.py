"""A hub in Python: the servers of two other examples behind one endpoint.

`hubbub serve examples/hub.py` serves everything at /mcp and the tools of `weather` alone at /mcp/outdoors;
`hubbub tools examples/hub.py` lists what clients see.
"""

import sys
from pathlib import Path

from hubbub import Hub, ServerConfig, UpstreamConfig, ViewSettings, run

HERE = Path(__file__).parent


def example(name: str) -> ServerConfig:
    """Start another example as a process of its own, as for any MCP server that is a command."""
    return ServerConfig(id=name, command=sys.executable, args=[str(HERE / f"{name}.py")])


hub = Hub(
    [example("weather"), UpstreamConfig(id="echo", remote=example("echo"), prefix="always")],
    name="examples",
    views={"outdoors": ViewSettings(servers=("weather",))},
)


if __name__ == "__main__":
    run(hub, "http")
