"""A server on stdio that repeats a secret of its environment in every kind of message, and on stderr."""

import base64
import hashlib
import os
import sys
from urllib.parse import quote

from hubbub import Context, Server, ToolError, run

SECRET = os.environ["SETTING"]
FORMS = [SECRET, quote(SECRET, safe=""), base64.b64encode(f"user:{SECRET}".encode()).decode(), repr(SECRET)]
ALL = " | ".join(FORMS)
sys.stderr.write(f"starting with {ALL}\n")
sys.stderr.flush()
server = Server(f"leaky {SECRET}", version="1", instructions=ALL)


@server.tool(description=f"Repeats {ALL}.")
async def repeat(context: Context) -> dict[str, str]:
    await context.info(ALL)
    await context.progress(1, 2, ALL)
    return {"said": ALL, "digest": hashlib.sha256(SECRET.encode()).hexdigest()}


@server.tool
async def fail() -> str:
    raise ToolError(ALL)


@server.resource("canary://text", name=f"text {SECRET}")
async def text() -> str:
    return ALL


@server.tool
async def crash() -> str:
    sys.stderr.write(f"Traceback (most recent call last): {ALL}\n")
    sys.stderr.flush()
    os._exit(7)


if __name__ == "__main__":
    run(server)
