"""HTML pages of the front door. No scripts; one style sheet, served as a file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hubbub.protocol.scopes import ADMIN_SCOPE

STYLE_PATH: Final = "/oauth/style.css"

_STYLE: Final = """\
:root {
  color-scheme: light dark;
  --page: #f3f4f6; --card: #ffffff; --text: #15181e; --muted: #5a6270; --line: #dcdfe5;
  --accent: #2450c8; --on-accent: #ffffff; --warn: #7a4a00; --warn-page: #fff4dc; --warn-line: #ecd096;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101216; --card: #191c22; --text: #eceef2; --muted: #a2aab7; --line: #30353f;
    --accent: #8eacff; --on-accent: #0c1226; --warn: #f5cf85; --warn-page: #2b2312; --warn-line: #5c4a1f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; min-height: 100vh; display: flex; align-items: center; justify-content: center; padding: 0.75rem;
  background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, sans-serif;
}
main {
  width: 100%; max-width: 32rem; padding: 1rem 1.5rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 0.75rem;
}
h1 { margin: 0 0 0.625rem; font-size: 1.25rem; line-height: 1.25; overflow-wrap: anywhere; text-wrap: balance; }
p { margin: 0 0 0.75rem; overflow-wrap: anywhere; }
.server { margin: 0 0 0.25rem; color: var(--muted); font-size: 0.875rem; }
.muted { color: var(--muted); font-size: 0.875rem; }
.warning {
  padding: 0.5rem 0.75rem; border: 1px solid var(--warn-line); border-radius: 0.5rem;
  background: var(--warn-page); color: var(--warn); font-size: 0.875rem; line-height: 1.4;
}
h2 { margin: 0.75rem 0 0.25rem; font-size: 0.9rem; }
ul { margin: 0 0 0.75rem; padding-left: 1.25rem; font-size: 0.9rem; }
li { margin: 0.125rem 0; overflow-wrap: anywhere; }
dl { margin: 0 0 0.75rem; border-top: 1px solid var(--line); font-size: 0.875rem; }
dl div { display: flex; gap: 1rem; padding: 0.25rem 0; border-bottom: 1px solid var(--line); }
dt { flex: 0 0 8.5rem; color: var(--muted); }
dd { margin: 0; flex: 1; overflow-wrap: anywhere; }
code { font: 0.9em ui-monospace, SFMono-Regular, Consolas, monospace; }
label { display: block; margin: 0 0 0.375rem; font-weight: 600; font-size: 0.95rem; }
input {
  width: 100%; padding: 0.625rem 0.75rem; margin: 0 0 1rem; border: 1px solid var(--muted); border-radius: 0.5rem;
  background: transparent; color: inherit; font: inherit;
}
.actions { display: flex; gap: 0.75rem; margin: 0.75rem 0 0; }
button {
  flex: 1; padding: 0.5rem 1rem; border: 1px solid var(--line); border-radius: 0.5rem; background: transparent;
  color: var(--text); font: inherit; font-weight: 600; cursor: pointer;
}
button.primary { border-color: var(--accent); background: var(--accent); color: var(--on-accent); }
button:hover { filter: brightness(1.08); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid var(--line); border-radius: 0.5rem; white-space: pre; }
@media (max-width: 26rem) {
  body { align-items: flex-start; }
  main { padding: 1.25rem; }
  dl div { flex-direction: column; gap: 0; }
  dt { flex: none; }
}
"""
STYLE: Final = _STYLE.encode()
_PROBLEM: Final = "problem"


class ConsentView(msgspec.Struct, frozen=True, kw_only=True):
    """What the consent page shows."""

    server_name: str
    client_name: str
    verified_host: str
    """The host that published the client's document; empty if its identity is not verified."""
    is_configured: bool
    """Whether the operator of this server named the client in the settings."""
    user: str
    tenant: str
    scopes: Sequence[str]
    redirect_target: str
    is_local: bool
    """Whether the redirect stays on the person's computer."""
    resource: str
    action: str
    state: str


def describe_scope(scope: str) -> str:
    """Return what a scope allows, as HTML."""
    if scope == ADMIN_SCOPE:
        return "Administer this server: users, sessions, keys and approvals"
    return f"Use the permission <code>{escape(scope)}</code>"


