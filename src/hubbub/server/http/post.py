"""`POST /mcp`: one message, or a batch, in whichever dialect it speaks.

Reads it, lets the era ladder decide whose rules apply, and hands it to those. Every
refusal before that is answered here, in the era that the message claims to be of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from hubbub.errors import HubbubError, IdInUse, InvalidRequest, MessageError
from hubbub.ports import Count, HttpExchange, Quotas
from hubbub.protocol.error_forms import error_object, http_status
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.jsonrpc import (
    NULL,
    Envelope,
    decode_envelope,
    encode_batch,
    encode_error,
    id_key,
    salvage_id,
)
from hubbub.protocol.ladder import Facts, claims_modern, climb
from hubbub.protocol.model import Caller, Principal
from hubbub.protocol.params import EMPTY, decode_params
from hubbub.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, Revision
from hubbub.server.connection import check_id, decode_item
from hubbub.server.http.incoming import Incoming
from hubbub.server.http.legacy import Legacy
from hubbub.server.http.modern import Modern
from hubbub.server.http.plain import Plain
from hubbub.server.http.sessions import Session

VERSION_HEADER = b"mcp-protocol-version"
_JSON = b"application/json"
_ROUTE = "/mcp"
"""What its messages are counted as, at whichever path they come in."""
_NO_BATCHES = "Batches are not part of this protocol revision; send one message at a time"


class Post:
    """Reads what is posted and knows who serves it."""

    def __init__(
        self,
        modern: Modern,
        legacy: Legacy,
        plain: Plain,
        *,
        plain_allowed: bool = True,
        quotas: Quotas | None = None,
    ) -> None:
        self._modern = modern
        self._legacy = legacy
        self._plain = plain
        self._plain_allowed = plain_allowed
        self._quotas = quotas

    async def serve(self, exchange: HttpExchange, principal: Principal) -> None:
        """Serve one POST."""
        if not _is_json(exchange.headers.raw(b"content-type")):
            wrong = InvalidRequest("Send JSON, with the header `Content-Type: application/json`")
            await _refuse(exchange, wrong, NEWEST_LEGACY, status=415)
            return
        data = await exchange.body()
        try:
            message = decode_envelope(data)
        except MessageError as error:
            await _refuse(exchange, error, NEWEST_LEGACY, salvage_id(data))
            return
        session, names_session = self._legacy.session_of(exchange.headers, principal)
        facts = Facts(
            version_header=exchange.headers.get(VERSION_HEADER),
            session=None if session is None else session.caller.revision,
            names_session=names_session,
            over_http=True,
            plain_allowed=self._plain_allowed,
        )
        if not isinstance(message, Envelope):
            await self._batch(exchange, principal, message, session, facts)
            return
        incoming = _incoming(exchange, principal, message, session)
        facts.method, facts.meta = incoming.method, incoming.meta
        try:
            revision = self._climb(incoming, facts)
        except HubbubError as error:
            spoken = NEWEST_MODERN if claims_modern(facts) else NEWEST_LEGACY
            await _refuse(exchange, error, spoken, incoming.id)
            return
        await self._dispatch(incoming, revision)

    def _climb(self, incoming: Incoming, facts: Facts) -> Revision:
        if incoming.is_request:
            revision = climb(facts)
            check_id(incoming.id, is_mcp=revision.is_mcp or incoming.method == "initialize")
            return revision
        # Notifications and answers need no envelope of their own: 202 is all they get.
        if claims_modern(facts):
            return NEWEST_MODERN
        return climb(facts)

    def _dispatch(self, incoming: Incoming, revision: Revision) -> Awaitable[None]:
        if not incoming.is_request:
            if incoming.session is not None:
                self._legacy.take(incoming)
            return incoming.exchange.reply(202)
        if revision.stateless:
            return self._modern.call(incoming, revision)
        if incoming.method == "initialize":
            return self._legacy.initialize(incoming)
        if incoming.session is not None:
            return self._legacy.call(incoming)
        return self._plain.call(incoming)

    async def _batch(
        self,
        exchange: HttpExchange,
        principal: Principal,
        items: list[bytes],
        session: Session | None,
        facts: Facts,
    ) -> None:
        try:
            if claims_modern(facts) or not climb(facts).batches:
                raise InvalidRequest(_NO_BATCHES)
        except HubbubError as error:
            await _refuse(exchange, error, NEWEST_LEGACY)
            return
        caller, headers = self._plain.caller(exchange, principal) if session is None else (session.caller, ())
        count = None if self._quotas is None else self._quotas.count_for(_ROUTE, principal, exchange.client)
        batch = _Batch(exchange, caller, session, set())
        exchange.watch(cancel=session is None)
        try:
            # The first is counted already: it came with the request.
            counts = [None, *[count] * (len(items) - 1)]
            each = zip(items, counts, strict=True)
            answers = await asyncio.gather(*(self._batch_item(batch, item, one) for item, one in each))
        except asyncio.CancelledError:
            if exchange.has_left:
                return
            raise
        finally:
            exchange.unwatch()
        given = [one for one in answers if one]
        await exchange.reply(200 if given else 202, encode_batch(given) if given else b"", headers)

    async def _batch_item(self, batch: _Batch, item: bytes, count: Count | None) -> bytes:
        caller, session = batch.caller, batch.session
        limited = None if count is None else count()
        try:
            message = decode_item(item)
        except MessageError as error:
            return encode_error(salvage_id(item), error_object(limited or error, caller.revision))
        incoming = _incoming(batch.exchange, caller.principal, message, session)
        if not incoming.is_request:
            if session is not None:
                self._legacy.take(incoming)
            return b""
        if limited is not None:
            return encode_error(incoming.id, error_object(limited, caller.revision))
        if incoming.meta.version is not UNSET:
            return encode_error(incoming.id, error_object(InvalidRequest(_NO_BATCHES), NEWEST_MODERN))
        key = id_key(incoming.id)
        if key in batch.keys:
            return encode_error(NULL, error_object(IdInUse(key.decode()), caller.revision))
        batch.keys.add(key)
        if session is not None:
            return await self._legacy.answer_alone(incoming)
        return await self._plain.answer_alone(incoming, caller)


class _Batch(NamedTuple):
    exchange: HttpExchange
    caller: Caller
    session: Session | None
    keys: set[bytes]
    """The ids of its requests so far: the answers come together, so none may be there twice."""


def _incoming(exchange: HttpExchange, principal: Principal, message: Envelope, session: Session | None) -> Incoming:
    method = "" if message.method is UNSET else message.method
    raw = EMPTY if message.params is UNSET else message.params
    params, meta = decode_params(method, raw)
    is_request = message.id is not UNSET and method != ""
    identifier = NULL if message.id is UNSET else message.id
    return Incoming(exchange, principal, message, identifier, method, raw, params, meta, session, is_request)


async def _refuse(
    exchange: HttpExchange,
    error: HubbubError,
    revision: Revision,
    identifier: msgspec.Raw = NULL,
    *,
    status: int | None = None,
    headers: HeaderList = (),
) -> None:
    body = encode_error(identifier, error_object(error, revision))
    await exchange.reply(http_status(error) if status is None else status, body, headers)


def _is_json(content_type: bytes | None) -> bool:
    if content_type == _JSON:
        return True
    return content_type is not None and content_type.partition(b";")[0].strip().lower() == _JSON
