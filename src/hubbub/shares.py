"""Shares of a bounded table, so that one caller cannot use it up.

Used for every table that the callers of one endpoint share: sessions, streams,
stored events, suspended exchanges, connections, concurrent requests, threads, and the calls and sessions
of an upstream. An owner is an authenticated principal, or else a network address
(`Caller.owner`); callers that cannot be distinguished are one owner with an empty name, which
may use the whole table. A table is divided among tenants first, and the part of each tenant among its principals, so
that a tenant does not get more by having more users, keys or logins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache

from hubbub import bounds


@lru_cache(maxsize=4096)
def tenant_of(owner: str) -> str:
    """Return the tenant of an owner `tenant/user#credential`; empty for any other owner."""
    tenant, _, user = owner.partition("/")
    # Without tenants, a caller with a token may have the name `https://issuer#subject`.
    return tenant if "#" in user and ":" not in tenant else ""


class Shares:
    """How much of one table each owner holds.

    An owner may take more only while it holds less than `SHARE_OF_FREE` times what is free, and
    the last place only if it holds nothing: a single owner gets seven eighths. The same rule applies to
    all principals of a tenant together, and then to each of them, within what its tenant may still take.
    What an owner holds is never taken away for another.
    """

    __slots__ = ("_held", "_held_by_tenant", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: dict[str, int] = {}
        self._held_by_tenant: dict[str, int] = {}
        self.total = 0

    @classmethod
    def sized_for_one(cls, amount: int) -> Shares:
        """A table of which a single owner may take `amount`, with a reserve above that for other owners."""
        return cls(amount + -(-amount // bounds.SHARE_OF_FREE))

    def __len__(self) -> int:
        return self.total

    @property
    def owners(self) -> list[str]:
        """Every owner that holds a share."""
        return list(self._held)

    def held_by(self, owner: str) -> int:
        """How much this owner holds."""
        return self._held.get(owner, 0)

    def usage(self, owner: str) -> tuple[int, int]:
        """How much the tenant of an owner holds, and how much the owner holds, to sort owners by their use.

        An owner without a tenant counts as a tenant.
        """
        held = self._held.get(owner, 0)
        tenant = tenant_of(owner)
        return self._held_by_tenant.get(tenant, 0) if tenant else held, held

    def find_largest(self) -> str:
        """The owner that holds the most in the tenant that holds the most; the table must not be empty."""
        return max(self._held, key=self.usage)

    def fair_share(self, owner: str) -> float:
        """The limit divided equally among the tenants that hold something and the tenant of this owner."""
        return self.limit / len({tenant_of(name) or name for name in (*self._held, owner)})

    def has_room(self, owner: str, amount: int = 1) -> bool:
        """Whether this owner may take `amount` more."""
        free = self.limit - self.total
        if amount > free:
            return False
        if 4 * (self.total + amount) < free:
            return True  # a shortcut, with the same result as the rules below
        if "#" in owner and (tenant := tenant_of(owner)):
            held_by_tenant = self._held_by_tenant.get(tenant, 0)
            if 4 * (held_by_tenant + amount) < free:
                return True  # as `_has_tenant_room` would find, in more steps
            return self._has_tenant_room(self._held.get(owner, 0), held_by_tenant, free, amount)
        held = self._held.get(owner, 0)
        if not owner or not held:
            return True
        return amount < free and held + amount <= bounds.SHARE_OF_FREE * free

    def _has_tenant_room(self, held: int, held_by_tenant: int, free: int, amount: int) -> bool:
        factor = bounds.SHARE_OF_FREE
        if not held_by_tenant:
            return True
        if amount >= free or held_by_tenant + amount > factor * free:
            return False
        if not held:
            return True
        # What the tenant may still take, one at a time, by the rule above.
        free = min(free - 1, (factor * (free + 1) - held_by_tenant) // (factor + 1))
        return amount < free and held + amount <= factor * free

    def take(self, owner: str, amount: int = 1) -> None:
        """Record that an owner took `amount`."""
        self._held[owner] = self._held.get(owner, 0) + amount
        self.total += amount
        if "#" in owner and (tenant := tenant_of(owner)):
            self._held_by_tenant[tenant] = self._held_by_tenant.get(tenant, 0) + amount

    def give_back(self, owner: str, amount: int = 1) -> None:
        """Record that an owner returned `amount`. A lent slot may be returned before it is taken again."""
        left = self._held.get(owner, 0) - amount
        if left:
            self._held[owner] = left
        else:
            self._held.pop(owner, None)
        self.total -= amount
        if "#" in owner and (tenant := tenant_of(owner)):
            left = self._held_by_tenant.get(tenant, 0) - amount
            if left:
                self._held_by_tenant[tenant] = left
            else:
                self._held_by_tenant.pop(tenant, None)


class SharedSlots:
    """Slots that callers share, with a queue of calls that wait for one.

    A free slot goes to the tenant that holds fewest, there to the principal that holds fewest, and among its calls to
    the first.
    """

    def __init__(self, limit: int) -> None:
        self._shares = Shares(limit)
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def taken(self) -> int:
        """How many are taken; may be negative while a call that lent its slot has already ended."""
        return self._shares.total

    def take_nowait(self, owner: str) -> bool:
        """Take a slot if there is one. This does not jump the queue: no owner that waits has room."""
        if not self._shares.has_room(owner):
            return False
        self._shares.take(owner)
        return True

    async def take(self, owner: str) -> None:
        """Take a slot, waiting for one if necessary."""
        if self.take_nowait(owner):
            return
        slot_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(slot_future)
        try:
            await slot_future
        except asyncio.CancelledError:
            if not slot_future.cancelled():
                self.give_back(owner)  # it got a slot at the same moment
            elif slot_future in self._queues.get(owner, ()):
                self._remove(owner, slot_future)
            raise

    def take_over_limit(self, owner: str) -> None:
        """Take a slot even if none is free."""
        self._shares.take(owner)

    def give_back(self, owner: str) -> None:
        """Return a slot and give it to the next waiting call."""
        self._shares.give_back(owner)
        if not self._queues:
            return
        while ready := [waiting for waiting in self._queues if self._shares.has_room(waiting)]:
            owner = min(ready, key=self._shares.usage)
            slot_future = self._queues[owner][0]
            self._remove(owner, slot_future)
            if not slot_future.done():
                self._shares.take(owner)
                slot_future.set_result(None)

    def _remove(self, owner: str, slot_future: asyncio.Future[None]) -> None:
        queue = self._queues[owner]
        queue.remove(slot_future)
        if not queue:
            del self._queues[owner]
