"""Every limit that keeps memory and time bounded, by name.

A limit that users may move is a setting whose default is the constant here; the
others are law. Sizes are bytes, times are seconds, the rest are counts.
"""

from typing import Final

from hubbub.pack_bounds import *  # noqa: F403

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
SALVAGE_BYTES: Final = 64 * 1024
"""How far a message that cannot be read is searched for its id."""
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
LISTENERS: Final = 40_000
"""Sessions and listen streams that one server tells of changes: room for both, so that neither shuts out the other."""
DRAIN_S: Final = 30.0
"""How long running calls may go on after the input has ended."""
STOP_S: Final = 5.0
"""How long cancelled work may take to clean up when the process stops."""

LEAVE_S: Final = 1.0
"""How long whatever still runs after that may hold up the exit."""

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

# -- HTTP ----------------------------------------------------------------------
BODY_S: Final = 30.0
"""How long the body of a request may take to arrive."""
REQUEST_HEAD_S: Final = 15.0
"""How long the head of a request may take to arrive."""
REQUEST_HEAD_BYTES: Final = 64 * 1024
"""The request line and the headers of one request."""
CONNECTIONS: Final = 20_000
"""Open connections of one endpoint; more are answered with 503."""
IDLE_CONNECTION_S: Final = 60
"""How long a connection may stay open between two requests."""
BACKLOG: Final = 2048
"""Connections that wait to be accepted."""
KEEP_ALIVE_S: Final = 15.0
"""How often a quiet stream says that it is still there."""
SLOW_READER_S: Final = 30.0
"""How long a caller may leave its stream unread before it loses it."""
SESSIONS: Final = 10_000
"""Legacy sessions that one endpoint keeps."""
CLIENT_BYTES: Final = 16 * 1024
"""What a client may say of itself when it opens a session, which keeps it."""
SESSION_IDLE_S: Final = 1800.0
"""How long a legacy session is kept after it was last used."""
STREAMS: Final = 5000
"""Streams that one endpoint holds open."""
STREAMS_OF_ONE_SESSION: Final = 256
"""Streams of one legacy session."""
STREAMS_TO_RESUME: Final = 16
"""Streams of one legacy session that nobody reads, kept for a caller that comes back."""
STORED_EVENTS: Final = 256
"""Events kept of one stream for a caller that comes back."""
STORED_EVENT_BYTES: Final = 1024 * 1024
"""Bytes of such events kept of one stream."""
STORED_EVENTS_IN_ALL: Final = 10_000
"""Events kept of all streams of one endpoint."""
STORED_BYTES_IN_ALL: Final = 64 * 1024 * 1024
"""Bytes of such events; a caller that comes back later than this allows starts again."""
RETRY_MS: Final = 1000
"""How soon a caller should come back to a stream that was closed."""
EVENT_ID_CHARACTERS: Final = 64
"""A `Last-Event-ID`."""

# -- the edge ------------------------------------------------------------------
EDGE_NAMES: Final = 256
"""Allowed `Host` and `Origin` values kept as already read, each."""
CREDENTIAL_BYTES: Final = 8 * 1024
"""An API key or bearer token as sent."""
KEY_FILE_BYTES: Final = 1024 * 1024
"""A file of API keys or of public keys."""
KEY_FILE_CHECK_S: Final = 5.0
"""How long a changed file of API keys may go unnoticed."""
PUBLIC_KEYS: Final = 64
"""Keys of one JWKS."""
PUBLIC_KEY_FETCH_S: Final = 30.0
"""The least time between two fetches of one JWKS, whatever callers send."""
PUBLIC_KEY_FRESH_S: Final = 3600.0
"""How long fetched keys are used before they are fetched again."""
PUBLIC_KEY_STALE_S: Final = 24 * 3600.0
"""How long they are used when that fails."""
FETCH_S: Final = 10.0
"""One fetch of a JWKS."""
CLOCK_LEEWAY_S: Final = 30.0
"""How far the clock of who issues tokens may be off."""
VERIFIED_TOKENS: Final = 4096
"""Tokens kept as already verified."""
VERIFIED_TOKEN_S: Final = 300.0
"""How long a token is kept so: a withdrawn key goes on working no longer than this."""
QUOTA_CALLERS: Final = 10_000
"""Callers that are counted at once, over all endpoints."""
QUOTA_TIMES: Final = 4_000_000
"""Requests that are remembered for counting, over all callers; eight bytes each."""
REQUESTED_HEADERS: Final = 64
"""`Mcp-Param-*` headers that one CORS preflight may ask for."""

