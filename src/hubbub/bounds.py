"""Every limit that keeps memory and time bounded, by name.

A limit that users may move is a setting whose default is the constant here; the
others are law. Sizes are bytes, times are seconds, the rest are counts.
"""

from typing import Final

# -- one message ---------------------------------------------------------------
MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The largest message any transport accepts."""
HEADER_BYTES: Final = 16 * 1024
"""The header block of a `Content-Length` frame."""
NESTING_DEPTH: Final = 128
"""How deep arrays and objects of one message may nest."""
BATCH_ITEMS: Final = 256
"""Messages in one JSON-RPC batch."""
IDENTIFIER_BYTES: Final = 1024
"""The id of one JSON-RPC request, as written on the wire."""
EVENT_BYTES: Final = 8 * 1024 * 1024
"""One server-sent event, when decoding."""

# -- one connection ------------------------------------------------------------
IN_FLIGHT: Final = 1024
"""Requests of one connection that run at once; reading pauses beyond it."""
PENDING_REQUESTS: Final = 256
"""Requests that we sent to one client and that wait for its answer."""
OUTBOX_BYTES: Final = 8 * 1024 * 1024
"""Bytes waiting for a slow reader before senders of notifications wait too."""
SUBSCRIPTIONS: Final = 1024
"""Resources one client may watch."""
LISTENS: Final = 256
"""Listen streams of one connection; fewer than `IN_FLIGHT`, or they alone could stop the reading."""
LISTENERS: Final = 10_000
"""Sessions and listen streams that one server tells of changes."""
DRAIN_S: Final = 30.0
"""How long running calls may go on after the input has ended."""
STOP_S: Final = 5.0
"""How long cancelled work may take to clean up when the process stops."""

# -- one server ----------------------------------------------------------------
TOOLS: Final = 10_000
"""Tools, resources, templates or prompts registered in one server, each."""
PAGE_ITEMS: Final = 1000
"""Items on one page of a list."""
COMPLETION_VALUES: Final = 100
"""Values in one completion answer; the specification's own limit."""
TOOL_THREADS: Final = 32
"""Threads that run synchronous handlers."""
NAME_CHARACTERS: Final = 128
"""A tool name, as the specification advises."""

# -- questions back to the caller ---------------------------------------------
ANSWER_S: Final = 600.0
"""How long a handler waits for the person or model at the other end."""
ROUNDS: Final = 1024
"""Suspended exchanges that one server keeps."""
ROUNDS_OF_ONE_CALL: Final = 32
"""How often one call may come back with another question."""

# -- one schema ----------------------------------------------------------------
SCHEMA_BYTES: Final = 256 * 1024
"""A JSON Schema given as data, as compact JSON."""
SCHEMA_DEPTH: Final = 64
"""How deep the arrays and objects of such a schema may nest."""
SCHEMA_BACKTRACKS: Final = 100_000
"""Steps one `pattern` may go back before the value is refused."""
PROBLEMS: Final = 5
"""Problems told about one set of arguments; a model needs no more to try again."""
PROBLEM_CHARACTERS: Final = 400
"""One told problem; it may quote what the caller sent."""

# -- names and addresses -------------------------------------------------------
MODEL_NAME_CHARACTERS: Final = 64
"""A tool name as the strictest model providers take it."""
TOOL_KEY_CHARACTERS: Final = 128
"""A tool's name on the agent's side, with its server in front."""
URI_CHARACTERS: Final = 8192
"""A resource URI, or a template of one."""
DECODING_ROUNDS: Final = 4
"""How often a URI value may be percent-encoded over before it is refused."""
