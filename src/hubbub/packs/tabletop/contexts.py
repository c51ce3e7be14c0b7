"""The campaign, session and participant that a caller chose for later calls.

The choice of a caller with a scope (its session, cookie or process, or its authenticated identity) is kept in memory
until the scope ends. A caller without one gets a sealed string to send with its calls. The string itself contains the
choice, so it needs no memory.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Server
from hubbub.pack import Shares
from hubbub.packs.tabletop import limits
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import Scene

_PURPOSE: Final = "tabletop context"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The campaign of later calls, with the session and participant if they were chosen."""

    campaign_id: str
    session_id: str | UnsetType = UNSET
    participant_id: str | UnsetType = UNSET


class _Entry(msgspec.Struct):
    choice: Choice
    owner: str
    used_at: float


class Contexts:
    """The choices of every caller."""

    def __init__(self, server: Server, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        """Least recently used first."""
        self._shares = Shares(limits.MAX_CONTEXTS)
        server.on_scope_end(self.forget)

    def __len__(self) -> int:
        return len(self._entries)

    def save(self, scope: str | None, choice: Choice, *, owner: str = "") -> str | None:
        """Remember a choice for the caller of this scope, or return the sealed string that contains it.

        An owner (`Caller.owner`) whose share is used up loses its own least recently used choice.
        """
        if scope is None:
            return self._server.sealer.seal(_PURPOSE, msgspec.to_builtins(choice), lifetime_s=limits.CONTEXT_LIFETIME_S)
        self._drop_idle()
        self.forget(scope)
        while not self._shares.has_room(owner):
            owner_scopes = (entry_scope for entry_scope, entry in self._entries.items() if entry.owner == owner)
            self.forget(next(owner_scopes, None) or next(iter(self._entries)))
        self._entries[scope] = _Entry(choice, owner, self._clock())
        self._shares.take(owner)
        return None

    def find(self, scope: str | None, context_id: str | None = None) -> Choice | None:
        """Return the choice in `context_id`, or what the caller chose before.

        Raises: InvalidArgument, for a `context_id` that was not issued here or has expired.
        """
        if context_id is not None:
            return self._unseal(context_id)
        if scope is None or not self._entries:
            return None
        self._drop_idle()
        entry = self._entries.get(scope)
        if entry is None:
            return None
        entry.used_at = self._clock()
        self._entries.move_to_end(scope)
        return entry.choice

    def forget(self, scope: str) -> None:
        """Drop the choice of a scope that has ended."""
        entry = self._entries.pop(scope, None)
        if entry is not None:
            self._shares.give_back(entry.owner)

    def clear_session(self, scope: str | None, session_id: str) -> bool:
        """Clear a game session that has ended from the caller's choice; return whether it was chosen."""
        entry = None if scope is None else self._entries.get(scope)
        if entry is None or entry.choice.session_id != session_id:
            return False
        entry.choice = msgspec.structs.replace(entry.choice, session_id=UNSET)
        return True

    def _unseal(self, context_id: str) -> Choice:
        try:
            return msgspec.convert(self._server.sealer.open(_PURPOSE, context_id), Choice)
        except ValueError:  # includes msgspec.ValidationError
            raise InvalidArgument(
                "context_id was not issued by this server or has expired; call set_context again"
            ) from None

    def _drop_idle(self) -> None:
        oldest = self._clock() - limits.CONTEXT_LIFETIME_S
        while self._entries and next(iter(self._entries.values())).used_at < oldest:
            self.forget(next(iter(self._entries)))

    # -- arguments that a call omits ---------------------------------------------

    def resolve_campaign_id(self, scope: str | None, campaign_id: str | None, context_id: str | None) -> str:
        """Return the campaign of a call: its argument, else the caller's choice.

        Raises: InvalidArgument, if there is neither.
        """
        if campaign_id is not None:
            return campaign_id
        choice = self.find(scope, context_id)
        if choice is None:
            raise InvalidArgument("campaign_id is required: pass it, or choose a campaign with set_context first")
        return choice.campaign_id

    def resolve_session(
        self, scope: str | None, campaign_id: str | None, session_id: str | None, context_id: str | None
    ) -> tuple[str, str | None]:
        """Return the campaign and the session of a call; the session may be None.

        Raises: InvalidArgument, if there is no campaign.
        """
        campaign = self.resolve_campaign_id(scope, campaign_id, context_id)
        choice = self.find(scope, context_id) if session_id is None else None
        # The chosen session is used only if it belongs to the campaign of the call.
        if choice is not None and choice.campaign_id == campaign and choice.session_id is not UNSET:
            return campaign, choice.session_id
        return campaign, session_id

    def resolve_scene(
        self,
        scope: str | None,
        campaign_id: str | None,
        session_id: str | None,
        actor_id: str | None,
        context_id: str | None,
    ) -> Scene | None:
        """Return the campaign, session and actor of a roll; None for a roll outside of any campaign.

        Raises: InvalidArgument, if a session or actor is given without a campaign.
        """
        is_unspecified = campaign_id is session_id is actor_id is None
        if is_unspecified and self.find(scope, context_id) is None:
            return None
        campaign, session = self.resolve_session(scope, campaign_id, session_id, context_id)
        return Scene(campaign_id=campaign, session_id=session, actor_id=actor_id)
