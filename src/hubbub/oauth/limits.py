"""The named limits on memory and time of OAuth, as in `hubbub.bounds`."""

from __future__ import annotations

from typing import Final

DOCUMENT_BYTES: Final = 256 * 1024
"""A metadata document, a registration or a response of a token endpoint."""
URL_CHARACTERS: Final = 2048
"""The URL of an endpoint, and one that a client redirects to."""
REQUEST_TIMEOUT_S: Final = 30.0
"""One request to an authorization server."""
RETRY_AFTER_S: Final = 30
"""How long clients should wait after a request that failed because another server does not answer."""
ERROR_CHARACTERS: Final = 200
"""How much of an error description of another server is shown."""


# -- client ------------------------------------------------------------------------

LOGIN_S: Final = 600.0
"""From the authorization URL to its redirect; providers expire their login pages after about as long."""
EXPIRY_MARGIN_S: Final = 30.0
"""A token that expires sooner is refreshed before it is used."""
ASSERTION_S: Final = 60.0
"""How long a signed client assertion is valid."""
AUTHORIZATION_SERVERS: Final = 8
"""Entries of `authorization_servers` that are considered."""
SCOPES: Final = 256
"""Scopes of one request."""
STEP_UPS_OF_REQUEST: Final = 2
"""Logins for more scopes that one request may need."""
STEP_UPS: Final = 5
"""Logins for more scopes within `STEP_UP_WINDOW_S`, for one server and principal."""
STEP_UP_WINDOW_S: Final = 600.0
FILE_TIME_RESOLUTION_S: Final = 2.0
"""Files that were changed more recently are read again; FAT has the coarsest clock."""
CREDENTIAL_CHECK_S: Final = 5.0
"""After a logout in another process, tokens are used for at most this long."""
CHALLENGE_CHARACTERS: Final = 8192
"""The `WWW-Authenticate` headers of one response."""
MASKED_CHARACTERS: Final = 8
"""Values of this length or more that were sent to a token endpoint are hidden in its error description."""
REDIRECT_PARAMETERS: Final = 32
"""Parameters of one redirect."""
SECRET_FILE_BYTES: Final = 64 * 1024
"""A file with the private key of a client, or an assertion of a workload."""

# -- credentials on this machine ------------------------------------------------------

STORED_CREDENTIALS: Final = 256
"""Logins of the user of this machine."""
CREDENTIAL_FILE_BYTES: Final = 16 * 1024 * 1024
"""The encrypted file with all of them."""
CREDENTIAL_LOCKS: Final = 64
"""Lock files; servers beyond that share one."""
SQL_CREDENTIALS: Final = 100_000
"""Logins of the users of a hub at one server, in the database."""
UNUSABLE_CREDENTIALS_S: Final = 30 * 86_400.0
"""How long the database keeps logins that a server refused, or that expired and cannot be refreshed."""
CREDENTIAL_SWEEP_S: Final = 3600.0
"""How often such logins are deleted."""
CREDENTIAL_LOCK_S: Final = 90.0
"""How long to wait for another process that refreshes the same token: two requests and a retry."""
CREDENTIAL_LOCK_POLL_S: Final = 0.02
"""How often a lock is tried."""

# -- the browser on this machine -------------------------------------------------------

REDIRECT_CONNECTIONS: Final = 16
"""Connections to the listener of a redirect; browsers open some in advance."""
REDIRECT_HEAD_BYTES: Final = 32 * 1024
"""The head of a request with a redirect; cookies of other servers on the loopback interface come with it."""
REDIRECT_READ_S: Final = 10.0
"""How long one request may take to arrive."""
PASTED_LINES: Final = 20
"""Lines that are read from the terminal before only the browser can finish a login."""

# -- resource server --------------------------------------------------------------

INTROSPECTED_TOKEN_TTL_S: Final = 30.0
"""How long the result of an introspection is used: a revoked token works no longer than this."""
INTROSPECTIONS: Final = 32
"""Concurrent introspection requests to one authorization server."""
INTROSPECTION_TIMEOUT_S: Final = 10.0
"""One introspection of an opaque token, including reading the secret and discovery."""
CHALLENGE_SCOPE_CHARACTERS: Final = 4096
"""The scopes in one `WWW-Authenticate` header, which clients and proxies limit to 8 KiB or less."""
PROOF_AGE_S: Final = 300.0
"""How old a DPoP proof may be."""
ACCEPTED_PROOFS: Final = 100_000
"""DPoP proofs that are remembered. If a key makes more than its share within `PROOF_AGE_S`, its oldest are refused."""
PROOF_ID_CHARACTERS: Final = 256
"""The `jti` of a DPoP proof."""
PROOF_URL_CHARACTERS: Final = 4096
"""The `htu` of a DPoP proof."""
