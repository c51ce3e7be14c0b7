"""The protected server of these tests: its tools need scopes, and one says who calls it."""

from hubbub import Call, CallNext, Context, Reply, ResourceEntry, ResourceNotFound, Server
from hubbub.protocol.results import ResourcesReply

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


@server.resource("note://{owner}/diary")
async def read_diary(owner: str, context: Context) -> str:
    """Read the diary of the caller."""
    name = context.caller.principal.name
    if owner != name:
        raise ResourceNotFound(f"note://{owner}/diary")
    return f"the diary of {name}"


@server.middleware
async def list_own_diary(call: Call, call_next: CallNext) -> Reply:
    reply = await call_next(call)
    if isinstance(reply, ResourcesReply):
        owner = call.caller.principal.name
        reply.resources.append(ResourceEntry(uri=f"note://{owner}/diary", name=f"Diary of {owner}"))
    return reply
