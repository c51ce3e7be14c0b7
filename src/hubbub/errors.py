"""What can go wrong, as one tree.

    HubbubError
    ├── MessageError            the message is not one we can read
    │   ├── ParseError              not JSON, not UTF-8, nested too deep
    │   ├── InvalidRequest          JSON, but not a JSON-RPC message
    │   │   ├── IdInUse                 an earlier request has its id
    │   │   └── ArgumentsNoObject       a tool that is called as a method is given a text or a number
    │   └── MessageTooLarge         over a named bound
    ├── RequestError            the message is fine, what it asks is not
    │   ├── MethodNotFound
    │   ├── InvalidParams           of a method (no name, bad cursor)
    │   ├── HeaderMismatch          HTTP headers say one thing, the body another
    │   ├── MissingCapability       the client did not declare what this needs
    │   ├── UnsupportedVersion
    │   ├── MethodNotAllowed        an HTTP method that this revision does not use
    │   ├── SessionRequired         a legacy request outside any session
    │   └── SessionNotFound         the session ended or never was
    ├── NotFound
    │   ├── ToolNotFound
    │   ├── PromptNotFound
    │   └── ResourceNotFound
    │       └── ResourceExpired         it was there, for a while
    ├── ToolFailure             a tool said no; becomes a result in the MCP eras
    │   ├── ArgumentsInvalid        `validation_error`
    │   ├── UpstreamUnavailable     `upstream_unavailable`: a server behind the hub gave no answer
    │   └── ToolError               `tool_error`; tools raise it themselves
    ├── RemoteError             the other end answered with an error of its own
    ├── RateLimited             one caller asks too often; waiting helps
    ├── Overloaded              a named bound is full; trying later helps
    ├── DeadlineExceeded        the other end did not answer in time
    ├── ConnectionClosed        the other end is gone
    ├── TransportError          the way to a server failed; `code` says how
    │   ├── SessionLost             the server forgot our session
    │   ├── HttpError               it answered with a status that is no success
    │   └── EgressRefused           an address that we do not connect to
    ├── ProtocolVersionNotSupported   a server speaks no version that we do
    ├── InputRefused            a server asked something that nobody here answers
    ├── ModelError              a model's endpoint did not give an answer; `code` says why
    ├── ToolUseError            a run with tools cannot come to a good end
    ├── ContinuationRefused     a paused run cannot be taken up again like this
    ├── StoreFailed             a database cannot be opened, read or written
    ├── StoreConflict           a rule of a database forbids a change
    ├── SettingsError           a flag, a variable or a file is wrong
    ├── PackUnavailable         a pack cannot run here; its libraries are missing
    ├── TargetFailed            the program that should be served broke while it was loaded
    └── DefinitionError         a tool, resource or prompt is declared wrongly

Messages are written for whoever made the mistake and say what to do next. The
numbers these errors have on the wire are in `hubbub.protocol.error_forms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class HubbubError(Exception):
    """The root: anything Hubbub raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MessageError(HubbubError):
    """The bytes are not a message we can read."""


class ParseError(MessageError):
    """Not JSON, not UTF-8, or nested deeper than we follow."""


class InvalidRequest(MessageError):
    """JSON, but not a JSON-RPC message that this revision allows."""


class IdInUse(InvalidRequest):
    """A request whose id an earlier one still uses."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"The id {identifier} is still in use by an earlier request")


class ArgumentsNoObject(InvalidRequest):
    """A tool that is called as a method has `params` that cannot be arguments."""

    def __init__(self) -> None:
        super().__init__("`params` are the arguments of a tool, and must be an object")


class MessageTooLarge(MessageError):
    """The message is larger than a named bound."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes and was skipped; send less, or raise the limit")
        self.limit = limit


class RequestError(HubbubError):
    """A well-formed request that cannot be served as it stands."""


