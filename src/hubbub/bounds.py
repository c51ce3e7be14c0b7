"""The named limits on memory and time.

Code reads a bound where it uses it, so that a replaced bound takes effect everywhere at once. Only declarations that
users see are evaluated when their module is imported: settings, parameters of the public API, and schemas of tools.
Users change those with the setting or the argument. Sizes are bytes, times are seconds, the rest are counts.
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
UNKNOWN_MEMBERS_BYTES: Final = 64 * 1024
"""Unknown members and space of a message whose member names are repeated or escaped, so that they must be compared."""
SALVAGE_BYTES: Final = 64 * 1024
"""How many bytes of an unreadable message are searched for its id."""
SKIPPED_BYTES: Final = 16 * 1024 * 1024
"""How much of a message that is too large is skipped before it is reported, if it does not end."""
SALVAGE_TAIL_BYTES: Final = 4 * 1024
"""How much of the end of a message that is too large is kept to find its id."""
SALVAGE_END_BYTES: Final = 1024
"""How much of that end is searched for the id of an answer."""
EVENT_BYTES: Final = 8 * 1024 * 1024
"""One server-sent event, when decoding."""
EVENT_FIELD_BYTES: Final = 64 * 1024
"""An event without its data: field names and ids."""

# -- one connection ------------------------------------------------------------
IN_FLIGHT: Final = 1024
"""Requests of one connection that run at once; reading pauses beyond it."""
PENDING_REQUESTS: Final = 256
"""Requests to one client that wait for its answer."""
OUTBOX_BYTES: Final = 8 * 1024 * 1024
"""Bytes queued for a slow reader before senders of notifications have to wait."""
SUBSCRIPTIONS: Final = 1024
"""Resources that one client may subscribe to."""
SUBSCRIPTION_CHARACTERS: Final = 128 * 1024
"""Their URIs together: one may be as long as `URI_CHARACTERS`."""
LISTEN_STREAMS_PER_CONNECTION: Final = 256
"""Listen streams of one connection; fewer than `IN_FLIGHT`, or they alone could pause reading."""
LISTEN_STREAMS: Final = 40_000
"""Listen streams of one server."""
DRAIN_TIMEOUT_S: Final = 30.0
"""How long running calls may continue after the input has ended."""
SHUTDOWN_TIMEOUT_S: Final = 5.0
"""How long cancelled work may take to clean up when the process stops."""

EXIT_DELAY_MAX_S: Final = 1.0
"""How long tasks that still run after that may delay the exit."""

# -- one server ----------------------------------------------------------------
TOOLS: Final = 10_000
"""Tools, resources, templates or prompts registered in one server, each."""
PAGE_ITEMS: Final = 1000
"""Items on one page of a list."""
COMPLETION_VALUES: Final = 100
"""Values in one completion result; the limit of the specification."""
TOOL_THREADS: Final = 32
"""Threads that run synchronous handlers."""
NAME_CHARACTERS: Final = 128
"""A tool name, as the specification advises."""

# -- input requests to the caller ----------------------------------------------
INPUT_TIMEOUT_S: Final = 600.0
"""How long a handler waits for the answer of the client's user or model."""
ROUNDS: Final = 1024
"""Suspended exchanges that one server keeps."""
ROUNDS_PER_CALL: Final = 32
"""How often one call may request input."""

# -- one schema ----------------------------------------------------------------
SCHEMA_BYTES: Final = 256 * 1024
"""A JSON Schema given as data, as compact JSON."""
SCHEMA_DEPTH: Final = 64
"""How deep the arrays and objects of such a schema may nest."""
SCHEMA_BACKTRACKS: Final = 100_000
"""Backtracking steps of one `pattern` before the value is refused."""
PROBLEMS: Final = 5
"""Problems reported for one set of arguments; enough for a model to correct the call."""
PROBLEM_CHARACTERS: Final = 400
"""One reported problem; it may quote what the caller sent."""

# -- names and addresses -------------------------------------------------------
MODEL_NAME_CHARACTERS: Final = 64
"""A tool name that the strictest model providers accept."""
TOOL_KEY_CHARACTERS: Final = 128
"""The name of a tool for an agent's model, prefixed with its server."""
URI_CHARACTERS: Final = 8192
"""A resource URI, or a template of one."""
URI_DECODINGS: Final = 4
"""How many times a URI value may be percent-encoded before it is refused."""

