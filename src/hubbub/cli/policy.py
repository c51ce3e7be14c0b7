"""`hubbub policy`: shows the policy of the settings or of a running hub, and what it decides about a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

import click
import msgspec
from msgspec.structs import replace

from hubbub.cli.admin_client import AdminConnection, AdminOptions, admin_options, call_admin, run_admin
from hubbub.cli.errors import print_message
from hubbub.cli.output import write_json, write_lines
from hubbub.errors import SettingsError
from hubbub.governance.decision import TARGET_KINDS, Action, Effect, PolicyDecision, Target, TargetKind
from hubbub.governance.policy_explanation import ExplainedPolicy, PolicyRow, RuleCheck
from hubbub.governance.policy_loader import load_policy
from hubbub.protocol.calls import Principal
from hubbub.protocol.results import ToolAnnotations
from hubbub.settings import ServeSettings, Sources, collect_sources, format_suggestion, read_settings
from hubbub.settings.file import SettingsFile
from hubbub.settings.governance import POLICY, TENANTS, AnnotationName, GovernanceSettings
from hubbub.settings.governance_reader import read_governance
from hubbub.settings.sources import SERVERS

EXIT_CODES: Final[dict[Effect, int]] = {"allow": 0, "deny": 1, "confirm": 3}
Locate: TypeAlias = Callable[[str], str]
"""Returns the name of a rule, with its file and line if they are known."""
_HUB: Final = "hub"
_RULE_INDEX: Final = re.compile(r"policy\.rules\[([0-9]+)\]")
_HELP: Final = """Show the policy of a hub, and what it decides.

Reads [[tenants]] and [policy] as `hubbub serve` does; no hub has to run. With --hub or --url, it
asks a running hub, whose policy may be another: of files that it could not apply, or elsewhere.

\b
hubbub policy show
hubbub policy test --tenant red --user alice call notes/write_note
hubbub policy show --hub auto
hubbub policy show --url https://hub.example.com --key '${ADMIN_KEY}'
"""
_TEST_HELP: Final = """Decide whether a caller may do ACTION with SERVER/NAME, and show which rule decides.

ACTION is call (a tool), get (a prompt), read (a resource or template), list, search, complete,
subscribe, or admin (a function of the hub, whose name may be given without `hub/`).

\b
hubbub policy test --tenant red --user alice call notes/write_note
hubbub policy test --tenant red --user alice --annotation read_only list notes/read_note
hubbub policy test --tenant red --scope files read files/file:///etc/hosts --explain