class MethodNotFound(RequestError):
    """No such method in this dialect."""

    def __init__(self, method: str) -> None:
        super().__init__(f"Method not found: {method}")
        self.method = method


class InvalidParams(RequestError):
    """The parameters of a method (not the arguments of a tool) are wrong."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data


class HeaderMismatch(RequestError):
    """An HTTP header contradicts the body, is missing, or cannot be decoded."""


class MissingCapability(RequestError):
    """The client did not declare a capability that this request needs."""

    def __init__(self, required: Mapping[str, Any]) -> None:
        names = ", ".join(sorted(required))
        super().__init__(f"This request needs a client with these capabilities: {names}")
        self.required = dict(required)


class UnsupportedVersion(RequestError):
    """The requested protocol version is none of ours."""

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__("Unsupported protocol version")
        self.requested = requested
        self.supported = list(supported)


class MethodNotAllowed(RequestError):
    """GET or DELETE in a revision that only has POST."""


class SessionRequired(RequestError):
    """A legacy request that names no session; the client has to initialize first."""


class SessionNotFound(RequestError):
    """The session ended or never was; the client has to initialize again."""


class NotFound(HubbubError):
    """What is asked for does not exist, or not for this caller."""


class ToolNotFound(NotFound):
    """No tool of that name is visible to this caller."""

    def __init__(self, name: str, available: Sequence[str], hint: str = "") -> None:
        super().__init__(f"Tool not found; {hint}" if hint else "Tool not found")
        self.name = name
        self.available = list(available)


class PromptNotFound(NotFound):
    """No prompt of that name is visible to this caller."""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"Prompt not found: {name}; {hint}" if hint else f"Prompt not found: {name}")
        self.name = name


class ResourceNotFound(NotFound):
    """No resource has that URI, or its provider has nothing there."""

    def __init__(self, uri: str, message: str = "Resource not found", *, code: str | None = None) -> None:
        super().__init__(message)
        self.uri = uri
        self.code = code
        """A word for programs, where a pack has such words."""


class ResourceExpired(ResourceNotFound):
    """The resource had a lifetime, which is over."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.message = "Resource not found: it was kept for a while only; ask again for what it was part of"
        self.args = (self.message,)


class ToolFailure(HubbubError):
    """A tool call that failed; a result with `isError` in the MCP eras."""

    kind = "tool_error"

    def __init__(self, message: str, *, code: str | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.plain_code: int | None = None
        """The JSON-RPC code in the plain dialect, where a pack fixes another than ours."""
        self.as_result = False
        """Whether it is a result even in the plain dialect."""
        self.result: Any = None
        """The result that the tool itself made of its failure, if it did."""
        self.has_schema = False
        """Whether the tool promised data of another form than a failure has."""


class ArgumentsInvalid(ToolFailure):
    """The arguments do not fit the tool's schema, or its profile disables it."""

    kind = "validation_error"


class UpstreamUnavailable(ToolFailure):
    """A server behind the hub gave no answer; the reason holds no secrets."""

    kind = "upstream_unavailable"

    def __init__(
        self, server: str, reason: str, retry_in_s: float | None = None, *, may_have_executed: bool = False
    ) -> None:
        when = "" if retry_in_s is None else f"; it is tried again in {max(retry_in_s, 0):.1f} s"
        done = "; it may have done what was asked all the same" if may_have_executed else ""
        data: dict[str, Any] = {"server": server, "reason": reason, "mayHaveExecuted": may_have_executed}
        if retry_in_s is not None:
            data["retryAfterMs"] = max(round(retry_in_s * 1000), 0)
        super().__init__(f"The server {server!r} is not available: {reason}{when}{done}", data=data)
        self.server = server
        self.reason = reason
        self.retry_in_s = retry_in_s


class ToolError(ToolFailure):
    """Raise it in a tool to tell the model what went wrong."""


class RemoteError(HubbubError):
    """The other end answered a request with an error; it is passed on as it came."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status: int | None = None
        """The HTTP status it came with, if it came over HTTP and not with 200."""


class RateLimited(HubbubError):
    """One message too many of a caller who is counted."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Overloaded(HubbubError):
    """A named bound is full."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"Too many {what} at once (limit {limit}); try again when some have finished")
        self.limit = limit


class DeadlineExceeded(HubbubError):
    """A wait ended without what it waited for."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not come within {seconds:g} s")