# -- shares of common resources --------------------------------------------------
SHARE_OF_FREE: Final = 7
"""One caller, or all of a tenant together, may hold this many times what is free: seven eighths without others."""

# -- HTTP ----------------------------------------------------------------------
BODY_TIMEOUT_S: Final = 30.0
"""How long the body of a request may take to arrive."""
REQUEST_HEAD_TIMEOUT_S: Final = 15.0
"""How long the head of a request may take to arrive."""
REQUEST_HEAD_BYTES: Final = 64 * 1024
"""The request line and the headers of one request."""
CONNECTIONS: Final = 20_000
"""Open connections of one endpoint, of which each network has a share; more are answered with 503."""
RESERVED_FILES: Final = 256
"""Open files that connections of callers cannot use: for servers, databases, logs and the interpreter."""
IDLE_CONNECTION_S: Final = 60.0
"""How long a connection may stay open between two requests."""
BACKLOG: Final = 2048
"""Connections that wait to be accepted."""
LINGER_TIMEOUT_S: Final = 5.0
"""How long a connection is read after its last response: closing at once would reset it while the caller sends."""
LINGER_BYTES: Final = 64 * 1024 * 1024
"""Bytes that are read and dropped during that time."""
REFUSED_BYTES: Final = 10 * 1024 * 1024
"""Bytes that are read and dropped after a request was refused because it is malformed or exceeds a limit."""
PIPELINED_REQUESTS: Final = 128
"""Requests of one connection that wait for the response to an earlier one."""
UNFINISHED_MESSAGES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of incomplete bodies and WebSocket messages over all connections; at least four complete messages."""
KEEP_ALIVE_S: Final = 15.0
"""Interval of keep-alive messages on an idle stream."""
PONG_TIMEOUT_S: Final = 20.0
"""How long a client may take to answer a ping on a WebSocket."""
SLOW_READER_TIMEOUT_S: Final = 30.0
"""How long a caller may leave its stream unread before the stream is closed."""
SWEEP_INTERVAL_S: Final = 1.0
"""How often expired sessions, streams and credentials are checked for."""
PREFLIGHT_CACHE_S: Final = 600
"""How long a browser may cache the response to a CORS preflight; whole seconds."""
SESSIONS: Final = 10_000
"""Legacy sessions that one endpoint keeps."""
CLIENT_INFO_BYTES: Final = 16 * 1024
"""Capabilities, name and description of a client in `initialize`, which its session keeps."""
PARSED_CAPABILITIES_BYTES: Final = 1024
"""Capabilities that a session keeps parsed; larger ones are kept as text, which takes a tenth of the memory."""
SESSION_IDLE_S: Final = 1800.0
"""How long a legacy session is kept after it was last used."""
STREAMS: Final = 5000
"""Streams that one endpoint holds open."""
STREAMS_PER_SESSION: Final = 256
"""Streams of one legacy session."""
RESUMABLE_STREAMS_PER_SESSION: Final = 16
"""Disconnected streams of one legacy session that are kept so that the caller can resume them."""
STORED_EVENTS_PER_STREAM: Final = 256
"""Events of one stream that are kept for resuming it."""
STORED_BYTES_PER_STREAM: Final = 1024 * 1024
"""Bytes of such events of one stream."""
TOTAL_STORED_EVENTS: Final = 10_000
"""Such events of all streams of one endpoint."""
TOTAL_STORED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of such events; a stream whose events were dropped cannot be resumed."""
RETRY_MS: Final = 1000
"""How soon a caller should reconnect to a stream that was closed."""
EVENT_ID_CHARACTERS: Final = 64
"""A `Last-Event-ID`."""

