"""A hub kept in step with its files for as long as it runs.

Knows how the files are read again, as `hubbub serve` read them at its start; when that
happens is `hubbub.hub.reload`'s business. Also leaves word of what runs, for `hubbub plan`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hubbub.assembly.checking import check_sources
from hubbub.assembly.hub_config import hub_config
from hubbub.hub.described import describe
from hubbub.hub.reload import Loaded, Reloader
from hubbub.hub.state_file import RunningHub, StateFile
from hubbub.settings.fields import settings_of
from hubbub.settings.read import known_variables, read_settings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources, gather
from hubbub.transports.signals import hang_up_signal

if TYPE_CHECKING:
    from hubbub.hub.hub import Hub

_KEY_BYTES: Final = 16


def load_hub(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Loaded:
    """What the files say now.

    Raises: HubbubError, which says what is wrong and where.
    """
    sources = gather(flags, environ)
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    return loaded_from(settings, sources)


def loaded_from(settings: ServeSettings, sources: Sources) -> Loaded:
    """What the sources say, and which files they are."""
    paths = [sources.file.path if sources.file is not None else None, settings.mcp_json]
    files = tuple(Path(path).expanduser() for path in paths if path is not None)
    return Loaded(config=hub_config(settings, sources), settings=settings, files=files)


@asynccontextmanager
async def in_step(hub: Hub, loaded: Loaded, sources: Sources, told: Callable[[str], None]) -> AsyncIterator[None]:
    """Read the files again whenever they change or SIGHUP comes."""
    flags = dict(sources.flags)
    if sources.file is not None:
        flags["--config"] = sources.file.path  # once it was there, its absence is a mistake
    state = StateFile()
    describing = partial(_running, sources, key=secrets.token_bytes(_KEY_BYTES), started_at=time.time())
    reloader = Reloader(
        hub,
        loaded,
        lambda: load_hub(flags, sources.environ),
        told=told,
        changed=lambda reloader: state.write(describing(reloader)),
    )
    hub.reloading = reloader.state
    task = asyncio.create_task(reloader.run())
    with hang_up_signal(reloader.ask):
        try:
            await asyncio.to_thread(lambda: state.write(describing(reloader)))
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            state.remove()


def _running(sources: Sources, reloader: Reloader, *, key: bytes, started_at: float) -> RunningHub:
    loaded = reloader.loaded
    settings = loaded.settings
    host, port = settings.address
    flags, hidden = _shown_flags(sources)
    return RunningHub(
        pid=os.getpid(),
        started_at=started_at,
        address="stdio" if settings.transport == "stdio" else f"{host}:{port}",
        config=_whole(sources.file.path if sources.file is not None else None),
        mcp_json=_whole(settings.mcp_json),
        flags=flags,
        variables={name: sources.environ[name] for name in known_variables(ServeSettings) & sources.environ.keys()},
        hidden_keys=hidden,
        key=key.hex(),
        description=describe(loaded.config, key, reloader.started_with),
        problem=reloader.state.problem,
    )


def _shown_flags(sources: Sources) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The flags without those of packs, of which some are secret; and the keys of the latter."""
    known = {setting.flag for setting in settings_of(ServeSettings)}
    shown = {flag: value for flag, value in sources.flags.items() if flag in known}
    hidden = tuple(flag.lstrip("-").replace("-", "_") for flag in sources.flags if flag not in known)
    return shown, hidden


def _whole(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
