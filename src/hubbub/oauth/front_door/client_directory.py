"""Finds clients: in the settings, by their documents, or among those that registered themselves (RFC 7591)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from hubbub.oauth.errors import MetadataError, OAuthError, ServerUnavailable
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.client_documents import ClientDocuments
from hubbub.oauth.front_door.clients import (
    AUTH_METHODS,
    Client,
    display_name,
    hash_secret,
    parse_metadata,
    redirect_target,
    registration_response,
)
from hubbub.oauth.front_door.provider import ReadSecret, no_secret

if TYPE_CHECKING:
    from hubbub.store.sql import Connection, Database

logger = logging.getLogger("hubbub.oauth")


class TooManyClients(OAuthError):
    """No more clients can register at the moment."""


class ConfiguredClient(msgspec.Struct, frozen=True):
    """A client of the settings."""

    client: Client
    read_secret: ReadSecret = no_secret


class ClientDirectory:
    """The clients of one server."""

    def __init__(
        self,
        configured: Iterable[ConfiguredClient],
        database: Callable[[], Database],
        documents: ClientDocuments,
        clock: Callable[[], float],
    ) -> None:
        self._configured = {each.client.client_id: each for each in configured}
        self._database = database
        self._documents = documents
        self._clock = clock

    async def find(self, client_id: str, address: str) -> Client | None:
        """Return a client; None if it is unknown. `address`: the network address of the requester.

        Raises:
            MetadataError: its document cannot be used.
            ServerUnavailable: its document cannot be fetched; the message does not say why.
            StoreFailed.
            HubbubError: its secret cannot be read.
        """
        configured = self._configured.get(client_id)
        if configured is not None:
            secret = await configured.read_secret()
            hashed = None if secret is None else hash_secret(secret.reveal())
            return msgspec.structs.replace(configured.client, secret_hash=hashed)
        if not 0 < len(client_id) <= limits.CLIENT_ID_CHARACTERS or not client_id.isprintable():
            return None
        if client_id.startswith("https://"):
            return await self._find_document(client_id, address)
        return await self._database().read(lambda connection: self._read(connection, client_id))

    async def _find_document(self, client_id: str, address: str) -> Client:
        try:
            return await self._documents.find(client_id, address)
        except MetadataError:
            raise
        except OAuthError as error:
            # Callers do not learn why: it would tell which names and addresses exist in the network of this server.
            logger.info("oauth_client_unknown", extra={"reason": error.message})
            retry_after_s = error.retry_after_s if isinstance(error, ServerUnavailable) else None
            raise ServerUnavailable("The client document cannot be fetched at the moment", retry_after_s) from None

    def _read(self, connection: Connection, client_id: str) -> Client | None:
        from hubbub.oauth.front_door.tables import clients
        from hubbub.store.sql import select

        query = select(clients).where(clients.c.client_id == client_id, clients.c.expires_at > self._clock())
        row = connection.execute(query).first()
        if row is None:
            return None
        return Client(
            client_id=row.client_id,
            name=row.name,
            redirect_uris=tuple(msgspec.json.decode(row.redirect_uris, type=list[str])),
            auth_method=row.auth_method,
            secret_hash=bytes.fromhex(row.secret_hash) or None,
            is_registered=True,
        )

    async def register(self, body: bytes) -> dict[str, Any]:
        """Register a client; return the response to it.

        Raises: MetadataError, TooManyClients, StoreFailed.
        """
        metadata = parse_metadata(body)
        # RFC 7591 says client_secret_basic if none is named; apps without a secret always name `none`.
        method = metadata.token_endpoint_auth_method or "client_secret_basic"
        if method not in AUTH_METHODS:
            raise MetadataError(f"token_endpoint_auth_method must be one of {', '.join(AUTH_METHODS)}")
        secret = None if method == "none" else secrets.token_urlsafe(32)
        client = Client(
            client_id=secrets.token_urlsafe(18),
            name=display_name(metadata, redirect_target(metadata.redirect_uris[0])),
            redirect_uris=metadata.redirect_uris,
            auth_method=method,
            secret_hash=None if secret is None else hash_secret(secret),
            is_registered=True,
        )
        now = self._clock()
        await self._database().write(lambda connection: self._save(connection, client, now))
        return registration_response(client, metadata, secret, int(now))

    def _save(self, connection: Connection, client: Client, now: float) -> None:
        from hubbub.oauth.front_door.tables import clients, codes, grants
        from hubbub.store.sql import add_row, delete, func, select

        count = connection.execute(select(func.count()).select_from(clients)).scalar() or 0
        if count >= limits.CLIENTS:
            latest, columns = now - limits.REPLACEABLE_CLIENT_S, clients.c
            unused = select(columns.client_id).where(columns.used_at <= latest, columns.created_at <= latest)
            for table in (grants, codes):
                has_rows = select(table.c.client_id).where(
                    table.c.client_id == columns.client_id, table.c.expires_at > now
                )
                unused = unused.where(~has_rows.exists())
            # First those that were never used.
            oldest = connection.execute(unused.order_by(columns.used_at, columns.created_at).limit(1)).scalar()
            if oldest is None:
                raise TooManyClients("Too many clients have registered; try again later")
            connection.execute(delete(clients).where(clients.c.client_id == oldest))
        row = {
            "client_id": client.client_id,
            "name": client.name,
            "redirect_uris": msgspec.json.encode(client.redirect_uris).decode(),
            "auth_method": client.auth_method,
            "secret_hash": (client.secret_hash or b"").hex(),
            "created_at": int(now),
            "used_at": 0,
            "expires_at": int(now + limits.UNUSED_CLIENT_S),
        }
        add_row(connection, clients, row)
