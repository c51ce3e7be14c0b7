"""The tenants suite: what a hub for many people costs, compared with the same hub for one.

Both forward calls of `echo` to a bare HTTP server. The governed hub verifies a token, decides by 100 rules, checks
pins, counts three quotas and writes two audit records for each call, the first of which is on the disk before the call.
"""

from __future__ import annotations

import asyncio
import sys
import time

from bench import messages
from bench.bare_servers import bare_http
from bench.governed_hub import FLOODING_TENANT, QUIET_TENANT, governed_hub
from bench.http_generator import HOST, Connection, connect, free_port
from bench.http_runs import (
    CLIENTS,
    concurrent_values,
    measure_phase,
    open_session,
    run_server,
    sequential_values,
)
from bench.hub_process import hub_command
from bench.messages import TEXT, CallForm
from bench.process import ServerProcess
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_ERAS = ("legacy", "modern")
_CALLING_TENANTS = ["acme", "beta", "ops", "lab"]
_TENANTS, _USERS = 1_000, 10
_FIRST_PRINCIPALS = 300  # so that one-time allocations do not count
_IDLE_S = 1.0
_SETTLE_S = 6.0
"""Until every session with the server has ended: they are swept about once a second."""
_FLOOD_PER_S = 20
_FLOOD_FACTOR = 50
_FLOOD_CONNECTIONS = 100


def _measure(pace: Pace) -> list[Round]:
    for target in ("bare hub", "governed"):
        _measure_target(target, 0.05)  # compiles bytecode and fills the file cache
    print("tenants: memory", file=sys.stderr)
    once = _measure_memory()  # once is enough: other load does not change it
    rounds = []
    for number in range(pace.rounds):
        print(f"tenants: round {number + 1} of {pace.rounds}", file=sys.stderr)
        bare, governed = _measure_target("bare hub", pace.phase_s), _measure_target("governed", pace.phase_s)
        for era in _ERAS:
            governed[f"{era}_added_us"] = governed[f"{era}_one_p50_us"] - bare[f"{era}_one_p50_us"]
        governed |= _measure_fairness(pace.phase_s) | once
        rounds.append({"bare hub": bare, "governed": governed})
    return rounds


# -- cost of a call --------------------------------------------------------------


def _measure_target(target: str, phase_s: float) -> Values:
    values: Values = {}
    for era in _ERAS:
        with bare_http(era, beside_generator=True) as server_port:
            place, port = f"http://{HOST}:{server_port}/mcp", free_port()
            if target == "bare hub":
                with hub_command({"bare": [place]}, port) as command:
                    values |= _measure_calls(command, port, era, phase_s, [""] * CLIENTS)
                continue
            with governed_hub(place, tenants=_CALLING_TENANTS) as hub:
                # Each client is another user, so each has its own session with the server.
                tokens = [
                    hub.tokens.make(_CALLING_TENANTS[number % len(_CALLING_TENANTS)], f"user-{number}")
                    for number in range(CLIENTS)
                ]
                values |= _measure_calls(hub.command(port), port, era, phase_s, tokens)
    return values


def _measure_calls(command: list[str], port: int, era: str, phase_s: float, tokens: list[str]) -> Values:
    async def work(hub: ServerProcess, clients: list[Connection]) -> Values:
        calling = [
            (client, await _call_form(client, era, token)) for client, token in zip(clients, tokens, strict=True)
        ]
        return {
            **concurrent_values(era, await measure_phase(hub, calling, phase_s)),
            **sequential_values(f"{era}_one", await measure_phase(hub, calling[:1], phase_s)),
        }

    return run_server(command, port, work)


async def _call_form(client: Connection, era: str, token: str) -> CallForm:
    form = messages.modern_call()
    if era == "legacy":
        form = messages.legacy_call(await open_session(client, token=token))
    return form.authorized(token)


# -- memory of principals --------------------------------------------------------


def _measure_memory() -> Values:
    tenants = [f"tenant-{number}" for number in range(_TENANTS)]

    async def work(hub: ServerProcess, clients: list[Connection]) -> Values:
        await _call_once(clients, first_tokens)
        await asyncio.sleep(_SETTLE_S)
        before_mb = hub.resident_mb()
        await _call_once(clients, tokens)
        await asyncio.sleep(_SETTLE_S)
        return {"principal_kb": (hub.resident_mb() - before_mb) * 1024 / len(tokens)}

    with bare_http("modern", beside_generator=True) as server_port:
        place, port = f"http://{HOST}:{server_port}/mcp", free_port()
        with governed_hub(place, tenants=[QUIET_TENANT, *tenants], idle_s=_IDLE_S) as made:
            first_tokens = [made.tokens.make(QUIET_TENANT, f"user-{user}") for user in range(_FIRST_PRINCIPALS)]
            tokens = [made.tokens.make(tenant, f"user-{user}") for user in range(_USERS) for tenant in tenants]
            return run_server(made.command(port), port, work)


