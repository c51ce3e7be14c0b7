"""A request that is understood in two ways is refused, and a request hidden in another is never served.

Uses only sockets and the command line, so that it applies to any HTTP server that we may use.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from tests.http.raw_http import TIMEOUT_S, RawConnection, Site, call
from tests.http.server_process import ServerProcess
from tests.wire import smuggling_cases, target_cases
from tests.wire.request_bytes import read_statuses
from tests.wire.smuggling_cases import LAST, SMUGGLED, Case

CASES = list(
    chain(
        smuggling_cases.LENGTHS_AND_ENCODINGS,
        smuggling_cases.CHUNKS,
        smuggling_cases.TRAILERS,
        smuggling_cases.HEADERS,
        target_cases.HOSTS,
        target_cases.TARGETS,
        target_cases.METHODS,
        target_cases.VERSIONS,
        target_cases.UPGRADES,
        target_cases.EXPECTATIONS,
    )
)


PARAMETERS = [pytest.param(case, id=case.name[:60]) for case in CASES]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ServerProcess(str(Path(__file__).with_name("counter.py"))) as process:
        yield process.site
        logged = "".join(process.stderr_lines)
        assert "Traceback" not in logged
        assert "Exception" not in logged


async def count_calls(site: Site) -> int:
    """Ask on another connection how many calls had a side effect."""
    answer = await site.post(call("counted"))
    return answer.body.count(b"smuggled")


async def read_to_end(link: RawConnection) -> bytes:
    """Read until the server closes; a reset counts as the end, because our last bytes may have come after it."""
    received = b""
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ConnectionResetError):
            while piece := await link.reader.read(65536):
                received += piece
    return received


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
@pytest.mark.parametrize("case", PARAMETERS)
async def test_an_ambiguous_request_is_refused_or_has_one_meaning(site: Site, case: Case, in_pieces: bool) -> None:
    before = await count_calls(site)
    async with site.connect() as link:
        if in_pieces:  # not more: a server that has sent its last response would reset the connection at further data
            cut = max(1, len(case.sent.removesuffix(SMUGGLED).removesuffix(LAST)) // 2)
            await link.send(case.sent[:cut])
            await asyncio.sleep(0)
            await link.send(case.sent[cut:])
        else:
            await link.send(case.sent)
        received = await read_to_end(link)
    statuses = read_statuses(received)
    assert await count_calls(site) == before, f"the hidden request was served: {case.reason}"
    is_allowed = all(status in allowed for status, allowed in zip(statuses, case.answers, strict=False))
    # A refusal ends the connection, so that an answer may be missing after it.
    least = 1 if statuses == [400] else case.least
    assert is_allowed, (case, statuses, received)
    assert least <= len(statuses) <= len(case.answers), (case, statuses, received)


async def test_the_hidden_request_has_a_side_effect_when_it_is_sent_openly(site: Site) -> None:
    before = await count_calls(site)
    async with site.connect() as link:
        await link.send(SMUGGLED)
        assert (await link.read_response()).status == 200
    assert await count_calls(site) == before + 1


def test_every_case_has_a_name_and_a_reason_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.reason for case in CASES)