# -- the edge ------------------------------------------------------------------
CACHED_HOSTS: Final = 256
"""Allowed `Host` values, and as many `Origin` values, that are cached after parsing."""
CREDENTIAL_BYTES: Final = 8 * 1024
"""An API key or bearer token as sent."""
JWT_HEADER_BYTES: Final = 4 * 1024
"""The header of a JWT: a DPoP proof has its public key there, some tokens have certificates."""
KEY_FILE_BYTES: Final = 1024 * 1024
"""A file of API keys or of public keys."""
KEY_FILE_CHECK_INTERVAL_S: Final = 1.0
"""How long a changed file of API keys may go unnoticed."""
CREDENTIAL_CHECK_INTERVAL_S: Final = 2.0
"""How often the credential of an open connection is checked again; with the line above, and the second between two
sweeps, a revoked credential ends its connections within five seconds."""
PUBLIC_KEYS: Final = 64
"""Keys of one JWKS."""
PUBLIC_KEY_FETCH_INTERVAL_S: Final = 30.0
"""The least time between two fetches of one JWKS, whatever callers send."""
PUBLIC_KEY_FRESH_S: Final = 3600.0
"""How long fetched keys are used before they are fetched again."""
PUBLIC_KEY_STALE_S: Final = 24 * 3600.0
"""How long they are used if fetching fails."""
PUBLIC_KEY_FETCH_TIMEOUT_S: Final = 10.0
"""One fetch of a JWKS."""
CLOCK_LEEWAY_S: Final = 30.0
"""How far the clock of a token issuer may differ from ours."""
VERIFIED_TOKENS: Final = 4096
"""Verified tokens that are cached."""
VERIFIED_TOKEN_TTL_S: Final = 300.0
"""How long a token is cached: a revoked key works no longer than this."""
TOKEN_SUBJECT_CHARACTERS: Final = 256
"""The `sub` of a token, which becomes the name of the principal."""
TOKEN_SCOPES: Final = 256
"""Scopes of one token; further ones are ignored."""
QUOTA_REQUESTS: Final = 100_000
"""Requests that one rate limit may allow in its period: the time of each is stored."""
QUOTA_CALLERS: Final = 10_000
"""Callers that are counted at once, over all endpoints."""
QUOTA_TIMES: Final = 4_000_000
"""Times of requests that are stored for counting, over all callers; eight bytes each."""
LOG_LINES: Final = 100
"""Log lines for one event that callers can cause, within `LOG_WINDOW_S`; more are only counted."""
LOG_WINDOW_S: Final = 60.0
"""See `LOG_LINES`."""
LOG_EVENTS: Final = 256
"""Different events that one logger counts at the same time."""
REQUESTED_HEADERS: Final = 64
"""`Mcp-Param-*` headers that one CORS preflight may request."""