class ConnectionClosed(HubbubError):
    """The other end is gone; what was asked of it will not be answered."""


class TransportError(HubbubError):
    """The way to a server failed. `code` is one of the contract's symbols, such as `HTTP_BODY_TOO_LARGE`."""

    def __init__(
        self, code: str, message: str, data: Mapping[str, Any] | None = None, *, may_have_executed: bool = True
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data: dict[str, Any] = dict(data or {})
        self.may_have_executed = may_have_executed
        """Whether the server may have done what was asked of it all the same."""


class SessionLost(TransportError):
    """The server no longer knows our session; the client starts a new one by itself."""

    def __init__(self) -> None:
        super().__init__("MCP_SESSION_NOT_FOUND", "The server no longer knows this session", may_have_executed=False)


class HttpError(TransportError):
    """A server answered with an HTTP status that is no success."""

    def __init__(self, message: str, status: int, data: Mapping[str, Any] | None = None) -> None:
        super().__init__("HTTP_ERROR", message, {"status": status, **(data or {})}, may_have_executed=status >= 500)
        self.status = status


class EgressRefused(TransportError):
    """A name leads to an address of a kind that was not asked for, or that nobody should reach."""

    def __init__(self, message: str, *, can_be_allowed: bool = True) -> None:
        super().__init__("TRANSPORT_ERROR", message, may_have_executed=False)
        self.can_be_allowed = can_be_allowed
        """Whether `allow_private_network` opens the way."""


class ProtocolVersionNotSupported(HubbubError):
    """A server offers only protocol versions that we do not speak."""

    def __init__(self, offered: str, answered: Sequence[str], supported: Sequence[str]) -> None:
        theirs, ours = ", ".join(answered) or "no version at all", ", ".join(supported)
        super().__init__(f"The server was offered protocol version {offered} and speaks {theirs}; we speak {ours}")
        self.offered = offered
        self.answered = list(answered)


class InputRefused(HubbubError):
    """A server needs an answer that no handler here gives, or asks without end."""


class ModelError(HubbubError):
    """The endpoint of a model gave no answer that can be used. The message never holds a key."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        """Of the HTTP answer, if there was one that was no success."""
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        """How long the endpoint asks to wait."""
        self.history: Sequence[Mapping[str, Any]] = ()
        """The conversation up to then, so that no tool needs to run twice."""


class ToolUseError(HubbubError):
    """A run ended in a way that its settings do not accept: too many turns, no call, failed tools."""

    def __init__(self, code: str, message: str, history: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.history: Sequence[Mapping[str, Any]] = list(history)
        """The conversation up to then."""


class ContinuationRefused(HubbubError):
    """A paused run cannot be taken up again: it is not ours, too old, already resumed, or changed."""


class StoreFailed(HubbubError):
    """A database does not work; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(f"The database cannot be used: {message}")


class StoreConflict(HubbubError):
    """A rule of the tables forbids a change; nothing was changed."""


class SettingsError(HubbubError):
    """A flag, an environment variable or a key of `hubbub.toml` is wrong."""


class PackUnavailable(HubbubError):
    """A pack that was asked for cannot run on this machine as it is."""


class TargetFailed(HubbubError):
    """The user's own program raised while it was loaded; the cause is what it raised."""

    def __init__(self, target: str, cause: BaseException) -> None:
        super().__init__(f"{target} could not be loaded: {type(cause).__name__}: {cause}")


class DefinitionError(HubbubError):
    """A tool, resource, prompt or pack is declared in a way that cannot work."""
