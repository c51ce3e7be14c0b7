"""The interfaces between the parts of Hubbub.

Custom transports, middleware and sealers implement these protocols; users may import them
from here. A server is a `Peer`, a client is a `Peer`, a hub is a `Peer` that
selects a `Peer`; limits, policies and metrics are functions from `Peer` to `Peer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from hubbub.protocol.calls import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from hubbub.errors import HubbubError, MessageError, RateLimited
    from hubbub.protocol.calls import Call, Implementation, Notification, Principal, Reply
    from hubbub.protocol.http_headers import HeaderList, Headers, RequestTarget
    from hubbub.protocol.refusal import Refusal
    from hubbub.settings.secret import Secret

PROCESS_SCOPE: Final = "process"
"""The scope of a client that is the only one of its process."""


class Peer(Protocol):
    """An object that answers calls: a server, a client or a wrapper of one."""

    async def request(self, call: Call) -> Reply:
        """Answer a call, or raise an error of `hubbub.errors`."""

    async def notify(self, note: Notification) -> None:
        """Handle a notification, which has no answer."""


class ReturnPath(Protocol):
    """The path back to the caller of one call (`call.back`), for messages before the answer."""

    async def request(self, call: Call) -> Reply:
        """Send a request to the caller (elicitation, sampling, roots) and return its answer.

        Raises: errors of `hubbub.errors`, if the caller cannot be reached or does not support the request.
        """

    async def notify(self, note: Notification) -> None:
        """Send a notification (progress, log message) to the caller; wait while the caller does not read."""

    def send_nowait(self, note: Notification) -> bool:
        """Queue a notification, if this path keeps its messages in order by itself; False: use `notify`."""

    async def release(self) -> None:
        """End the open stream now and let the caller reconnect for the rest; does nothing without such a stream."""


class Sealer(Protocol):
    """Encrypts and authenticates small records that clients carry."""

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        """Return the record as text that only `open` can read."""

    def open(self, purpose: str, text: str) -> Any:
        """Return the record of a text that was sealed for the same purpose.

        Raises:
            ValueError: it was not sealed here or not for this purpose, or it has expired.
        """


class ConnectionHandler(Protocol):
    """One client's connection, to which a transport with two byte streams passes messages."""

    @property
    def is_busy(self) -> bool:
        """Whether reading should pause for now."""

    @property
    def exit_requested(self) -> bool:
        """Whether the client asked to end the connection; treated like the end of its input."""

    def receive(self, data: bytes, *, is_counted: bool = False) -> None:
        """Take one message; `is_counted`: the request that carried it was already counted by the rate limit."""

    def refuse(self, error: MessageError) -> None:
        """Answer bytes that are not a valid message with an error."""

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call back once, when `is_busy` has become false."""

    async def finish(self) -> None:
        """End the input: wait for running calls and send their responses, then end."""

    async def close(self) -> None:
        """Cancel running calls and end at once."""


class ConnectionFactory(Protocol):
    """Creates the connection of a transport that is about to start reading."""

    def __call__(
        self,
        send: Callable[[bytes], None],
        drain: Callable[[], Awaitable[None] | None],
        *,
        principal: Principal = ANONYMOUS,
        scope: str = PROCESS_SCOPE,
        count: MessageCounter | None = None,
        address: str = "",
        has_every_scope: bool = False,
    ) -> ConnectionHandler:
        """`send` takes one message and never waits. `drain` returns None if there is room, else what to await.

        `scope` identifies the state of the client; a transport that serves several clients gives each
        its own, and its network `address`.
        `count` is called once for each message, if there is a rate limit.
        `has_every_scope` is for a client that is trusted like the user of the process, as on stdio.
        """


@runtime_checkable
class InMemoryServer(Protocol):
    """A server in this process, which a `Client` reaches without a socket. `Server` is one."""

    info: Implementation
    message_bytes: int
    """The largest message accepted."""

    def in_memory(self) -> AbstractAsyncContextManager[ConnectionFactory]:
        """Keep the server running, and connect clients to it."""


class HttpExchange(Protocol):
    """One HTTP request and its response."""

    method: str
    path: str
    client: str
    headers: Headers
    is_disconnected: bool
    """Whether the caller is known to have disconnected."""
    has_responded: bool
    """Whether the response was started."""
    status: int
    """The status of the response; 0 until there is one."""
    extra_headers: HeaderList
    """Headers that are added to the response, such as those of CORS."""
    task: Any
    """The task that serves the request."""

    @property
    def query(self) -> str:
        """The query string of the URL."""

    @property
    def root_path(self) -> str:
        """Where the app is mounted, as part of a URL; empty if it is not."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    def body_nowait(self) -> bytes | None:
        """Return the request's body if all of it has arrived; otherwise None, and `body` must be awaited.

        Raises: MessageTooLarge.
        """

    async def body(self) -> bytes:
        """Read the request's body.

        Raises:
            MessageTooLarge: it is larger than the limit.
            ConnectionClosed: the sender disconnected or was too slow.
        """

    def respond(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, content_type: bytes = b"application/json"
    ) -> Awaitable[None]:
        """Send a complete response of the given media type."""

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start a response of server-sent events."""

    async def write(self, event: bytes) -> None:
        """Write an encoded event; waits for a slow reader, for a limited time."""

    async def end(self) -> None:
        """End a stream."""

    def watch(self, *, cancel: bool) -> None:
        """Watch from now on whether the caller disconnects; if `cancel`, the running task is cancelled then."""

    def unwatch(self) -> None:
        """Stop watching, because the response is complete."""

    def cancel(self) -> None:
        """Cancel the task that serves the request."""


class WebSocketExchange(Protocol):
    """One WebSocket: its handshake, then its messages."""

    path: str
    client: str
    headers: Headers

    @property
    def root_path(self) -> str:
        """Where the app is mounted, as part of a URL; empty if it is not."""

    @property
    def subprotocols(self) -> Sequence[str]:
        """The subprotocols that the caller offers."""

    async def accept(self, subprotocol: str | None) -> None:
        """Accept the handshake.

        Raises: ConnectionClosed.
        """

    async def refuse(self, refusal: Refusal) -> None:
        """Refuse the handshake."""

    async def receive(self) -> bytes | None:
        """Return the next message; None once the connection has ended."""

    async def send(self, message: bytes) -> None:
        """Send a text message; waits for a slow reader, for a limited time.

        Raises: ConnectionClosed.
        """

    async def close(self, code: int, reason: str = "") -> None:
        """Close the connection, if it is open. The reason has at most 123 bytes."""


class TenantDirectory(Protocol):
    """The tenants that callers may belong to; they may change while the process runs."""

    @property
    def generation(self) -> int:
        """Increases with every change."""

    def __contains__(self, name: object) -> bool:
        """Whether there is a tenant of this name."""

    def find_by_claim(self, value: str) -> str | None:
        """The name of the tenant that this claim of a token means."""

    def allows_plain(self, name: str) -> bool:
        """Whether the users of this tenant may send JSON-RPC without MCP."""


class Gate(Protocol):
    """Admits and authenticates requests."""

    def admit_nowait(self, headers: Headers, path: str = "") -> Principal | Refusal | None:
        """The caller or a refusal, if it is known without waiting; None if `__call__` must decide."""

    async def __call__(self, headers: Headers, client: str, target: RequestTarget) -> Principal | Refusal:
        """The caller or a refusal."""

    def check(self, headers: Headers, any_origin: bool = False) -> Refusal | None:
        """Refuse requests by their headers, before the caller is known."""

    async def recheck(self, headers: Headers) -> Principal | Refusal:
        """Check the credential of a connection that is already open."""

    def is_revoked(self, principal: str) -> bool:
        """Whether the credential of this principal was revoked."""


class RegisterConnection(Protocol):
    """Registers open connections of callers whose credentials are checked again while they last."""

    def __call__(self, headers: Headers, principal: Principal, end: Callable[[], object]) -> Callable[[], None]:
        """Register a connection, which `end` closes; call the returned function when it has ended by itself."""


class MessageCounter(Protocol):
    """Counts the messages of one caller."""

    def __call__(self) -> RateLimited | None:
        """Count one message; return an error if it exceeds the limit."""


class CounterFactory(Protocol):
    """Creates the counter of one caller."""

    def __call__(self, endpoint: str, principal: Principal, client: str) -> MessageCounter | None:
        """Return a counter; None if the endpoint has no limit."""


class RateLimits(Protocol):
    """Rate limits."""

    def count_for(self, endpoint: str, principal: Principal, client: str) -> MessageCounter | None:
        """A counter for each message of a connection or batch; it shares the count of `check`."""

    def check(self, endpoint: str, caller: str) -> Refusal | None:
        """Count one request; return a refusal if it exceeds the limit."""


class ReportCutOff(Protocol):
    """Called when a connection is closed because a limit was exceeded."""

    def __call__(self, reason: str, address: str) -> None:
        """Report the reason and the network address of the caller."""


class HttpSseEndpoint(Protocol):
    """The HTTP+SSE transport of 2024-11-05: a stream, and POST requests that are answered on it."""

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """`GET /sse`"""

    async def post(self, exchange: HttpExchange, principal: Principal) -> None:
        """`POST /messages`"""


class OutgoingRequest(Protocol):
    """A request that is being sent to a server."""

    id: int
    method: str
    body: bytes
    """The whole message."""
    headers: Mapping[str, str]
    """HTTP headers that repeat parts of it, for proxies that route without reading bodies."""
    is_stateless: bool
    """Whether it belongs to no session."""
    clock: Any
    """The timeout of its caller: an `asyncio.Timeout`, or something like it; None if it has none yet."""
    on_abandoned: Callable[[], Any] | None
    """Called when the caller stops waiting; set by `send_nowait` if there is something to close."""

    @property
    def is_answered(self) -> bool:
        """Whether its answer has arrived, or its caller stopped waiting."""

    def fail(self, error: Exception) -> None:
        """Fail the request, unless it is answered."""


class Receiver(Protocol):
    """Receives the messages of a server."""

    problem: str
    """Why the last unreadable message could not be read."""

    def receive(self, message: bytes, outgoing: OutgoingRequest | None = None) -> bool:
        """Take one message, with the request on whose stream it came; return whether it could be read."""

    def receive_invalid(self, error: MessageError) -> None:
        """Handle input that is not a valid message."""

    def transport_interrupted(self, error: HubbubError) -> None:
        """Fail all open requests; new ones can still be sent."""

    def transport_lost(self, error: HubbubError) -> None:
        """Fail all open requests; the transport is closed."""


class SecretResolver(Protocol):
    """Gives clients the secrets that their configuration refers to."""

    on_event: Callable[[str, Mapping[str, str]], None] | None
    """Called with the kind and the facts of each access that is to be recorded."""

    async def resolve(self, name: str, tenant: str | None) -> Secret:
        """Return the current value of a secret for a tenant; None is the process itself.

        Raises: SecretUnavailable.
        """


class RefusedRequest(NamedTuple):
    """An HTTP request that a server refused with 401 or 403, before it executed anything."""

    method: str
    url: str
    status: int
    attempt: int
    """How often the same request was refused before."""
    challenge: str
    """The value of `WWW-Authenticate`; empty if the header is missing."""
    dpop_nonce: str
    """The value of `DPoP-Nonce`; empty if the header is missing."""
    sent_headers: Mapping[str, str]
    """What `Authorizer.headers` returned for it."""
    forbidden_before: int = 0
    """How many of the earlier refusals had status 403."""


class Authorizer(Protocol):
    """Authorizes the HTTP requests of a client to one server."""

    def current_headers(self) -> Mapping[str, str] | None:
        """Return the headers that suit every request now; the same object until they change.

        None, if waiting is necessary or each request needs its own; `headers` makes those.
        """

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers of one request; empty if the server has not asked for authorization yet.

        Raises: TransportError.
        """

    async def handle_refusal(self, refused: RefusedRequest) -> bool:
        """Obtain what the challenge requires. Return whether the request can be sent again, with new headers.

        Raises: TransportError, if authorization failed.
        """

    def remember_nonce(self, nonce: str) -> None:
        """Use the value of a `DPoP-Nonce` header in the next proof."""

    def acquire(self) -> None:
        """Count one more client; each calls `release` at its end."""

    async def release(self) -> None:
        """Count one client less; with none left, a login in progress is cancelled."""


