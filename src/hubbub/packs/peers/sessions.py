"""All sessions of one server: made by `vdo_connect`, found by id, bounded, closed with the server."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import Final

from hubbub import bounds
from hubbub.errors import ToolError
from hubbub.packs.peers.arguments import Arguments, refused
from hubbub.packs.peers.failures import EngineMissing
from hubbub.packs.peers.room import Listener, MakeRoom, Room, RoomOptions
from hubbub.packs.peers.session import Session
from hubbub.packs.peers.session_options import SessionOptions
from hubbub.packs.peers.settings import PeersSettings

logger = logging.getLogger("hubbub.peers")

_LOOK_EVERY_S: Final = 60.0
_READY_S: Final = 0.5
"""A server that has just started has better things to do at first."""


class Sessions:
    """The sessions of one server."""

    def __init__(
        self, settings: PeersSettings, secrets: tuple[str, ...] = (), *, make_room: MakeRoom | None = None
    ) -> None:
        self.settings = settings
        self.secrets = secrets
        """What join tokens are signed with, unless a session says otherwise."""
        self._make_room = make_room or _make_mesh
        self._sessions: dict[str, Session] = {}
        self._coming = 0
        self._is_loaded = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, arguments: Arguments) -> Session:
        """The session that a call is about.

        Raises: ArgumentsInvalid, if there is none of that id, or it is somebody else's.
        """
        session_id = arguments.needed_text("session_id")
        session = self._sessions.get(session_id)
        if session is None or session.owner != arguments.owner:
            raise refused(f"unknown session_id: {session_id[:100]}")
        session.used_at = time.monotonic()
        return session

    def owned_by(self, owner: str) -> list[Session]:
        """The sessions that a caller may use."""
        return [session for session in self._sessions.values() if session.owner == owner]

    async def open(self, options: SessionOptions, owner: str = "") -> Session:
        """Make a session and enter its room.

        Raises: PeersError, ToolError; nothing is left behind then.
        """
        if len(self._sessions) + self._coming >= self.settings.max_sessions:
            raise ToolError(f"there are {self.settings.max_sessions} sessions already; end one with vdo_disconnect")
        self._coming += 1
        try:
            await self._load()
            session = Session(f"vdo_{uuid.uuid4()}", options, self.settings, make_room=self._make_room, owner=owner)
            await session.connect()
        finally:
            self._coming -= 1
        if self._is_closed:
            await session.close()
            raise ToolError("the server is stopping")
        self._sessions[session.id] = session
        return session

    async def end(self, session: Session) -> str:
        """Leave a room, and forget the session; when that was."""
        self._sessions.pop(session.id, None)
        return await session.close()

    async def close(self) -> None:
        """Leave all rooms; there will be no more."""
        self._is_closed = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        if not sessions:
            return
        closing = [asyncio.create_task(self._closed(session)) for session in sessions]
        _, late = await asyncio.wait(closing, timeout=bounds.PEER_GOODBYE_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _load(self) -> None:
        """Load what rooms are made of, without keeping anybody waiting: it is a lot."""
        if not self._is_loaded:
            await asyncio.to_thread(_load_rooms, self.settings.engine)
            self._is_loaded = True

    async def keep_tidy(self) -> None:
        """Get ready for the first session, then close those that nobody uses any longer; goes on for ever."""
        await asyncio.sleep(_READY_S)
        await self._load()
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self.settings.session_idle_s))
            for session in list(self._sessions.values()):
                is_forgotten = time.monotonic() - session.used_at > self.settings.session_idle_s
                if is_forgotten and not session.is_busy:
                    del self._sessions[session.id]
                    await self._closed(session)

    @staticmethod
    async def _closed(session: Session) -> None:
        try:
            await session.close()
        except Exception:
            logger.exception("a session did not end well")


def _make_mesh(options: RoomOptions, listener: Listener) -> Room:
    from hubbub.packs.peers.mesh import Mesh

    return Mesh(options, listener)


def _load_rooms(engine: str) -> None:
    import hubbub.packs.peers.mesh  # noqa: F401
    from hubbub.packs.peers.engine import load_engine

    try:
        load_engine(engine)
    except EngineMissing:
        pass  # Whoever connects is told.
