"""Settings of the hub: `[hub]` for all of it, `[views.NAME]` for what one endpoint shows.

The descriptions of the fields are used in help texts and documentation. Settings of one
server are in `hubbub.settings.servers`.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting

SERVER_LIMIT_FIELDS: Final = ("list_s", "breaker_failures")
"""Settings of the hub that apply to each connection to a server."""
Search: TypeAlias = Literal["auto", "on", "only", "off"]


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a hub: `[hub]` of a settings file."""

    search: Annotated[
        Search,
        setting(
            f"Whether to offer a search tool; auto: for more than {bounds.HUB_SEARCH_TOOLS} tools; "
            "only: list nothing else.",
            harmless=True,
        ),
    ] = "auto"
    name_limit: Annotated[
        int,
        setting(
            "The longest listed name, in characters; longer ones are shortened.",
            ge=bounds.MIN_NAME_CHARACTERS,
            harmless=True,
        ),
    ] = bounds.HUB_NAME_CHARACTERS
    list_s: Annotated[float, setting("Seconds that a list waits for servers that are slow to connect.", gt=0)] = (
        bounds.HUB_LIST_WAIT_S
    )
    breaker_failures: Annotated[
        int, setting("Consecutive failures after which calls to a server are paused.", ge=1)
    ] = bounds.BREAKER_FAILURES
    result_bytes: Annotated[
        int, setting("The largest result that is forwarded whole; larger ones become a link. 0: no limit.", ge=0)
    ] = bounds.RESULT_BYTES
    result_ttl_s: Annotated[float, setting("Seconds until such a link expires.", gt=0)] = bounds.RESULT_TTL_S
    result_total_bytes: Annotated[
        int, setting("Bytes stored for all such links; when full, the caller with the most loses its oldest.", ge=1024)
    ] = bounds.RESULT_TOTAL_BYTES
    output_schemas: Annotated[
        bool,
        setting(
            "Whether tools are listed with their output schemas. Results of such tools keep their structured content "
            "complete; without schemas `result_bytes` limits it too."
        ),
    ] = True
    reload: Annotated[bool, setting("Whether changed settings files are reloaded while the hub runs.")] = True

    @property
    def server_limits(self) -> tuple[Any, ...]:
        """The values of `SERVER_LIMIT_FIELDS`; if they change, servers are connected again."""
        return tuple(getattr(self, name) for name in SERVER_LIMIT_FIELDS)


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one endpoint `/mcp/NAME` shows. A pattern with a slash is compared with `server/name`."""

    servers: Annotated[
        tuple[str, ...] | None,
        setting("The servers whose tools, prompts and resources are shown. Default: all.", harmless=True),
    ] = None
    include: Annotated[
        tuple[str, ...], setting("Patterns of tools and prompts to show.", form="PATTERN", harmless=True)
    ] = ("*",)
    exclude: Annotated[
        tuple[str, ...], setting("Patterns of tools and prompts to hide.", form="PATTERN", harmless=True)
    ] = ()
    read_only: Annotated[bool, setting("Whether to show only tools annotated as read-only.", harmless=True)] = False
    search: Annotated[Search | None, setting("As in `[hub]`. Default: the value there.", harmless=True)] = None
    descriptions: Annotated[
        dict[str, str],
        setting("Replacement descriptions, by the name of the tool in this view.", form="{NAME = TEXT}", harmless=True),
    ] = {}
