"""What can be set about `hubbub serve`. Each field says here, and only here, what it means."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting

HostAndPort: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^.+:[0-9]{1,5}$")]


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server process runs."""

    target: Annotated[
        str | None,
        setting("What to serve: file.py, module:server, or nothing for every pack that can run.", flag="TARGET"),
    ] = None
    transport: Annotated[Literal["http", "stdio"], setting("How clients reach the server.", flag="--transport")] = (
        "http"
    )
    host: Annotated[str, setting("Address to listen on.", flag="--host", form="HOST", min_length=1)] = "127.0.0.1"
    port: Annotated[int, setting("Port to listen on; 0 takes a free one.", flag="--port", ge=0, le=65535)] = 3000
    http_addr: Annotated[
        HostAndPort | None, setting("Both in one; wins over the two.", flag="--http-addr", form="HOST:PORT")
    ] = None
    packs: Annotated[tuple[str, ...], setting("A pack to serve; may be repeated.", flag="--pack", form="NAME")] = (
        msgspec.field(default=(), name="pack")
    )
    tool_profile: Annotated[
        str | None,
        setting(
            "Show only the tools of this profile, in packs that have profiles.",
            flag="--tool-profile",
            env="VDON_MCP_TOOL_PROFILE",
            form="NAME",
        ),
    ] = None
    response: Annotated[Literal["auto", "json", "sse"], setting("How HTTP answers are sent.", flag="--response")] = (
        "auto"
    )
    config: Annotated[
        str | None,
        setting(
            "The settings file; otherwise hubbub.toml in this folder, if any.",
            flag="--config",
            form="FILE",
            in_file=False,
        ),
    ] = None
    mcp_json: Annotated[
        str | None, setting("A client's mcp.json whose servers are served too.", flag="--mcp-json", form="FILE")
    ] = None
    insecure: Annotated[
        bool, setting("Allow an address that others can reach without authentication.", flag="--insecure", switch=True)
    ] = False
    max_message_bytes: Annotated[
        int,
        setting("The largest message accepted.", flag="--max-message-bytes", env="VDON_MCP_MAX_MESSAGE_BYTES", ge=1024),
    ] = bounds.MESSAGE_BYTES
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], setting("What goes to stderr.", flag="--log-level")
    ] = "warning"
    tool_names: Annotated[
        Literal["exact", "safe"],
        setting("List tool names as declared, or in letters that every model provider takes.", flag="--tool-names"),
    ] = "exact"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        if self.http_addr is None:
            return self.host, self.port
        host, _, port = self.http_addr.rpartition(":")
        return host.strip("[]"), int(port)
