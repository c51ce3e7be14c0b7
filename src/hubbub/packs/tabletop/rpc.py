"""gRPC: a server and a channel for calls with one message each way. The only importer of grpc.

Knows nothing of campaigns but the names of their services, which their descriptors tell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from hubbub import bounds
from hubbub.packs.tabletop.failures import (
    FAILURES,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    Internal,
    Unavailable,
)
from hubbub.packs.tabletop.wire import campaign_pb2, duality_pb2, session_pb2

logger = logging.getLogger("hubbub.tabletop")
Handler = Callable[[Any], Awaitable[Message]]

_CODES: Final = {
    "NotFound": grpc.StatusCode.NOT_FOUND,
    "InvalidArgument": grpc.StatusCode.INVALID_ARGUMENT,
    "FailedPrecondition": grpc.StatusCode.FAILED_PRECONDITION,
    "Unavailable": grpc.StatusCode.UNAVAILABLE,
    "DeadlineExceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
    "Internal": grpc.StatusCode.INTERNAL,
}
_TOLD: Final = (("hubbub-told", "1"),)
"""With a failure that a handler told: its words are for people, those of gRPC itself are not."""
_WORDS: Final = {code: word for word, code in _CODES.items()}
_SIZES: Final = [
    ("grpc.max_receive_message_length", bounds.TABLE_MESSAGE_BYTES),
    ("grpc.max_send_message_length", bounds.TABLE_MESSAGE_BYTES),
]
# A second server on the same port must fail, not take half of the calls.
_SERVER_OPTIONS: Final = [*_SIZES, ("grpc.so_reuseport", 0)]
# So that a server that comes back is found within a second; the address is the operator's, never a proxy's.
_CHANNEL_OPTIONS: Final = [
    *_SIZES,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


class Method(NamedTuple):
    """One call of one service."""

    service: str
    name: str
    request: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        """Where it is called."""
        return f"/{self.service}/{self.name}"


def _methods() -> dict[str, Method]:
    services = [
        campaign_pb2.DESCRIPTOR.services_by_name["CampaignService"],
        session_pb2.DESCRIPTOR.services_by_name["SessionService"],
        duality_pb2.DESCRIPTOR.services_by_name["DualityService"],
    ]
    return {
        method.name: Method(
            service.full_name, method.name, GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        )
        for service in services
        for method in service.methods
    }


METHODS: Final = _methods()
"""Every call by its name, which is unique."""


class RpcServer:
    """Answers calls on one address until it is stopped."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        """Takes a handler for each of `METHODS`; must be made in the event loop that runs it."""
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._services = sorted({method.service for method in METHODS.values()})
        for service in self._services:
            ours = {
                name: grpc.unary_unary_rpc_method_handler(
                    _guarded(handlers[name]), method.request.FromString, method.response.SerializeToString
                )
                for name, method in METHODS.items()
                if method.service == service
            }
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, ours),))

    async def start(self, address: str) -> int:
        """Listen; the port.

        Raises: Unavailable, if the address is taken or not ours.
        """
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}; is another server there?") from error
        await self.tell(is_well=True)
        await self._server.start()
        return port

    async def tell(self, *, is_well: bool) -> None:
        """Let the health service say how we are."""
        status = health_pb2.HealthCheckResponse.SERVING if is_well else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, and let those that run end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


def _guarded(handler: Handler) -> Callable[[Any, Any], Awaitable[Message]]:
    async def handle(request: Any, context: Any) -> Message:
        try:
            return await handler(request)
        except Failure as failure:
            await context.abort(_CODES[failure.word], failure.message, _TOLD)
        except Exception:  # The last who can catch it; grpc itself would tell the caller what it says.
            logger.exception("campaign_server_failed", extra={"request": type(request).__name__})
            await context.abort(grpc.StatusCode.INTERNAL, "the campaign server has a fault; its log tells which")
        raise AssertionError("abort raises")

    return handle


class RpcChannel:
    """The way to a server, found when it is first needed and again whenever it was lost."""

    def __init__(self, address: str, *, deadline_s: float, ready_s: float = bounds.TABLE_READY_S) -> None:
        self._address = address
        self._deadline_s = deadline_s
        self._ready_s = ready_s
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[str, Any] = {}

    async def call(self, name: str, request: Message, *, deadline_s: float = 0) -> Any:
        """The answer to one call, which may take at least as long as any other, or longer if its own deadline is.

        Raises: Failure.
        """
        await self._ready()
        method = METHODS[name]
        most_s = max(deadline_s, self._deadline_s)
        return await self._send(method.path, method.request, method.response, request, most_s)

    async def check(self) -> None:
        """Return if the server says that it is well.

        Raises: Failure.
        """
        await self._ready()
        answer = await self._send(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest,
            health_pb2.HealthCheckResponse,
            health_pb2.HealthCheckRequest(),
            self._deadline_s,
        )
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            raise Unavailable(f"the campaign server at {self._address} runs, but its database does not work")

    async def close(self) -> None:
        """Hang up."""
        channel, self._channel = self._channel, None
        self._calls.clear()
        if channel is not None:
            await channel.close()

    async def _ready(self) -> None:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS)
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return
        try:
            async with asyncio.timeout(min(self._ready_s, self._deadline_s)):
                await self._channel.channel_ready()
        except TimeoutError:
            raise Unavailable(
                f"the campaign server at {self._address} cannot be reached; "
                f"start it with `hubbub campaign-server --addr {self._address}`, or serve without --addr"
            ) from None

    async def _send(self, path: str, request: Any, response: Any, message: Message, deadline_s: float) -> Any:
        assert self._channel is not None
        call = self._calls.get(path)
        if call is None:
            call = self._calls[path] = self._channel.unary_unary(path, request.SerializeToString, response.FromString)
        try:
            return await call(message, timeout=deadline_s)
        except grpc.aio.AioRpcError as error:
            raise self._failure(error, deadline_s) from error

    def _failure(self, error: grpc.aio.AioRpcError, deadline_s: float) -> Failure:
        word, details = _WORDS.get(error.code()), error.details() or ""
        if word == "DeadlineExceeded":
            return DeadlineExceeded(
                f"the campaign server at {self._address} did not answer within {deadline_s:g} s; "
                "look whether the change was made before trying again"
            )
        if word == "Unavailable" and not _is_told(error):
            return Unavailable(
                f"the connection to the campaign server at {self._address} was lost; "
                "look whether the change was made before trying again"
            )
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return FailedPrecondition(
                f"this is more than fits into one message of {bounds.TABLE_MESSAGE_BYTES >> 20} MB; ask for less"
            )
        if word is None:
            return Internal(f"the campaign server at {self._address} failed: {error.code().name} {details}".rstrip())
        return FAILURES[word](details or word)


def _is_told(error: grpc.aio.AioRpcError) -> bool:
    return any(pair in _TOLD for pair in error.trailing_metadata() or ())
