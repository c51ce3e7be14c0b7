"""Settings of the tabletop pack: where campaigns are stored."""

from typing import Annotated

import msgspec

from hubbub import Secret, setting
from hubbub.pack import HostAndPort
from hubbub.packs.tabletop import limits


class TabletopSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from `[packs.tabletop]`, `HUBBUB_TABLETOP_…` and the flags of `hubbub serve`."""

    addr: Annotated[
        HostAndPort | None,
        setting(
            "The campaign server that keeps the campaigns; otherwise this process keeps them.",
            flag="--addr",
            form="HOST:PORT",
        ),
    ] = None
    database: Annotated[
        Secret | None,
        setting(
            "Where this process keeps them: sqlite:///FILE or postgresql://…; otherwise a file in the data folder.",
            form="URL",
        ),
    ] = None
    token: Annotated[
        Secret | None,
        setting("The token that the campaign server asks of its callers, and that this process sends to it."),
    ] = None
    tls: Annotated[bool, setting("Whether the campaign server is reached over TLS.")] = False
    ca_file: Annotated[
        str | None,
        setting("The certificates to trust for it, in PEM, instead of the system's; implies tls.", form="FILE"),
    ] = None
    deadline_s: Annotated[float, setting("How long one call to the campaign server may take.", gt=0, le=600)] = (
        limits.TABLE_CALL_S
    )
