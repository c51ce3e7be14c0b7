"""Elicitation in the terminal: asks for a form field by field; without a terminal it is declined."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hubbub import bounds
from hubbub.cli.key_values import read_value, type_name
from hubbub.cli.terminal import ask, is_interactive, note
from hubbub.client.handlers import ElicitationAnswer, ElicitationRequest
from hubbub.errors import SettingsError


class Prompter:
    """Asks the person for all servers of one command, one form at a time: a terminal has only one input line."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def elicit(self, request: ElicitationRequest) -> ElicitationAnswer:
        """Ask the person to fill in a form."""
        if request.mode != "form":
            note(f"the server asks to open {request.url} ({request.message}); declined")
            return ElicitationAnswer("decline")
        if not is_interactive():
            note(f"the server asks: {request.message} (declined, because there is no terminal)")
            return ElicitationAnswer("decline")
        async with self._lock:
            return await _fill_form(request)


async def _fill_form(request: ElicitationRequest) -> ElicitationAnswer:
    note(f"\nThe server asks: {request.message}\n(Enter accepts the value in brackets, Ctrl+D declines.)")
    schema = request.requested_schema
    properties = schema.get("properties")
    content: dict[str, Any] = {}
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        field = field if isinstance(field, Mapping) else {}
        is_required = name in (schema.get("required") or ())
        value = await _ask_field(str(name), field, is_required=is_required)
        if value is None:
            return ElicitationAnswer("decline")
        content |= value
    if not content and await ask("Agree? [y/N] ") not in ("y", "Y", "yes"):
        return ElicitationAnswer("decline")
    return ElicitationAnswer("accept", content)


async def _ask_field(name: str, field: Mapping[str, Any], *, is_required: bool) -> dict[str, Any] | None:
    """Return the field with its value, an empty dict if it is skipped, None if the person declines."""
    description = field.get("description") or field.get("title") or ""
    default = field.get("default")
    hint = f"{description + ' ' if description else ''}({type_name(field, field)})"
    default_text = f" [{default}]" if default is not None else "" if is_required else " []"
    for _ in range(bounds.TYPED_TRIES):
        line = await ask(f"  {name}: {hint}{default_text} ")
        if line is None:
            note("")
            return None
        if not line:
            if default is not None:
                return {name: default}
            if not is_required:
                return {}
            continue
        try:
            return {name: read_value(name, line, field, field)}
        except SettingsError as error:
            note(f"  {error.message}")
    return None
