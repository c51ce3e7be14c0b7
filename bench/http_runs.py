"""Run an HTTP server for a measurement: start it, connect clients, call, and stop it. Shared by suites."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench import messages
from bench.http_generator import Connection, Flow, check, connect, flow, for_seconds
from bench.messages import CallForm
from bench.process import ServerProcess
from bench.suite import Values

CLIENTS = 16
_WARM_UP_SHARE = 0.2  # share of a phase
_RUN_TIMEOUT_S = 600  # per server: ten thousand calls take long under load
_SESSION_ID = re.compile(rb"mcp-session-id: ([^\r]+)", re.IGNORECASE)

ServerWork = Callable[[ServerProcess, list[Connection]], Awaitable[Values]]
CallPlan = list[tuple[Connection, CallForm]]


def run_server(command: list[str], port: int, work: ServerWork, *, beside_generator: bool = False) -> Values:
    """Start a server, connect all clients, run `work`, and stop it."""

    async def main(server: ServerProcess) -> Values:
        clients = [await connect(server, port) for _ in range(CLIENTS)]
        async with asyncio.timeout(_RUN_TIMEOUT_S):
            values = await work(server, clients)
        for client in clients:
            client.close()
        return values

    with (
        ServerProcess(command, beside_generator=beside_generator) as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        try:
            return runner.run(main(server))
        except TimeoutError:
            raise server.make_error(f"not done in {_RUN_TIMEOUT_S} seconds") from None
        finally:
            server.terminate()


def measure_start(command: list[str], port: int) -> Values:
    """Start a server and measure until it has answered `initialize`."""
    started = time.perf_counter()

    async def main(server: ServerProcess) -> Values:
        client = await connect(server, port)
        await client.ask(messages.initialize())
        values = {"start_cpu_ms": server.cpu_s() * 1e3, "start_ms": (time.perf_counter() - started) * 1e3}
        client.close()
        return values

    with ServerProcess(command) as server:
        try:
            return asyncio.run(main(server))
        finally:
            server.terminate()


async def open_session(client: Connection, path: str = messages.PATH, token: str = "") -> str:
    """Initialize and return the session id; empty if the server has no sessions."""
    session = _SESSION_ID.search(await client.ask(messages.authorized(messages.initialize(path), token)))
    name = "" if session is None else session[1].decode()
    await client.ask(messages.authorized(messages.initialized(name, path), token))
    return name


async def open_sessions(clients: list[Connection]) -> CallPlan:
    """Open a session for each client, and return their calls."""
    return [(client, messages.legacy_call(await open_session(client))) for client in clients]


def without_sessions(clients: list[Connection]) -> CallPlan:
    """Return the calls of modern clients, which need no handshake."""
    return [(client, messages.modern_call()) for client in clients]


async def measure_phase(server: ServerProcess, calling: CallPlan, seconds: float) -> Flow:
    """Validate one response per connection, warm up, then measure for this time."""
    await check(calling)
    await flow(server, calling, for_seconds(seconds * _WARM_UP_SHARE))
    return await flow(server, calling, for_seconds(seconds))


def sequential_values(name: str, measured: Flow) -> Values:
    """Return the values of sequential calls."""
    return {
        f"{name}_p50_us": statistics.median(measured.times) * 1e6,
        f"{name}_cpu_us": measured.server_cpu_s / len(measured.times) * 1e6,
    }


def concurrent_values(name: str, measured: Flow) -> Values:
    """Return the values of concurrent calls."""
    return {
        f"{name}_cpu_us": measured.server_cpu_s / len(measured.times) * 1e6,
        f"{name}_per_s": len(measured.times) / measured.wall_s,
        f"{name}_generator_percent": measured.generator_cpu_s / measured.wall_s * 100,
    }
