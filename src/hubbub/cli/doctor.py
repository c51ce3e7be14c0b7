"""`hubbub doctor`: checks the installation, the settings, the packs and the servers, and says how to fix problems."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.diagnosis import Diagnosis, diagnose
from hubbub.cli.errors import FAILED

_HELP = """Check the installation, and show how to fix what does not work.

Checks Python, the libraries, the settings and all installed packs. Problems of a pack count
only if it is named as PACK; optional features are marked and never count.
For the servers in hubbub.toml, checks that their programs exist, without starting them.
For each MCP client on this machine, connects to the Hubbub servers that are registered there.
Exits with 1 if a required part does not work.
"""


@click.command(help=_HELP, short_help="Check the installation, and show how to fix problems.")
@click.argument("pack", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(pack: tuple[str, ...], as_json: bool) -> int:
    """Run all checks and write the result to stdout."""
    diagnosis = diagnose(pack)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).decode())
    else:
        click.echo(_as_text(diagnosis))
    return 0 if diagnosis.ok else FAILED


def _as_text(diagnosis: Diagnosis) -> str:
    lines = [f"hubbub {diagnosis.version}", ""]
    lines += [_line(check.ok, check.name, check.detail, check.advice) for check in diagnosis.checks]
    lines += ["", "packs"]
    for pack in diagnosis.packs:
        lines.append(_line(pack.ok, pack.name, pack.summary or pack.detail, "" if pack.summary else pack.advice))
        if pack.summary and pack.detail:
            lines.append(_line(None, "", pack.detail, pack.advice))
        lines += [
            _line(check.ok, f"  {check.name}", check.detail, check.advice, check.optional) for check in pack.checks
        ]
    if not diagnosis.packs:
        lines.append("  none")
    if diagnosis.servers:
        lines += ["", "servers"]
        lines += [_line(check.ok, check.name, check.detail, check.advice) for check in diagnosis.servers]
    if diagnosis.logins:
        lines += ["", "logins"]
        lines += [_line(check.ok, check.name, check.detail, check.advice) for check in diagnosis.logins]
    if diagnosis.clients:
        lines += ["", "clients"]
        lines += [_line(each.ok, each.name, each.detail, each.advice, each.optional) for each in diagnosis.clients]
    return "\n".join(lines)


def _line(ok: bool | None, name: str, detail: str, advice: str, is_optional: bool = False) -> str:
    mark = "-" if is_optional and not ok else {True: "ok", False: "--", None: ""}[ok]
    detail = f"optional: {detail}" if is_optional else detail
    line = f"  {mark:<3}{name:<18} {detail}".rstrip()
    return f"{line}\n{'':<24}-> {advice}" if advice else line
