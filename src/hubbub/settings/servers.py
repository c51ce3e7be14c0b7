"""Settings of one server to connect to: a section `[servers.NAME]` of `hubbub.toml`.

Keys are named as in the `mcp.json` of other clients; `${NAME}` in a text is replaced from the
environment when the server is connected, not here. Used by the command line for the server
that it calls, and by the hub for its servers.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting
from hubbub.settings.secret import Secret

SomeText: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Prefix: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]+$")]
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=1024)]


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the hub shows one tool of a server: a section `[servers.NAME.tools.TOOL]`."""

    name: Annotated[SomeText | None, setting("The name that clients see.")] = None
    description: Annotated[str | None, setting("What clients read about it.")] = None
    hidden: Annotated[bool, setting("Whether it is neither listed nor callable.")] = False


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server is reached, and how the hub treats it."""

    url: Annotated[str | None, setting("Where it listens, if it runs by itself.", form="URL")] = None
    transport: Annotated[
        Literal["stdio", "http", "sse", "websocket"] | None,
        setting("How it is reached; unset: what the address or the command suggests."),
    ] = None
    headers: Annotated[dict[str, Secret], setting("Headers of each request.", form="{NAME = TEXT}")] = {}
    command: Annotated[
        str | None, setting("The program that serves, if it is to be started.", form="PROGRAM", names_file=True)
    ] = None
    args: Annotated[tuple[str, ...], setting("What the program is given.", form="TEXT")] = ()
    env: Annotated[dict[str, Secret], setting("Variables that the program gets.", form="{NAME = TEXT}")] = {}
    pack: Annotated[str | None, setting("The installed pack that serves, in the hub's own process.", form="NAME")] = (
        None
    )
    target: Annotated[
        str | None,
        setting(
            "The Python program that serves, in the hub's own process.", form="file.py|module:server", names_file=True
        ),
    ] = None
    cwd: Annotated[str | None, setting("The folder in which the program starts.", form="FOLDER", names_file=True)] = (
        None
    )
    timeout_s: Annotated[float, setting("How long one answer may take.", gt=0)] = bounds.COMMAND_S
    protocol_version: Annotated[str | None, setting("The only protocol version to speak.", form="YYYY-MM-DD")] = None
    allow_private_network: Annotated[
        bool | None, setting("Whether the address may lead into a private network; unset: if it says so itself.")
    ] = None

    max_response_bytes: Annotated[Bytes | None, setting("The largest answer that is read.", form="N")] = None
    enabled: Annotated[bool, setting("Whether the hub serves it.")] = True
    max_calls: Annotated[int, setting("Calls that the hub runs there at once; more wait.", ge=1)] = (
        bounds.UPSTREAM_CALLS
    )
    sessions: Annotated[
        Literal["shared", "own"],
        setting("Whether clients may use a session one after another, or each keeps one for itself."),
    ] = "shared"
    max_sessions: Annotated[int, setting("Sessions that the hub keeps open there at once.", ge=1)] = (
        bounds.UPSTREAM_SESSIONS
    )
    prefix: Annotated[
        Literal["collision", "always", "never"],
        setting("When names of tools and prompts get the server's name in front."),
    ] = "collision"
    prefix_text: Annotated[
        Prefix | None,
        setting("What is put in front instead of the server's name.", form="LETTERS"),
    ] = None
    include: Annotated[tuple[str, ...], setting("The tools and prompts to show, as patterns.", form="PATTERN")] = ("*",)
    exclude: Annotated[tuple[str, ...], setting("Those not to show.", form="PATTERN")] = ()
    read_only: Annotated[bool, setting("Whether only tools that say they change nothing are shown.")] = False
    tools: Annotated[dict[str, ToolSettings], setting("How single tools are shown.", form="[section]")] = {}

    def __post_init__(self) -> None:
        if sum(way is not None for way in (self.url, self.command, self.pack, self.target)) != 1:
            raise ValueError("give either url or command, or for the hub alone pack or target")
