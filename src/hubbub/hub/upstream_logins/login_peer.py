"""Asks callers who have no login at a server to log in there, and continues their calls afterwards.

Nothing was sent to the server before, or it refused what was sent: a call that may have run is never repeated.
A caller of the stateless era gets `input_required` and repeats the call; the request state is sealed and complete, so
any process can continue. Clients with sessions that can open pages are asked while their call waits. All others get an
error with the link.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw

from hubbub.errors import HubbubError, SettingsError, ToolFailure, UrlElicitationRequired
from hubbub.hub.upstream import Upstream
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.hub.upstream_logins.upstream_logins import LoginLink, UpstreamLogins
from hubbub.oauth.errors import OAuthError, UserLoginRequired
from hubbub.ports import Sealer
from hubbub.protocol.calls import ANONYMOUS, NO_META, Call, Caller, Notification, RawReply, Reply
from hubbub.protocol.jsonrpc import NULL
from hubbub.protocol.results import InputRequired
from hubbub.rounds import read_responses

_STATE: Final = "connect round"
_KEY: Final = "login"
_INPUT_METHODS: Final = ("tools/call", "prompts/get", "resources/read")
_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class UpstreamLoginRequired(ToolFailure):
    """The user of a hub has to log in at one of its servers before the call can be made; it was not made."""

    kind = "login_required"

    def __init__(self, server: str, message: str, *, url: str | None = None) -> None:
        """`url`: the page to open."""
        super().__init__(message, data={"server": server} if url is None else {"server": server, "url": url})


class _Response(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]


class LoginPeer:
    """A server at which each user logs in."""

    def __init__(
        self, upstream: Upstream, logins: ServerLogins, upstream_logins: UpstreamLogins, sealer: Sealer
    ) -> None:
        self._upstream = upstream
        self._logins = logins
        self._upstream_logins = upstream_logins
        self._sealer = sealer

    async def request(self, call: Call) -> Reply:
        """Forward a call with the login of its user; without one, have the user log in.

        Raises: UpstreamLoginRequired, UrlElicitationRequired, and what the server raises.
        """
        try:
            return await self._request(call)
        except UpstreamLoginRequired as error:
            if call.method == "tools/call":
                error.has_schema = self._upstream.snapshot.has_output_schema(call.params.name)
            raise

    async def _request(self, call: Call) -> Reply:
        if call.caller.principal is ANONYMOUS:
            raise UpstreamLoginRequired(
                self._logins.server,
                f"{self._logins.server} needs the login of a user, but this call is not authenticated; call this hub "
                "with an API key or an access token",
            )
        user = HubUser.from_principal(call.caller.principal)
        link = self._open_state(call, user)
        if link is not None:
            call = _without_responses(call)
            if await self._upstream_logins.is_logged_out(link):
                link = None
        if await self._logins.is_connected(user):
            try:
                return await self._upstream.request(call)
            except UserLoginRequired:
                # The server refused the request: it was not executed.
                if link is not None and not await self._upstream_logins.is_for_present_login(link):
                    link = None
        uses_rounds = call.caller.revision.rounds and call.method in _INPUT_METHODS and supports_urls(call.caller)
        for _ in range(limits.LOGINS_OF_CALL):
            if uses_rounds:
                if link is None or not await self._upstream_logins.wait(link, limits.LOGIN_WAIT_S):
                    return self._input_required(call, link)
            else:
                await request_login(self._upstream_logins, call, self._logins.server)
            try:
                return await self._upstream.request(call)
            except UserLoginRequired:
                link = None
            if not self._logins.missing_scopes(user):
                break
        raise UpstreamLoginRequired(
            self._logins.server,
            f"{self._logins.server} refused the new token of this user; call hub.connect with "
            f'{{"server": "{self._logins.server}"}} to log in again',
        )

    async def notify(self, note: Notification) -> None:
        """Forward a notification."""
        await self._upstream.notify(note)

    # -- the stateless era -----------------------------------------------------------------

    def _input_required(self, call: Call, link: LoginLink | None) -> Reply:
        """Ask the caller to open the page, and to repeat the call."""
        if link is None:
            link, url = _make_link(self._upstream_logins, call.caller, self._logins.server)
        else:
            url = self._upstream_logins.link_url(link)
        params = make_params(self._logins.server, url, link, call.caller)
        record = [call.caller.principal.name, msgspec.to_builtins(link)]
        return InputRequired(
            result_type="input_required",
            input_requests={_KEY: {"method": "elicitation/create", "params": params}},
            request_state=self._sealer.seal(_STATE, record, lifetime_s=limits.LOGIN_S),
        )

    def _open_state(self, call: Call, user: HubUser) -> LoginLink | None:
        """Return the link of a call that comes back; None for every other call.

        Raises: UpstreamLoginRequired, if the person did not want to log in.
        """
        state = getattr(call.params, "request_state", UNSET)
        if state is UNSET:
            return None
        try:
            principal, record = self._sealer.open(_STATE, state)
            link = msgspec.convert(record, LoginLink)
        except (ValueError, TypeError):
            return None  # A state of the server behind this hub, or of a call that is suspended.
        if principal != call.caller.principal.name or link.user != user or link.server != self._logins.server:
            return None
        response = read_responses(call.params.input_responses).get(_KEY)
        if response is not None:
            check_response(response, self._logins.server)
        return link


async def request_login(upstream_logins: UpstreamLogins, call: Call, server: str) -> None:
    """Ask the caller of a waiting call to log in, and wait until the login is complete.

    Raises:
        UpstreamLoginRequired: the caller cannot open pages, or its user does not want to log in.
        UrlElicitationRequired: the login takes long; the caller can repeat the call later.
    """
    caller = call.caller
    link, url = _make_link(upstream_logins, caller, server)
    params = make_params(server, url, link, caller)
    if not supports_urls(caller):
        raise UpstreamLoginRequired(
            server, f"{params['message']}: open {url} in a browser, then repeat the call", url=url
        )
    question = Call(
        id=NULL,
        method="elicitation/create",
        raw=Raw(_encode(params)),
        params=None,
        meta=NO_META,
        caller=caller,
        back=call.back,
    )
    try:
        reply = await call.back.request(question)
    except HubbubError:
        raise _pending_error(caller, server, params) from None
    check_response(reply.body if isinstance(reply, RawReply) else Raw(_encode(reply)), server)
    try:
        is_connected = await upstream_logins.wait(link, limits.LOGIN_WAIT_S)
    except OAuthError as error:
        raise UpstreamLoginRequired(server, f"The login at the server {server} failed: {error.message}") from None
    if not is_connected:
        raise _pending_error(caller, server, params)


def supports_urls(caller: Caller) -> bool:
    """Whether the client can ask its user to open a page."""
    return caller.revision.elicitation == "url" and caller.can("elicitation", "url")


def make_params(server: str, url: str, link: LoginLink, caller: Caller) -> dict[str, Any]:
    """Return the parameters of the elicitation."""
    params = {"mode": "url", "message": f"Log in at the server {server} with your own account", "url": url}
    return params if caller.revision.rounds else {**params, "elicitationId": link.id}


def check_response(body: Raw, server: str) -> None:
    """Raises: UpstreamLoginRequired, unless the person agreed to open the page."""
    try:
        action = msgspec.json.decode(body, type=_Response).action
    except msgspec.DecodeError:
        action = "cancel"
    if action != "accept":
        done = "declined" if action == "decline" else "dismissed"
        raise UpstreamLoginRequired(
            server,
            f"The user {done} the login at {server}, so the call was not made; call again to ask once more",
        )


def _make_link(upstream_logins: UpstreamLogins, caller: Caller, server: str) -> tuple[LoginLink, str]:
    try:
        return upstream_logins.make_link(caller, server)
    except SettingsError as error:
        raise UpstreamLoginRequired(server, f"The server {server} needs a login of its user. {error.message}") from None


def _pending_error(caller: Caller, server: str, params: dict[str, Any]) -> HubbubError:
    """Return the error for a caller whose user has not logged in yet."""
    message = f"{params['message']}, then repeat the call"
    if caller.revision.rounds:
        return UpstreamLoginRequired(server, f"{message}: open {params['url']} in a browser", url=params["url"])
    return UrlElicitationRequired(message, [params])


def _without_responses(call: Call) -> Call:
    """Return the call without `inputResponses` and `requestState`, which were for this hub."""
    members = _decode_members(call.raw)
    members.pop("inputResponses", None)
    members.pop("requestState", None)
    params = msgspec.structs.replace(call.params, input_responses=UNSET, request_state=UNSET)
    return msgspec.structs.replace(call, raw=Raw(_encode(members)), params=params)