async def _call_once(clients: list[Connection], tokens: list[str]) -> None:
    """Call once as each of these callers, in turn on the same connections."""
    form, waiting = messages.modern_call(), iter(tokens)

    async def work(client: Connection) -> None:
        for token in waiting:
            await client.check(form.authorized(token))

    await asyncio.gather(*map(work, clients))


# -- fairness --------------------------------------------------------------------


def _measure_fairness(phase_s: float) -> Values:
    """Measure one caller alone, and beside a tenant that offers 50 times its quota."""

    async def work(hub: ServerProcess, clients: list[Connection]) -> Values:
        alone = sequential_values("alone", await measure_phase(hub, [(clients[0], quiet)], phase_s))
        flood = _Flood([await connect(hub, port) for _ in range(_FLOOD_CONNECTIONS)], flooding)
        flooding_task = asyncio.create_task(flood.run())
        # Raises, if a call of this caller is refused.
        beside = sequential_values("beside", await measure_phase(hub, [(clients[0], quiet)], phase_s))
        flood.is_stopping = True
        await flooding_task
        return {
            "alone_p50_us": alone["alone_p50_us"],
            "beside_p50_us": beside["beside_p50_us"],
            "fairness": beside["beside_p50_us"] / alone["alone_p50_us"],
            "offered_factor": flood.sent / flood.seconds / _FLOOD_PER_S,
            "refused_percent": 100 * (1 - flood.answered / flood.sent),
        }

    with bare_http("modern", beside_generator=True) as server_port:
        place, port = f"http://{HOST}:{server_port}/mcp", free_port()
        tenants = [QUIET_TENANT, FLOODING_TENANT]
        with governed_hub(place, tenants=tenants, flood_limit=f"{_FLOOD_PER_S}/second") as made:
            quiet, flooding = (messages.modern_call().authorized(made.tokens.make(tenant, "ada")) for tenant in tenants)
            return run_server(made.command(port), port, work)


class _Flood:
    """Calls at 50 times the quota, over many connections, whatever the answers are."""

    def __init__(self, clients: list[Connection], form: CallForm) -> None:
        self._clients = clients
        self._form = form
        self.is_stopping = False
        self.sent = self.answered = 0
        self.seconds = 0.0

    async def run(self) -> None:
        """Call until `is_stopping`."""
        started = time.perf_counter()
        await asyncio.gather(*(self._repeat(client, number) for number, client in enumerate(self._clients)))
        self.seconds = time.perf_counter() - started
        for client in self._clients:
            client.close()

    async def _repeat(self, client: Connection, number: int) -> None:
        interval_s = len(self._clients) / (_FLOOD_PER_S * _FLOOD_FACTOR)
        due = time.perf_counter() + interval_s * number / len(self._clients)
        while not self.is_stopping:
            await asyncio.sleep(due - time.perf_counter())
            due += interval_s
            self.sent += 1
            answer = await client.ask(self._form.request(messages.FIRST_ID))
            self.answered += TEXT in answer


def _measures() -> list[Measure]:
    found: list[Measure] = []
    for era in _ERAS:
        found += [
            Measure(f"{era}_cpu_us", f"{era}, 16 in flight, CPU a call", "µs", Goal(Bound.SHARE, 1.6)),
            Measure(f"{era}_per_s", f"{era}, 16 in flight, calls a second", ""),
            Measure(f"{era}_one_cpu_us", f"{era}, one call at a time, CPU a call", "µs"),
            Measure(f"{era}_one_p50_us", f"{era}, one call at a time, p50", "µs"),
            Measure(f"{era}_added_us", f"{era}, added to p50 of the bare hub", "µs", Goal(Bound.VALUE, 2_000)),
            Measure(f"{era}_generator_percent", f"{era}, 16 in flight, load of the generator", "%"),
        ]
    return [
        *found,
        Measure("principal_kb", "10,000 principals without a session, memory of each", "KB", Goal(Bound.VALUE, 2)),
        Measure("alone_p50_us", "a caller alone, p50", "µs"),
        Measure("beside_p50_us", "beside a tenant that floods, p50", "µs"),
        Measure("fairness", "the second as a multiple of the first", "", Goal(Bound.VALUE, 2)),
        Measure("offered_factor", "calls of the flood, as a multiple of its quota", ""),
        Measure("refused_percent", "calls of the flood that were refused", "%"),
    ]


SUITE = Suite(
    name="tenants",
    ours="governed",
    peer="bare hub",
    targets={
        "bare hub": "`hubbub serve` as in the hub suite: no tenants, no authentication",
        "governed": '16 users of 4 tenants: tokens, 100 rules, pins, 3 quotas, audit with sync = "batch"',
    },
    measures=_measures(),
    measure=_measure,
)
