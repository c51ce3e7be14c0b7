"""Finds unknown settings: variables, sections of the file, flags of packs that are not served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hubbub.errors import HubbubError, SettingsError
from hubbub.settings.fields import list_settings
from hubbub.settings.read import (
    describe_unknown_variables,
    has_section,
    known_variables,
    read_settings,
    unknown_variables,
)
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import GOVERNANCE, HUB, OAUTH, PACKS, SERVERS, VARIABLE_PREFIX, VIEWS, Sources
from hubbub.suggestions import format_suggestion

if TYPE_CHECKING:
    from hubbub.assembly.pack_discovery import PackEntry
    from hubbub.assembly.server_rules import ServerRules
    from hubbub.server.pack import Pack
    from hubbub.settings.oauth import OAuthSettings


def check_sources(sources: Sources) -> str:
    """Refuse sections of the file that belong neither to Hubbub nor to an installed pack.

    Returns a warning about such variables, or an empty string. They are not errors, because other programs set
    such variables, too: Kubernetes does so for each Service.

    Raises: SettingsError.
    """
    known = known_variables(ServeSettings)
    known |= _check_servers(sources) | _check_hub(sources) | _check_governance(sources) | _check_oauth(sources)
    unknown = unknown_variables(sources.environ, known)
    sections = sources.file.table((PACKS,)) if sources.file is not None else {}
    if not unknown and not sections:
        return ""  # The usual case, which must not pay for finding packs.
    from hubbub.assembly.pack_discovery import find_packs

    packs = find_packs()
    for name in sections:
        if name not in packs:
            assert sources.file is not None
            raise SettingsError(
                f"{sources.file.locate((PACKS, name))} is not an installed pack{format_suggestion(name, packs)}"
            )
    unreadable_prefixes: list[str] = []
    for entry in packs.values():
        try:
            known |= _pack_variables(entry)
        except HubbubError:  # It cannot be loaded, so any variable with its prefix may be valid.
            unreadable_prefixes += _variable_prefixes(entry.name)
    unknown = [name for name in unknown if name not in known and not name.startswith(tuple(unreadable_prefixes))]
    return describe_unknown_variables(unknown, known) if unknown else ""


def refuse_foreign_flags(sources: Sources, packs: Iterable[Pack]) -> None:
    """Refuse a flag of a pack that is not served, instead of ignoring it.

    Raises: SettingsError.
    """
    kinds = [ServeSettings, *(pack.settings for pack in packs if pack.settings is not None)]
    known = {setting.flag for kind in kinds for setting in list_settings(kind)}
    for flag in sources.flags:
        if flag not in known:
            raise SettingsError(f"{flag} belongs to a pack that is not served; add the pack with --pack")


def _check_servers(sources: Sources) -> set[str]:
    """Read the sections of servers; return the variables that belong to them."""
    names = sources.file.table((SERVERS,)) if sources.file is not None else {}
    untrusted = {key[1] for key in sources.refused if key[0] == SERVERS and len(key) > 1}
    known: set[str] = set()
    if names or untrusted:
        from hubbub.settings.servers import ServerSettings

        for name in names:
            read_settings(ServerSettings, sources, (SERVERS, name))
        for name in {*names, *untrusted}:
            known |= known_variables(ServerSettings, (SERVERS, name))
    return known


def _check_hub(sources: Sources) -> set[str]:
    """Read the sections of the hub and its views; return the variables that belong to the hub."""
    tree = sources.file.tree if sources.file is not None else {}
    has_variables = any(name.startswith(f"{VARIABLE_PREFIX}{HUB.upper()}__") for name in sources.environ)
    if HUB not in tree and VIEWS not in tree and not has_variables:
        return set()
    from hubbub.settings.hub import HubSettings, ViewSettings

    read_settings(HubSettings, sources, (HUB,))
    known = known_variables(HubSettings, (HUB,))
    for name in sources.file.table((VIEWS,)) if sources.file is not None else ():
        read_settings(ViewSettings, sources, (VIEWS, name))
        known |= known_variables(ViewSettings, (VIEWS, name))
    return known


def has_governance(sources: Sources) -> bool:
    """Whether any setting of a hub that many people share is given; otherwise nothing of it is loaded."""
    tree = sources.file.tree if sources.file is not None else {}
    prefixes = tuple(f"{VARIABLE_PREFIX}{name.upper()}__" for name in GOVERNANCE)
    return any(name in tree for name in GOVERNANCE) or any(name.startswith(prefixes) for name in sources.environ)


def read_server_rules(sources: Sources) -> ServerRules | None:
    """Read what the settings say about secrets of servers and connections to them; None: nothing.

    Raises: SettingsError.
    """
    if not has_governance(sources):
        return None
    from hubbub.assembly.server_rules import ServerRules
    from hubbub.settings.governance_reader import read_governance

    return ServerRules.make(read_governance(sources))


def _check_governance(sources: Sources) -> set[str]:
    """Read the sections about tenants, policy and audit; return the variables that belong to them."""
    if not has_governance(sources):
        return set()
    from hubbub.settings.governance import NAMED_SECTIONS, SECTIONS

    read_server_rules(sources)
    known: set[str] = set()
    for name, kind in SECTIONS.items():
        known |= known_variables(kind, (name,))
    for name, kind in NAMED_SECTIONS.items():
        for part in sources.file.table((name,)) if sources.file is not None else ():
            known |= known_variables(kind, (name, part))
    return known


def read_oauth_section(sources: Sources) -> OAuthSettings | None:
    """Read `[oauth]`; None if there is none, and then nothing is imported.

    Raises: SettingsError.
    """
    if not has_section(sources, (OAUTH,)):
        return None
    from hubbub.settings.oauth import read_oauth

    return read_oauth(sources)


def check_identification(settings: ServeSettings, sources: Sources, server: str) -> None:
    """Refuse a server with `per_user` behind a hub that cannot identify any of its users in a browser.

    Otherwise an attacker could have another person log in, and use that person's account.

    Raises: SettingsError.
    """
    oauth = read_oauth_section(sources)
    is_identified = settings.key_file is not None or (oauth is not None and oauth.has_front_door)
    is_allowed = oauth is not None and oauth.allow_unidentified_logins
    accepts_tokens = settings.jwt_keys is not None or (oauth is not None and bool(oauth.issuers))
    if accepts_tokens and not is_identified and not is_allowed:
        raise SettingsError(
            f"server {server!r}: `per_user` needs a way to identify the person who opens a link to log in, but only "
            "tokens of other authorization servers are accepted: set front_door in [oauth], or key_file; or accept "
            "the risk that users log in for an attacker, with allow_unidentified_logins in [oauth]"
        )


def _check_oauth(sources: Sources) -> set[str]:
    """Read the section about tokens; return the variables that belong to it."""
    if read_oauth_section(sources) is None:
        return set()
    from hubbub.settings.oauth import OAuthSettings

    return known_variables(OAuthSettings, (OAUTH,))


def _pack_variables(entry: PackEntry) -> set[str]:
    kind = entry.pack.settings
    return set() if kind is None else known_variables(kind, (PACKS, entry.name))


def _variable_prefixes(pack: str) -> list[str]:
    name = pack.replace("-", "_").upper()
    return [f"{VARIABLE_PREFIX}{name}_", f"{VARIABLE_PREFIX}{PACKS.upper()}__{name}__"]