# -- one server, from the client's side -----------------------------------------
REQUEST_TIMEOUT_S: Final = 10.0
"""One request to a server, unless its caller sets another time."""
ENDPOINT_EVENT_TIMEOUT_S: Final = 10.0
"""How long a stream of the HTTP+SSE transport may take to send the URL for POST requests."""
CONNECT_TIMEOUT_S: Final = 10.0
"""One connection to a server."""
NEXT_ADDRESS_DELAY_S: Final = 0.25
"""Delay after which the next address of a server is tried in parallel (RFC 8305)."""
POOLED_CONNECTION_IDLE_S: Final = 15.0
"""How long an idle connection to a server is kept open."""
KEEP_ALIVE_MARGIN_S: Final = 1.0
"""A connection is not reused in this time before the server closes it (its `Keep-Alive: timeout=`)."""
SERVER_CLOSE_WAIT_S: Final = 0.005
"""How long a server that accepts one request per connection has to close it, before the client does."""
UNREAD_BODY_BYTES: Final = 256 * 1024
"""Unread bytes of a response; above it, reading from the server pauses."""
DECOMPRESS_PIECE_BYTES: Final = 64 * 1024
"""Piece of a compressed body that is decompressed at once."""
RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""The body of one response, or the data of one of its events."""
LINE_BYTES: Final = 16 * 1024 * 1024
"""One line of a server on stdio."""
UNREAD_PONGS: Final = 1024
"""Pings of a WebSocket server that are answered while it does not read; then the connection is dropped."""
WEBSOCKET_FRAMES: Final = 4
"""Unread frames of a WebSocket server before reading from its connection pauses."""
ERROR_BODY_BYTES: Final = 2000
"""How much of the body of an HTTP error is kept."""
ERROR_TEXT_CHARACTERS: Final = 300
"""How much of that body an error message quotes."""
RECONNECTS: Final = 20
"""How often the stream of one response is resumed without a new event."""
EMPTY_STREAMS: Final = 20
"""Consecutive short GET streams without a message; after them, no more are opened."""
WEBSOCKET_RECONNECTS: Final = 8
"""How often a broken WebSocket connection is reopened."""
RETRY_PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Delays between retries; the last is repeated."""
STREAM_RETRY_PAUSES_S: Final = (1.0, 2.0, 5.0, 10.0)
"""The same for streams whose server does not send a `retry` time."""
SERVER_STREAM_WAIT_S: Final = 1.0
"""How long the first call of a session waits for the stream on which the server sends its own requests."""
STABLE_AFTER_S: Final = 30.0
"""A stream or a server that lasted longer than this worked, even if it sent nothing: the count of failures restarts."""
RETRY_MAX_S: Final = 300.0
"""The longest `retry` time of a server that is respected before its stream is resumed."""
CLOSE_TIMEOUT_S: Final = 2.0
"""Each step of closing a server: its own exit, TERM, KILL, the end of its session."""
EXIT_OUTPUT_TIMEOUT_S: Final = 0.5
"""How long the output of a server that has ended is still read."""
STDERR_LINES: Final = 20
"""Lines of a server's stderr that are kept for the error message when it exits."""
STDERR_LINE_BYTES: Final = 4096
"""One such line."""
LIST_PAGES: Final = 1000
"""Pages of one list; with more, pagination is assumed to be endless."""
LIST_ITEMS: Final = 50_000
"""Items of one list, over all its pages."""
LIST_BYTES: Final = 16 * 1024 * 1024
"""One list as JSON, over all its pages; no less than the largest single answer."""
LIST_TIMEOUT_S: Final = 60.0
"""Time for all pages of one list, unless the caller sets a time or a single answer may take longer."""
CLIENT_ROUNDS: Final = 10
"""How often a server may answer one request with an input request."""
EMPTY_ROUND_PAUSES_S: Final = (0.05, 0.1, 0.25)
"""Delays before repeating a request that was answered with a state but no input request; the last is repeated."""
CACHED_RESULTS: Final = 1024
"""Results of one server that are cached for as long as it allows."""
CACHED_BYTES: Final = 16 * 1024 * 1024
"""Those results together, as JSON; the oldest are dropped first."""
CACHE_TTL_MAX_S: Final = 24 * 3600.0
"""The longest time that a result is cached."""
DISCOVER_TIMEOUT_S: Final = 2.0
"""How long a server on stdio or WebSocket may leave `server/discover` unanswered before `initialize` is sent too."""
DISCOVER_TRIES: Final = 2
"""Requests of `server/discover`: the second is for a version that the server named in its refusal."""
KNOWN_SECRETS: Final = 64
"""Values of headers and variables of one server that are hidden in messages; the oldest are dropped first."""
KNOWN_ERAS: Final = 4096
"""Servers that this process has cached as legacy."""
KNOWN_ERAS_ON_DISK: Final = 256
"""Such servers that the command line and the hub cache on disk; the oldest are dropped first."""
KNOWN_ERA_TTL_S: Final = 24 * 3600.0
"""How long they are cached on disk: a server may be updated."""
FLEET_CONNECT_TIMEOUT_S: Final = 30.0
"""How long all servers together may take to connect."""

# -- one upstream of a hub --------------------------------------------------------
UPSTREAM_CALL_TIMEOUT_S: Final = 60.0
"""One call, from its arrival at the hub."""
UPSTREAM_LIST_TIMEOUT_S: Final = 10.0
"""Connecting to an upstream and listing its tools, prompts and resources."""
UPSTREAM_LIST_PAUSES_S: Final = (0.1, 0.5, 2.0, 10.0)
"""Delays before a failed list is requested again; the last is repeated."""
UPSTREAM_CALLS: Final = 64
"""Concurrent calls of one upstream."""
UPSTREAM_QUEUED_CALLS: Final = 256
"""Calls that wait for one of those."""
UPSTREAM_SESSIONS: Final = 8
"""Sessions with one upstream besides its first: one for each client that can receive its requests at the same time."""
UPSTREAM_WATCHED_RESOURCES: Final = 10_000
"""Resources of one upstream that callers watch, counted once for each principal."""
UNANSWERED_INPUT_MAX_S: Final = 30.0
"""How long an input request may stay unanswered before its session is given to a waiting call, if no other is free."""
UPSTREAM_SESSION_IDLE_S: Final = 300.0
"""How long such a session is kept after its last call."""
SESSION_RECHECK_INTERVAL_S: Final = 1.0
"""How often a call that waits for a session checks whether another session can be ended."""
QUEUED_NOTIFICATIONS_BYTES: Final = 4 * 1024 * 1024
"""Notifications of an upstream about one call that are queued while its caller does not read."""
UPSTREAM_DRAIN_TIMEOUT_S: Final = 30.0
"""How long calls may continue after their upstream was removed from the hub."""
BREAKER_FAILURES: Final = 5
"""Consecutive calls without an answer that open the circuit breaker of an upstream."""
BREAKER_RETRY_S: Final = 1.0
"""The retry time that callers get while one call tests whether such an upstream works again."""
ORPHAN_EXIT_TIMEOUT_S: Final = 2
"""How long servers may take to exit after our own process was killed; whole seconds, because a shell counts them."""

