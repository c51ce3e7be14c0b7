"""What `hubbub doctor` looks at: where campaigns are kept, and whether that works."""

from __future__ import annotations

import os
from pathlib import Path

from hubbub import Check
from hubbub.packs.tabletop.choosing import choose_backend
from hubbub.packs.tabletop.failures import Failure
from hubbub.packs.tabletop.settings import TabletopSettings
from hubbub.packs.tabletop.store_backend import usual_path


async def campaigns(settings: TabletopSettings) -> Check:
    """Whether campaigns can be kept here; makes no database where there is none yet."""
    if settings.addr is None and settings.database is None:
        path = usual_path()
        if not path.exists():
            return _look_at_folder(path)
    backend = choose_backend(settings)
    try:
        await backend.check()
    except Failure as failure:
        return Check("campaigns", False, failure.message, _advice(settings))
    finally:
        await backend.close()
    return Check("campaigns", True, _where(settings))


def _look_at_folder(path: Path) -> Check:
    folder = next(parent for parent in path.parents if parent.exists())
    if os.access(folder, os.W_OK):
        return Check("campaigns", True, f"will be kept in {path}")
    return Check("campaigns", False, f"cannot be kept in {path}", _advice(TabletopSettings()))


def _where(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"kept by the campaign server at {settings.addr}"
    if settings.database is None:
        return f"kept in {usual_path()}"
    return "kept in the database that is set"


def _advice(settings: TabletopSettings) -> str:
    if settings.addr is not None:
        return f"hubbub campaign-server --addr {settings.addr}"
    if settings.database is not None:
        return "see whether the database of HUBBUB_TABLETOP_DATABASE runs"
    return "make the data folder writable, or name another database in HUBBUB_TABLETOP_DATABASE"