A tool without --annotation counts as destructive and open_world, as MCP defines.
Nothing is called. Exit codes: 0 allow, 1 deny, 3 confirm (a person has to approve), 2 wrong
usage or invalid settings.
"""

_config_option = click.option(
    "--config", metavar="FILE", help="The settings file; by default hubbub.toml in this folder, and the user's own."
)


@click.group(help=_HELP, short_help="Show and test the policy.")
def command() -> None:
    """Only a group: click needs a function."""


@command.command("show", help="List the rules of the policy in the order in which they decide, with their lines.")
@_config_option
@admin_options
def show(config: str | None, options: AdminOptions) -> int:
    """Write one line for each rule."""
    if _asks_hub(options, config):
        return call_admin(options, "hub.policy.show", {}, _show_policy_of_hub, _find_cut_rules)
    view = _PolicyView(config)
    rows = view.policy.list_rules()
    if options.as_json:
        write_json(
            {
                "engine": view.governance.policy.engine,
                "version": view.policy.version,
                "rules": [{**_describe_row(row), "location": view.locate(row.rule)} for row in rows],
            }
        )
        return 0
    write_lines(_format_rows(rows, view.policy.version, view.locate))
    return 0


@command.command("test", help=_TEST_HELP, short_help="Show what the policy decides about a request.")
@click.argument("action", type=click.Choice(get_args(Action)))
@click.argument("target", metavar="SERVER/NAME")
@click.option("--tenant", default="", metavar="NAME", help="The tenant of the caller.")
@click.option("--user", default="", metavar="NAME", help="The user.")
@click.option(
    "--client", default="", metavar="NAME", help="The program of the user, which Cedar policies can refer to."
)
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="A scope that the caller has; repeatable.")
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    type=click.Choice(get_args(AnnotationName)),
    help="An annotation of the tool; `!` means that it is declared as false; repeatable.",
)
@click.option(
    "--kind", type=click.Choice(get_args(TargetKind)), help="What NAME is; by default it follows from ACTION."
)
@click.option("--explain", is_flag=True, help="Show each rule before the one that decides.")
@_config_option
@admin_options
def test(
    action: Action,
    target: str,
    *,
    kind: TargetKind | None,
    annotations: tuple[str, ...],
    explain: bool,
    config: str | None,
    options: AdminOptions,
    **caller: Any,
) -> int:
    """Write the decision."""
    wanted = _parse_target(target, kind or TARGET_KINDS[action], annotations)
    if _asks_hub(options, config):
        return _test_at_hub(options, action, wanted, caller, explain=explain)
    view = _PolicyView(config)
    if warning := view.find_unknown_server(wanted.server):
        print_message(f"warning: {warning}")
    principal = Principal(
        f"{caller['tenant']}/{caller['user']}",
        frozenset(caller["scopes"]),
        tenant=caller["tenant"],
        user=caller["user"],
        client=caller["client"],
    )
    decision = view.policy.decide(principal, action, wanted)
    checks = view.policy.explain(principal, action, wanted) if explain else []
    _show_decision(action, decision, checks, view.locate, explains=explain, as_json=options.as_json)
    return EXIT_CODES[decision.effect]


def _asks_hub(options: AdminOptions, config: str | None) -> bool:
    """Whether to ask a running hub; otherwise the settings are read.

    Raises: SettingsError, if both were chosen.
    """
    if options.names_hub and config is not None:
        raise SettingsError("--config chooses a file; leave it out with --hub and --url")
    return options.names_hub


def _test_at_hub(
    options: AdminOptions, action: Action, target: Target, caller: Mapping[str, Any], *, explain: bool
) -> int:
    arguments = {
        "action": action,
        "server": target.server,
        "name": target.name,
        "kind": target.kind,
        "tenant": caller["tenant"] or None,
        "user": caller["user"],
        "client": caller["client"],
        "scopes": list(caller["scopes"]),
        "annotations": target.annotations and msgspec.to_builtins(target.annotations),
    }

    async def work(hub: AdminConnection) -> int:
        found = await hub.call("hub.policy.test", arguments)
        decision = msgspec.convert(found, PolicyDecision)
        checks = [_read_check(check) for check in found["explanation"]] if explain else []
        _show_decision(action, decision, checks, str, explains=explain, as_json=options.as_json)
        return EXIT_CODES[decision.effect]

    return run_admin(options, work)


def _read_check(found: dict[str, Any]) -> RuleCheck:
    return msgspec.convert({**found, "is_match": found["isMatch"]}, RuleCheck)


def _show_decision(
    action: Action,
    decision: PolicyDecision,
    checks: Sequence[RuleCheck],
    locate: Locate,
    *,
    explains: bool,
    as_json: bool,
) -> None:
    if as_json:
        answer = {**msgspec.to_builtins(decision), "location": locate(decision.rule)}
        if explains:
            answer["checks"] = [_describe_check(check, locate) for check in checks]
        write_json(answer)
        return
    write_lines(_format_check(check, action, locate) for check in checks)
    write_lines([decision.effect, f"rule: {locate(decision.rule)}"])
    write_lines([f"reason: {decision.reason}"] if decision.reason else [])


def _show_policy_of_hub(found: Any) -> None:
    rows = [msgspec.convert(rule, PolicyRow) for rule in found["rules"]]
    write_lines(_format_rows(rows, found["version"], str))


def _find_cut_rules(found: Any) -> list[str]:
    shown, total = len(found["rules"]), found["total"]
    return [f"the hub returned only the first {shown} of {total} rules"] if shown < total else []


class _PolicyView:
    """The policy of the settings, and where its rules are written."""

    def __init__(self, config: str | None) -> None:
        sources = collect_sources({} if config is None else {"--config": config})
        self.governance: GovernanceSettings = _read_governance(sources)
        self.policy: ExplainedPolicy = load_policy(self.governance)
        self._file: SettingsFile | None = sources.file
        self._mcp_json = read_settings(ServeSettings, sources).mcp_json
        self._lines = {row.rule: row.line for row in self.policy.list_rules() if row.line is not None}

    def find_unknown_server(self, server: str) -> str:
        """Return a warning if the settings file has servers, but not this one; an `mcp.json` may have others."""
        names = self._file.table((SERVERS,)) if self._file is not None and self._mcp_json is None else {}
        if not names or server == _HUB or server in names:
            return ""
        return f"the settings have no server {server!r}{format_suggestion(server, names)}"

    def locate(self, rule: str) -> str:
        """Return the name of a rule with its file and line, if it is written in one."""
        if rule in self._lines:
            return f"{self.governance.policy.file} line {self._lines[rule]}: {rule}"
        path = self._find_path(rule)
        if self._file is None or path is None:
            return rule
        place = self._file.locate(path).rpartition(": ")[0]
        return f"{place}: {rule}"

    def _find_path(self, rule: str) -> Sequence[str] | None:
        """Return where a rule is in the settings file; None if it is not written there."""
        if (index := _RULE_INDEX.fullmatch(rule)) is not None:
            return (POLICY, "rules", index[1])
        for number, tenant in enumerate(self.governance.tenants):
            if rule == f"{TENANTS}.{tenant.name}.servers":
                return (TENANTS, str(number))
        is_default = rule == "default" and self._file is not None and "default" in self._file.table((POLICY,))
        return (POLICY, "default") if is_default else None


def _read_governance(sources: Sources) -> GovernanceSettings:
    """Read the sections as a hub applies them: without the programs that a tenant may not use."""
    governance, settings = read_governance(sources), read_settings(ServeSettings, sources)
    has_servers = sources.file is not None and bool(sources.file.table((SERVERS,)))
    if not governance.tenants or not (has_servers or settings.mcp_json is not None):
        return governance
    from hubbub.assembly.governance import effective_tenants
    from hubbub.assembly.hub_config import hub_config

    return replace(governance, tenants=effective_tenants(hub_config(settings, sources)))


def _parse_target(text: str, kind: TargetKind, annotations: Sequence[str]) -> Target:
    server, slash, name = text.partition("/")
    if not slash and kind == "admin":
        server, name = _HUB, text
    if not server or not name:
        raise click.UsageError(f"{text!r} must look like SERVER/NAME, such as notes/write_note")
    hints: dict[str, Any] = {}
    for annotation in annotations:
        hint, is_true = annotation.removeprefix("!"), not annotation.startswith("!")
        if hints.setdefault(f"{hint}_hint", is_true) is not is_true:
            raise click.UsageError(f"--annotation {hint} and --annotation !{hint} contradict each other")
    return Target(kind, server, name, ToolAnnotations(**hints) if hints else None)


def _describe_row(row: PolicyRow) -> dict[str, Any]:
    return {"rule": row.rule, "effect": row.effect, "condition": row.condition, "reason": row.reason}


def _describe_check(check: RuleCheck, locate: Locate) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(check)
    return {"matches": fields.pop("is_match"), **fields, "location": locate(check.rule)}


def _format_rows(rows: Sequence[PolicyRow], version: str, locate: Locate) -> Iterator[str]:
    for row in rows:
        reason = f"  ({row.reason})" if row.reason else ""
        yield f"{row.effect:<8} {locate(row.rule)}{f'  {row.condition}' if row.condition else ''}{reason}"
    yield f"version  {version}"


def _format_check(check: RuleCheck, action: Action, locate: Locate) -> str:
    mark = "match   " if check.is_match else "no match"
    about = "" if check.action == action else f" for {check.action}"
    detail = f": {check.detail}" if check.detail else ""
    return f"{mark} {check.effect:<8} {locate(check.rule)}{about}{detail}"
