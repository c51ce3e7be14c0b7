"""The checks of `hubbub doctor`: Python, the libraries, the settings, the packs and their own checks."""

from __future__ import annotations

import asyncio
import platform
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hubbub import __version__, bounds
from hubbub.assembly.assemble import read_pack_settings
from hubbub.assembly.pack_discovery import PackEntry, find_packs
from hubbub.assembly.server_config import make_server_config
from hubbub.assembly.settings_checks import check_sources, read_server_rules
from hubbub.cli.client_checks import check_clients
from hubbub.errors import HubbubError, SettingsError
from hubbub.install.machine import this_machine
from hubbub.server.pack import Check, load_object
from hubbub.settings import ServeSettings, Sources, collect_sources, format_suggestion, read_settings
from hubbub.settings.servers import ServerSettings
from hubbub.settings.sources import SERVERS

if TYPE_CHECKING:
    from hubbub.assembly.server_rules import ServerRules

_ENDED_STATES: Final = ("expired", "ended")
"""States of a login that need a person."""


class PackDiagnosis(msgspec.Struct):
    """A pack, and whether it runs."""

    name: str
    ok: bool
    distribution: str
    version: str
    summary: str = ""
    detail: str = ""
    advice: str = ""
    commands: list[str] = []
    profiles: list[str] = []
    checks: list[Check] = []


class Diagnosis(msgspec.Struct):
    """The result of all checks."""

    ok: bool
    version: str
    checks: list[Check]
    packs: list[PackDiagnosis]
    servers: list[Check] = []
    """The servers in hubbub.toml, checked without connecting to them."""
    logins: list[Check] = []
    """The stored logins of this user, checked without connecting to the servers."""
    clients: list[Check] = []
    """The MCP clients on this machine, with what is registered there."""


def diagnose(needed: Sequence[str] = ()) -> Diagnosis:
    """Run all checks; the result is ok only if the `needed` packs work.

    Raises:
        SettingsError: there is no pack of that name.
    """
    entries = find_packs()
    for name in needed:
        if name not in entries:
            raise SettingsError(f"unknown pack {name!r}{format_suggestion(name, entries)}")
    checks = [_check_python(), *_check_libraries()]
    settings, sources = _check_settings()
    checks.append(settings)
    packs = asyncio.run(_diagnose_packs(list(entries.values()), sources))
    ok = all(check.ok for check in checks) and all(_is_healthy(pack) for pack in packs if pack.name in needed)
    clients = asyncio.run(check_clients(this_machine()))
    logins = asyncio.run(_check_logins())
    return Diagnosis(ok, __version__, checks, packs, _check_servers(sources, entries), logins, clients)


def _is_healthy(pack: PackDiagnosis) -> bool:
    return pack.ok and all(check.ok or check.optional for check in pack.checks)


def _check_python() -> Check:
    return Check("python", sys.version_info >= (3, 11), f"{platform.python_version()} at {sys.executable}")


def _check_libraries() -> list[Check]:
    """The libraries that Hubbub's own metadata asks for, without those that only some systems need."""
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        required = [line for line in requires("hubbub") or [] if ";" not in line]
    except PackageNotFoundError:
        return [Check("installation", False, "hubbub is not installed, so its packs are not found", "pip install -e .")]
    checks = []
    for line in required:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        try:
            checks.append(Check(name, True, version(name)))
        except PackageNotFoundError:
            checks.append(Check(name, False, "is not installed", f"pip install '{line}'"))
    return checks


def _check_settings() -> tuple[Check, Sources]:
    try:
        sources = collect_sources({}, ignore_untrusted=True)
        read_settings(ServeSettings, sources)
        warning = check_sources(sources)
    except SettingsError as error:
        return Check("settings", False, error.message, "correct or remove the setting"), Sources()
    if sources.refused:
        return Check("settings", False, sources.refusal, "hubbub trust"), sources
    if warning:
        return Check("settings", True, warning, "rename or unset them"), sources
    return Check("settings", True, sources.file.path if sources.file is not None else "defaults and variables"), sources


