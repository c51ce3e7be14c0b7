"""The named limits on memory and time of the logins of a hub's users, as in `hubbub.bounds`."""

from __future__ import annotations

from typing import Final

USER_AUTHORIZERS: Final = 10_000
"""Users of one server whose credentials are cached; those of others are loaded when they call."""
SEARCHED_LOGINS: Final = 64
"""Logins of other users that are searched for the client id of this hub, before it registers again."""
REGISTRATIONS: Final = 100
"""Client ids of the hub at the authorization servers of one server, which may name a new one each time."""
LOGIN_CHECK_S: Final = 5.0
"""How often the store is asked whether a login still exists: a logout at another process takes effect in this time."""
LOGIN_S: Final = 600.0
"""How long a link to log in can be used, and how long the login may take."""
LOGIN_POLL_S: Final = 2.0
"""How often a call that waits for a login looks for it in the store, where another process may have put it."""
LOGIN_WAIT_S: Final = 90.0
"""How long a call waits for a login; after that its caller gets an error with the URL, and can repeat the call."""
TENANT_CHECK_S: Final = 3600.0
"""How often a hub looks for logins of tenants that were removed from its settings."""
LOGINS_OF_CALL: Final = 2
"""Logins that one call waits for: the second is for scopes that the server required after the first."""
LOGIN_CLAIMS: Final = 30_000
"""Links to log in that were used and have not expired: three claims for each."""
COOKIE_CHARACTERS: Final = 3900
"""The state of a login in a cookie; browsers refuse cookies of more than 4096 bytes."""
