"""Rewriting of results that pass through the hub, including invalid ones."""

import pytest
from msgspec import Raw

from hubbub import RawReply
from hubbub.hub.rewrite import unwrap_reply


@pytest.mark.parametrize("body", [b"7", b"null", b'"text"', b"[]", b"{}", b'{"content":7}', b'{"content":[7]}'])
def test_an_invalid_result_is_forwarded_unchanged(body: bytes) -> None:
    reply = unwrap_reply(RawReply(body=Raw(body)))
    assert isinstance(reply, RawReply)
    assert bytes(reply.body) == body
