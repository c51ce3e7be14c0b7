"""Generate the tables of settings, errors and revisions in these pages from the code.

    python docs/tables.py       rewrites what is between `<!-- table: name -->` and `<!-- end -->`

`tests/docs/test_tables.py` fails if a page is out of date.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hubbub import errors
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings
from hubbub.packs.peers.settings import PeersSettings
from hubbub.protocol.error_codes import ERROR_RULES
from hubbub.protocol.revisions import LEGACY, MODERN, Revision
from hubbub.server.asgi import AsgiOptions
from hubbub.settings import ServeSettings
from hubbub.settings.fields import Setting, list_settings
from hubbub.settings.governance import (
    ApprovalSettings,
    AuditSettings,
    EgressSettings,
    PinSettings,
    PolicyRule,
    PolicySettings,
    QuotaSettings,
    SecretSettings,
    TenantSettings,
)
from hubbub.settings.hub import HubSettings, ViewSettings
from hubbub.settings.oauth import ClientSettings, IntrospectionSettings, IssuerSettings, OAuthSettings, ProviderSettings
from hubbub.settings.servers import IdentityProviderSettings, ServerOAuthSettings, ServerSettings, ToolSettings
from hubbub.settings.sources import variable_names

FOLDER = Path(__file__).parent
_TABLE_MARK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings() -> list[list[str]]:
    """Every setting of `hubbub serve`."""
    rows = [["flag", "`hubbub.toml`", "variable", "default", "what it is"]]
    return rows + [_setting(setting) for setting in list_settings(ServeSettings)]


def _setting(setting: Setting) -> list[str]:
    flag = setting.flag if setting.flag == "TARGET" or setting.extra.get("switch") else f"{setting.flag} {setting.form}"
    key = setting.key if setting.extra.get("in_file", True) else ""
    variables = " ".join(map(_code, variable_names((), setting)))
    return [_code(flag), _code(key), variables, _default(setting.default), setting.description]


def asgi() -> list[list[str]]:
    """Every option of `Server.asgi`."""
    known = {setting.key: setting for setting in list_settings(ServeSettings)}
    rows = [["option", "default", "what it is"]]
    for name in AsgiOptions.__annotations__:
        rows.append([_code(name), _default(known[name].default), known[name].description])
    return rows


def servers() -> list[list[str]]:
    """Every setting of a server that we connect to."""
    return _section("[servers.NAME]", ServerSettings)


def server_oauth() -> list[list[str]]:
    """Every setting of the tokens for a server."""
    return _section("[servers.NAME.oauth]", ServerOAuthSettings)


def server_identity_provider() -> list[list[str]]:
    """Every setting of the identity provider for a server with enterprise-managed authorization."""
    return _section("[servers.NAME.oauth.identity_provider]", IdentityProviderSettings)


def shown_tools() -> list[list[str]]:
    """Every setting of one tool of a server behind a hub."""
    return _section("[servers.NAME.tools.TOOL]", ToolSettings)


def hub() -> list[list[str]]:
    """Every setting of the hub."""
    return _section("[hub]", HubSettings)


def views() -> list[list[str]]:
    """Every setting of a view of the hub."""
    return _section("[views.NAME]", ViewSettings)


def tenants() -> list[list[str]]:
    """Every setting of a tenant."""
    return _section("[[tenants]]", TenantSettings)


def policy() -> list[list[str]]:
    """Every setting of the policy, except its rules."""
    return _section("[policy]", PolicySettings)


def policy_rules() -> list[list[str]]:
    """Every key of a rule of the policy."""
    return _section("[[policy.rules]]", PolicyRule)


def pins() -> list[list[str]]:
    """Every setting of pins."""
    return _section("[pins]", PinSettings)


def approvals() -> list[list[str]]:
    """Every setting of approvals."""
    return _section("[approvals]", ApprovalSettings)


def quotas() -> list[list[str]]:
    """Every key of a quota."""
    return _section("[[quotas]]", QuotaSettings)


def secrets() -> list[list[str]]:
    """Every setting of a secret."""
    return _section("[secrets.NAME]", SecretSettings)


def egress() -> list[list[str]]:
    """Every setting of outgoing connections."""
    return _section("[egress]", EgressSettings)


def audit() -> list[list[str]]:
    """Every setting of the audit journal."""
    return _section("[audit]", AuditSettings)


def oauth() -> list[list[str]]:
    """Every setting of access tokens, except those of the authorization server."""
    return _section("[oauth]", OAuthSettings)


def oauth_issuers() -> list[list[str]]:
    """Every setting of an authorization server whose tokens are accepted."""
    return _section("[[oauth.issuers]]", IssuerSettings)


def oauth_introspection() -> list[list[str]]:
    """Every setting of introspection."""
    return _section("introspection", IntrospectionSettings)


def oauth_clients() -> list[list[str]]:
    """The settings of one app that the operator set up."""
    return _section("[[oauth.clients]]", ClientSettings)


def oauth_provider() -> list[list[str]]:
    """Every setting of the provider of the front door."""
    return _section("[oauth.provider]", ProviderSettings)


def activity() -> list[list[str]]:
    """Every setting of the activity pack, without its privacy rules."""
    return _section("[packs.activity]", ActivitySettings)


def activity_privacy() -> list[list[str]]:
    """Every privacy rule of the activity pack."""
    return _section("[packs.activity.privacy]", PrivacySettings)


def peers() -> list[list[str]]:
    """Every setting of the peers pack."""
    return _section("[packs.peers]", PeersSettings)


def _section(title: str, kind: type[msgspec.Struct]) -> list[list[str]]:
    rows = [[_code(title), "default", "what it is"]]
    for setting in list_settings(kind):
        if setting.is_section and setting.default is not msgspec.NODEFAULT:
            continue  # it has a table of its own
        rows.append([_code(f"{setting.key} = {setting.form}"), _default(setting.default), setting.description])
    return rows


def _default(value: Any) -> str:
    if value is msgspec.NODEFAULT or value in (None, (), "", {}):
        return ""
    if isinstance(value, tuple):
        value = list(value)
    return _code(msgspec.json.encode(value).decode() if isinstance(value, bool | list) else str(value))


def failures() -> list[list[str]]:
    """The code and HTTP status of every kind of error."""
    rows = [["error", "modern", "legacy", "plain", "HTTP status"]]
    for kind, form in ERROR_RULES.items():
        is_result = issubclass(kind, errors.ToolFailure)
        mcp = ["`isError`"] * 2 if is_result else [str(form.modern), str(form.legacy)]
        status = "200" if is_result else str(form.status)
        rows.append([_code(kind.__name__), *mcp, str(form.plain), status])
    return rows


def revisions() -> list[list[str]]:
    """What each revision can express."""
    known = [*LEGACY.values(), *MODERN.values()]
    rows = [["", *(revision.version for revision in known)]]
    for title, has in _FEATURES.items():
        rows.append([title, *(_answer(has(revision)) for revision in known)])
    return rows


_FEATURES: dict[str, Callable[[Revision], bool | str]] = {
    "sessions": lambda revision: not revision.stateless,
    "batches": lambda revision: revision.batches,
    "tool annotations": lambda revision: revision.annotations,
    "audio": lambda revision: revision.audio,
    "message with progress": lambda revision: revision.progress_message,
    "titles": lambda revision: revision.titles,
    "structured results": lambda revision: {"none": False, "object": "objects", "any": "any JSON"}[revision.structured],
    "resource links": lambda revision: revision.resource_links,
    "elicitation": lambda revision: {"none": False, "form": "forms", "url": "forms, pages"}[revision.elicitation],
    "icons": lambda revision: revision.icons,
    "requests to the client": lambda revision: "as results" if revision.rounds else "as requests",
    "caching hints": lambda revision: revision.caching,
    "change notifications": lambda revision: "on `subscriptions/listen`" if revision.listen else "to every session",
}


def _answer(value: bool | str) -> str:
    return value if isinstance(value, str) else "yes" if value else ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


TABLES = {
    "asgi": asgi,
    "settings": settings,
    "servers": servers,
    "server_oauth": server_oauth,
    "server_identity_provider": server_identity_provider,
    "shown_tools": shown_tools,
    "hub": hub,
    "views": views,
    "tenants": tenants,
    "policy": policy,
    "policy_rules": policy_rules,
    "pins": pins,
    "approvals": approvals,
    "quotas": quotas,
    "secrets": secrets,
    "egress": egress,
    "audit": audit,
    "oauth": oauth,
    "oauth_issuers": oauth_issuers,
    "oauth_introspection": oauth_introspection,
    "oauth_clients": oauth_clients,
    "oauth_provider": oauth_provider,
    "activity": activity,
    "activity_privacy": activity_privacy,
    "peers": peers,
    "failures": failures,
    "revisions": revisions,
}


def fill_tables(page: str) -> str:
    """The page with its tables as the code has them now."""
    return _TABLE_MARK.sub(lambda match: match[1] + _markdown(TABLES[match[2]]()) + match[3], page)


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    for path in FOLDER.rglob("*.md"):
        path.write_text(fill_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
