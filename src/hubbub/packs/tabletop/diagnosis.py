"""What `hubbub doctor` looks at: where campaigns are kept, and whether that works."""

from __future__ import annotations

from hubbub import Check
from hubbub.packs.tabletop.choosing import choose_backend
from hubbub.packs.tabletop.failures import Failure
from hubbub.packs.tabletop.settings import TabletopSettings


async def campaigns(settings: TabletopSettings) -> Check:
    """Whether campaigns can be read here."""
    backend = choose_backend(settings)
    try:
        await backend.check()
    except Failure as failure:
        return Check("campaigns", False, failure.message, _advice(settings))
    finally:
        await backend.close()
    return Check("campaigns", True, _where(settings))


def _where(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"kept by the campaign server at {settings.addr}"
    if settings.database is None:
        from hubbub.packs.tabletop.store_backend import usual_url

        return f"kept in {usual_url().removeprefix('sqlite:///')}"
    return "kept in the database that is set"


def _advice(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"hubbub campaign-server --addr {settings.addr}"
    if settings.database is not None:
        return "see whether the database of HUBBUB_TABLETOP_DATABASE runs"
    return "make the data folder writable, or name another database in HUBBUB_TABLETOP_DATABASE"
