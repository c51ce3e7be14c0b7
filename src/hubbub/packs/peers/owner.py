"""The owner of a session: who may use, list and end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from hubbub import Context


class Owner(msgspec.Struct, frozen=True):
    """A caller, as far as sessions are concerned."""

    name: str = ""
    """The authenticated principal; empty for an anonymous caller."""
    scope: str | None = ""
    """The MCP session, cookie or process of the caller; None where nothing connects its calls."""

    def may_use(self, owner: Owner) -> bool:
        """Whether this caller may use a session of `owner` whose id it knows.

        Ids cannot be guessed, so an anonymous caller that knows one was given it; stateless clients depend on that.
        """
        return self.name == owner.name

    def may_list(self, owner: Owner) -> bool:
        """Whether a list for this caller contains a session of `owner`, and its `shutdown` ends it.

        Anonymous callers are told apart by their scope, so that none learns the session ids of another.
        """
        if self.name or owner.name:
            return self.name == owner.name
        return self.scope is not None and self.scope == owner.scope


LOCAL: Final = Owner()
"""The only caller of a single-user process."""


def owner_from_context(context: Context) -> Owner:
    """Return the owner for the caller of a tool."""
    caller = context.caller
    return Owner("" if caller.is_anonymous else caller.principal.name, context.scope)
