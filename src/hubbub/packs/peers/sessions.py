"""All sessions of one server: opened by `vdo_connect`, found by id, limited in number, closed with the server."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid

from hubbub import ArgumentsInvalid, ToolError
from hubbub.packs.peers import limits
from hubbub.packs.peers.arguments import Arguments
from hubbub.packs.peers.connection_throttle import ConnectionThrottle
from hubbub.packs.peers.errors import EngineMissing
from hubbub.packs.peers.owner import LOCAL, Owner
from hubbub.packs.peers.room import Listener, Room, RoomFactory, RoomOptions
from hubbub.packs.peers.session import Session
from hubbub.packs.peers.session_options import SessionOptions
from hubbub.packs.peers.settings import PeersSettings

logger = logging.getLogger("hubbub.peers")


class Sessions:
    """The sessions of one server."""

    def __init__(
        self, settings: PeersSettings, secrets: tuple[str, ...] = (), *, make_room: RoomFactory | None = None
    ) -> None:
        self.settings = settings
        self.secrets = secrets
        """Secrets that join tokens are signed with, unless a session sets its own."""
        self._make_room = make_room or self._make_mesh
        self._throttle = ConnectionThrottle()
        self._sessions: dict[str, Session] = {}
        self.clock = time.monotonic
        """Measures how long a session was unused."""
        self._opening_count = 0
        self._is_loaded = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, arguments: Arguments) -> Session:
        """Return the session that a call names.

        Raises: ArgumentsInvalid, if there is none with that id, or it belongs to another caller.
        """
        session_id = arguments.required_text("session_id")
        session = self._sessions.get(session_id)
        if session is None or not arguments.owner.may_use(session.owner):
            raise ArgumentsInvalid(f"unknown session_id: {session_id[:100]}")
        session.last_used_at = self.clock()
        return session

    def owned_by(self, owner: Owner) -> list[Session]:
        """The sessions that a caller may list and shut down."""
        return [session for session in self._sessions.values() if owner.may_list(session.owner)]

    async def open(self, options: SessionOptions, owner: Owner = LOCAL) -> Session:
        """Open a session and enter its room.

        Raises: PeersError, ToolError; everything is released then.
        """
        if len(self._sessions) + self._opening_count >= self.settings.max_sessions:
            raise ToolError(
                f"the limit of {self.settings.max_sessions} sessions is reached; end one with vdo_disconnect"
            )
        self._opening_count += 1
        try:
            await self._preload()
            session = Session(f"vdo_{uuid.uuid4()}", options, self.settings, make_room=self._make_room, owner=owner)
            await session.connect()
        finally:
            self._opening_count -= 1
        if self._is_closed:
            await session.close()
            raise ToolError("the server is stopping")
        session.last_used_at = self.clock()
        self._sessions[session.id] = session
        return session

    async def end(self, session: Session) -> str:
        """Close and remove a session; return the time."""
        self._sessions.pop(session.id, None)
        return await session.close()

    async def close(self) -> None:
        """Close all sessions, and refuse new ones."""
        self._is_closed = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        if not sessions:
            return
        closing = [asyncio.create_task(self._close_logged(session)) for session in sessions]
        _, late = await asyncio.wait(closing, timeout=limits.PEER_LEAVE_TIMEOUT_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _preload(self) -> None:
        """Import the modules and the engine of rooms in a thread: it takes long, and the event loop must not wait."""
        if not self._is_loaded:
            await asyncio.to_thread(_import_mesh, self.settings.engine)
            self._is_loaded = True

    async def run_cleanup(self) -> None:
        """Preload the engine, then close unused sessions at intervals, until cancelled."""
        await asyncio.sleep(limits.PEER_PRELOAD_S)
        await self._preload()
        while True:
            await asyncio.sleep(min(limits.PEER_SESSION_CHECK_S, self.settings.session_idle_s))
            await self.close_idle()

    async def close_idle(self) -> None:
        """Close the sessions that were unused for `session_idle_s` and have no file transfer in progress."""
        for session in list(self._sessions.values()):
            is_idle = self.clock() - session.last_used_at > self.settings.session_idle_s
            if is_idle and not session.is_busy:
                self._sessions.pop(session.id, None)
                await self._close_logged(session)

    @staticmethod
    async def _close_logged(session: Session) -> None:
        try:
            await session.close()
        except Exception:
            logger.exception("closing a session failed")

    def _make_mesh(self, options: RoomOptions, listener: Listener) -> Room:
        from hubbub.packs.peers.mesh import Mesh

        return Mesh(options, listener, throttle=self._throttle)


def _import_mesh(engine: str) -> None:
    import hubbub.packs.peers.mesh  # noqa: F401
    from hubbub.packs.peers.engine import load_engine

    try:
        load_engine(engine)
    except EngineMissing:
        pass  # `vdo_connect` reports it.
