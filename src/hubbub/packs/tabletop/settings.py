"""What can be set about the tabletop pack: where its campaigns are kept."""

from typing import Annotated

import msgspec

from hubbub import bounds
from hubbub.settings import Secret, setting
from hubbub.settings.serve import HostAndPort


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
    deadline_s: Annotated[float, setting("How long one call to the campaign server may take.", gt=0, le=600)] = (
        bounds.TABLE_CALL_S
    )
