"""Anonymous callers of one HTTP server neither see nor end sessions of each other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Response, Site
from tests.packs.peers.room_agents import signalling

from hubbub.assembly.assemble import assemble
from hubbub.settings import ServeSettings, Sources


class AnonymousCaller:
    """A caller without a key, in one of the three eras."""

    def __init__(self, site: Site, era: str) -> None:
        self.site, self.era = site, era
        self.headers: dict[str, str] = {}

    async def start(self) -> AnonymousCaller:
        if self.era == "legacy":
            self.headers = (await open_session(self.site)).headers
        return self

    async def request(self, method: str, params: dict[str, Any]) -> Response:
        if self.era == "modern":
            return await self.site.post(*modern_request(method, params))
        answer = await self.site.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, self.headers)
        if self.era == "plain" and not self.headers:
            self.headers = {"Cookie": str(answer.header("set-cookie")).split(";")[0]}
        return answer

    async def call(self, tool: str, **arguments: Any) -> Any:
        answer = await self.request("tools/call", {"name": tool, "arguments": arguments})
        return json.loads(answer.json["result"]["content"][0]["text"])


@asynccontextmanager
async def two_callers(era: str) -> AsyncIterator[tuple[AnonymousCaller, AnonymousCaller, str]]:
    """Two callers of one server, and a session that the first opened."""
    server = assemble(ServeSettings(packs=("peers",)), Sources())
    async with signalling() as host, run_server(server) as running_server:
        ann, eve = [await AnonymousCaller(running_server.site, era).start() for _ in range(2)]
        yield ann, eve, (await ann.call("vdo_connect", room="hall", host=host))["session_id"]


@pytest.mark.parametrize("era", ["plain", "legacy", "modern"])
async def test_an_anonymous_caller_does_not_see_the_sessions_of_another(era: str) -> None:
    async with two_callers(era) as (ann, eve, session_id):
        assert (await ann.call("vdo_status", session_id=session_id))["ok"]
        listed = [session["session_id"] for session in (await ann.call("vdo_list_sessions"))["sessions"]]
        assert listed == ([] if era == "modern" else [session_id])  # nothing connects two modern calls but the id
        assert (await eve.call("vdo_list_sessions"))["sessions"] == []


@pytest.mark.parametrize("era", ["plain", "legacy"])
async def test_shutdown_of_an_anonymous_caller_ends_its_own_sessions_only(era: str) -> None:
    async with two_callers(era) as (ann, eve, session_id):
        assert (await eve.request("shutdown", {})).json["result"] == {}
        assert (await ann.call("vdo_status", session_id=session_id))["connected"]
        assert (await ann.request("shutdown", {})).json["result"] == {}
        error = (await ann.call("vdo_status", session_id=session_id))["error"]
        assert error["message"] == f"unknown session_id: {session_id}"
