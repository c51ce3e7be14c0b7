"""Runs scripts of the interface documents in a shell, unchanged except for the port."""

import os
import subprocess
from pathlib import Path

SHELL_TIMEOUT_S = 60.0
COOKIE_SESSION = """\
# MCP uses cookies for session management (per spec)
# curl automatically handles cookies with -c and -b flags

# 1) First request: initialize session (cookie is set automatically)
curl -sS -c /tmp/mcp-cookies.txt -X POST http://localhost:8081/mcp \\
  -H "Content-Type: application/json" \\
  -d '{
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
      "protocolVersion": "2024-11-05",
      "clientInfo": {
        "name": "test-client",
        "version": "0.1.0"
      }
    }
  }'

# 2) Send initialized notification (cookie is sent automatically)
curl -sS -b /tmp/mcp-cookies.txt -X POST http://localhost:8081/mcp \\
  -H "Content-Type: application/json" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "initialized",
    "params": {}
  }'

# 3) Subsequent request: cookie is sent automatically to reuse session
curl -sS -b /tmp/mcp-cookies.txt -X POST http://localhost:8081/mcp \\
  -H "Content-Type: application/json" \\
  -d '{
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/list",
    "params": {}
  }'

# 4) Check health
curl http://localhost:8081/mcp/health
"""


def environment_without_proxies() -> dict[str, str]:
    """The environment of this process without proxy settings."""
    return {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}


def run_script(script: str, port: int, cookies: Path | None = None) -> str:
    """Run the text in a shell and return its output."""
    script = script.replace("localhost:3000", f"localhost:{port}").replace("localhost:8081", f"localhost:{port}")
    if cookies is not None:
        script = script.replace("/tmp/mcp-cookies.txt", str(cookies))
    done = subprocess.run(
        ["bash", "-euc", script],
        capture_output=True,
        text=True,
        timeout=SHELL_TIMEOUT_S,
        env=environment_without_proxies(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
