"""Checks values with the code that uses them, so that messages name the place of a wrong value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hubbub.errors import HubbubError, SettingsError
from hubbub.settings.fields import list_settings
from hubbub.settings.serve import ServeSettings
from hubbub.settings.sources import OAUTH, Sources

if TYPE_CHECKING:
    from hubbub.settings.governance import EgressSettings
    from hubbub.settings.oauth import OAuthSettings

_EGRESS = "egress"


def check_limits(settings: ServeSettings, sources: Sources) -> None:
    """Check the rate limits.

    Raises: SettingsError.
    """
    if settings.limits in ((), ("off",)):
        return  # The usual case: do not import anything.
    from hubbub.security.rate_limits import RateLimits

    (setting,) = (setting for setting in list_settings(ServeSettings) if setting.name == "limits")
    given = sources.find((), setting)
    origin = "limits" if given is None else given.origin
    with _add_place(lambda: origin, "limits: "):
        RateLimits(settings.limits)


def check_egress(settings: EgressSettings, sources: Sources) -> None:
    """Check the hosts and the proxy of `[egress]`.

    Raises: SettingsError.
    """
    from hubbub.net.egress_rules import EgressRules

    for index, host in enumerate(settings.allow or ()):
        with _add_place(lambda: _locate(sources, _EGRESS, "allow", str(index)), "`allow` of [egress]: "):  # noqa: B023
            EgressRules.parse((host,))
    with _add_place(lambda: _locate(sources, _EGRESS, "proxy"), "`proxy` of [egress] "):
        EgressRules.parse(None, proxy=settings.proxy)


def check_database(url: str | None, section: str, sources: Sources) -> None:
    """Check the URL of the database of a section; the error does not contain it, because of its password.

    Raises: SettingsError.
    """
    if url is None:
        return
    try:
        from hubbub.store.sql import read_url
    except ImportError:
        return  # Reported when the database is opened.
    with _add_place(lambda: _locate(sources, section, "database")):
        read_url(url)


def check_oauth(settings: OAuthSettings, sources: Sources) -> None:
    """Check the URL of the database and the redirect URIs of clients of `[oauth]`.

    Raises: SettingsError.
    """
    check_database(settings.database, OAUTH, sources)
    if not settings.clients:
        return
    from hubbub.oauth.front_door.clients import check_redirect_uri

    for index, client in enumerate(settings.clients):
        for number, uri in enumerate(client.redirect_uris):
            path = (OAUTH, "clients", str(index), "redirect_uris", str(number))
            with _add_place(lambda: _locate(sources, *path), "redirect_uris: "):  # noqa: B023
                check_redirect_uri(uri)


@contextmanager
def _add_place(locate: Callable[[], str], prefix: str = "") -> Iterator[None]:
    """Begin the message of an error with the place of the value instead of `prefix`."""
    try:
        yield
    except HubbubError as error:
        raise SettingsError(f"{locate()}: {error.message.removeprefix(prefix)}") from None


def _locate(sources: Sources, *path: str) -> str:
    *section, _ = path[:2]
    is_in_file = sources.file is not None and path[1] in sources.file.table(section)
    return sources.file.locate(path) if sources.file is not None and is_in_file else ".".join(path)
