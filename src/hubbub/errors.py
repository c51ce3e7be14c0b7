"""The exceptions of Hubbub, in one hierarchy.

    HubbubError
    ├── MessageError            the message cannot be read
    │   ├── ParseError              not JSON, not UTF-8, nested too deep
    │   ├── InvalidRequest          JSON, but not a JSON-RPC message
    │   │   └── IdInUse                 a running request has the same id
    │   └── MessageTooLarge         over a named bound
    ├── RequestError            the message is valid, but the request cannot be served
    │   ├── MethodNotFound
    │   ├── InvalidParams           of a method (no name, bad cursor)
    │   ├── HeaderMismatch          HTTP headers and body contradict each other
    │   ├── MissingCapability       the client did not declare a required capability
    │   ├── UrlElicitationRequired  the user has to open a page first, such as one to log in
    │   ├── UnsupportedVersion
    │   ├── InsufficientScope       a token with more scopes is needed
    │   ├── MethodNotAllowed        an HTTP method that this revision does not use
    │   ├── SessionRequired         a legacy request outside any session
    │   └── SessionNotFound         the session ended or never existed
    ├── NotFound
    │   ├── ToolNotFound
    │   ├── PromptNotFound
    │   └── ResourceNotFound
    │       └── ResourceExpired         its lifetime is over
    ├── ToolFailure             a tool call failed; becomes a result in the MCP eras
    │   ├── ArgumentsInvalid        `validation_error`
    │   ├── UpstreamUnavailable     `upstream_unavailable`: a server behind the hub gave no answer
    │   ├── QuotaExceeded           `quota_exceeded`: a quota of a hub is used up; retry later
    │   │   └── TooManyCalls            `too_many_calls`: a tenant has too many concurrent calls
    │   ├── ApprovalRequired, ApprovalDenied and others: `hubbub.governance.approval_errors`
    │   ├── UpstreamLoginRequired   `login_required`: a user of a hub has to log in at a server behind it
    │   └── ToolError               `tool_error`; tools raise it themselves
    ├── RemoteError             the other end answered with an error
    ├── RateLimited             one caller sends too many requests; retry later
    ├── Overloaded              a limit was reached; retry later
    ├── DeadlineExceeded        the other end did not answer in time
    ├── ConnectionClosed        the other end has disconnected
    ├── TransportError          communication with a server failed
    │   ├── ConnectionFailed        the server cannot be reached or started, or the connection broke
    │   ├── TransportClosed         the server or its stream has ended
    │   ├── InvalidResponse         the server's answer cannot be read
    │   │   └── InvalidEvent            an event of its stream cannot be read
    │   ├── ResponseTooLarge        the server's answer exceeds a limit
    │   │   └── EventTooLarge           an event of its stream exceeds a limit
    │   ├── ReconnectsExceeded      its stream broke too often
    │   ├── SessionLost             the server does not know our session any more
    │   ├── HttpError               it answered with an HTTP error status
    │   ├── EgressRefused           the egress policy refuses the address
    │   └── SecretUnavailable       a secret that the server needs cannot be read
    │       └── SecretDenied            it may not be used for this tenant
    ├── ProtocolVersionNotSupported   a server supports no version that we do
    ├── InputRefused            a server requested input that no handler provides
    ├── ModelError, ToolUseError, ContinuationRefused   of a run with a model: `hubbub.agent.errors`
    ├── KeysUnavailable         no keys to verify tokens with at the moment: `hubbub.security.jwks`
    ├── StoreFailed             a database cannot be opened, read or written
    ├── StoreConflict           a constraint of a database forbids a change
    ├── AuditUnavailable        the audit journal cannot be written, so the call was not run
    ├── SettingsError           a flag, a variable or a file is wrong
    ├── PackUnavailable         a pack cannot run here; its libraries are missing
    ├── TargetFailed            the program to serve raised while it was loaded
    └── DefinitionError         a tool, resource or prompt is declared wrongly

Messages are for the person or model that caused the error and say what to do next. The
error codes on the wire are in `hubbub.protocol.error_codes`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any


class HubbubDeprecationWarning(DeprecationWarning):
    """A deprecated feature is used, which a later release removes. RELEASE.md has the policy."""


class HubbubError(Exception):
    """Base class of all errors that Hubbub raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MessageError(HubbubError):
    """The bytes are not a message that can be read."""


