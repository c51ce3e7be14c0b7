"""The OAuth suite: what a verified access token costs, compared with the same server without authentication.

Each client sends its own token with every call. The first call with a token verifies it (ES256); the goal concerns the
calls after it. `first_cpu_us` is measured with a new token in each call.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import messages
from bench.governed_hub import AUDIENCE, ISSUER, Tokens
from bench.http_generator import Connection, free_port
from bench.http_runs import (
    CLIENTS,
    CallPlan,
    concurrent_values,
    measure_phase,
    open_session,
    run_server,
    sequential_values,
)
from bench.messages import TEXT, CallForm
from bench.process import BenchError, ServerProcess
from bench.suite import Bound, Goal, Measure, Pace, Round, Suite, Values

_ERAS = ("legacy", "modern")
_FIRST_CALLS = 1_000


def _measure(pace: Pace) -> list[Round]:
    rounds = []
    for number in range(pace.rounds):
        print(f"oauth: round {number + 1} of {pace.rounds}", file=sys.stderr)
        rounds.append({target: _measure_target(target, pace.phase_s) for target in ("open", "bearer")})
    return rounds


@contextmanager
def _server_command(target: str, port: int) -> Iterator[tuple[list[str], Tokens]]:
    with tempfile.TemporaryDirectory() as name:
        tokens = Tokens(Path(name))
        command = [".venv/bin/hubbub", "serve", "examples/echo.py", "--limit", "mcp=100000/second", "--port", str(port)]
        if target == "bearer":
            settings = Path(name) / "hubbub.toml"
            settings.write_text(
                f"jwt_keys = {json.dumps(str(tokens.public_keys))}\n"
                f"jwt_issuer = {json.dumps(ISSUER)}\n"
                f"jwt_audience = {json.dumps([AUDIENCE])}\n"
                '[oauth]\npublic_url = "https://hub.example.com"\n'
            )
            command += ["--config", str(settings)]
        yield command, tokens


def _measure_target(target: str, phase_s: float) -> Values:
    port = free_port()
    with _server_command(target, port) as (command, tokens):
        users = [tokens.make("", f"user-{number}") if target == "bearer" else "" for number in range(CLIENTS)]

        async def work(server: ServerProcess, clients: list[Connection]) -> Values:
            values: Values = {}
            for era in _ERAS:
                calling: CallPlan = [
                    (client, await _call_form(client, era, token)) for client, token in zip(clients, users, strict=True)
                ]
                values |= concurrent_values(era, await measure_phase(server, calling, phase_s))
                values |= sequential_values(f"{era}_one", await measure_phase(server, calling[:1], phase_s))
            return values | await _measure_first_calls(server, clients[0], target, tokens)

        return run_server(command, port, work)


async def _call_form(client: Connection, era: str, token: str) -> CallForm:
    if era == "modern":
        return messages.modern_call().authorized(token)
    return messages.legacy_call(await open_session(client, token=token)).authorized(token)


async def _measure_first_calls(server: ServerProcess, client: Connection, target: str, tokens: Tokens) -> Values:
    """Measure calls that each have a new token."""
    users = [tokens.make("", f"first-{number}") if target == "bearer" else "" for number in range(_FIRST_CALLS)]
    calls = [messages.modern_call().authorized(token).request(messages.FIRST_ID) for token in users]
    started_s = server.cpu_s()
    for call in calls:
        if TEXT not in await client.ask(call):
            raise BenchError("a call with a new token was refused")
    return {"first_cpu_us": (server.cpu_s() - started_s) / len(calls) * 1e6}


def _measures() -> list[Measure]:
    found: list[Measure] = []
    for era in _ERAS:
        found += [
            Measure(f"{era}_cpu_us", f"{era}, 16 clients, CPU a call", "µs", Goal(Bound.SHARE, 1.15)),
            Measure(f"{era}_one_cpu_us", f"{era}, one call at a time, CPU a call", "µs"),
            Measure(f"{era}_one_p50_us", f"{era}, one call at a time, p50", "µs"),
            Measure(f"{era}_generator_percent", f"{era}, 16 clients, load of the generator", "%"),
        ]
    return [*found, Measure("first_cpu_us", "a call with a token that was not seen before, CPU", "µs")]


SUITE = Suite(
    name="oauth",
    ours="bearer",
    peer="open",
    targets={
        "bearer": "a server that verifies access tokens; each client sends its own with every call",
        "open": "the same server without authentication",
    },
    measures=_measures(),
    measure=_measure,
)
