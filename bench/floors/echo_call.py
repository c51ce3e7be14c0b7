"""Shared by both HTTP floors: decode a body, encode a response, without any protocol."""

from __future__ import annotations

import sys

import msgspec

PORT = int(sys.argv[1])
IS_STREAM = "--sse" in sys.argv
CONTENT_TYPE = b"text/event-stream" if IS_STREAM else b"application/json"


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


_decode = msgspec.json.Decoder(Request).decode
_encode = msgspec.json.Encoder().encode


def answer(body: bytes) -> bytes:
    """Return the response to any message, as if it were a call of `echo`."""
    request = _decode(body)
    content = [{"type": "text", "text": request.params.arguments.text}]
    message = _encode({"jsonrpc": "2.0", "id": request.id, "result": {"content": content}})
    return b"event: message\ndata: %b\n\n" % message if IS_STREAM else message
