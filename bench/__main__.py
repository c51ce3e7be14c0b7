"""The command behind `bench/run`: run the chosen suites, print their tables and save their results."""

from __future__ import annotations

import argparse
import sys

from bench import activity, client, http, hub, oauth, report, rooms, stdio, tabletop, tenants
from bench.process import BenchError, pin_generator
from bench.suite import Pace, Suite

# Suites by name.
SUITES: dict[str, Suite] = {
    "stdio": stdio.SUITE,
    "http": http.SUITE,
    "client": client.SUITE,
    "hub": hub.SUITE,
    "tenants": tenants.SUITE,
    "oauth": oauth.SUITE,
    "tabletop": tabletop.SUITE,
    "activity": activity.SUITE,
    "peers": rooms.SUITE,
}

FULL = Pace(rounds=7, phase_s=2.0)
QUICK = Pace(rounds=3, phase_s=0.4)


def main() -> int:
    """Run the suites, print a table for each, write JSON; return 1 with `--strict` if a goal was missed."""
    parser = argparse.ArgumentParser(prog="bench/run", description="Compare Hubbub with its peers, side by side.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"one of {', '.join(SUITES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a minute or two, for a first look")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a goal is missed")
    options = parser.parse_args()
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; known suites: {', '.join(SUITES)}")
    pin_generator()
    is_met = True
    for name in options.suites or SUITES:
        suite = SUITES[name]
        rounds = suite.measure(QUICK if options.quick else FULL)
        print(report.format_table(suite, rounds), flush=True)
        is_met &= report.is_met(suite, rounds)
        print(f"\nAll rounds: {report.save_rounds(suite, rounds)}")
    return 1 if options.strict and not is_met else 0


try:
    sys.exit(main())
except BenchError as error:
    sys.exit(f"bench: {error}")