# -- the hub ---------------------------------------------------------------------
HUB_LIST_WAIT_S: Final = 10.0
"""How long a list waits for servers that have not sent their lists yet."""
HUB_INSTRUCTIONS_WAIT_S: Final = 2.0
"""How long a new client waits for the instructions of the servers."""
HUB_NAME_CHARACTERS: Final = 51
"""A name as the hub lists it: what models accept, minus the `mcp__hubbub__` that clients prepend."""
MIN_NAME_CHARACTERS: Final = 16
"""The smallest such limit: a few characters must remain beside the digest."""
HUB_SEARCH_TOOLS: Final = 50
"""Tools of a view up to which no search tool is offered."""
HUB_CACHED_SCOPE_SETS: Final = 64
"""Groups of callers for whom one view keeps lists and the search index; the least recently used are dropped first."""
HUB_CALLER_GROUPS: Final = 4096
"""Groups of callers for which a hub stores the servers they saw, to notify them when a server removes its last item."""
HUB_SEARCH_RESULTS: Final = 50
"""Tools that one search may return."""
HUB_LISTED_TOOL_NAMES: Final = 200
"""Tool names that the error for an unknown tool lists."""
HUB_INSTRUCTIONS_CHARACTERS: Final = 16_000
"""The instructions of the hub, composed of those of its servers."""
HUB_KNOWN_SERVERS: Final = 512
"""Servers whose names are stored between runs."""
HUB_SHOWN_NAMES: Final = 20_000
"""Names that were listed before and stay callable; the oldest are dropped first."""
STATE_FILE_TRIES: Final = 3
"""How often the file of those names is read if it cannot be parsed: another process may be writing it."""
HUB_VIEWS: Final = 100
"""Views of one hub."""
RESULT_BYTES: Final = 256 * 1024
"""The largest result that the hub forwards whole; larger ones become a link."""
RESULT_TTL_S: Final = 3600.0
"""How long such a link can be followed."""
RESULT_TOTAL_BYTES: Final = 256 * 1024 * 1024
"""Results kept for such links; when full, the tenant or caller with the most loses its oldest."""
STORED_RESULTS: Final = 256
"""Number of results kept for such links."""
PREVIEW_BYTES: Final = 4096
"""How much of such a result is sent with the link."""
RESULT_PAGE_BYTES: Final = 64 * 1024
"""How much of it one read returns."""
INLINE_BYTES: Final = 1024 * 1024
"""Images, audio and links of one result that stay in it, because models use them directly."""
WATCH_SETTLE_S: Final = 0.1
"""How long the files of a hub must be unchanged before they are read again."""
WATCH_POLL_S: Final = 2.0
"""How often they are checked even without a file system event."""

# -- the command line ------------------------------------------------------------
COMMAND_TIMEOUT_S: Final = 60.0
"""One request of a client on the command line, where the user sees that it waits."""
SAVED_NAME_CHARACTERS: Final = 64
"""The name of a file that a result was saved to, without its number and extension."""
SAVED_FILES: Final = 10_000
"""File names that are tried before saving fails."""
TYPED_LINE_BYTES: Final = 64 * 1024
"""One line that a person types in answer to a prompt."""
TYPED_TRIES: Final = 5
"""How often one field is asked for again after an invalid value."""
SCHEMA_REFERENCES: Final = 16
"""References to references that are followed in the schema of an argument."""
SCHEMA_ALTERNATIVES: Final = 64
"""Alternatives in the schema of an argument that are searched for its types."""

# -- diagnostics ---------------------------------------------------------------
CHECK_TIMEOUT_S: Final = 10.0
"""One check of `hubbub doctor`."""

CLIENT_START_TIMEOUT_S: Final = 20.0
"""How long `hubbub doctor` waits for a server that is registered in a client."""

