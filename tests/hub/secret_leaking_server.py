"""A server that repeats the secrets of its configuration in every kind of message."""

import base64
import os
import sys
from urllib.parse import quote

from hubbub import Context, Server, run

TOKEN = os.environ["API_TOKEN"]
FORMS = {
    "plain": TOKEN,
    "quoted": quote(TOKEN, safe=""),
    "base64": base64.b64encode(TOKEN.encode()).decode(),
    "basic": base64.b64encode(f"ada:{TOKEN}".encode()).decode(),
    "argument": sys.argv[-1],
    "password": os.environ["DATABASE"],
}
server = Server(f"leaky {TOKEN}", version="1", instructions=f"Use {TOKEN}.")


@server.tool(description=f"Repeat {TOKEN}.")
async def repeat(form: str, context: Context) -> dict[str, str]:
    await context.info(f"repeating {FORMS[form]}")
    await context.progress(1, 2, f"repeating {FORMS[form]}")
    return {"said": f"before {FORMS[form]} after", "count": "12345"}


@server.tool
async def crash() -> str:
    """End with a stack trace."""
    sys.stderr.write(f"Traceback: db.internal:5432 {TOKEN}\n")
    sys.stderr.flush()
    os._exit(7)


if __name__ == "__main__":
    run(server)