class ParseError(MessageError):
    """Not JSON, not UTF-8, or nested too deep."""


class InvalidRequest(MessageError):
    """JSON, but not a JSON-RPC message that this revision allows."""


class IdInUse(InvalidRequest):
    """A request whose id an earlier one still uses."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"The id {identifier} belongs to a request that is still running; use another id")


class MessageTooLarge(MessageError):
    """The message is larger than a limit of `hubbub.bounds`."""

    def __init__(self, subject: str, limit: int, start: bytes = b"", *, setting: str = "") -> None:
        size = f"{limit} bytes ({setting})" if setting else f"{limit} bytes"
        super().__init__(f"{subject} is larger than the limit of {size} and was skipped; send a smaller one")
        self.limit = limit
        self.start = start
        """The first bytes of the message, if they were read, to find its id. Never part of the message."""
        self.end = b""
        """The last bytes, if they were read: many clients write the id there."""


class RequestError(HubbubError):
    """A well-formed request that cannot be served."""


class MethodNotFound(RequestError):
    """The method does not exist in this dialect."""

    def __init__(self, method: str) -> None:
        super().__init__(f"Method not found: {method}")
        self.method = method


class InvalidParams(RequestError):
    """The parameters of a method (not the arguments of a tool) are wrong."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data


class InsufficientScope(RequestError):
    """The caller's access token lacks scopes that the client can request; nothing was executed."""

    def __init__(self, scopes: Collection[str]) -> None:
        self.scopes = tuple(sorted(scopes))
        super().__init__(f"This call needs an access token with the scopes {' '.join(self.scopes)}; get one and retry")


class HeaderMismatch(RequestError):
    """An HTTP header contradicts the body, is missing, or cannot be decoded."""


class MissingCapability(RequestError):
    """The client did not declare a capability that this request needs."""

    def __init__(self, required: Mapping[str, Any]) -> None:
        names = ", ".join(sorted(required))
        super().__init__(f"This request needs client capabilities that the client did not declare: {names}")
        self.required = dict(required)


