"""Links that install a server with one click, and badges for a README."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote

from hubbub.errors import SettingsError
from hubbub.install.clients import find_client
from hubbub.install.entries import ServerEntry, format_entry

_CURSOR_MAX_CHARACTERS: Final = 8000
_CURSOR_IMAGE: Final = "https://cursor.com/deeplink/mcp-install-dark.svg"
_VSCODE_IMAGE: Final = "https://img.shields.io/badge/VS_Code-Install-0098FF"


def make_cursor_link(server: ServerEntry) -> str:
    """Return the link that Cursor opens.

    Raises: SettingsError, if it is longer than Cursor accepts.
    """
    return _check_length(f"cursor://anysphere.cursor-deeplink/mcp/install?{_cursor_query(server)}")


def make_cursor_badge(server: ServerEntry) -> str:
    """Return a Markdown badge. It links to a page of Cursor, because many sites remove links with other schemes.

    Raises: SettingsError.
    """
    link = _check_length(f"https://cursor.com/install-mcp?{_cursor_query(server)}")
    return f"[![Add to Cursor]({_CURSOR_IMAGE})]({link})"


def make_vscode_link(server: ServerEntry) -> str:
    """Return the link that VS Code opens."""
    entry = {"name": server.name, **format_entry(find_client("vscode"), server)}
    return f"vscode:mcp/install?{quote(_compact(entry), safe='')}"


def make_vscode_badge(server: ServerEntry) -> str:
    """Return a Markdown badge. It links to a page of VS Code, because many sites remove links with other schemes."""
    link = quote(make_vscode_link(server), safe="")
    return f"[![Add to VS Code]({_VSCODE_IMAGE})](https://vscode.dev/redirect?url={link})"


def _cursor_query(server: ServerEntry) -> str:
    config = b64encode(_compact(format_entry(find_client("cursor"), server)).encode()).decode()
    return f"name={quote(server.name, safe='')}&config={quote(config, safe='')}"


def _compact(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _check_length(link: str) -> str:
    if len(link) > _CURSOR_MAX_CHARACTERS:
        raise SettingsError(f"the link has {len(link)} characters; Cursor accepts at most {_CURSOR_MAX_CHARACTERS}")
    return link
