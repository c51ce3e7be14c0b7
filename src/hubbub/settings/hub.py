"""Settings of the hub: `[hub]` for all of it, `[views.NAME]` for what one endpoint shows.

The descriptions of the fields are used in help texts and documentation. Settings of one
server are in `hubbub.settings.servers`.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.settings.fields import setting

LIMITS_OF_SERVERS: Final = ("list_s", "breaker_failures")
"""Settings of the hub that apply to each connection to a server."""
Search: TypeAlias = Literal["auto", "on", "only", "off"]


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a hub: `[hub]` of a settings file."""

    search: Annotated[
        Search,
        setting(
            f"Whether tools can be searched: auto: where there are more than {bounds.HUB_SEARCH_TOOLS}; "
            "only: then nothing else is listed.",
            harmless=True,
        ),
    ] = "auto"
    name_limit: Annotated[
        int,
        setting("Letters of a listed name; longer ones are cut.", ge=bounds.LEAST_NAME_CHARACTERS, harmless=True),
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
    result_total_bytes: Annotated[
        int, setting("Bytes kept for all such links; when full, the caller with the most loses its oldest.", ge=1024)
    ] = bounds.RESULT_TOTAL_BYTES
    output_schemas: Annotated[
        bool,
        setting(
            "Whether tools are listed with their output schemas. Results of such tools keep their structured content "
            "whole; without schemas `result_bytes` limits it too."
        ),
    ] = True
    reload: Annotated[bool, setting("Whether changes of the files are taken over while the hub runs.")] = True

    @property
    def limits_of_servers(self) -> tuple[Any, ...]:
        """The values of `LIMITS_OF_SERVERS`; if they change, servers are connected again."""
        return tuple(getattr(self, name) for name in LIMITS_OF_SERVERS)


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one endpoint `/mcp/NAME` shows. A pattern with a slash is compared with `server/name`."""

    servers: Annotated[
        tuple[str, ...] | None,
        setting("The servers whose tools, prompts and resources it shows; unset: all.", harmless=True),
    ] = None
    include: Annotated[
        tuple[str, ...], setting("The tools and prompts to show, as patterns.", form="PATTERN", harmless=True)
    ] = ("*",)
    exclude: Annotated[tuple[str, ...], setting("Those not to show.", form="PATTERN", harmless=True)] = ()
    read_only: Annotated[bool, setting("Whether only tools that say they change nothing are shown.", harmless=True)] = (
        False
    )
    search: Annotated[Search | None, setting("As in `[hub]`; unset: as there.", harmless=True)] = None
    descriptions: Annotated[
        dict[str, str],
        setting("Other descriptions of tools, by the name they have here.", form="{NAME = TEXT}", harmless=True),
    ] = {}
