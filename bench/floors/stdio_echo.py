"""As little as a stdio server in Python can do: asyncio pipes, one decode, one encode, no protocol behind it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec


class Arguments(msgspec.Struct, frozen=True):
    """What `echo` takes."""

    text: str = ""


class Params(msgspec.Struct, frozen=True):
    """What `tools/call` takes."""

    arguments: Arguments = Arguments()


class Request(msgspec.Struct):
    """As much of a message as the floor looks at."""

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
        """Answer all that has come whole, in one write."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        answers = [self._answer(self._decode(line)) for line in lines]
        self._output.write(b"".join(answers))

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone."""
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
