"""Which campaign, session and participant a caller's later calls are about.

A caller that has a scope (its session, cookie or process, or who it proved to be) is
remembered here, in memory, until that ends. One that has none gets a sealed text to give
with its calls; the text itself holds the choice, so it costs no memory.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Server, bounds
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import Scene

_PURPOSE: Final = "tabletop context"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody's calls are about. What was not chosen is not there."""

    campaign_id: str
    session_id: str | UnsetType = UNSET
    participant_id: str | UnsetType = UNSET


class _Kept(msgspec.Struct):
    choice: Choice
    used: float


class Contexts:
    """The choices of every caller."""

    def __init__(self, server: Server, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        server.on_scope_end(self.forget)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, scope: str | None, choice: Choice) -> str | None:
        """Remember a choice for the caller of this scope, or give the text that stands for it."""
        if scope is None:
            return self._server.sealer.seal(_PURPOSE, msgspec.to_builtins(choice), lifetime_s=bounds.TABLE_CONTEXT_S)
        self._drop_idle()
        self._kept[scope] = _Kept(choice, self._clock())
        self._kept.move_to_end(scope)
        if len(self._kept) > bounds.TABLE_CONTEXTS:
            self._kept.popitem(last=False)
        return None

    def find(self, scope: str | None, context_id: str | None = None) -> Choice | None:
        """What a call is about: what its `context_id` says, or what its caller chose before.

        Raises: InvalidArgument, for a `context_id` that is not ours.
        """
        if context_id is not None:
            return self._open(context_id)
        if scope is None or not self._kept:
            return None
        self._drop_idle()
        kept = self._kept.get(scope)
        if kept is None:
            return None
        kept.used = self._clock()
        self._kept.move_to_end(scope)
        return kept.choice

    def forget(self, scope: str) -> None:
        """A session has ended."""
        self._kept.pop(scope, None)

    def forget_session(self, scope: str | None, session_id: str) -> bool:
        """A session of the game has ended, so later calls of this caller are no longer about it; whether they were."""
        kept = None if scope is None else self._kept.get(scope)
        if kept is None or kept.choice.session_id != session_id:
            return False
        kept.choice = msgspec.structs.replace(kept.choice, session_id=UNSET)
        return True

    def _open(self, context_id: str) -> Choice:
        try:
            return msgspec.convert(self._server.sealer.open(_PURPOSE, context_id), Choice)
        except ValueError:  # which msgspec's are too
            raise InvalidArgument("context_id was not given out here, or is too old; call set_context again") from None

    def _drop_idle(self) -> None:
        oldest = self._clock() - bounds.TABLE_CONTEXT_S
        while self._kept and next(iter(self._kept.values())).used < oldest:
            self._kept.popitem(last=False)

    # -- what a call leaves out --------------------------------------------------

    def campaign(self, scope: str | None, campaign_id: str | None, context_id: str | None) -> str:
        """The campaign that a call is about.

        Raises: InvalidArgument, if nobody has said.
        """
        if campaign_id is not None:
            return campaign_id
        choice = self.find(scope, context_id)
        if choice is None:
            raise InvalidArgument("campaign_id is required: give it, or choose a campaign with set_context first")
        return choice.campaign_id

    def session(
        self, scope: str | None, campaign_id: str | None, session_id: str | None, context_id: str | None
    ) -> tuple[str, str | None]:
        """The campaign and the session that a call is about, if it is about a session.

        Raises: InvalidArgument, if nobody has said which campaign.
        """
        campaign = self.campaign(scope, campaign_id, context_id)
        choice = self.find(scope, context_id) if session_id is None else None
        # The session of another campaign than the one that was named would be a surprise.
        if choice is not None and choice.campaign_id == campaign and choice.session_id is not UNSET:
            return campaign, choice.session_id
        return campaign, session_id

    def scene(
        self,
        scope: str | None,
        campaign_id: str | None,
        session_id: str | None,
        actor_id: str | None,
        context_id: str | None,
    ) -> Scene | None:
        """Where in a story a roll happens; None for one that belongs to none.

        Raises: InvalidArgument, if somebody said where but not in which campaign.
        """
        is_anywhere = campaign_id is session_id is actor_id is None
        if is_anywhere and self.find(scope, context_id) is None:
            return None
        campaign, session = self.session(scope, campaign_id, session_id, context_id)
        return Scene(campaign_id=campaign, session_id=session, actor_id=actor_id)
