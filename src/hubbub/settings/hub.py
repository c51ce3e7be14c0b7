"""What can be set about the hub: `[hub]` for all of it, `[views.NAME]` for what one endpoint shows.

Each field says here, and only here, what it means. What belongs to one server is in
`hubbub.settings.servers`.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting

LIMITS_OF_SERVERS: Final = ("list_s", "breaker_failures")
"""Settings of the hub that each connection to a server is made with."""
Search: TypeAlias = Literal["auto", "on", "only", "off"]


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many servers become one."""

    search: Annotated[
        Search,
        setting(
            f"Whether tools can be searched: auto: where there are more than {bounds.HUB_SEARCH_TOOLS}; "
            "only: then nothing else is listed."
        ),
    ] = "auto"
    name_limit: Annotated[
        int,
        setting("Letters of a listed name; longer ones are cut.", ge=bounds.LEAST_NAME_CHARACTERS),
    ] = bounds.HUB_NAME_CHARACTERS
    list_s: Annotated[float, setting("How long a list waits for servers that are slow to connect.", gt=0)] = (
        bounds.HUB_LIST_S
    )
    breaker_failures: Annotated[
        int, setting("Failures in a row after which a server is left alone for a while.", ge=1)
    ] = bounds.BREAKER_FAILURES
    result_bytes: Annotated[
        int, setting("The largest result that is passed on whole; larger ones become a link. 0: all are.", ge=0)
    ] = bounds.RESULT_BYTES
    result_ttl_s: Annotated[float, setting("How long such a link can be followed.", gt=0)] = bounds.RESULT_TTL_S
    result_total_bytes: Annotated[int, setting("Bytes kept for all such links; the oldest go first.", ge=1024)] = (
        bounds.RESULT_TOTAL_BYTES
    )
    reload: Annotated[bool, setting("Whether changes of the files are taken over while the hub runs.")] = True

    @property
    def limits_of_servers(self) -> tuple[Any, ...]:
        """What each connection to a server is made with."""
        return tuple(getattr(self, name) for name in LIMITS_OF_SERVERS)


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one endpoint `/mcp/NAME` shows. A pattern with a slash is compared with `server/name`."""

    servers: Annotated[
        tuple[str, ...] | None, setting("The servers whose tools, prompts and resources it shows; unset: all.")
    ] = None
    include: Annotated[tuple[str, ...], setting("The tools and prompts to show, as patterns.", form="PATTERN")] = ("*",)
    exclude: Annotated[tuple[str, ...], setting("Those not to show.", form="PATTERN")] = ()
    read_only: Annotated[bool, setting("Whether only tools that say they change nothing are shown.")] = False
    search: Annotated[Search | None, setting("As in `[hub]`; unset: as there.")] = None
    descriptions: Annotated[
        dict[str, str], setting("Other descriptions of tools, by the name they have here.", form="{NAME = TEXT}")
    ] = {}