class UrlElicitationRequired(RequestError):
    """The user has to open a page before the request can be served; it was not executed. Of revision 2025-11-25."""

    def __init__(self, message: str, elicitations: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(message)
        self.elicitations = [dict(each) for each in elicitations]


class UnsupportedVersion(RequestError):
    """The requested protocol version is not supported."""

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__("Unsupported protocol version")
        self.requested = requested
        self.supported = list(supported)


class MethodNotAllowed(RequestError):
    """GET or DELETE in a revision that only has POST."""


class SessionRequired(RequestError):
    """A legacy request that names no session; the client has to initialize first."""


class SessionNotFound(RequestError):
    """The session ended or never existed; the client has to initialize again."""


class NotFound(HubbubError):
    """The requested tool, prompt or resource does not exist, or not for this caller."""


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
    """No resource has that URI, or its handler found nothing there."""

    def __init__(self, uri: str, message: str = "Resource not found", *, code: str | None = None) -> None:
        super().__init__(message)
        self.uri = uri
        self.code = code
        """A symbolic error code, in packs that define such codes."""


class ResourceExpired(ResourceNotFound):
    """The resource existed, but its lifetime is over."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, "Resource expired; call the tool again to get a fresh result")


class ToolFailure(HubbubError):
    """A tool call that failed; a result with `isError` in the MCP eras."""

    kind = "tool_error"

    def __init__(self, message: str, *, code: str | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.plain_code: int | None = None
        """The JSON-RPC code in the plain dialect, if a pack defines another than the default."""
        self.as_result = False
        """Whether it is a result even in the plain dialect."""
        self.result: Any = None
        """The result that the tool created for its failure, if any."""
        self.has_schema = False
        """Whether the tool has an output schema, which a failure would not match."""


class ArgumentsInvalid(ToolFailure):
    """The arguments do not fit the tool's schema, or its profile disables it."""

    kind = "validation_error"


class UpstreamUnavailable(ToolFailure):
    """A server behind the hub gave no answer; the reason contains no secrets."""

    kind = "upstream_unavailable"

    def __init__(
        self,
        server: str,
        reason: str,
        retry_in_s: float | None = None,
        *,
        may_have_executed: bool = False,
        since: float | None = None,
    ) -> None:
        """`since` is when it went down, in seconds since 1970."""
        when = "" if retry_in_s is None else f"; retry in {max(retry_in_s, 0):.1f} s"
        done = "; the call may have been executed, so check before you repeat it" if may_have_executed else ""
        data: dict[str, Any] = {"server": server, "reason": reason, "mayHaveExecuted": may_have_executed}
        if retry_in_s is not None:
            data["retryAfterMs"] = max(round(retry_in_s * 1000), 0)
        if since is not None:
            from datetime import UTC, datetime  # Rarely needed.

            data["since"] = datetime.fromtimestamp(int(since), UTC).isoformat().replace("+00:00", "Z")
        super().__init__(f"The server {server!r} is not available: {reason}{when}{done}", data=data)
        self.server = server
        self.reason = reason
        self.retry_in_s = retry_in_s


class QuotaExceeded(ToolFailure):
    """A quota of a hub is used up; the call was not made, and can be repeated later."""

    kind = "quota_exceeded"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, data={"retryAfterMs": math.ceil(retry_after_s * 1000)})
        self.retry_after_s = retry_after_s


class TooManyCalls(QuotaExceeded):
    """A tenant has as many concurrent calls as it may have."""

    kind = "too_many_calls"


class ToolError(ToolFailure):
    """Raise this in a tool to report to the model what went wrong."""


class RemoteError(HubbubError):
    """The other end answered a request with an error, which is forwarded unchanged."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status: int | None = None
        """Its HTTP status, if it came over HTTP with another status than 200."""


class RateLimited(HubbubError):
    """A caller exceeded its rate limit."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Overloaded(HubbubError):
    """A limit of `hubbub.bounds` was reached."""

    def __init__(self, subject: str, limit: int, hint: str = "", *, setting: str = "") -> None:
        end, name = hint and f"; {hint}", setting and f"{setting} = "
        super().__init__(f"Too many {subject} (limit {name}{limit}); try again when some have finished{end}")
        self.limit = limit


class DeadlineExceeded(HubbubError):
    """An answer did not arrive in time."""

    def __init__(self, subject: str, seconds: float, hint: str = "") -> None:
        super().__init__(f"Timed out after {seconds:g} s while waiting for {subject[:1].lower()}{subject[1:]}{hint}")


class ConnectionClosed(HubbubError):
    """The other end has disconnected; open requests will not be answered."""


class TransportError(HubbubError):
    """Communication with a server failed."""

    code = "TRANSPORT_ERROR"
    """Symbolic name of the class, for logs and for programs that read errors as JSON."""

    def __init__(self, message: str, data: Mapping[str, Any] | None = None, *, may_have_executed: bool = True) -> None:
        super().__init__(message)
        self.data: dict[str, Any] = dict(data or {})
        self.may_have_executed = may_have_executed
        """Whether the server may have executed the request despite the error."""


class ConnectionFailed(TransportError):
    """The server cannot be reached or started, or the connection to it broke."""


class TransportClosed(TransportError):
    """The server's process, connection or stream has ended, or the client was closed."""

    code = "TRANSPORT_CLOSED"


