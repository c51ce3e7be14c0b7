"""Changes one member of a mapping in a YAML text and keeps all other bytes.

The only module that imports PyYAML, for Goose. It reads the values and says where the nodes are; new lines are
written with JSON values, which are YAML too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.install.edits import Edit, detect_newline, indent_unit, syntax_error

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_YAML_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def parse(text: str) -> dict[str, Any]:
    """Parse a text; an empty one is an empty mapping.

    Raises: SettingsError, with line and column.
    """
    import yaml

    if len(text) > bounds.CLIENT_YAML_CHARACTERS:
        raise SettingsError(f"has more than {bounds.CLIENT_YAML_CHARACTERS} characters; edit it by hand")
    value = _load(text, yaml.safe_load)
    if value is not None and not isinstance(value, dict):
        raise syntax_error(text, 0, "not a mapping")
    return value or {}


def set_member(text: str, path: Sequence[str], value: dict[str, Any]) -> list[Edit]:
    """Return the edits that write a member of a top-level mapping, given as (mapping, name).

    Raises: SettingsError.
    """
    container, name = path
    newline, unit = detect_newline(text), indent_unit(text)
    root = _compose(text)
    key_node, node = _find(root, container)
    if key_node is None:
        lead = "" if not text or text.endswith("\n") else newline
        block = newline.join([f"{_format_key(container)}:", *_format_member(name, value, unit, unit)])
        return [Edit(len(text), len(text), f"{lead}{block}{newline}")]
    flow = f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
    is_null = node.tag == "tag:yaml.org,2002:null"
    if not is_null and node.id != "mapping":
        raise syntax_error(text, node.start_mark.index, f"{container!r} is not a mapping")
    if is_null or not node.value:
        block = newline + newline.join(_format_member(name, value, unit, unit))
        start, end = node.start_mark.index, node.end_mark.index
        if start == end:  # nothing after the colon, except perhaps a comment
            start = end = _line_end(text, key_node.end_mark.index)
        return [Edit(start, end, f" {{{flow}}}" if root.flow_style else block)]
    member_key, member = _find(node, name)
    if node.flow_style:
        if member_key is not None:
            return [Edit(member_key.start_mark.index, member.end_mark.index, flow)]
        at = node.value[-1][1].end_mark.index
        return [Edit(at, at, f", {flow}")]
    indent = " " * node.value[0][0].start_mark.column
    block = newline.join(_format_member(name, value, indent, unit))
    if member_key is not None:
        start = member_key.start_mark.index - member_key.start_mark.column
        return [Edit(start, _content_end(text, member_key, member), block)]
    at = _content_end(text, *node.value[-1])
    return [Edit(at, at, newline + block)]


def remove_member(text: str, path: Sequence[str], prunable: int = 0) -> list[Edit]:
    """Return the edits that remove a member; with `prunable`, also the mapping, if it would be empty then."""
    container, name = path
    key_node, node = _find(_compose(text), container)
    if key_node is None:
        return []
    member_key, member = _find(node, name)
    if member_key is None:
        return []
    if len(node.value) == 1:
        if prunable:
            return [_delete_lines(text, key_node, member)]
        if node.flow_style:
            return [Edit(node.start_mark.index, node.end_mark.index, "{}")]
        return [Edit(_line_end(text, key_node.end_mark.index), _content_end(text, member_key, member), " {}")]
    if not node.flow_style:
        return [_delete_lines(text, member_key, member)]
    keys = [pair[0] for pair in node.value]
    at = keys.index(member_key)
    if at:
        return [Edit(node.value[at - 1][1].end_mark.index, member.end_mark.index, "")]
    return [Edit(member_key.start_mark.index, keys[1].start_mark.index, "")]


def _load(text: str, load: Any) -> Any:
    import yaml

    try:
        return load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise SettingsError(f"{place}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise syntax_error(text, getattr(error, "position", 0), getattr(error, "reason", "not YAML")) from None
    except (RecursionError, ValueError):
        raise syntax_error(text, 0, "invalid YAML") from None


def _compose(text: str) -> Any:
    import yaml

    return _load(text, yaml.compose)


def _find(node: Any, key: str) -> tuple[Any, Any]:
    pairs = node.value if node is not None and isinstance(node.value, list) else []
    return next((pair for pair in reversed(pairs) if pair[0].value == key), (None, None))


def _content_end(text: str, key: Any, node: Any) -> int:
    """Return the end of the line where a member ends, without the blank lines and comments after it."""
    end = key.end_mark.index + 1
    leaf = node
    while isinstance(leaf.value, list) and leaf.value and not leaf.flow_style:
        last = leaf.value[-1]
        key, leaf = last if isinstance(last, tuple) else (key, last)
        end = max(end, key.end_mark.index + 1)
    end = max(end, leaf.end_mark.index)
    return _line_end(text, len(text[:end].rstrip(" \t\r\n")))


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    if end < 0:
        return len(text)
    return end - 1 if text[end - 1 : end] == "\r" else end


def _delete_lines(text: str, key: Any, node: Any) -> Edit:
    end = text.find("\n", _content_end(text, key, node))
    return Edit(key.start_mark.index - key.start_mark.column, len(text) if end < 0 else end + 1, "")


def _format_member(name: str, value: dict[str, Any], indent: str, unit: str) -> list[str]:
    lines = [f"{_format_key(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in value.items()]
    return [f"{indent}{_format_key(name)}:", *(f"{indent}{unit}{line}" for line in lines)]


def _format_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _YAML_WORDS else json.dumps(key)
