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
            "The campaign server that stores the campaigns; by default, this process stores them.",
            flag="--addr",
            form="HOST:PORT",
        ),
    ] = None
    database: Annotated[
        Secret | None,
        setting(
            "Where this process stores them: sqlite:///FILE or postgresql://…; by default, a file in the data folder.",
            form="URL",
        ),
    ] = None
    token: Annotated[
        Secret | None,
        setting("The token that the campaign server requires of its callers, and that this process sends to it."),
    ] = None
    tls: Annotated[bool, setting("Whether to connect to the campaign server with TLS.")] = False
    ca_file: Annotated[
        str | None,
        setting("Trusted CA certificates in PEM, instead of those of the system; implies tls.", form="FILE"),
    ] = None
    deadline_s: Annotated[
        float, setting("Time limit for one call to the campaign server, in seconds.", gt=0, le=600)
    ] = limits.CALL_TIMEOUT_S