class InvalidResponse(TransportError):
    """The server's answer is not what the protocol requires."""

    code = "INVALID_RESPONSE"


class InvalidEvent(InvalidResponse):
    """An event of the server's stream contains no valid message."""

    code = "INVALID_SSE_EVENT_DATA"


class ResponseTooLarge(TransportError):
    """The server's answer is larger than `max_response_bytes`."""

    code = "HTTP_BODY_TOO_LARGE"


class EventTooLarge(ResponseTooLarge):
    """An event of the server's stream is larger than `max_response_bytes`."""

    code = "SSE_EVENT_DATA_TOO_LARGE"


class ReconnectsExceeded(TransportError):
    """The server's stream broke more often than `sse_max_reconnects` without a new event."""

    code = "SSE_RECONNECTS_EXCEEDED"


class SessionLost(TransportError):
    """The server no longer knows our session; the client starts a new one by itself."""

    code = "MCP_SESSION_NOT_FOUND"

    def __init__(self, message: str = "The server no longer knows this session") -> None:
        super().__init__(message, may_have_executed=False)


class HttpError(TransportError):
    """A server answered with an HTTP error status."""

    code = "HTTP_ERROR"

    def __init__(
        self,
        message: str,
        status: int,
        data: Mapping[str, Any] | None = None,
        *,
        may_have_executed: bool | None = None,
    ) -> None:
        """`may_have_executed` defaults to whether the status is 500 or higher."""
        executed = status >= 500 if may_have_executed is None else may_have_executed
        super().__init__(message, {"status": status, **(data or {})}, may_have_executed=executed)
        self.status = status


class EgressRefused(TransportError):
    """The egress rules do not allow a host, or the address that it resolves to."""

    def __init__(self, message: str, *, can_be_allowed: bool = True) -> None:
        super().__init__(message, may_have_executed=False)
        self.can_be_allowed = can_be_allowed
        """Whether `allow_private_network` would allow it."""


class SecretUnavailable(TransportError):
    """A secret that is needed to reach a server cannot be read. The message names the secret, never its value."""

    code = "SECRET_UNAVAILABLE"

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message, {"secret": name}, may_have_executed=False)


class SecretDenied(SecretUnavailable):
    """A secret may not be used for the tenant of the caller."""

    code = "SECRET_DENIED"


class ProtocolVersionNotSupported(HubbubError):
    """A server offers only protocol versions that are not supported."""

    def __init__(self, offered: str, answered: Sequence[str], supported: Sequence[str]) -> None:
        server_versions = ", ".join(answered) or "none"
        super().__init__(
            f"No common protocol version: the client offered {offered}, and the server supports {server_versions}; "
            f"the client supports {', '.join(supported)}"
        )
        self.offered = offered
        self.answered = list(answered)


class InputRefused(HubbubError):
    """A server requested input that no handler provides, or requested input too often."""


class StoreFailed(HubbubError):
    """A database does not work; nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(f"The database cannot be used: {message}")


class StoreConflict(HubbubError):
    """A constraint of the tables forbids a change; nothing was changed."""


class AuditUnavailable(HubbubError):
    """The audit journal cannot be written, and the settings say that no call runs without its record."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The audit journal of this hub cannot be written ({reason}), so nothing was run; "
            "ask its operator to repair the journal, then try again"
        )
        self.reason = reason


class SettingsError(HubbubError):
    """A flag, an environment variable or a key of `hubbub.toml` is wrong."""


class PackUnavailable(HubbubError):
    """A requested pack cannot run here, usually because libraries are missing."""


class TargetFailed(HubbubError):
    """The user's program raised an exception while it was loaded, which is the cause of this error."""

    def __init__(self, target: str, cause: BaseException) -> None:
        super().__init__(f"{target} could not be loaded: {type(cause).__name__}: {cause}")


class DefinitionError(HubbubError):
    """A tool, resource, prompt or pack is declared incorrectly."""
