"""A gRPC server and channel for unary calls. The only importer of grpc.

Knows nothing of campaigns except the services in their descriptors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection

from hubbub.pack import listen_error
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import (
    FAILURES_BY_CODE,
    STORE_UNAVAILABLE,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    Internal,
    Unavailable,
)
from hubbub.packs.tabletop.store_status import StoreStatus
from hubbub.packs.tabletop.wire import campaign_pb2, duality_pb2, session_pb2

logger = logging.getLogger("hubbub.tabletop")
Handler = Callable[[Any], Awaitable[Message]]

_STATUS_CODES: Final = {
    "NotFound": grpc.StatusCode.NOT_FOUND,
    "InvalidArgument": grpc.StatusCode.INVALID_ARGUMENT,
    "FailedPrecondition": grpc.StatusCode.FAILED_PRECONDITION,
    "Unavailable": grpc.StatusCode.UNAVAILABLE,
    "DeadlineExceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
    "Internal": grpc.StatusCode.INTERNAL,
}
_USER_MESSAGE: Final = (("hubbub-told", "1"),)
"""Metadata of failures that a handler raised: their messages are for users, those of gRPC itself are not."""
_HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
_STATUS_NAMES: Final = {code: word for word, code in _STATUS_CODES.items()}
# A second server on the same port must fail, not take half of the calls.
_SERVER_OPTIONS: Final = [("grpc.so_reuseport", 0)]
# Reconnect within a second after a server returns; never use a proxy for the operator's address.
_CHANNEL_OPTIONS: Final = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


def _with_size_limits(options: list[tuple[str, int]]) -> list[tuple[str, int]]:
    limit = limits.MAX_MESSAGE_BYTES
    return [*options, ("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", limit)]


class Method(NamedTuple):
    """One RPC of one service."""

    service: str
    name: str
    request: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        """Return the path of the RPC."""
        return f"/{self.service}/{self.name}"


def _load_methods() -> dict[str, Method]:
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


METHODS: Final = _load_methods()
"""All RPCs by name; the names are unique."""


class ServerTls(NamedTuple):
    """The certificate of a server and its key, in PEM."""

    certificate: bytes
    key: bytes


class ClientTls(NamedTuple):
    """How a channel verifies its server."""

    authorities: bytes | None = None
    """Trusted certificates in PEM; None for those of the system."""


class _TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the token. The health check needs none: it reveals only whether the server works."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

        async def refuse(request: Any, context: Any) -> None:
            message = "This campaign server requires a token; set HUBBUB_TABLETOP_TOKEN to the token of the server"
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, message, _USER_MESSAGE)

        async def refuse_stream(requests: Any, context: Any) -> None:
            await refuse(requests, context)

        self._refuse: Any = grpc.unary_unary_rpc_method_handler(refuse)
        self._refuse_stream: Any = grpc.stream_stream_rpc_method_handler(refuse_stream)

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Return the handler of the call, or one that refuses it."""
        if details.method.startswith("/grpc.health."):
            return await continuation(details)
        authorization = next((value for key, value in details.invocation_metadata if key == "authorization"), "")
        if compare_digest(authorization.encode(), self._expected):
            return await continuation(details)
        is_stream = details.method.startswith("/grpc.reflection.")
        return self._refuse_stream if is_stream else self._refuse


