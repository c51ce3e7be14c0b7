"""What `/metrics` shows of each server behind a hub. Read at each scrape, so calls cost nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hubbub.hub.upstream import Upstream, UpstreamState
from hubbub.observe import Figure

_LABEL = "server"


def figures_of(upstreams: Mapping[str, Upstream]) -> list[Figure]:
    """The figures of servers, whichever there are at the time."""

    def each(read: Callable[[UpstreamState], float]) -> Callable[[], dict[str, float]]:
        return lambda: {id: read(upstream.state) for id, upstream in upstreams.items()}

    return [
        Figure("upstream_calls", "Calls passed on.", _LABEL, each(lambda state: state.calls), is_count=True),
        Figure(
            "upstream_failures",
            "Calls passed on that got no answer; errors and failed tools are answers.",
            _LABEL,
            each(lambda state: state.failures),
            is_count=True,
        ),
        Figure("upstream_in_flight", "Calls that wait for the server.", _LABEL, each(lambda state: state.in_flight)),
        Figure("upstream_waiting", "Calls that wait for others to end.", _LABEL, each(lambda state: state.waiting)),
        Figure("upstream_sessions", "Open connections.", _LABEL, each(lambda state: state.sessions)),
        Figure(
            "upstream_down",
            "1 while the server is not called because it failed.",
            _LABEL,
            each(lambda state: float(state.phase == "down")),
        ),
    ]
