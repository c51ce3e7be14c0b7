"""Parsing of request targets."""

import gc
import tracemalloc

from hubbub.transports.request_heads import parse_target

MIB = 1024 * 1024


def test_long_targets_are_not_kept_in_memory() -> None:
    parse_target(b"/warm-up")
    tracemalloc.start()
    try:
        for number in range(256):
            # One such character makes Python store four bytes for each character of the path.
            assert parse_target(b"/%d%%F0%%9F%%98%%80%b" % (number, b"x" * 60_000)) is not None
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()
