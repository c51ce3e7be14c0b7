"""The known name that is most like a wrong one, as the end of an error message."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or else which names there are."""
    from difflib import get_close_matches  # Only ever needed on the way to an error.

    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; there are none"
