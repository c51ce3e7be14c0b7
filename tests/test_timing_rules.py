"""Tests must not depend on speed: no fixed sleeps, no assertions about elapsed time, no short timeouts."""

import ast
from collections.abc import Iterator

from tests.test_architecture import committed_texts

LONG_SLEEP_S = 300.0
"""pytest ends a test that waits for the end of such a sleep."""
SHORTEST_LIMIT_S = 60.0
"""A timeout only keeps a failing test from hanging, so it is long enough for any machine."""

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns", "time"}

# Calls with a timeout, and its position among the positional arguments; other calls have a keyword `timeout`.
TIMEOUT_ARGUMENTS = {"timeout": 0, "wait": 0, "join": 0, "wait_for": 1}

# Short sleeps outside polls, and why no result depends on them.
SHORT_SLEEPS = {
    "tests/clock.py": "puts the clock forward meanwhile",
    "tests/conformance/server.py": "the suite wants pauses between the messages of a tool",
    "tests/fixtures/gallery.py": "a tool that takes its time, for people to see",
    "tests/faults/faulty_server.py": "tools that sleep as long as requested, or before their answer",
    "tests/client/odd_server.py": "pages that come slowly and without end",
    "tests/hub/worker.py": "a start that is as slow as the environment says",
    "tests/interop/server.py": "tools that are as slow as their caller says, and one that spaces its messages",
    "tests/interop/grid/servers/workshop.py": "a pause that the caller chooses",
    "tests/faults/test_slow_callers.py": "a sender that trickles until it is cut off",
    "tests/http/playground.py": "a tool that sleeps as long as requested",
    "tests/packs/peers/emulation/sdk.py": "the emulated client waits before it asks again, as the original does",
    "tests/packs/peers/emulation/soak.py": "a long run by hand, not in the suite",
    "tests/governance/journal_writers.py": "when a writer is killed is random on purpose",
    "tests/packs/tabletop/writers.py": "when a writer is killed is random on purpose",
}


# Short timeouts, and why no result depends on them.
SHORT_LIMITS = {
    "tests/packs/activity/scripted_server.py": "what it sends comes slowly",
    "tests/packs/peers/emulation/sdk.py": "the emulated client gives up as the original does",
}


def calls_in(node: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for found in ast.walk(node):
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute) and found.func.attr in names:
            yield found


def is_long(call: ast.Call) -> bool:
    """Whether a sleep is so long that a test hangs if it waits for its end."""
    seconds = number(call.args[0], {}) if call.args else None
    return seconds is not None and (seconds == 0 or seconds >= LONG_SLEEP_S)


def number(node: ast.AST, constants: dict[str, float]) -> float | None:
    """The number in an expression, directly or as a constant of the module."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def read_constants(tree: ast.Module) -> dict[str, float]:
    return {
        target.id: value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and (value := number(statement.value, {})) is not None
    }


def find_limit(call: ast.Call, constants: dict[str, float]) -> float | None:
    """The timeout of a call in seconds, if it is a constant."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    limits = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
    if name in TIMEOUT_ARGUMENTS:
        limits += call.args[TIMEOUT_ARGUMENTS[name] : TIMEOUT_ARGUMENTS[name] + 1]
    elif name == "to_thread" and call.args and ast.unparse(call.args[0]).endswith(".wait"):
        limits += call.args[1:2]
    return number(limits[0], constants) if limits else None


def elapsed_names(function: ast.AST) -> set[str]:
    """The variables that contain an elapsed time."""
    return {
        target.id
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign) and is_elapsed(statement.value, set())
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def is_elapsed(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression contains a difference of clock readings, or a variable with one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in names:
            return True
        is_difference = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub)
        if is_difference and any(not clock.args for clock in calls_in(part, CLOCKS)):
            return True
    return False


def time_bound_lines(tree: ast.Module) -> tuple[list[int], list[int], list[int]]:
    """The lines of sleeps outside polls, of assertions about elapsed time, and of short timeouts."""
    in_loops = {call for loop in ast.walk(tree) if isinstance(loop, ast.While) for call in ast.walk(loop)}
    sleeps = [call.lineno for call in calls_in(tree, {"sleep"}) if call not in in_loops and not is_long(call)]
    bounds = sorted({
        check.lineno
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for check in ast.walk(function)
        if isinstance(check, ast.Assert) and check not in in_loops and is_elapsed(check.test, elapsed_names(function))
    })  # fmt: skip
    constants = read_constants(tree)
    limits = sorted(
        call.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and call not in in_loops
        if (limit := find_limit(call, constants)) is not None and 0 < limit < SHORTEST_LIMIT_S
    )
    return sleeps, bounds, limits


def test_tests_have_no_fixed_sleeps_time_assertions_or_short_timeouts() -> None:
    """They fail on a busy machine; use `tests/clock.py` instead."""
    sleeping, counting, impatient = [], [], []
    for name, text in committed_texts():
        if name.startswith("tests/") and name.endswith(".py"):
            sleeps, bounds, limits = time_bound_lines(ast.parse(text))
            sleeping += [f"{name}:{line}" for line in sleeps if name not in SHORT_SLEEPS]
            counting += [f"{name}:{line}" for line in bounds]
            impatient += [f"{name}:{line}" for line in limits if name not in SHORT_LIMITS]
    assert sleeping == [], "wait for an event, or put the clock forward with tests/clock.py"
    assert counting == [], "no bound in seconds: put the clock forward, or compare with `cpu_s` of something else"
    assert impatient == [], "wait without a limit, or a minute; prove a negative by what comes after it"


def test_the_scan_finds_sleeps_time_assertions_and_short_timeouts() -> None:
    written = """
TIMEOUT_S = 5
async def test() -> None:
    await asyncio.sleep(0.5)
    await asyncio.sleep(0)
    await asyncio.sleep(600)
    while not done:
        await asyncio.sleep(0.01)
    assert time.monotonic() - started < 3
    assert time.monotonic() < deadline
    taken_s = round(loop.time() - started)
    assert taken_s < 3
    assert time.process_time() - started < 3
    done, _ = await asyncio.wait([task], timeout=1.5)
    await asyncio.wait([task])
    process.wait(4)
    process.wait(timeout=TIMEOUT_S)
    await asyncio.to_thread(process.wait, 15)
    async with asyncio.timeout(60):
        await asyncio.wait_for(event.wait(), 10)
    subprocess.run(command, timeout=30)
"""
    assert time_bound_lines(ast.parse(written)) == ([4], [9, 12, 13], [14, 16, 17, 18, 20, 21])