# -- one server, from the client's side -----------------------------------------
REQUEST_S: Final = 10.0
"""One request to a server, unless its caller says otherwise."""
PROBE_S: Final = 10.0
"""How long a stream of the oldest transport may take to tell where to post."""
CONNECT_S: Final = 10.0
"""One connection to a server."""
NEXT_ADDRESS_S: Final = 0.25
"""After so long the next address of a server is tried as well (RFC 8305)."""
KEPT_CONNECTION_S: Final = 15.0
"""A connection to a server that nobody uses."""
FAREWELL_S: Final = 0.005
"""A server that takes one request for each connection has so long to close it, then we do."""
BODY_WAITING_BYTES: Final = 256 * 1024
"""Of an answer that nobody reads; beyond it the server has to wait."""
BODY_PIECE_BYTES: Final = 64 * 1024
"""Of a compressed body, decompressed at once."""
RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""One answer's body, or the data of one of its events."""
LINE_BYTES: Final = 16 * 1024 * 1024
"""One line of a server on stdio."""
ERROR_BODY_BYTES: Final = 2000
"""What is kept of the body of an HTTP error."""
RECONNECTS: Final = 20
"""How often one answer's stream is taken up again without anything new on it."""
LISTENING_S: Final = 1.0
"""How long the first call of a session waits for the stream on which the server may ask back."""
STEADY_STREAM_S: Final = 30.0
"""A stream that lived longer than this was well, even if it brought nothing: failures are counted anew."""
LONGEST_RETRY_S: Final = 300.0
"""The longest wait that a server may ask for before its stream is taken up again."""
CLOSE_S: Final = 2.0
"""Each step of parting with a server: its own end, TERM, KILL, the end of its session."""
LAST_WORDS_S: Final = 0.5
"""How long the output of a server that has ended is still read."""
STDERR_LINES: Final = 20
"""Lines of a server's stderr kept for the error that tells of its end."""
STDERR_LINE_BYTES: Final = 4096
"""One such line."""
LIST_PAGES: Final = 1000
"""Pages of one list; more is a server that does not come to an end."""
LIST_ITEMS: Final = 50_000
"""Items of one list."""
CLIENT_ROUNDS: Final = 10
"""How often a server may answer one request with another question."""
CACHED_RESULTS: Final = 1024
"""Results of one server kept for as long as it allows."""
CACHE_S: Final = 24 * 3600.0
"""The longest that any result is kept."""
KNOWN_ERAS: Final = 4096
"""Addresses whose era this process remembers."""
FLEET_S: Final = 30.0
"""How long all servers together may take to connect."""

# -- one upstream of a hub --------------------------------------------------------
UPSTREAM_CALL_S: Final = 60.0
"""One call, from its arrival at the hub."""
UPSTREAM_LIST_S: Final = 10.0
"""Connecting to an upstream and listing all that it has."""
UPSTREAM_CALLS: Final = 64
"""Calls that one upstream works on at once."""
UPSTREAM_WAITING: Final = 256
"""Calls that wait for one of those to end."""
UPSTREAM_SESSIONS: Final = 8
"""Sessions with one upstream besides its first: one for each client that can be asked something at the same time."""
UNANSWERED_S: Final = 30.0
"""How long a question to a client may be open before its session goes to another who waits, if there is no other."""
UPSTREAM_IDLE_S: Final = 300.0
"""How long such a session is kept after its last call."""
UNTOLD_BYTES: Final = 4 * 1024 * 1024
"""What an upstream may say about one call while its caller does not read."""
UPSTREAM_DRAIN_S: Final = 30.0
"""How long calls may go on after their upstream was taken out of the hub."""
BREAKER_FAILURES: Final = 5
"""Calls in a row without an answer after which an upstream is left alone for a while."""
GUARDIAN_S: Final = 2
"""How long servers may take to end after our own process was killed; whole seconds, a shell counts them."""

