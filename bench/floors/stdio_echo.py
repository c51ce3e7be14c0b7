"""The minimal stdio server in Python: asyncio pipes, one decode, one encode, without any protocol."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec


class Arguments(msgspec.Struct, frozen=True):
    """Arguments of `echo`."""

    text: str = ""


class Params(msgspec.Struct, frozen=True):
    """Parameters of `tools/call`."""

    arguments: Arguments = Arguments()


class Request(msgspec.Struct):
    """The parts of a message that are used."""

    id: int | None = None
    params: Params = Params()


class Floor(asyncio.Protocol):
    """Answers every request as if it were a call of `echo`."""

    def __init__(self, output: asyncio.WriteTransport, ended: asyncio.Event) -> None:
        self._output = output
        self._ended = ended
        self._rest = b""
        self._decode = msgspec.json.Decoder(Request).decode
        self._encode = msgspec.json.Encoder().encode

    def data_received(self, data: bytes) -> None:
        """Answer all complete lines in one write."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        answers = [self._answer(self._decode(line)) for line in lines]
        self._output.write(b"".join(answers))

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()

    def _answer(self, request: Request) -> bytes:
        if request.id is None:
            return b""
        content: list[Any] = [{"type": "text", "text": request.params.arguments.text}]
        return self._encode({"jsonrpc": "2.0", "id": request.id, "result": {"content": content}}) + b"\n"


async def main() -> None:
    """Serve until the input ends."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    output, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    await loop.connect_read_pipe(lambda: Floor(output, ended), sys.stdin)
    await ended.wait()


asyncio.run(main())
