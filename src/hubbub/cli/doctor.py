"""`hubbub doctor`: what works here, what does not, and what to do about it."""

from __future__ import annotations

import click
import msgspec

from hubbub.cli.diagnosis import Diagnosis, diagnose
from hubbub.cli.failing import FAILED

_HELP = """See what works on this machine, what does not, and what to do.

Lists the packs that are installed. Those named as PACK must work, the others may.
What a pack can do without is marked as optional, and is not counted as broken.
Of the servers in hubbub.toml it tells whether they could be started; it starts none.
Exits with 1 if something that is needed is broken.
"""


@click.command(help=_HELP, short_help="See what works here, and what to do about the rest.")
@click.argument("pack", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, for machines.")
def command(pack: tuple[str, ...], as_json: bool) -> int:
    """Look at everything and write what was found to stdout."""
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
    return "\n".join(lines)


def _line(ok: bool | None, name: str, detail: str, advice: str, is_optional: bool = False) -> str:
    mark = "-" if is_optional and not ok else {True: "ok", False: "--", None: ""}[ok]
    detail = f"optional: {detail}" if is_optional else detail
    told = f"  {mark:<3}{name:<18} {detail}".rstrip()
    return f"{told}\n{'':<24}-> {advice}" if advice else told
