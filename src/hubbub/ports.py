"""The seams: what parts of Hubbub expect of each other, and nothing more.

Protocols only. A server is a `Peer`, a client is a `Peer`, a hub is a `Peer` that
picks a `Peer`; limits, policies and metrics are functions from `Peer` to `Peer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from hubbub.protocol.model import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hubbub.errors import HubbubError, MessageError, RateLimited
    from hubbub.protocol.http_headers import HeaderList, Headers
    from hubbub.protocol.model import Call, Note, Principal, Reply
    from hubbub.protocol.refusal import Refusal

THE_PROCESS: Final = "process"
"""The scope of a client that has the whole process to itself."""


class Peer(Protocol):
    """Someone who answers calls."""

    async def request(self, call: Call) -> Reply:
        """Answer a call, or raise an error of `hubbub.errors`."""

    async def notify(self, note: Note) -> None:
        """Take note of something; there is no answer."""


class Sealer(Protocol):
    """Turns small records into opaque text that only we can have written."""

    def seal(self, purpose: str, record: Any, *, lifetime_s: float | None = None) -> str:
        """The record as text that nobody else can read or change."""

    def open(self, purpose: str, text: str) -> Any:
        """The record of a text that we sealed for the same purpose.

        Raises:
            ValueError: it was not us, not for this purpose, or too long ago.
        """


class Duplex(Protocol):
    """What a transport with two byte streams feeds: one client's connection."""

    @property
    def is_busy(self) -> bool:
        """Whether no more should be read for now."""

    def receive(self, data: bytes, *, is_counted: bool = False) -> None:
        """Take one message; `is_counted` if what carried it was already counted against its sender's limit."""

    def refuse(self, error: MessageError) -> None:
        """Answer bytes that were no message."""

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call back once, when `is_busy` has become false."""

    async def finish(self) -> None:
        """The client sends nothing more: answer what runs, then end."""

    async def close(self) -> None:
        """End at once."""


class Connect(Protocol):
    """Makes the connection of a transport that is about to start reading."""

    def __call__(
        self,
        send: Callable[[bytes], None],
        drained: Callable[[], Awaitable[None]],
        *,
        principal: Principal = ANONYMOUS,
        scope: str = THE_PROCESS,
        count: Count | None = None,
    ) -> Duplex:
        """`send` takes one message and never waits; `drained` waits while the client does not read.

        `scope` names where the client's state lives; a transport that serves several gives each its own.
        `count` is asked once for each message, where messages are counted.
        """


class HttpExchange(Protocol):
    """One HTTP request and the answer being written to it."""

    method: str
    path: str
    client: str
    headers: Headers
    has_left: bool
    """Whether the caller is known to have gone away."""
    has_answered: bool
    """Whether an answer was at least begun."""
    status: int
    """Of the answer; 0 as long as there is none."""

    @property
    def query(self) -> str:
        """What stands behind the path."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    async def body(self) -> bytes:
        """The request's body.

        Raises:
            MessageTooLarge: it is larger than we read.
            ConnectionClosed: the sender has left, or was too slow.
        """

    async def reply(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, kind: bytes = b"application/json"
    ) -> None:
        """Answer in one piece, of the given media type."""

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start answering with server-sent events."""

    async def write(self, event: bytes) -> None:
        """Write an encoded event; waits for a slow reader, but not for ever."""

    async def end(self) -> None:
        """End a stream."""

    def watch(self, *, cancel: bool) -> None:
        """Notice from now on when the caller leaves, and cancel the running task then if asked to."""

    def unwatch(self) -> None:
        """The answer is complete: stop noticing."""


@runtime_checkable
class Interruptible(Protocol):
    """A way back that can be taken up again later."""

    async def release(self) -> None:
        """End the open stream now; the caller comes back for the rest."""


class Gate(Protocol):
    """Who is it, and may they come in."""

    def at_once(self, headers: Headers) -> Principal | Refusal | None:
        """The caller, or why not, if that can be said without waiting; None if it must be asked."""

    async def __call__(self, headers: Headers, client: str) -> Principal | Refusal:
        """The caller, or why not."""


class Count(Protocol):
    """Counts the messages of one caller."""

    def __call__(self) -> RateLimited | None:
        """Count one message; an error if it is one too many."""


class CountFor(Protocol):
    """Makes the count of one caller."""

    def __call__(self, endpoint: str, principal: Principal, client: str) -> Count | None:
        """None where an endpoint has no limit."""


class Quotas(Protocol):
    """How often may they come in."""

    def count_for(self, endpoint: str, principal: Principal, client: str) -> Count | None:
        """The same count, message by message, for what carries many."""

    def check(self, endpoint: str, caller: str) -> Refusal | None:
        """Count one request; a refusal if it is one too many."""


class CutOff(Protocol):
    """Is told when a caller loses its connection because of a bound."""

    def __call__(self, reason: str, address: str) -> None:
        """Why, and where it called from."""


class OldPair(Protocol):
    """The HTTP+SSE transport of 2024-11-05: a stream, and posts that it answers."""

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """`GET /sse`"""

    async def post(self, exchange: HttpExchange, principal: Principal) -> None:
        """`POST /messages`"""


class Outgoing(Protocol):
    """A request of ours on its way to a server."""

    id: int
    method: str
    body: bytes
    """The whole message."""
    headers: Mapping[str, str]
    """What HTTP repeats of it, for those who route without reading bodies."""
    is_stateless: bool
    """Whether it belongs to no session."""

    @property
    def is_answered(self) -> bool:
        """Whether its answer has arrived, or nobody waits for it any more."""


class Receiver(Protocol):
    """Takes what a server sends."""

    def receive(self, message: bytes, outgoing: Outgoing | None = None) -> bool:
        """Take one message, with the request on whose stream it came; whether it could be read."""

    def garbled(self, error: MessageError) -> None:
        """Something came that is no message."""

    def interrupted(self, error: HubbubError) -> None:
        """Nothing that is still open will be answered, but more can be asked."""

    def lost(self, error: HubbubError) -> None:
        """Nothing will be answered any more."""


def as_it_is(value: Any) -> Any:
    """What a link hides that was given nothing in confidence: nothing."""
    return value


class Link(Protocol):
    """A client's end of a transport."""

    address: str
    """Names the other end for messages and for what is remembered of it; without secrets."""
    is_http: bool
    """Whether requests carry headers and may be answered each on a stream of its own."""

    is_legacy: bool
    """Whether nothing modern ever spoke this way."""

    hide: Callable[[Any], Any]
    """Takes out of JSON what was given to the server in confidence, in case it repeats it."""

    async def start(self, receiver: Receiver) -> None:
        """Get ready to send. Raises errors of `hubbub.errors`."""

    def send_now(self, outgoing: Outgoing) -> bool:
        """Send a request if that needs no waiting and its answer will come by itself; False: use `exchange`."""

    async def exchange(self, outgoing: Outgoing) -> None:
        """Send a request; return once it is answered, or once its answer will come by itself."""

    async def post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a notification or an answer; `headers` for links that have any."""

    def withdraw(self, outgoing: Outgoing, reason: str) -> None:
        """Tell the server that nobody waits for this request any more, as its era does it; never waits."""

    def settle(self, version: str) -> None:
        """A handshake is done and all that follows speaks this version; open what brings the server's messages."""

    async def close(self) -> None:
        """Part with the server, within bounds. May be called twice, from any task."""
