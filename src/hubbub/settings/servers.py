"""What can be set about one server that we connect to: a section `[servers.NAME]` of `hubbub.toml`.

Written as the ecosystem's files write it; `${NAME}` in a text is taken from the
environment when the server is reached, not here. Read by the command line.
"""

from typing import Annotated, Literal

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting
from hubbub.settings.secret import Secret


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server is reached."""

    url: Annotated[str | None, setting("Where it listens, if it runs by itself.", form="URL")] = None
    transport: Annotated[
        Literal["stdio", "http", "sse", "websocket"] | None,
        setting("How it is reached; unset: what the address or the command suggests."),
    ] = None
    headers: Annotated[dict[str, Secret], setting("Headers of each request.", form="{NAME = TEXT}")] = {}
    command: Annotated[str | None, setting("The program that serves, if it is to be started.", form="PROGRAM")] = None
    args: Annotated[tuple[str, ...], setting("What the program is given.", form="TEXT")] = ()
    env: Annotated[dict[str, Secret], setting("Variables that the program gets.", form="{NAME = TEXT}")] = {}
    cwd: Annotated[str | None, setting("The folder in which the program starts.", form="FOLDER")] = None
    timeout_s: Annotated[float, setting("How long one answer may take.", gt=0)] = bounds.COMMAND_S
    protocol_version: Annotated[str | None, setting("The only protocol version to speak.", form="YYYY-MM-DD")] = None
    allow_private_network: Annotated[
        bool | None, setting("Whether the address may lead into a private network; unset: if it says so itself.")
    ] = None

    def __post_init__(self) -> None:
        if (self.url is None) == (self.command is None):
            raise ValueError("give either url or command")
