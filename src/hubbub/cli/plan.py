"""`hubbub plan`: shows what would change if a running hub reloaded its files now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from hubbub.assembly.hub_reload import load_hub
from hubbub.cli.errors import FAILED, print_message
from hubbub.cli.output import write_json, write_lines
from hubbub.errors import HubbubError, SettingsError
from hubbub.hub.config_description import ConfigDescription, describe_config
from hubbub.hub.plan import Field, Plan, Step, compare
from hubbub.hub.reload import LoadedConfig
from hubbub.hub.state_file import RunningHub, running_hubs
from hubbub.settings import ServeSettings, known_variables
from hubbub.settings.folders import user_settings_path

EXIT_CHANGES: Final = 3
"""The exit code of `--exit-code` when something would change."""
_DEFAULT_FILE: Final = "hubbub.toml"
_MARKS: Final = {"add": "+", "remove": "-", "change": "~"}
_NO_KEY: Final = bytes(16)
_HELP: Final = """Show what would change if a running hub reloaded its files now.

Compares hubbub.toml and mcp.json with the hub that was started with them (the newest, if
several run); without such a hub, everything in them is new. Nothing is changed.
A hub reloads its files when they change. To review changes first, set `reload = false` under
[hub], and send SIGHUP to apply them. Or write the new version to another file and give it as
NEW: a hubbub.toml, or an mcp.json if it ends with .json.

\b
hubbub plan                        hubbub.toml in this folder against its hub
hubbub plan new.toml               another file against that hub
hubbub plan --mcp-json mcp.json --json

\b
+ added    - removed    ~ changed

Changed servers finish their running calls. Settings that need a restart, such as the port,
are listed separately. Values of secrets (env, headers) are not shown; variables in the files
(${NAME}) are read from this shell. Exits with 1 if the files are invalid, and with
--exit-code with 3 if something would change.
"""


@click.command(help=_HELP, short_help="Show what a reload would change in a running hub.")
@click.argument("new", required=False, metavar="[NEW]")
@click.option("--config", metavar="FILE", help="The settings file of the hub; by default hubbub.toml in this folder.")
@click.option("--mcp-json", metavar="FILE", help="The mcp.json of the hub, if it has one.")
@click.option("--exit-code", is_flag=True, help=f"Exit with {EXIT_CHANGES} if something would change.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(new: str | None, config: str | None, mcp_json: str | None, exit_code: bool, as_json: bool) -> int:
    """Write the differences to stdout."""
    hub = _find_hub(config, mcp_json)
    flags, folder = _flags(hub, new, config, mcp_json)
    try:
        loaded = load_hub(flags, _read_environment(hub), folder)
    except HubbubError as error:
        if as_json:
            write_json({"ok": False, "problem": error.message, "running": _summarize_hub(hub)})
        else:
            print_message(error.message)
        return FAILED
    plan = _make_plan(hub, loaded)
    if as_json:
        write_json({"ok": True, "running": _summarize_hub(hub), **msgspec.to_builtins(plan)})
    else:
        write_lines(_format_plan(hub, plan, loaded))
    return EXIT_CHANGES if exit_code and plan else 0


def _find_hub(config: str | None, mcp_json: str | None) -> RunningHub | None:
    """Find the hub with these files, or with the file of this folder, or the only hub that runs."""
    if config is None and mcp_json is None and Path(_DEFAULT_FILE).exists():
        config = _DEFAULT_FILE
    wanted = {"config": _absolute_path(config), "mcp_json": _absolute_path(mcp_json)}
    matches = [
        hub for hub in running_hubs() if all(path is None or path == getattr(hub, key) for key, path in wanted.items())
    ]
    is_named = config is not None or mcp_json is not None
    return matches[0] if matches and (is_named or len(matches) == 1) else None


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
    paths = {"--config": config, "--mcp-json": mcp_json}
    if new is not None:
        paths["--mcp-json" if new.endswith(".json") else "--config"] = new
    flags |= {flag: path for flag, path in paths.items() if path}
    if flags.get("--config"):
        return flags, None
    if hub is not None and hub.config and not hub.is_config_named:
        return flags, str(Path(hub.config).parent)
    if not (flags.get("--mcp-json") or Path(_DEFAULT_FILE).exists() or Path(user_settings_path()).exists()):
        raise SettingsError(f"{_DEFAULT_FILE} not found in this folder; give --config FILE or --mcp-json FILE")
    return flags, None


def _read_environment(hub: RunningHub | None) -> Mapping[str, str]:
    """The environment, with the hub's own values of the variables that `serve` reads."""
    if hub is None:
        return os.environ
    known = known_variables(ServeSettings)
    return {name: value for name, value in os.environ.items() if name not in known} | hub.variables


def _make_plan(hub: RunningHub | None, loaded: LoadedConfig) -> Plan:
    if hub is None:
        after = describe_config(loaded.config, _NO_KEY)
        # Default settings of a hub are not changes.
        return compare(ConfigDescription(hub=after.hub), after)
    after = describe_config(loaded.config, bytes.fromhex(hub.key), loaded.settings, loaded.oauth)
    plan = compare(hub.description, after)
    return _without_hidden(plan, {f"settings.{key}" for key in hub.hidden_keys})


def _without_hidden(plan: Plan, hidden: set[str]) -> Plan:
    """Remove fields that the hub was given in secret flags, whose values are not known here."""
    steps = []
    for step in plan.steps:
        fields = tuple(field for field in step.fields if field.key not in hidden)
        if fields or step.action != "change":
            steps.append(msgspec.structs.replace(step, fields=fields))
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _summarize_hub(hub: RunningHub | None) -> Mapping[str, Any] | None:
    if hub is None:
        return None
    return {"pid": hub.pid, "address": hub.address, "startedAt": hub.started_at, "problem": hub.problem}


def _format_plan(hub: RunningHub | None, plan: Plan, loaded: LoadedConfig) -> Iterator[str]:
    if hub is not None and hub.problem is not None:
        yield f"The hub has not applied the files: {hub.problem}"
    files = ", ".join(map(str, loaded.files))
    if hub is None:
        yield f"No hub runs with {files}; a new one would have:"
    elif not plan:
        yield f"Nothing would change: the hub at {hub.address} (process {hub.pid}) matches {files}."
    else:
        yield f"The hub at {hub.address} (process {hub.pid}) would change:"
    for step in plan.steps:
        yield from _step_lines(step)
    if plan.restart:
        yield "after a restart only:"
        yield from (f"    {_format_field(field)}" for field in plan.restart)


def _step_lines(step: Step) -> Iterator[str]:
    target = f"  {step.target}" if step.target else ""
    name = step.name if step.part == "hub" else f"{step.part} {step.name}"
    note = {"server": "  (reconnects)", "hub": "  (all servers reconnect)"}.get(step.part, "")
    yield f"  {_MARKS[step.action]} {name}{target}{note if step.reconnects else ''}"
    yield from (f"      {_format_field(field)}" for field in step.fields)


def _format_field(field: Field) -> str:
    if field.is_secret:
        return f"{field.key}: differs (secret)"
    if field.before is None:
        return f"{field.key}: {field.after}"
    if field.after is None:
        return f"{field.key}: no longer {field.before}"
    if field.before == field.after:
        return f"{field.key}: differs in a part that is not shown"
    return f"{field.key}: {field.before} -> {field.after}"


def _absolute_path(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())