def hide_nothing(value: Any) -> Any:
    """Default for `ClientTransport.hide`: return the value unchanged, because no secrets were configured."""
    return value


class ClientTransport(Protocol):
    """A client's end of a transport."""

    address: str
    """Identifies the server in messages and caches; without secrets."""
    is_http: bool
    """Whether requests have headers and may be answered on streams of their own."""

    is_legacy: bool
    """Whether the transport exists only in the legacy era."""

    hide: Callable[[Any], Any]
    """Removes configured secrets from JSON, in case the server repeats them."""

    async def start(self, receiver: Receiver) -> None:
        """Prepare to send. Raises errors of `hubbub.errors`."""

    def send_nowait(self, outgoing: OutgoingRequest) -> bool:
        """Send a request if that needs no waiting and its answer goes to the receiver; False: use `send_request`."""

    async def send_request(self, outgoing: OutgoingRequest) -> None:
        """Send a request; return once it is answered, or once its answer will go to the receiver."""

    async def send_message(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a notification or an answer; `headers` are for transports that have headers."""

    def cancel_request(self, outgoing: OutgoingRequest, reason: str) -> None:
        """Cancel this request at the server, in the way of its era; never waits."""

    def finish_handshake(self, version: str) -> None:
        """Use this version after the handshake, and open the stream for the server's own messages."""

    async def close(self) -> None:
        """Close the connection to the server, within time limits. May be called twice, from any task."""
