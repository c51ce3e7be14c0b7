"""`hubbub plan`: shows what would change if a running hub reloaded its files now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from hubbub.assembly.reloading import load_hub
from hubbub.cli.failing import FAILED, say
from hubbub.cli.writing import write_json, write_lines
from hubbub.errors import HubbubError, SettingsError
from hubbub.hub.described import Description, describe
from hubbub.hub.plan import Field, Plan, Step, compare
from hubbub.hub.reload import Loaded
from hubbub.hub.state_file import RunningHub, running_hubs
from hubbub.settings import ServeSettings, known_variables
from hubbub.settings.folders import user_settings_path

CHANGES: Final = 3
"""The exit code of `--exit-code` when something would change."""
_USUAL: Final = "hubbub.toml"
_MARKS: Final = {"add": "+", "remove": "-", "change": "~"}
_NOBODY: Final = bytes(16)
_HELP: Final = """Show what would change if a hub took over its files as they are now.

Compares hubbub.toml and mcp.json, as they lie on the disk, with the hub that runs with them
(the one started last, if several do); with no such hub, everything in them is new.
Nothing is changed. A hub follows its files by itself; set `reload = false` under [hub]
to look first, and send it SIGHUP when you are content. Or write the new version into
another file and name it as NEW: a hubbub.toml, or an mcp.json if it ends with .json.

\b
hubbub plan                        hubbub.toml in this folder against its hub
hubbub plan new.toml               another file against that hub
hubbub plan --mcp-json mcp.json --json

\b
+ comes    - goes    ~ changes

Changed servers finish the calls that run. What no running process can change (the
port, say) is named apart. Of secrets (env, headers) it says only that they differ;
variables in the files (${NAME}) are those of this shell. Exits with 0, with 1 if the
files are wrong, and with --exit-code with 3 if something would change.
"""


@click.command(help=_HELP, short_help="Show what a changed file would change in a running hub.")
@click.argument("new", required=False, metavar="[NEW]")
@click.option("--config", metavar="FILE", help="The settings file of the hub; otherwise hubbub.toml in this folder.")
@click.option("--mcp-json", metavar="FILE", help="The mcp.json of the hub, if it has one.")
@click.option("--exit-code", is_flag=True, help=f"Exit with {CHANGES} if something would change.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, for machines.")
def command(new: str | None, config: str | None, mcp_json: str | None, exit_code: bool, as_json: bool) -> int:
    """Compare, and write what differs to stdout."""
    hub = _find(config, mcp_json)
    flags, folder = _flags(hub, new, config, mcp_json)
    try:
        loaded = load_hub(flags, _variables(hub), folder)
    except HubbubError as error:
        if as_json:
            write_json({"ok": False, "problem": error.message, "running": _about(hub)})
        else:
            say(error.message)
        return FAILED
    plan = _plan(hub, loaded)
    if as_json:
        write_json({"ok": True, "running": _about(hub), **msgspec.to_builtins(plan)})
    else:
        write_lines(_as_text(hub, plan, loaded))
    return CHANGES if exit_code and plan else 0


def _find(config: str | None, mcp_json: str | None) -> RunningHub | None:
    """Find the hub with these files, or with the file of this folder, or the only hub that runs."""
    if config is None and mcp_json is None and Path(_USUAL).exists():
        config = _USUAL
    wanted = {"config": _whole(config), "mcp_json": _whole(mcp_json)}
    found = [
        hub for hub in running_hubs() if all(path is None or path == getattr(hub, key) for key, path in wanted.items())
    ]
    is_named = config is not None or mcp_json is not None
    return found[0] if found and (is_named or len(found) == 1) else None


def _flags(
    hub: RunningHub | None, new: str | None, config: str | None, mcp_json: str | None
) -> tuple[dict[str, Any], str | None]:
    """Return the flags that would start that hub with the given files, and its folder.

    The folder is None if the settings file was named explicitly.

    Raises: SettingsError, if there is no file to compare.
    """
    flags: dict[str, Any] = {}
    if hub is not None:
        flags = dict(hub.flags) | ({"--config": hub.config} if hub.config and hub.is_config_named else {})
        if "--mcp-json" in flags:
            flags["--mcp-json"] = hub.mcp_json
    given = {"--config": config, "--mcp-json": mcp_json}
    if new is not None:
        given["--mcp-json" if new.endswith(".json") else "--config"] = new
    flags |= {flag: path for flag, path in given.items() if path}
    if flags.get("--config"):
        return flags, None
    if hub is not None and hub.config and not hub.is_config_named:
        return flags, str(Path(hub.config).parent)
    if not (flags.get("--mcp-json") or Path(_USUAL).exists() or Path(user_settings_path()).exists()):
        raise SettingsError(f"there is no {_USUAL} in this folder; name the file with --config or --mcp-json")
    return flags, None


def _variables(hub: RunningHub | None) -> Mapping[str, str]:
    """The environment, with the hub's own values of the variables that `serve` reads."""
    if hub is None:
        return os.environ
    known = known_variables(ServeSettings)
    return {name: value for name, value in os.environ.items() if name not in known} | hub.variables


def _plan(hub: RunningHub | None, loaded: Loaded) -> Plan:
    if hub is None:
        after = describe(loaded.config, _NOBODY)
        # Default settings of a hub are not changes.
        return compare(Description(hub=after.hub), after)
    plan = compare(hub.description, describe(loaded.config, bytes.fromhex(hub.key), loaded.settings))
    return _without_hidden(plan, {f"settings.{key}" for key in hub.hidden_keys})


def _without_hidden(plan: Plan, hidden: set[str]) -> Plan:
    """Remove fields that the hub was given in secret flags, whose values are not known here."""
    steps = []
    for step in plan.steps:
        fields = tuple(field for field in step.fields if field.key not in hidden)
        if fields or step.action != "change":
            steps.append(msgspec.structs.replace(step, fields=fields))
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _about(hub: RunningHub | None) -> Mapping[str, Any] | None:
    if hub is None:
        return None
    return {"pid": hub.pid, "address": hub.address, "startedAt": hub.started_at, "problem": hub.problem}


def _as_text(hub: RunningHub | None, plan: Plan, loaded: Loaded) -> Iterator[str]:
    files = ", ".join(map(str, loaded.files))
    if hub is None:
        yield f"No hub runs with {files}; one that starts now would have:"
    elif not plan:
        yield f"Nothing would change: the hub at {hub.address} (process {hub.pid}) is as {files} says."
    else:
        yield f"The hub at {hub.address} (process {hub.pid}) would change:"
    for step in plan.steps:
        yield from _lines_of(step)
    if plan.restart:
        yield "only when it is started anew:"
        yield from (f"    {_told(field)}" for field in plan.restart)


def _lines_of(step: Step) -> Iterator[str]:
    way = f"  {step.way}" if step.way else ""
    name = step.name if step.part == "hub" else f"{step.part} {step.name}"
    note = {"server": "  (reached anew)", "hub": "  (all servers are reached anew)"}.get(step.part, "")
    yield f"  {_MARKS[step.action]} {name}{way}{note if step.reconnects else ''}"
    yield from (f"      {_told(field)}" for field in step.fields)


def _told(field: Field) -> str:
    if field.is_secret:
        return f"{field.key}: differs (secret)"
    if field.before is None:
        return f"{field.key}: {field.after}"
    if field.after is None:
        return f"{field.key}: no longer {field.before}"
    if field.before == field.after:
        return f"{field.key}: differs in what is not shown"
    return f"{field.key}: {field.before} -> {field.after}"


def _whole(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
