"""Limits of the tabletop pack. Sizes are in bytes, times in seconds, unless the name says otherwise."""

from typing import Final

INT32: Final = 2**31 - 1
"""The largest signed 32-bit number."""
DIE_SIDES: Final = 1000
"""Sides of one die."""
DICE: Final = 1000
"""Dice of one roll."""
DICE_SPECS: Final = 50
"""Kinds of dice in one roll."""
DICE_SEED: Final = 2**53 - 1
"""The largest seed: every JSON parser can read it exactly."""
TABLE_ID_CHARACTERS: Final = 128
"""An id of a campaign or of something in one, as a caller gives it."""
TABLE_NAME_CHARACTERS: Final = 200
"""A name of a campaign, participant, actor or session."""
TABLE_TEXT_CHARACTERS: Final = 20_000
"""Notes about an actor, or the theme of a campaign."""
TABLE_EVENT_BYTES: Final = 64 * 1024
"""The data of one event that a caller writes, as JSON."""
TABLE_IMPORTED_EVENT_BYTES: Final = 128 * 1024
"""The data of one event in an imported document: the longest text fits, even if all of it must be escaped."""
TABLE_EVENT_TYPE_CHARACTERS: Final = 64
"""The name of a kind of event."""
TABLE_PAGE: Final = 50
"""Records on one page, unless the caller requests another size."""
TABLE_LARGEST_PAGE: Final = 500
"""Records on the largest page."""
RECAP_EVENTS: Final = 40
"""Newest events that the prompt for a recap contains."""
TABLE_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""One gRPC message: the largest page of the largest records fits."""
TABLE_CALL_S: Final = 5.0
"""One request to a campaign server."""
TABLE_WHOLE_CALL_S: Final = 120.0
"""One request that reads or writes a whole campaign: verify its events, export or import it."""
TABLE_HEALTH_S: Final = 5.0
"""Interval at which a campaign server checks its database."""
TABLE_FIRST_CHECK_S: Final = 0.5
"""When a server checks its store after the start: later than its first answer, which must not wait."""
TABLE_GRACE_S: Final = 5.0
"""How long running calls may continue when a campaign server stops."""
TABLE_READY_S: Final = 3.0
"""How long a call waits for an unreachable campaign server."""
TABLE_CONTEXTS: Final = 10_000
"""Callers whose context is remembered; each owner has a share, and loses the least recently used beyond it."""
TABLE_CONTEXT_S: Final = 24 * 3600.0
"""How long an unused context is remembered, and how long a context id is valid."""
NOTATION_CHARACTERS: Final = 500
"""One dice notation."""
NOTATION_NUMBER: Final = 1_000_000
"""The largest number in a notation."""
COMPLETION_VALUES: Final = 100
"""Values in one completion; the limit of the MCP specification."""
