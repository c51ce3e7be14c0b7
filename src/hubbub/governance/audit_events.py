r"""Events of the audit journal, and their encoding as one line of JSON each.

Whatever a caller or a server puts into a name or a message, an event stays one line that is safe to show: line breaks,
escape sequences, invisible and bidirectional characters are written as `\uXXXX`, lone surrogates as the text `\udXXX`,
and long texts are cut. Arguments and results are never part of an event, only the digest of the arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from hubbub.governance.decision import PolicyDecision
from hubbub.governance.hidden_characters import escape_unprintable

MAX_TEXT_CHARACTERS: Final = 1024
"""The length of a text in an event; what is longer is cut."""
MAX_FACTS: Final = 16
"""Facts of one event; further ones are left out."""

JOURNAL_STARTED: Final = "journal.started"
JOURNAL_RECOVERED: Final = "journal.recovered"
JOURNAL_GAP: Final = "journal.gap"
JOURNAL_SEALED: Final = "journal.sealed"
JOURNAL_EXPIRED: Final = "journal.expired"

Fact: TypeAlias = str | int | float | bool
_NS_PER_S: Final = 1_000_000_000
_DELETE: Final = 0x7F  # to search for an int is ten times faster than for bytes


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What happened. Empty fields are left out of the record."""

    event: str
    """Such as `decision`, `call.end`, `session.open`; those of the journal itself begin with `journal.`"""
    call: str = ""
    """The same in all records of one call."""
    tenant: str = ""
    user: str = ""
    client: str = ""
    credential: str = ""
    """The fingerprint of the credential, never the credential."""
    trace: str = ""
    """W3C traceparent."""
    server: str = ""
    tool: str = ""
    """The name of the target on its server."""
    shown_as: str = ""
    """The name that the caller used, if it is another."""
    action: str = ""
    """What the policy decided about: call, read, get, complete, subscribe or admin."""
    kind: str = ""
    """The kind of the target: tool, prompt, resource, template or admin."""
    args_sha256: str = ""
    """Of the arguments as they were sent."""
    decision: PolicyDecision | None = None
    outcome: str = ""
    code: str | int = ""
    ms: float | None = None
    bytes: int | None = None
    facts: dict[str, Fact] | None = None
    """Anything else, such as the person who approved, or the name of a secret."""


class AuditRecord(AuditEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event as it is in the journal."""

    seq: int
    ts: str
    """Informative: `seq` is the order."""
    node: str
    previous_hash: str
    hash: str


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(AuditRecord).decode


def encode_event(event: AuditEvent, time_ns: int) -> bytes:
    """Return an event and its time as the members of a JSON object, without its braces."""
    try:
        encoded = _encode(event)
        if len(encoded) > MAX_TEXT_CHARACTERS:  # Only then can a text be longer than that.
            encoded = _encode(_limit_texts(event))
    except UnicodeEncodeError:  # Lone surrogates.
        encoded = _encode(_limit_texts(event))
    if not encoded.isascii() or _DELETE in encoded:
        encoded = escape_unprintable(encoded.decode()).encode()
    second, nanoseconds = divmod(time_ns, _NS_PER_S)
    known, _, start = _last_second
    if known != second:
        _, _, start = _format_second(second)
    return start + b'%06dZ",' % (nanoseconds // 1000) + encoded[1:-1]


def decode_record(line: bytes) -> AuditRecord:
    """Decode a line of the journal.

    Raises: msgspec.DecodeError.
    """
    return _decode(line)


_last_second: tuple[int, str, bytes] = (-1, "", b"")


def format_time(time_ns: int) -> str:
    """Format a time as UTC in ISO 8601 with microseconds."""
    second, nanoseconds = divmod(time_ns, _NS_PER_S)
    known, text, _ = _last_second
    if known != second:
        _, text, _ = _format_second(second)
    return f"{text}.{nanoseconds // 1000:06d}Z"


def _format_second(second: int) -> tuple[int, str, bytes]:
    """Return a second, its text, and the start of a record, which serve all records of the second."""
    global _last_second  # noqa: PLW0603 - one assignment is atomic
    text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    made = _last_second = (second, text, f'"ts":"{text}.'.encode())
    return made


def _limit_texts(event: AuditEvent) -> AuditEvent:
    changes: dict[str, Any] = {
        name: _limit(value) for name in event.__struct_fields__ if isinstance(value := getattr(event, name), str)
    }
    if event.decision is not None:
        decision = event.decision
        changes["decision"] = msgspec.structs.replace(
            decision, rule=_limit(decision.rule), reason=_limit(decision.reason), version=_limit(decision.version)
        )
    if event.facts:
        changes["facts"] = {
            _limit(name): _limit(value) if isinstance(value, str) else value
            for name, value in list(event.facts.items())[:MAX_FACTS]
        }
    return msgspec.structs.replace(event, **changes)


def _limit(text: str) -> str:
    if len(text) > MAX_TEXT_CHARACTERS:
        note = f"… ({len(text)} characters)"
        text = text[: MAX_TEXT_CHARACTERS - len(note)] + note
    return text.encode("utf-8", "backslashreplace").decode()