def _check_servers(sources: Sources, packs: dict[str, PackEntry]) -> list[Check]:
    """Check that the pack, program or command of each server in the settings file exists."""
    names = sources.file.table((SERVERS,)) if sources.file is not None else {}
    rules = read_server_rules(sources)
    return [
        _check_server(name, read_settings(ServerSettings, sources, (SERVERS, name)), packs, rules) for name in names
    ]


def _check_server(name: str, settings: ServerSettings, packs: dict[str, PackEntry], rules: ServerRules | None) -> Check:
    if not settings.enabled:
        return Check(name, True, "is not enabled")
    if settings.pack is not None:
        exists = settings.pack in packs
        return Check(
            name, exists, f"pack {settings.pack}", "" if exists else format_suggestion(settings.pack, packs)[2:]
        )
    if settings.target is not None:
        file = settings.target.rpartition(":")[0] if ".py:" in settings.target else settings.target
        exists = not file.endswith(".py") or Path(file).is_file()
        return Check(name, exists, f"program {settings.target}", "" if exists else "file not found; correct `target`")
    try:
        config = make_server_config(name, settings, rules=rules)
    except SettingsError as error:
        return Check(name, False, error.message, "correct it, or set `enabled = false`")
    description = f"{config.transport} {config.target}"
    if config.is_remote or which(config.target, path=str(Path(config.chdir or ".").resolve())) or which(config.target):
        return Check(name, True, description)
    return Check(name, False, description, f"{config.target!r} is not on the PATH; install it, or correct `command`")


async def _check_logins() -> list[Check]:
    """Check that the stored logins can be read, and which of them need a person."""
    from hubbub.cli.stored_logins import read_logins
    from hubbub.oauth.client.credential_store import FileCredentialStore

    try:
        logins = await read_logins(FileCredentialStore())
    except SettingsError as error:
        return [Check("credentials", False, error.message)]
    return [
        Check(
            login.server,
            login.state not in _ENDED_STATES,
            f"{login.user or 'unknown user'} at {login.issuer}"
            f"{f', {login.state}' if login.state in _ENDED_STATES else ''}",
            f"hubbub login {login.server}" if login.state in _ENDED_STATES else "",
        )
        for login in logins
    ]


async def _diagnose_packs(entries: list[PackEntry], sources: Sources) -> list[PackDiagnosis]:
    return [await _diagnose_pack(entry, sources) for entry in entries]


async def _diagnose_pack(entry: PackEntry, sources: Sources) -> PackDiagnosis:
    diagnosis = PackDiagnosis(entry.name, False, entry.distribution, entry.version)
    try:
        pack = entry.pack
    except HubbubError as error:
        diagnosis.detail = error.message
        return diagnosis
    diagnosis.summary, diagnosis.commands, diagnosis.profiles = pack.summary, sorted(pack.commands), list(pack.profiles)
    missing = pack.missing()
    if missing:
        diagnosis.detail, diagnosis.advice = f"needs {', '.join(missing)}", pack.advice()
        return diagnosis
    try:
        settings = read_pack_settings(pack, sources)
    except SettingsError as error:
        diagnosis.detail, diagnosis.advice = error.message, "correct or remove the setting"
        return diagnosis
    diagnosis.ok = True
    diagnosis.checks = [await _run_check(check, settings) for check in pack.checks]
    return diagnosis


async def _run_check(check: Callable[[Any], Awaitable[Check]] | str, settings: Any) -> Check:
    name = check.rpartition(":")[2] if isinstance(check, str) else getattr(check, "__name__", "check")
    try:
        check = load_object(check) if isinstance(check, str) else check
        async with asyncio.timeout(bounds.CHECK_TIMEOUT_S):
            return await check(settings)
    except TimeoutError:
        return Check(name, False, f"did not finish within {bounds.CHECK_TIMEOUT_S:g} s")
    except Exception as error:  # The pack's own code may raise anything; the other checks go on.
        return Check(name, False, f"{type(error).__name__}: {error}")
