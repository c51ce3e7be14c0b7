"""What both HTTP floors do with a body: one decode, one encode, no protocol behind it."""

from __future__ import annotations

import sys

import msgspec

PORT = int(sys.argv[1])
IS_STREAM = "--sse" in sys.argv
CONTENT_TYPE = b"text/event-stream" if IS_STREAM else b"application/json"


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


_decode = msgspec.json.Decoder(Request).decode
_encode = msgspec.json.Encoder().encode


def answer(body: bytes) -> bytes:
    """The answer to any message, as if it were a call of `echo`."""
    request = _decode(body)
    content = [{"type": "text", "text": request.params.arguments.text}]
    message = _encode({"jsonrpc": "2.0", "id": request.id, "result": {"content": content}})
    return b"event: message\ndata: %b\n\n" % message if IS_STREAM else message