# -- configuration files of MCP clients ------------------------------------------
CLIENT_FILE_BYTES: Final = 16 * 1024 * 1024
"""One such file; that of Claude Code also holds a history."""
CLIENT_YAML_CHARACTERS: Final = 512 * 1024
"""Of a YAML file, which takes seconds per MiB to parse."""
CLIENT_FILE_DEPTH: Final = 200
"""How deep its values may nest."""
IMPORTED_SERVERS: Final = 200
"""Servers in one file that `hubbub import` reads."""
IMPORTED_VALUES: Final = 1000
"""Arguments, variables and headers of one of them."""
CLIENT_COMMAND_TIMEOUT_S: Final = 60.0
"""One run of a client's own command, such as `claude mcp add`."""

# -- one agent -----------------------------------------------------------------
TOOL_DEFINITIONS: Final = 128
"""Tools that a model gets in one request."""
TOOL_DEFINITION_BYTES: Final = 200_000
"""Their definitions together, as JSON."""
DESCRIPTION_CHARACTERS: Final = 4096
"""The description of one tool of a remote server."""
TITLE_CHARACTERS: Final = 200
"""A remote server's title for a tool, and other short untrusted texts."""
REMOTE_NAME_CHARACTERS: Final = 1024
"""A tool's name on its own server; tools with longer names are left out."""
ARGUMENT_BYTES: Final = 200_000
"""The arguments of one tool call, as the model wrote them."""
TOOL_OUTPUT_BYTES: Final = 200_000
"""The output of one tool call that a model gets, as JSON."""
MIN_TOOL_OUTPUT_BYTES: Final = 1024
"""The smallest such limit: an envelope without any content must still fit."""
TOOL_OUTPUT_DEPTH: Final = 64
"""How deep the arguments and the output of a tool may nest."""
TOOL_OUTPUT_NODES: Final = 50_000
"""Values in the output of one tool."""
MODEL_TURNS: Final = 12
"""Answers of the model in one run."""
CALLS_PER_TURN: Final = 64
"""Tool calls that a model may make in one answer; more are left out."""
CALL_ID_CHARACTERS: Final = 128
"""A model's id for a tool call."""
EVENT_TEXT_BYTES: Final = 200
"""One text in an event: a context value, the message of a failed policy."""
CONFIRMATION_TTL_S: Final = 3600.0
"""How long a run that waits for a confirmation can be resumed."""
PAUSED_RUNS: Final = 10_000
"""Resumed runs that a runner remembers, so that none is resumed twice."""
MODEL_TIMEOUT_S: Final = 120.0
"""One answer of a model, from the request to its last byte."""
MODEL_RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""One answer of a model."""
MODEL_RETRIES: Final = 3
"""Retries of a model request after a temporary error status, such as 429 or 503."""
MODEL_RETRY_MAX_S: Final = 60.0
"""The longest `Retry-After` of a model's endpoint that a run waits for; a longer one ends the run."""
TOOL_IMAGES: Final = 8
"""Images of one tool call that are given to a model."""
TOOL_IMAGE_CHARACTERS: Final = 8 * 1024 * 1024
"""Base64 characters of all images of one tool call that are given to a model."""

# -- authorization ---------------------------------------------------------------
AUTHORIZATION_RETRIES: Final = 5
"""How often a request is sent again because it was refused for want of a token, nonce or scope."""

# -- databases -------------------------------------------------------------------
SQL_READERS: Final = 4
"""Connections to an SQLite file that read at the same time; one more writes."""
SQL_CONNECTIONS: Final = 8
"""Connections to a PostgreSQL server."""
SQL_WAIT_S: Final = 10.0
"""How long to wait for a database that others have locked, or for a connection to it."""
SQL_STATEMENT_TIMEOUT_S: Final = 30.0
"""One statement on a PostgreSQL server."""

# -- charts ----------------------------------------------------------------------
CHART_FONTS: Final = 500
"""Installed fonts that are searched for the characters of one picture."""
LABEL_CHARACTERS: Final = 1000
"""How much of a text is used for a label; no label is that long."""

# -- settings files --------------------------------------------------------------
SETTINGS_FILE_BYTES: Final = 1024 * 1024
"""One settings file."""
SETTINGS_DEPTH: Final = 32
"""How deep its sections and lists may nest."""
TRUSTED_FILES: Final = 256
"""Files that the settings file of a folder may refer to, if it is to be trusted."""
SHOWN_KEYS: Final = 20
"""Keys of a file that are named in one message."""
