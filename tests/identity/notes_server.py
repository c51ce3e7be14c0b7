"""The protected server of these tests: its tools need scopes, and one says who calls it."""

from hubbub import Context, Server

server = Server("notes")


@server.tool
async def whoami(context: Context) -> dict[str, str | list[str]]:
    """Return who calls."""
    principal = context.caller.principal
    return {
        "name": principal.name,
        "tenant": principal.tenant,
        "user": principal.user,
        "scopes": sorted(principal.scopes),
    }


@server.tool(scopes=("notes:read",))
def read_notes() -> str:
    """Read the notes."""
    return "the notes"


@server.tool(scopes=("notes:write",))
def write_note(text: str) -> str:
    """Write a note."""
    return f"written: {text}"
