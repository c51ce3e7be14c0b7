"""The sources of settings, in order of precedence: flags, variables, files.

There are two files: the one that was named, or that is in the working folder; and the
user's own. An untrusted file in the working folder is used only for
harmless settings.

Values are returned as written, with their origin; `hubbub.settings.read` checks and converts
them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.settings.fields import Setting
from hubbub.settings.folders import user_settings_path

if TYPE_CHECKING:
    from hubbub.settings.file import SettingsFile

VARIABLE_PREFIX: Final = "HUBBUB_"
USER_VARIABLES: Final = frozenset(("HUBBUB_CREDENTIALS",))
"""Variables of the user that are not settings of a server."""
PACKS: Final = "packs"
"""The section that has one section for each pack."""
SERVERS: Final = "servers"
"""The section that has one section for each server to connect to."""
HUB: Final = "hub"
"""The section about the hub, which serves all of them at one endpoint."""
VIEWS: Final = "views"
"""The section that has one section for each view of the hub."""
TENANTS: Final = "tenants"
GOVERNANCE: Final = (TENANTS, "policy", "pins", "approvals", "quotas", "secrets", "egress", "audit")
"""The sections of a hub that many people share: see `hubbub.settings.governance`."""
OAUTH: Final = "oauth"
"""The section about tokens of authorization servers, and the server as one: see `hubbub.settings.oauth`."""
DEFAULT_FILE: Final = "hubbub.toml"
"""The settings file of a folder."""
_EMPTY: Final[Mapping[str, Any]] = {}
_SERVICE_LINK_NAME: Final = re.compile(
    r"\w+_SERVICE_(?:HOST|PORT(?:_\w+)?)|\w+_PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?"
)
_SERVICE_LINK_URL: Final = re.compile(r"(?:tcp|udp|sctp)://(?:[0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}")


Key: TypeAlias = tuple[str, ...]
"""The path to a value in a file: `("servers", "files", "command")`."""


class GivenValue(NamedTuple):
    """A value as it was written."""

    value: Any
    origin: str
    is_text: bool
    """Whether numbers and lists must be parsed from text."""
    is_variable: bool = False
    """Whether it is from the environment, which is read leniently: scripts and other programs write it."""
    path: Key = ()
    """Where it is in the settings file, if it is from there."""


class Sources(msgspec.Struct, frozen=True):
    """All values that were given, by source."""

    flags: Mapping[str, Any] = _EMPTY
    """By option, such as `--port`; only those given on the command line."""
    environ: Mapping[str, str] = _EMPTY
    file: SettingsFile | None = None
    arguments: Mapping[str, Any] = _EMPTY
    """Arguments of a program, by key such as `port`."""
    config: str | None = None
    """Path of the file that was named, or of the one in the working folder."""
    folder: str | None = None
    """The working folder, if the file was found there and not named."""
    refused: tuple[Key, ...] = ()
    """Its keys that are ignored, because it is not trusted."""
    problem: str = ""
    """Why they are ignored."""
    aliases: Mapping[str, str] = _EMPTY
    """Other names of variables, by alias (`Pack.variable_aliases`)."""

    @property
    def refusal(self) -> str:
        """The error message for ignored keys, in one line."""
        names = [".".join(key) for key in self.refused[: bounds.SHOWN_KEYS]]
        more = len(self.refused) - len(names)
        named = ", ".join(names) + (f" and {more} more" if more else "")
        line = (
            f"{self.problem}, so these settings are refused: {named}; review the file and run `hubbub trust`, "
            "or name a file with --config (HUBBUB_CONFIG)"
        )
        # The keys come from an untrusted file, and a terminal may show this line.
        return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)

    def require_trust(self) -> None:
        """Fail if keys are ignored: a key file or a limit may be among them.

        Raises: SettingsError.
        """
        if self.refused:
            raise SettingsError(self.refusal)

    def find(self, section: tuple[str, ...], setting: Setting) -> GivenValue | None:
        """Return the value of a setting from the source with the highest precedence."""
        if not section and setting.key in self.arguments:
            return GivenValue(self.arguments[setting.key], setting.key, False)
        if setting.flag is not None and setting.flag in self.flags:
            return GivenValue(self.flags[setting.flag], setting.flag, True)
        return self._find_variable(section, setting) or self._find_in_file(section, setting)

    def _find_variable(self, section: tuple[str, ...], setting: Setting) -> GivenValue | None:
        names = variable_names(section, setting)
        for name in [*names, *(alias for alias, name in self.aliases.items() if name in names)]:
            value = self.environ.get(name)
            if value and is_service_address(name, value):
                continue
            if value and not value.isspace():  # Compose files and shells pass on unset variables as empty ones.
                return GivenValue(value, name, True, True)
            path = self.environ.get(f"{name}_FILE") if setting.is_secret else None
            if path:
                return GivenValue(_read_secret(path, f"{name}_FILE"), f"{name}_FILE", True)
        return None

    def _find_in_file(self, section: tuple[str, ...], setting: Setting) -> GivenValue | None:
        if self.file is None or not setting.extra.get("in_file", True):
            return None
        table = self.file.table(section)
        if setting.key not in table:
            return None
        path = (*section, setting.key)
        return GivenValue(table[setting.key], self.file.locate(path), False, path=path)


def variable_names(section: tuple[str, ...], setting: Setting) -> list[str]:
    """The variables of a setting, in order of precedence."""
    name = _variable_part(setting.key)
    names = [VARIABLE_PREFIX + "__".join([*map(_variable_part, section), name])]
    if section[:1] == (PACKS,):
        names.insert(
            0, f"{VARIABLE_PREFIX}{_variable_part(section[1])}_" + "__".join([*map(_variable_part, section[2:]), name])
        )
    extra = setting.extra.get("env")
    return [*names, extra] if extra else names


def is_service_address(name: str, value: str) -> bool:
    """Whether Kubernetes injected this variable as the address of a Service: `HUBBUB_PORT=tcp://10.0.0.1:3000`.

    Every pod in the namespace of a Service called `hubbub` gets one, whatever it runs.
    """
    return name.endswith("_PORT") and _SERVICE_LINK_URL.fullmatch(value) is not None


def is_service_link(name: str, value: str) -> bool:
    """Whether a variable that is not a setting looks like one that Kubernetes injects for a Service."""
    return is_service_address(name, value) or _SERVICE_LINK_NAME.fullmatch(name) is not None


def collect_sources(
    flags: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    *,
    arguments: Mapping[str, Any] = _EMPTY,
    folder: str | None = None,
    ignore_untrusted: bool = False,
) -> Sources:
    """Collect the sources, with the settings file that they name or that is in this folder, and the user's own.

    `folder` replaces the working folder, and its file must exist. With
    `ignore_untrusted`, keys that an untrusted file must not set are ignored and named in `refused`.

    Raises:
        SettingsError: a file cannot be read, is not TOML, or is not trusted.
    """
    environ = os.environ if environ is None else environ
    sources = Sources(flags, environ, arguments=arguments)
    named = arguments.get("config") or flags.get("--config") or environ.get(f"{VARIABLE_PREFIX}CONFIG")
    path = named or _find_folder_file(folder)
    user_path = user_settings_path()
    if not os.access(user_path, os.F_OK):
        user_path = ""
    elif path and os.path.realpath(path) == os.path.realpath(user_path):
        path, user_path = (path, "") if named else (None, user_path)
    if not path and not user_path:
        return sources
    from hubbub.settings.file import read_settings_file  # Most servers have no file.
    from hubbub.settings.file_keys import resolve_paths

    user_file = resolve_paths(read_settings_file(user_path)) if user_path else None
    if not path:
        return replace(sources, file=user_file)
    if named:
        return replace(sources, file=read_settings_file(path).merged_over(user_file), config=path)
    from hubbub.settings.trust import read_folder_file

    folder_file = read_folder_file(path)
    sources = replace(sources, config=path, folder=folder_file.folder)
    if folder_file.is_trusted:
        return replace(sources, file=folder_file.file.merged_over(user_file))
    # Below the user's own file: untrusted settings never replace those of the user.
    untrusted = replace(folder_file.file, tree=folder_file.harmless)
    sources = replace(sources, file=user_file.merged_over(untrusted) if user_file is not None else untrusted)
    if folder_file.refused:
        sources = replace(sources, refused=folder_file.refused, problem=folder_file.problem)
        if not ignore_untrusted:
            sources.require_trust()
    return sources


def _find_folder_file(folder: str | None) -> str | None:
    if folder is not None:
        return os.path.join(folder, DEFAULT_FILE)  # noqa: PTH118, pathlib is slow to load
    return DEFAULT_FILE if os.access(DEFAULT_FILE, os.F_OK) else None


def _variable_part(name: str) -> str:
    return name.replace("-", "_").upper()


def _read_secret(path: str, variable: str) -> str:
    from pathlib import Path

    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{variable}: the file {path!r} cannot be read: {error}") from error
