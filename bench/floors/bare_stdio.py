"""A bare server on stdio, for clients and gateways under test: `python -m bench.floors.bare_stdio legacy|modern`.

`--core N` selects a core; otherwise the child of a gateway would run on the core of the gateway.
"""

from __future__ import annotations

import os
import sys

from bench.floors.bare import answer


def main() -> None:
    """Answer until the input ends; all complete lines of one read are answered in one write."""
    if "--core" in sys.argv:
        os.sched_setaffinity(0, {int(sys.argv[sys.argv.index("--core") + 1])})
    rest = b""
    while data := os.read(0, 1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        answers = b"".join(found + b"\n" for line in lines if (found := answer(line)))
        while answers:
            answers = answers[os.write(1, answers) :]


main()