def consent_page(view: ConsentView, style_url: str) -> bytes:
    """Return the page that asks whether a client may act for the person who logged in."""
    name = escape(view.client_name)
    account = escape(view.user) + (f" ({escape(view.tenant)})" if view.tenant else "")
    is_verified = bool(view.verified_host) or view.is_configured
    # The identity precedes the name, because the app chooses the name and could imitate an identity in it.
    if view.is_configured:
        identity, warning = "set up by the operator of this server", ""
    elif view.verified_host:
        identity = f"published by <strong>{escape(view.verified_host)}</strong>"
        warning = ""
    else:
        identity = "unverified"
        warning = (
            f'<p class="warning">The name “{name}” is what the app says about itself; this server cannot verify it. '
            "Continue only if you started this login yourself.</p>"
        )
    if view.is_local:
        target = f"a program on this computer (<code>{escape(view.redirect_target)}</code>)"
        if is_verified:
            warning = (
                '<p class="warning">You will return to a program on this computer. Continue only if you started '
                "this login yourself.</p>"
            )
    else:
        target = f"<strong>{escape(view.redirect_target)}</strong>"
    permissions = "".join(f"<li>{describe_scope(scope)}</li>" for scope in view.scopes)
    body = f"""\
<p class="server">{escape(view.server_name)}</p>
<h1>Let {name} act for you?</h1>
{warning}
<dl>
<div><dt>Your account</dt><dd>{account}</dd></div>
<div><dt>App</dt><dd>{identity}: {name}</dd></div>
<div><dt>Sends you back to</dt><dd>{target}</dd></div>
<div><dt>Server</dt><dd><code>{escape(view.resource)}</code></dd></div>
</dl>
<h2>It will be able to</h2>
<ul><li>See and call the tools of this server that you are allowed to use</li>{permissions}</ul>
<form method="post" action="{escape(view.action)}">
<input type="hidden" name="state" value="{escape(view.state)}">
<div class="actions">
<button type="submit" name="decision" value="allow" class="primary">Allow</button>
<button type="submit" name="decision" value="deny">Cancel</button>
</div>
</form>"""
    return make_page(f"Allow {view.client_name}? - {view.server_name}", body, style_url)


def login_page(*, server_name: str, client_name: str, action: str, state: str, problem: str, style_url: str) -> bytes:
    """Return the page that asks for an API key; `client_name` is empty if no client asked for the login."""
    reason, assurance = "Enter your API key for this server to continue.", "The key is not sent to any other server."
    if client_name:
        reason = f"{escape(client_name)} wants to connect to this server. Log in with your API key to decide."
        assurance = "The key stays at this server: the app gets a token of its own, which you can revoke."
    body = f"""\
<p class="server">{escape(server_name)}</p>
<h1>Log in</h1>
<p>{reason}</p>
{problem_alert(problem)}
<form method="post" action="{escape(action)}">
<input type="hidden" name="state" value="{escape(state)}">
<label for="key">API key</label>
{key_field(is_wrong=bool(problem))}
<p class="muted">{assurance}</p>
<div class="actions"><button type="submit" class="primary">Continue</button></div>
</form>"""
    return make_page(f"Log in – {server_name}", body, style_url)


def problem_alert(problem: str) -> str:
    """Return a message about a form, as HTML; empty if there is no problem."""
    return f'<p class="warning" role="alert" id="{_PROBLEM}">{escape(problem)}</p>' if problem else ""


def key_field(*, is_wrong: bool) -> str:
    """Return the field for an API key; after a wrong key, it names the message about that to screen readers."""
    wrong = f' aria-invalid="true" aria-describedby="{_PROBLEM}"' if is_wrong else ""
    return (
        '<input id="key" name="key" type="password" autocomplete="current-password" required autofocus '
        f'spellcheck="false"{wrong}>'
    )


def error_page(*, server_name: str, title: str, message: str, style_url: str, return_url: str = "") -> bytes:
    """Return the page about a login that cannot continue."""
    host = urlsplit(return_url).hostname or ""
    next_step = (
        f'<p>You can return to <a href="{escape(return_url)}" rel="noreferrer">{escape(host)}</a>, if you trust it.</p>'
        if return_url
        else '<p class="muted">You can close this page.</p>'
    )
    body = f"""\
<p class="server">{escape(server_name)}</p>
<h1>{escape(title)}</h1>
<p>{escape(message)}</p>
{next_step}"""
    return make_page(f"{title} – {server_name}", body, style_url)


def make_page(title: str, body: str, style_url: str) -> bytes:
    """Return a page with this body, which is HTML."""
    page = f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{escape(title)}</title>
<link rel="stylesheet" href="{escape(style_url)}">
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
    return page.encode("utf-8", "replace")
