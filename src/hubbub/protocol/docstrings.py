"""Parse docstrings into a description of the function and of its parameters.

Supports the three forms in common use: Google (`Args:`), NumPy (`Parameters` over
a dashed line) and reST (`:param name:`). Markup is not rendered, and text that is
not recognised stays in the description.
`hubbub.protocol.signatures` calls it once for each registered function.
"""

import inspect
import re
from collections.abc import Iterator

import msgspec

# Compiled with the first docstring of more than one line.
_GOOGLE_HEADING = r"(Args|Arguments|Parameters|Params|Returns?|Raises|Yields?):\s*$"
_NUMPY_HEADING = r"(Parameters|Other Parameters|Returns?|Raises|Yields?)\s*$"
_DASHES = r"-{3,}\s*$"
_REST_FIELD = r":(param|parameter|arg|argument|type|rtype|returns?|raises?)\b([^:]*):\s*(.*)"
_GOOGLE_ENTRY = r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)"
_NUMPY_ENTRY = r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$"

_PARAMETER_SECTIONS = frozenset({"Args", "Arguments", "Parameters", "Params", "Other Parameters"})
_PARAMETER_FIELDS = frozenset({"param", "parameter", "arg", "argument"})


class Docstring(msgspec.Struct, frozen=True):
    """The text before the first section, and the description of each parameter."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Split a docstring into its description and its parameters' descriptions."""
    lines = inspect.cleandoc(text or "").splitlines()
    if len(lines) == 1 and not lines[0].startswith(":"):
        return Docstring(lines[0].strip(), {})  # A single line cannot contain a section.
    description: list[str] = []
    entries: list[tuple[str, list[str]]] = []
    position = 0
    in_description = True
    while position < len(lines):
        end, found = _read_section(lines, position)
        if found is None:
            if in_description:
                description.append(lines[position])
        else:
            in_description = False
            entries.extend(found)
        position = end
    parameters = {name: _join_words(words) for name, words in entries if any(words)}
    return Docstring("\n".join(description).strip(), parameters)


def _read_section(lines: list[str], start: int) -> tuple[int, list[tuple[str, list[str]]] | None]:
    """Return the end and the entries of the section that starts here; no entries (None) if no section starts."""
    line = lines[start]
    if match := re.match(_GOOGLE_HEADING, line):
        end = _indented_end(lines, start + 1)
        if end > start + 1:
            return end, _read_google(lines[start + 1 : end]) if match[1] in _PARAMETER_SECTIONS else []
    if (match := re.match(_NUMPY_HEADING, line)) and start + 1 < len(lines) and re.match(_DASHES, lines[start + 1]):
        end = _numpy_end(lines, start + 2)
        return end, _read_numpy(lines[start + 2 : end]) if match[1] in _PARAMETER_SECTIONS else []
    if match := re.match(_REST_FIELD, line):
        end = _indented_end(lines, start + 1)
        names = match[2].split()
        if match[1] not in _PARAMETER_FIELDS or not names:
            return end, []
        return end, [(names[-1], [match[3], *lines[start + 1 : end]])]
    return start + 1, None


def _indented_end(lines: list[str], start: int) -> int:
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
        end += 1
    return end


def _numpy_end(lines: list[str], start: int) -> int:
    for position in range(start, len(lines) - 1):
        if re.match(_DASHES, lines[position + 1]):
            return position
    return len(lines)


def _read_google(lines: list[str]) -> list[tuple[str, list[str]]]:
    entries: list[tuple[str, list[str]]] = []
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    for line in lines:
        match = re.match(_GOOGLE_ENTRY, line.strip()) if _indent(line) == margin else None
        if match:
            entries.append((match[1], [match[2]]))
        elif entries:
            entries[-1][1].append(line)
    return entries


def _read_numpy(lines: list[str]) -> list[tuple[str, list[str]]]:
    entries: list[tuple[str, list[str]]] = []
    for line, words in _numpy_items(lines):
        match = re.match(_NUMPY_ENTRY, line)
        if match:
            entries.extend((name.strip(), words) for name in match[1].split(","))
    return entries


def _numpy_items(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    position = 0
    while position < len(lines):
        end = _indented_end(lines, position + 1)
        if lines[position].strip():
            yield lines[position], lines[position + 1 : end]
        position = end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_words(words: list[str]) -> str:
    return " ".join(" ".join(words).split())
