"""Run the fuzzer manually for any length of time:

    python -m tests.fuzz --count 1000000 --seed 7 [--target envelope]

Runs every target in turn with fresh seeds until the count is reached; prints the seed of a run that fails.
"""

import argparse
import sys
import time

from tests.fuzz.runs import TARGETS, run

INPUTS_PER_RUN = {"sockets": 500, "stdio": 2000}
DEFAULT_INPUTS = 5000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Send damaged input to every door.")
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first run; the next has the next")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    sent, seed, started = dict.fromkeys(options.target or TARGETS, 0), options.seed, time.monotonic()
    while sum(sent.values()) < options.count:
        for target in sent:
            size = INPUTS_PER_RUN.get(target, DEFAULT_INPUTS)
            try:
                run(target, seed, size)
            except BaseException:
                print(f"failed: --target {target} --seed {seed} --count {size}", file=sys.stderr)
                raise
            sent[target] += size
        seed += 1
        elapsed_s = time.monotonic() - started
        print(f"{sum(sent.values()):,} inputs in {elapsed_s:.0f} s, next seed {seed}: {sent}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
