"""Suggests the known name that is most similar to an unknown one, for error messages."""

from collections.abc import Iterable


def find_closest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name; None if none is similar."""
    from difflib import get_close_matches  # Only needed for error messages.

    return next(iter(get_close_matches(word, sorted(known), n=1)), None)


def format_suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or else the list of known names."""
    names = sorted(known)
    close = find_closest(word, names)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; known: {', '.join(names)}" if names else "; none are defined"