# -- the hub ---------------------------------------------------------------------
HUB_LIST_S: Final = 10.0
"""How long a list waits for servers that have not said yet what they have."""
HUB_GREETING_S: Final = 2.0
"""How long a client that has just come waits for what servers say about their use."""
HUB_NAME_CHARACTERS: Final = 51
"""A name as the hub lists it: what models take, less the `mcp__hubbub__` that clients put in front."""
LEAST_NAME_CHARACTERS: Final = 16
"""The smallest such limit: a few letters must be left beside the digest."""
HUB_SEARCH_TOOLS: Final = 50
"""Tools of a view that are listed without offering to search them."""
HUB_FOUND_TOOLS: Final = 50
"""Tools that one search may give."""
HUB_NAMED_TOOLS: Final = 200
"""Tools that the error for an unknown one names."""
HUB_INSTRUCTIONS_CHARACTERS: Final = 16_000
"""What the hub says about its use, made of what its servers say."""
HUB_VIEWS: Final = 100
"""Views of one hub."""
RESULT_BYTES: Final = 256 * 1024
"""A result that passes through the hub whole; larger ones become a link."""
RESULT_TTL_S: Final = 3600.0
"""How long such a link can be followed."""
RESULT_TOTAL_BYTES: Final = 256 * 1024 * 1024
"""Results kept for such links; the oldest go first."""
RESULTS_KEPT: Final = 256
"""How many are kept; each holds a file open."""
PREVIEW_BYTES: Final = 4096
"""What is sent of such a result beside the link."""
RESULT_PAGE_BYTES: Final = 64 * 1024
"""What one reading of it gives."""
INLINE_BYTES: Final = 1024 * 1024
"""Pictures, sound and links of one result, which stay in it: models look at them as they are."""
WATCH_SETTLE_S: Final = 0.1
"""How long the files of a hub must be left alone before they are read again."""
WATCH_POLL_S: Final = 2.0
"""How often they are looked at even if nothing tells of a change."""

# -- the command line ------------------------------------------------------------
COMMAND_S: Final = 60.0
"""One request of a client on the command line; whoever waits there can see that it does."""
SAVED_NAME_CHARACTERS: Final = 64
"""The name of a file that a result was saved to, without its number and extension."""
SAVED_FILES: Final = 10_000
"""Files of one name that are tried before saving is given up."""
TYPED_LINE_BYTES: Final = 64 * 1024
"""What a person may type in answer to one question."""

# -- looking around ------------------------------------------------------------
CHECK_S: Final = 10.0
"""One check of `hubbub doctor`."""

# -- one agent -----------------------------------------------------------------
TOOL_DEFINITIONS: Final = 128
"""Tools that a model is shown at once."""
TOOL_DEFINITION_BYTES: Final = 200_000
"""Their definitions together, as JSON."""
DESCRIPTION_CHARACTERS: Final = 4096
"""What a remote server may say about one tool."""
TITLE_CHARACTERS: Final = 200
"""A remote server's title for a tool, and other short texts of strangers."""
REMOTE_NAME_CHARACTERS: Final = 1024
"""A tool's name on its own server; longer ones are not taken over."""
ARGUMENT_BYTES: Final = 200_000
"""The arguments of one tool call, as the model wrote them."""
TOOL_OUTPUT_BYTES: Final = 200_000
"""What a model gets to see of one tool call, as JSON."""
LEAST_TOOL_OUTPUT_BYTES: Final = 1024
"""The smallest such limit: an envelope without any content must still fit."""
TOOL_OUTPUT_DEPTH: Final = 64
"""How deep the arguments and the output of a tool may nest."""
TOOL_OUTPUT_NODES: Final = 50_000
"""Values in the output of one tool."""
MODEL_TURNS: Final = 12
"""Answers of the model in one run."""
CALLS_OF_ONE_TURN: Final = 64
"""Tool calls that a model may make in one answer; more are left out."""
CALL_ID_CHARACTERS: Final = 128
"""A model's id for a tool call."""
EVENT_TEXT_BYTES: Final = 200
"""One text in an event: a context value, the message of a failed policy."""
CONFIRMATION_S: Final = 3600.0
"""How long a run that waits for a person may be taken up again."""
PAUSED_RUNS: Final = 10_000
"""Runs that a runner remembers to have resumed, so that none is resumed twice."""
MODEL_S: Final = 120.0
"""One answer of a model, from the request to its last byte."""
MODEL_RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""One answer of a model."""

# -- databases -------------------------------------------------------------------
SQL_READERS: Final = 4
"""Connections to an SQLite file that read at the same time; one more writes."""
SQL_CONNECTIONS: Final = 8
"""Connections to a PostgreSQL server."""
SQL_WAIT_S: Final = 10.0
"""How long to wait for a database that others have locked, or for a connection to it."""
SQL_STATEMENT_S: Final = 30.0
"""One statement on a PostgreSQL server."""
