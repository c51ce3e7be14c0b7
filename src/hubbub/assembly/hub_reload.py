"""Reloads the files of a hub while it runs.

Reads the files again as `hubbub serve` read them at its start; `hubbub.hub.reload` decides when. Also writes the state
file for `hubbub plan`.
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

from hubbub.assembly.fixed_sections import refuse_fixed_changes
from hubbub.assembly.hub_config import hub_config
from hubbub.assembly.serve_settings import add_pack_aliases
from hubbub.assembly.server_references import find_unknown_servers
from hubbub.assembly.settings_checks import check_sources, read_oauth_section
from hubbub.assembly.tenants import apply_egress, update_tenants
from hubbub.assembly.value_checks import check_limits
from hubbub.hub.config_description import describe_config
from hubbub.hub.reload import LoadedConfig, Reloader
from hubbub.hub.state_file import RunningHub, StateFile
from hubbub.settings.fields import list_settings
from hubbub.settings.read import known_variables, read_settings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import Sources, collect_sources
from hubbub.transports.signals import hang_up_signal

if TYPE_CHECKING:
    from hubbub.governance.tenants import Tenants
    from hubbub.hub.gateway import Gateway

_KEY_BYTES: Final = 16


def load_hub(flags: Mapping[str, Any], environ: Mapping[str, str], folder: str | None = None) -> LoadedConfig:
    """Read the files again; `folder` is the folder of a `hubbub.toml` that was found, not named.

    Raises: HubbubError, which says what is wrong and where.
    """
    sources = add_pack_aliases(collect_sources(flags, environ, folder=folder))
    settings = read_settings(ServeSettings, sources)
    check_sources(sources)
    check_limits(settings, sources)
    return build_loaded_config(settings, sources)


def build_loaded_config(settings: ServeSettings, sources: Sources) -> LoadedConfig:
    """Build the hub's config from the sources, with the files that they were read from."""
    config = hub_config(settings, sources)
    policy_file = config.governance.policy.file
    paths = [*(sources.file.paths if sources.file is not None else ()), settings.mcp_json, policy_file]
    files = tuple(Path(path).expanduser() for path in paths if path is not None)
    return LoadedConfig(
        config=config,
        settings=settings,
        oauth=read_oauth_section(sources),
        warnings=find_unknown_servers(config, sources),
        files=files,
        trust_records=_trust_records(sources),
        policy_digest="" if policy_file is None else _digest_file(Path(policy_file).expanduser()),
    )


def _digest_file(path: Path) -> str:
    """Return a digest of a file; empty if it cannot be read, which is reported when it is used."""
    from hashlib import sha256

    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _trust_records(sources: Sources) -> tuple[Path, ...]:
    """The trust record of the folder, which is watched so that `hubbub trust` takes effect."""
    if sources.folder is None:
        return ()
    from hubbub.settings.trust import trust_record_path

    record = trust_record_path(sources.folder)
    return (record,) if record.parent.is_dir() else ()


@asynccontextmanager
async def reload_on_change(
    hub: Gateway,
    loaded: LoadedConfig,
    sources: Sources,
    report: Callable[[str], None],
    tenants: Tenants | None = None,
    *,
    find_socket: Callable[[], str | None] = lambda: None,
) -> AsyncIterator[None]:
    """Reload the files when they change and on SIGHUP, while this context is open.

    `find_socket` returns the path of the Unix socket for administration.
    """
    flags = dict(sources.flags)
    if sources.config is not None and sources.folder is None:
        flags["--config"] = sources.config  # if it is missing later, that is an error
    served = hub.fronts[loaded.settings.view or ""]
    state = StateFile()
    describe_hub = partial(
        _make_running_hub,
        sources,
        key=secrets.token_bytes(_KEY_BYTES),
        started_at=time.time(),
        socket=find_socket(),
    )

    def load() -> LoadedConfig:
        changed = load_hub(flags, sources.environ, sources.folder)
        refuse_fixed_changes(loaded.config.governance, changed.config.governance)
        return changed

    def on_reload(reloader: Reloader) -> None:
        update_tenants(tenants, reloader.loaded.config.governance.tenants)
        apply_egress(served, reloader.loaded.config.governance)
        state.write(describe_hub(reloader))

    reloader = Reloader(hub, loaded, load, report=report, on_reload=on_reload)
    hub.reload_state = reloader.state
    task = asyncio.create_task(reloader.run())
    with hang_up_signal(reloader.request_reload):
        try:
            await asyncio.to_thread(lambda: state.write(describe_hub(reloader)))
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            state.remove()


def _make_running_hub(
    sources: Sources, reloader: Reloader, *, key: bytes, started_at: float, socket: str | None
) -> RunningHub:
    loaded = reloader.loaded
    settings = loaded.settings
    flags, hidden = _split_flags(sources)
    return RunningHub(
        pid=os.getpid(),
        started_at=started_at,
        address=_describe_address(settings),
        config=_absolute_path(sources.config),
        is_config_named=sources.folder is None,
        mcp_json=_absolute_path(settings.mcp_json),
        flags=flags,
        variables={
            name: sources.environ[name]
            for name in (known_variables(ServeSettings) | sources.aliases.keys()) & sources.environ.keys()
        },
        hidden_keys=hidden,
        key=key.hex(),
        description=describe_config(loaded.config, key, reloader.initial_settings, reloader.initial_oauth),
        problem=reloader.state.problem,
        socket=socket,
    )


def _describe_address(settings: ServeSettings) -> str:
    if settings.transport == "stdio":
        return "stdio"
    if settings.unix_socket is not None:
        return f"unix:{settings.unix_socket}"
    host, port = settings.address
    return f"{host}:{port}"


def _split_flags(sources: Sources) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the flags without those of packs, some of which are secret, and the keys of the flags of packs."""
    known = {setting.flag for setting in list_settings(ServeSettings)}
    shown = {flag: value for flag, value in sources.flags.items() if flag in known}
    hidden = tuple(flag.lstrip("-").replace("-", "_") for flag in sources.flags if flag not in known)
    return shown, hidden


def _absolute_path(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
