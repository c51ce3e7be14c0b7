"""The named limits on memory and time of the front door, as in `hubbub.bounds`."""

from __future__ import annotations

from typing import Final

ACCESS_TOKEN_S: Final = 600.0
"""How long an access token is accepted; a revoked one is refused before."""
CODE_S: Final = 60.0
"""How long an authorization code can be redeemed."""
LOGIN_S: Final = 900.0
"""How long a person may take from the authorization request to the consent."""
GRANT_IDLE_S: Final = 30 * 86_400.0
"""After this time without a refresh, the person has to log in again."""
REFRESH_GRACE_S: Final = 60.0
"""How long a replaced refresh token returns the same next token again, instead of ending its grant."""
GRANT_MAX_S: Final = 180 * 86_400.0
"""After this time, the person has to log in again, even if the grant was used."""
PROVIDER_CHECK_S: Final = 3600.0
"""If the last check of a person at the identity provider is older, it is repeated before a token is refreshed."""
PROVIDER_DOWN_S: Final = 86_400.0
"""While the provider is down, tokens are refreshed without a check until the last one is older than this."""
PROVIDER_CHECK_TIMEOUT_S: Final = 10.0
CONSENT_S: Final = 180 * 86_400.0
"""How long a consent is remembered."""
UNUSED_CLIENT_S: Final = 86_400.0
"""A registered client that was never granted anything is forgotten after this time."""
IDLE_CLIENT_S: Final = 210 * 86_400.0
"""A registered client is forgotten this long after its last token request."""
REPLACEABLE_CLIENT_S: Final = LOGIN_S
"""When there are too many, the oldest registration that has no grant and was not used for this time is replaced."""
SIGNING_KEY_S: Final = 30 * 86_400.0
"""How long one key signs access tokens."""

CLIENTS: Final = 10_000
"""Registered clients."""
CODES_PER_USER: Final = 20
GRANTS_PER_USER: Final = 100
"""Of one user; the one used longest ago ends when there are more."""
CLIENTS_PER_USER: Final = 50
"""Registered clients with grants of one user; the grants of the one used longest ago end when there are more."""
PROVIDER_LOGINS_PER_USER: Final = GRANTS_PER_USER + 20
"""Logins at the provider of one user, those included in which the person has not consented yet."""
CONSENTS_PER_USER: Final = 200
ENDED_GRANTS: Final = 100_000
"""Ended grants whose access tokens may not have expired."""
SIGNING_KEYS: Final = 16

REGISTRATIONS_PER_HOUR: Final = 300
"""New registrations from one network address, which can be that of a whole office."""
ALL_REGISTRATIONS_PER_HOUR: Final = 3000
"""New registrations from all network addresses. A quarter of an hour of these is far below `CLIENTS`."""
WRONG_KEYS_PER_MINUTE: Final = 10
"""Wrong API keys from one network address, after which the login page accepts no key from it for a while."""
WRONG_SECRETS_PER_MINUTE: Final = 10
"""Wrong secrets of clients in the settings from one network address, after which it must wait."""
LIMITED_ADDRESSES: Final = 10_000
"""Network addresses whose attempts are counted."""

FORM_BYTES: Final = 32 * 1024
"""A request to an endpoint of the front door."""
REGISTRATION_BYTES: Final = 16 * 1024
PARAMETER_CHARACTERS: Final = 2048
"""The longest parameter of an authorization request."""
SCOPES: Final = 64
"""Scopes in one request."""
REDIRECT_URIS: Final = 20
"""Of one client."""
CLIENT_NAME_CHARACTERS: Final = 80
"""How much of the name of a client is shown."""
CLIENT_ID_CHARACTERS: Final = 512
CLIENT_DOCUMENT_BYTES: Final = 32 * 1024
CLIENT_DOCUMENT_TTL_S: Final = 600.0
"""How long a Client ID Metadata Document is used before it is fetched again."""
CLIENT_DOCUMENT_STALE_S: Final = 86_400.0
"""How long a Client ID Metadata Document is used while it cannot be fetched again."""
CLIENT_DOCUMENT_RETRY_S: Final = 60.0
"""How long after a failure a Client ID Metadata Document in the cache is fetched again."""
CLIENT_DOCUMENT_TIMEOUT_S: Final = 10.0
CLIENT_DOCUMENTS: Final = 1000
"""Client ID Metadata Documents in the cache."""
CLIENT_DOCUMENT_FETCHES: Final = 16
"""Documents that are fetched at the same time."""
CLIENT_DOCUMENTS_PER_MINUTE: Final = 30
"""Documents that one network address may cause to be fetched; the same number of key sets."""
CLIENT_KEY_SETS: Final = 100
"""Cached key sets of clients."""
CLIENT_ASSERTION_S: Final = 3600.0
"""How long the signed assertion of a client may be valid."""

REVOCATION_CHECK_S: Final = 5.0
"""How often a process reads from the store which grants other processes ended."""
KEY_FILE_MARGIN_S: Final = 10.0
"""How long a grant of an unknown key is kept: another process may have read a new key earlier than this one."""
SWEEP_S: Final = 300.0
"""How often expired rows are deleted."""
PROVIDER_METADATA_TTL_S: Final = 3600.0
"""How long the metadata of the identity provider is used before it is fetched again."""
PROVIDER_METADATA_RETRY_S: Final = 60.0
"""How long after a failure known metadata is fetched again."""
