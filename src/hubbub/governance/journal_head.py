"""The head of an audit journal: number and hash of its last record, signed if there is a key.

Whoever can write to the folder can cut off the end of the journal. A head that was stored elsewhere proves it: `Anchor`
passes each head to a program of the operator, and `hubbub audit verify --head` compares.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from hubbub.governance.operator_program import run_program
from hubbub.security.crypto import SigningKey, VerifyingKey

logger = logging.getLogger("hubbub.audit")

ANCHOR_TIMEOUT_S: Final = 30.0
"""How long the program may take to store one head."""
_HEAD_BYTES: Final = 16 * 1024
_SIGNED_AS: Final = "hubbub audit head 1"


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last record of a journal at some time."""

    node: str
    seq: int
    hash: str
    ts: str
    signature: str = ""
    """Ed25519, in base64, over the other fields; empty if there is no key."""

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that are signed."""
        return "\n".join((_SIGNED_AS, self.node, str(self.seq), self.hash, self.ts)).encode()

    def sign(self, key: SigningKey) -> Head:
        """Return this head with its signature."""
        signature = base64.b64encode(key.sign(self.signed_bytes)).decode()
        return msgspec.structs.replace(self, signature=signature)

    def is_signed_by(self, key: VerifyingKey) -> bool:
        """Whether it has a signature of this key."""
        try:
            signature = base64.b64decode(self.signature, validate=True)
        except ValueError:
            return False
        return key.verifies(signature, self.signed_bytes)


def decode_head(data: bytes | str) -> Head | None:
    """Decode a head; None if it is not a head."""
    try:
        return msgspec.json.decode(data, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_head(path: Path) -> Head | None:
    """Read a head from a file; None if there is no file, or no head in it.

    Raises: OSError.
    """
    try:
        with path.open("rb") as file:
            return decode_head(file.read(_HEAD_BYTES))
    except FileNotFoundError:
        return None


def write_head(path: Path, head: Head) -> None:
    """Replace the file.

    Raises: OSError.
    """
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(head) + b"\n")
    temporary.replace(path)


class Anchor:
    """Runs the operator's program for heads, one at a time; if it is slow, it gets only the newest."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.failures = 0
        self._command = command
        self._next: Head | None = None
        self._task: asyncio.Task[None] | None = None

    def submit(self, head: Head) -> None:
        """Store a head soon."""
        self._next = head
        if self._command and self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._finish)

    async def close(self) -> None:
        """Wait until the last head is stored, or its time is over."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._task = None

    async def _run(self) -> None:
        while self._next is not None:
            head, self._next = self._next, None
            problem = await run_program(self._command, msgspec.json.encode(head) + b"\n", ANCHOR_TIMEOUT_S)
            if problem:
                self.failures += 1
                logger.error("audit_head_not_anchored", extra={"program": self._command[0], "reason": problem})
