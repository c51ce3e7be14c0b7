"""Limits of the tabletop pack. Sizes are in bytes, times in seconds, unless the name says otherwise."""

from typing import Final

INT32_MAX: Final = 2**31 - 1
"""The largest signed 32-bit number."""
MAX_DIE_SIDES: Final = 1000
"""Sides of one die."""
MAX_DICE: Final = 1000
"""Dice of one roll."""
MAX_DICE_SPECS: Final = 50
"""Kinds of dice in one roll."""
MAX_SEED: Final = 2**53 - 1
"""The largest seed: every JSON parser can read it exactly."""
MAX_ID_CHARACTERS: Final = 128
"""An id in a request."""
MAX_NAME_CHARACTERS: Final = 200
"""A name of a campaign, participant, actor or session."""
MAX_TEXT_CHARACTERS: Final = 20_000
"""Notes about an actor, or the theme of a campaign."""
MAX_EVENT_BYTES: Final = 64 * 1024
"""The data of one event that a caller writes, as JSON."""
MAX_IMPORTED_EVENT_BYTES: Final = 128 * 1024
"""The data of one event in an imported document: the longest text fits, even if all of it must be escaped."""
MAX_EVENT_TYPE_CHARACTERS: Final = 64
"""The name of a kind of event."""
DEFAULT_PAGE_SIZE: Final = 50
"""Records on one page, unless the caller requests another size."""
MAX_PAGE_SIZE: Final = 500
"""Records on the largest page."""
MAX_RECAP_EVENTS: Final = 40
"""Newest events that the prompt for a recap contains."""
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""One gRPC message: the largest page of the largest records fits."""
CALL_TIMEOUT_S: Final = 5.0
"""One request to a campaign server."""
CAMPAIGN_CALL_TIMEOUT_S: Final = 120.0
"""One request that reads or writes a whole campaign: verify its events, export or import it."""
HEALTH_INTERVAL_S: Final = 5.0
"""Interval at which a campaign server checks its database."""
FIRST_CHECK_DELAY_S: Final = 0.5
"""When a server checks its store after the start: later than its first answer, which must not wait."""
SHUTDOWN_GRACE_S: Final = 5.0
"""How long running calls may continue when a campaign server stops."""
CONNECT_TIMEOUT_S: Final = 3.0
"""How long a call waits for an unreachable campaign server."""
MAX_CONTEXTS: Final = 10_000
"""Callers whose context is remembered; each owner has a share, and loses the least recently used beyond it."""
CONTEXT_LIFETIME_S: Final = 24 * 3600.0
"""How long an unused context is remembered, and how long a context id is valid."""
MAX_NOTATION_CHARACTERS: Final = 500
"""One dice notation."""
MAX_NOTATION_NUMBER: Final = 1_000_000
"""The largest number in a notation."""
MAX_COMPLETION_VALUES: Final = 100
"""Values in one completion; the limit of the MCP specification."""