class RpcServer:
    """Serves calls on one address until it is stopped."""

    def __init__(
        self, handlers: Mapping[str, Handler], *, token: str | None = None, tls: ServerTls | None = None
    ) -> None:
        """Take a handler for each of `METHODS`; must be called in the event loop that runs the server."""
        interceptors = [] if token is None else [_TokenInterceptor(token)]
        self._server = grpc.aio.server(options=_with_size_limits(_SERVER_OPTIONS), interceptors=interceptors)
        self._tls = tls
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._services = sorted({method.service for method in METHODS.values()})
        for service in self._services:
            service_handlers = {
                name: grpc.unary_unary_rpc_method_handler(
                    _wrap_handler(handlers[name]), _make_decoder(method.request), method.response.SerializeToString
                )
                for name, method in METHODS.items()
                if method.service == service
            }
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, service_handlers),))
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*self._services, health_name, reflection.SERVICE_NAME), self._server)

    async def start(self, address: str) -> int:
        """Listen, and return the port.

        Raises: SettingsError, if the address cannot be used, or the certificate does not match its key.
        """
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(address)
            else:
                pair = [(self._tls.key, self._tls.certificate)]
                port = self._server.add_secure_port(address, grpc.ssl_server_credentials(pair))
        except RuntimeError as error:
            host, _, given_port = address.rpartition(":")
            reason = (
                "the address is in use or does not belong to this machine, or the certificate does not match its key"
            )
            raise listen_error(host, int(given_port), reason, option="--addr") from error
        await self.set_health(is_healthy=True)
        await self._server.start()
        return port

    async def set_health(self, *, is_healthy: bool) -> None:
        """Set the status of the health service."""
        status = health_pb2.HealthCheckResponse.SERVING if is_healthy else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self, grace_s: float) -> None:
        """Stop accepting calls, and wait for running ones up to `grace_s`."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


def _make_decoder(kind: type[Message]) -> Callable[[bytes], Message | DecodeError]:
    """Decode a request. An error is passed to the handler, because gRPC would report it as a fault of the server."""

    def read(data: bytes) -> Message | DecodeError:
        try:
            return kind.FromString(data)
        except DecodeError as error:  # strings must be UTF-8
            return error

    return read


def _wrap_handler(handler: Handler) -> Callable[[Any, Any], Awaitable[Message]]:
    async def handle(request: Any, context: Any) -> Message:
        if isinstance(request, DecodeError):
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be decoded; strings must be UTF-8", _USER_MESSAGE
            )
        try:
            return await handler(request)
        except Failure as failure:
            await context.abort(_STATUS_CODES[failure.status_code], failure.message, _USER_MESSAGE)
        except Exception:  # The last handler: grpc would send the message of the exception to the caller.
            logger.exception("campaign_server_failed", extra={"request": type(request).__name__})
            await context.abort(grpc.StatusCode.INTERNAL, "the campaign server failed; see its log")
        raise AssertionError("abort raises")

    return handle


class RpcChannel:
    """A connection to a server, opened when it is first needed and again after it was lost."""

    def __init__(
        self,
        address: str,
        *,
        deadline_s: float,
        token: str | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self.status = StoreStatus()
        self._address = address
        self._tls = tls
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._deadline_s = deadline_s
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[str, Any] = {}

    async def call(self, name: str, request: Message, *, deadline_s: float = 0) -> Any:
        """Make one call. `deadline_s` extends the channel's own deadline, and never shortens it.

        Raises: Failure.
        """
        await self._wait_ready()
        method = METHODS[name]
        timeout_s = max(deadline_s, self._deadline_s)
        return await self._send(method.path, method.request, method.response, request, timeout_s)

    async def check(self) -> None:
        """Check that the server reports itself as healthy.

        Raises: Failure.
        """
        await self._wait_ready()
        result = await self._send(
            _HEALTH_CHECK,
            health_pb2.HealthCheckRequest,
            health_pb2.HealthCheckResponse,
            health_pb2.HealthCheckRequest(),
            self._deadline_s,
        )
        if result.status != health_pb2.HealthCheckResponse.SERVING:
            reason = f"the campaign server at {self._address} is running, but its database is not available"
            raise self._unavailable(STORE_UNAVAILABLE, reason)
        self.status.record_success("read")

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        self._calls.clear()
        if channel is not None:
            await channel.close()

    async def _wait_ready(self) -> None:
        if self._channel is None:
            self._channel = self._open()
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return
        try:
            async with asyncio.timeout(min(limits.CONNECT_TIMEOUT_S, self._deadline_s)):
                await self._channel.channel_ready()
        except TimeoutError:
            raise self._unavailable(
                STORE_UNAVAILABLE,
                f"the campaign server at {self._address} cannot be reached; "
                f"start it with `hubbub campaign-server --addr {self._address}`, or serve without --addr",
            ) from None

    def _open(self) -> grpc.aio.Channel:
        if self._tls is None:
            return grpc.aio.insecure_channel(self._address, options=_with_size_limits(_CHANNEL_OPTIONS))
        credentials = grpc.ssl_channel_credentials(self._tls.authorities)
        return grpc.aio.secure_channel(self._address, credentials, options=_with_size_limits(_CHANNEL_OPTIONS))

    def _unavailable(self, message: str, reason: str) -> Unavailable:
        self.status.record_failure("read", reason)
        return Unavailable(message, reason=reason)

    async def _send(self, path: str, request: Any, response: Any, message: Message, deadline_s: float) -> Any:
        assert self._channel is not None
        call = self._calls.get(path)
        if call is None:
            call = self._calls[path] = self._channel.unary_unary(path, request.SerializeToString, response.FromString)
        try:
            result = await call(message, timeout=deadline_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._convert_error(error, deadline_s) from error
        if path != _HEALTH_CHECK:  # It answers even if the database does not work.
            self.status.record_success("read")
        return result

    def _convert_error(self, error: grpc.aio.AioRpcError, deadline_s: float) -> Failure:
        word, details = _STATUS_NAMES.get(error.code()), error.details() or ""
        place = f"the campaign server at {self._address}"
        if word == "DeadlineExceeded":
            return DeadlineExceeded(
                f"the campaign server did not respond within {deadline_s:g} s; "
                "check whether the change was made before trying again"
            )
        if word == "Unavailable":
            if _has_user_message(error):
                return self._unavailable(details or STORE_UNAVAILABLE, f"{place} reports: {details}")
            lost = (
                "the connection to the campaign server was lost; check whether the change was made before trying again"
            )
            return self._unavailable(lost, f"the connection to {place} was lost: {details}")
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return self._unavailable(
                STORE_UNAVAILABLE, f"{place} refused the token of HUBBUB_TABLETOP_TOKEN: {details}"
            )
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return FailedPrecondition(
                f"the request or its result exceeds the limit of {limits.MAX_MESSAGE_BYTES >> 20} MB for one message; "
                "request a smaller page"
            )
        if word is None:
            reason = f"{place} failed: {error.code().name} {details}".rstrip()
            logger.error("campaign_server_failed", extra={"reason": reason})
            return Internal("the campaign server failed; see the log of the server", reason=reason)
        return FAILURES_BY_CODE[word](details or word)


def _has_user_message(error: grpc.aio.AioRpcError) -> bool:
    return any(pair in _USER_MESSAGE for pair in error.trailing_metadata() or ())
