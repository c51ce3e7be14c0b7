"""The limits of the packs that come with Hubbub. Everybody finds them in `bounds`, beside the others."""

from typing import Final

# -- the activity pack ------------------------------------------------------------
ACTIVITY_CONNECT_S: Final = 2.0
"""One connection to ActivityWatch or the sidecar; both are usually on this machine."""
ACTIVITY_CALL_S: Final = 5.0
"""One short question to either, unless the settings say otherwise."""
ACTIVITY_INFO_S: Final = 30.0
"""How long what ActivityWatch says of itself is believed, while it answers other questions."""
ACTIVITY_PROMPT_S: Final = 0.25
"""How soon it must answer those for that."""
ACTIVITY_EVENTS_S: Final = 30.0
"""One reading of many events, and all the work that one tool does with them."""
ACTIVITY_PARSE_S: Final = 60.0
"""One reading of the screen; recognising text takes seconds."""
ACTIVITY_BODY_BYTES: Final = 4 * 1024 * 1024
"""One short answer of either: a list of buckets has a few kilobytes."""
ACTIVITY_ABOUT_BYTES: Final = 128 * 1024
"""What ActivityWatch or the sidecar says of itself, or of its trouble in a page for people."""
ACTIVITY_BUCKETS: Final = 5000
"""Buckets of one ActivityWatch; people have a few dozen."""
ACTIVITY_FEW: Final = 100
"""Buckets that are gone through at once; more of them in a thread, so that others need not wait."""
ACTIVITY_EVENTS_BYTES: Final = 64 * 1024 * 1024
"""One answer with events; a hundred thousand have about 20 MB."""
ACTIVITY_EVENTS: Final = 100_000
"""Events of one bucket that one tool looks at, and events that a query may make."""
ACTIVITY_DAYS: Final = 366
"""The longest period that can be asked about."""
ACTIVITY_ROWS: Final = 500
"""Rows of one summary or timeline, and events in the result of one query."""
ACTIVITY_VALUES: Final = 20_000
"""Values in the result of one query."""
ACTIVITY_TEXT_CHARACTERS: Final = 1000
"""A title, address or line of text, as it is told."""
ACTIVITY_JUDGED_CHARACTERS: Final = 16_000
"""The same, as rules look at it: what makes it private may stand behind what is told."""
ACTIVITY_DEPTH: Final = 32
"""How deep what is told of one event, bucket or probe nests; what lies deeper is not told."""
ACTIVITY_CATEGORIES: Final = 500
"""Categories of one summary."""
ACTIVITY_KEYS: Final = 50
"""Keys by which a query merges events: each event is looked at for each of them."""
QUERY_CHARACTERS: Final = 10_000
"""One query."""
QUERY_STATEMENTS: Final = 100
"""Statements of one query."""
QUERY_DIGITS: Final = 20
"""Digits of one number in it."""
QUERY_DEPTH: Final = 16
"""How deep its calls, lists and objects may nest."""
PATTERN_CHARACTERS: Final = 500
"""A regular expression that a caller gives."""
PATTERN_TEXT_CHARACTERS: Final = 256
"""What it is compared with."""
PATTERN_WAYS: Final = 2 * PATTERN_TEXT_CHARACTERS**2
"""In how many ways it may match at one place: two `.*` in each of two alternatives. More take seconds for one text."""
PATTERN_S: Final = 5.0
"""How long the patterns of one question may look for what they mean."""
CLOCK_SKEW_S: Final = 5.0
"""How far into the future an event may reach before the clocks are said to differ."""
CLOCK_AHEAD_S: Final = 600.0
"""How far before a machine is taken for the last at work only if there is no other."""
SIDECAR_BODY_BYTES: Final = 32 * 1024 * 1024
"""One request to the sidecar, with its picture."""
SIDECAR_PIXELS: Final = 40_000_000
"""The largest picture that it looks at: two screens of 5120 by 2880."""
SIDECAR_REQUEST_S: Final = 30.0
"""How long one request to it may take to arrive."""
SIDECAR_PROBE_S: Final = 5.0
"""How long what it found out about itself is told again."""
OCR_S: Final = 30.0
"""One run of the program that recognises text."""
ACCESSIBILITY_S: Final = 5.0
"""One reading of the accessibility tree."""
SCREEN_ELEMENTS: Final = 2000
"""Elements of one screen."""

# -- the tabletop pack -----------------------------------------------------------
INT32: Final = 2**31 - 1
"""The largest number of 32 bits with a sign."""
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
"""That of one that a document brings along: the longest text fits, when all of it must be escaped."""
TABLE_EVENT_TYPE_CHARACTERS: Final = 64
"""The name of a kind of event."""
TABLE_PAGE: Final = 50
"""Records on one page of a keeper of campaigns, unless its caller says otherwise."""
TABLE_LARGEST_PAGE: Final = 500
"""Records on its largest page."""
TABLE_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""One message of a keeper in another process: the largest page of the largest records fits."""
TABLE_CALL_S: Final = 5.0
"""One request to a keeper of campaigns in another process."""
TABLE_WHOLE_CALL_S: Final = 120.0
"""One that goes through all of a campaign: to check its events, to give it out or to take it in."""
TABLE_HEALTH_S: Final = 5.0
"""How often a campaign server looks whether its database works."""
TABLE_GRACE_S: Final = 5.0
"""How long running calls may go on when it stops."""
TABLE_READY_S: Final = 3.0
"""How long a call waits for one that cannot be reached before it gives up."""
TABLE_CONTEXTS: Final = 10_000
"""Callers whose context is remembered; of more, those that used theirs least recently lose it."""
TABLE_CONTEXT_S: Final = 24 * 3600.0
"""How long an unused context is remembered, and how long a context id is good."""
NOTATION_CHARACTERS: Final = 500
"""One text that says which dice to throw."""
NOTATION_NUMBER: Final = 1_000_000
"""The largest number that it adds to them."""

# -- the peers pack --------------------------------------------------------------
PEER_FRAME_BYTES: Final = 262_144
"""One message on a data channel: what the original takes, and what we say we take."""
PEER_QUEUE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that wait on one channel before sending more is refused; the library itself breaks at 16 MiB."""
PEER_HIGH_WATER_BYTES: Final = 1024 * 1024
"""Bytes that wait on one channel before a sender of files pauses."""
PEER_LOW_WATER_BYTES: Final = 256 * 1024
"""Bytes at which it goes on."""
PEER_DESCRIPTION_BYTES: Final = 64 * 1024
"""One session description."""
PEERS_IN_A_ROOM: Final = 80
"""Peers that one session is connected to at once."""
PEERS_TOO_MANY_S: Final = 10.0
"""How often it is told that somebody found no place."""
PEER_OFFERS: Final = 20
"""Offers and wishes for offers of one peer within `PEER_OFFERS_S`; more are ignored."""
PEER_OFFERS_S: Final = 60.0
"""See `PEER_OFFERS`."""
PEER_TURNS: Final = 8
"""Connections that a process asks for at once; further ones wait until it is their turn."""
PEER_TURN_S: Final = 2.0
"""How long one may take before the next is let in all the same: some never answer."""
PEER_CANDIDATES: Final = 100
"""Addresses of one peer that are kept until its description comes."""
PEER_GATHER_S: Final = 3.0
"""How long a description waits for our own addresses; later ones follow it."""
PEER_CONNECT_S: Final = 20.0
"""One connection to a peer, from the offer to an open channel."""
PEER_PING_S: Final = 3.0
"""How long a peer may be quiet before it is asked whether it is there, and then again."""
PEER_PING_LATER_S: Final = 1.0
"""How much longer the publisher of a connection waits: that the viewer asked is answer enough."""
PEER_DEAD_S: Final = 8.0
"""How long it may be quiet before it is taken for dead."""
PEER_RECOVERY_S: Final = 5.0
"""How long a connection may be interrupted before another way is looked for."""
PEER_VIEW_GRACE_S: Final = 1.5
"""How long the one whose turn it is not waits for the other to ask for a connection."""
PEER_ANSWER_S: Final = 5.0
"""How long the answer to a wish for a connection may take to begin."""
PEER_CLAIM_S: Final = 2.0
"""How long somebody whose name another claims may take to answer."""
PEER_TARGET_S: Final = 15.0
"""How long a first connect waits for the peer that it names."""
PEER_NESTING: Final = 100
"""How deep arrays and objects of one frame may nest."""
PEER_REPLAY_WINDOW: Final = 1024
"""Messages of one peer that may overtake each other on different channels."""
PEER_KEYS: Final = 1024
"""Session keys whose counters are remembered."""
PEER_REFUSALS: Final = 20
"""Events about what is refused of one peer in a row; what comes after is refused in silence."""
PEER_NAME_CHARACTERS: Final = 64
"""A stream id; longer ones are cut."""
ROOM_NAME_CHARACTERS: Final = 30
"""A room's name; longer ones are cut."""
STATE_CLOCK: Final = 2**52
"""The highest clock that is taken from others: JavaScript can count on from there."""
STATE_KEY_CHARACTERS: Final = 1024
"""A key of the shared state."""
STATE_CLOCK_AHEAD_MS: Final = 24 * 3600 * 1000
"""How far a clock of others may be ahead of Unix time in milliseconds; nobody writes that often."""
STATE_ENTRY_BYTES: Final = PEER_FRAME_BYTES - 4096
"""One key and its value as JSON: with its envelope it has to fit into a frame."""
STATE_KEYS: Final = 2048
"""Keys of one session, unless it says otherwise."""
STATE_KEYS_CAP: Final = 50_000
"""The most that a session may say."""
STATE_SNAPSHOT_ENTRIES: Final = 4096
"""Entries of one message of a snapshot, unless a session says otherwise."""
STATE_SNAPSHOT_ENTRIES_CAP: Final = 100_000
"""The most that a session may say."""
STATE_BYTES: Final = 16 * 1024 * 1024
"""All keys and values of one session."""
STATE_PAGE_BYTES: Final = 48 * 1024
"""Entries of one message of a snapshot, unless one alone is larger."""
STATE_SNAPSHOT_S: Final = 1.0
"""A peer is sent a snapshot, and asked for one, at most this often."""
STATE_SNAPSHOT_REST_S: Final = 30.0
"""The longest pause after a snapshot that took long to send."""
STATE_SNAPSHOT_PAUSE_S: Final = 120.0
"""A peer whose snapshots bring nothing new is asked less and less, but at least this often while the two differ."""
STATE_NOTICES: Final = 100
"""Entries of one message of a snapshot that are told of one by one."""

# -- sessions of the peers pack ----------------------------------------------------
PEER_SESSIONS: Final = 32
"""Sessions of one server, those that are just being made included."""
PEER_SESSION_IDLE_S: Final = 24 * 3600.0
"""How long nobody may use a session before it is closed."""
PEER_EVENTS: Final = 2000
"""Events that wait to be read; of more, the oldest are dropped."""
PEER_EVENTS_BYTES: Final = 16 * 1024 * 1024
"""What they may take as JSON."""
PEER_EVENTS_ANSWER_BYTES: Final = 1024 * 1024
"""Events of one answer; more are in the next, and one that is larger comes alone."""
PEER_GOODBYE_S: Final = 5.0
"""How long a session may take to leave when the server stops."""

# -- files between peers ---------------------------------------------------------
FILE_CHUNK_BYTES: Final = 65_536
"""One chunk of a file, unless somebody wants another size."""
FILE_CHUNK_LEAST: Final = 1024
"""The smallest chunk."""
FILE_CHUNK_MOST: Final = 262_144
"""The largest chunk; less where a frame would become too large."""
FILE_MAX_BYTES: Final = 67_108_864
"""The largest file, unless a session says otherwise."""
FILE_MAX_BYTES_CAP: Final = 8 * 1024**3
"""The largest that a session may say."""
FILE_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""What another Hubbub may have been sent and not yet confirmed."""
FILE_ENVELOPE_WINDOW_BYTES: Final = 1024 * 1024
"""The same for chunks in envelopes, which are read one by one."""
FILE_BACKLOG_BYTES: Final = 2 * FILE_WINDOW_BYTES
"""Bytes of one transfer that wait to be written; what comes above that is thrown away and has to be sent again."""
FILE_BLOCK_BYTES: Final = 4 * 1024 * 1024
"""What is read from a disk or written to it at once."""
FILE_ENVELOPE_OVERHEAD: Final = 1024
"""What an envelope adds to the base64 of a chunk, at most: names of 64 and ids of 256 characters included."""
FILE_INCOMING_OF_ONE_PEER: Final = 8
"""Transfers of one peer that are not finished."""
FILE_INCOMING_IN_ALL: Final = 256
"""Of all peers together."""
FILE_QUOTA_FILES: Final = 4
"""How many of the largest files one peer may have here at once, in bytes, finished ones included."""
FILE_QUOTA_PEERS: Final = 16
"""How many times that all peers together may have."""
FILES_KEPT: Final = 12
"""Finished transfers that are remembered: of each peer that sends, and of all that we sent."""
FILES_KEPT_IN_ALL: Final = 256
"""Finished transfers of all peers."""
FILES_SENT_AT_ONCE: Final = 32
"""Transfers that one session sends at once."""
FILE_IDLE_S: Final = 900.0
"""How long an unfinished transfer waits for its sender before its place may be given away."""
FILE_ANSWER_S: Final = 1.0
"""How long an offer and the end of a file may go unanswered at least, however impatient a caller is."""
FILE_GREETING_S: Final = 1.0
"""How long a transfer waits for a peer that just came to say who it is, and for the way of bytes to it."""
FILE_GAPS: Final = 64
"""Gaps that a receiver tells of at once."""
FILE_NOTICES: Final = 32
"""How many parts of one transfer are told of one by one."""
FILE_NAME_CHARACTERS: Final = 200
"""A file's name as a peer gives it; longer ones are cut."""
FILE_ANSWER_BYTES: Final = 1024 * 1024
"""The largest file that a tool answers with; the answer, which holds it twice, fits into one message."""
FILE_TIMEOUT_MS: Final = 86_400_000
"""The longest that a caller may wait for a transfer."""
FILE_ACK_TIMEOUT_MS: Final = 30_000
"""The longest that it may wait for a part."""
FILE_RETRIES: Final = 1000
"""The most that it may want a part to be tried again."""

# -- the signalling server -------------------------------------------------------
SIGNAL_MESSAGE_BYTES: Final = 256 * 1024
"""One message; an encrypted description takes a few thousand bytes."""
SIGNAL_JOIN_S: Final = 10.0
"""How long a client waits for the list of a room."""
SIGNAL_IDLE_S: Final = 60.0
"""How long a client may be silent, its answers to pings included."""
SIGNAL_JOIN_GRACE_S: Final = 30.0
"""How long a client may stay without a room."""
SIGNAL_CLIENTS: Final = 5000
"""Clients at once."""
SIGNAL_CLIENTS_OF_ONE_ADDRESS: Final = 256
"""Of one address."""
SIGNAL_CLIENTS_OF_ONE_ROOM: Final = 200
"""In one room."""
SIGNAL_MESSAGES: Final = 600
"""Messages of one client within `SIGNAL_MESSAGES_S`; more, and it is parted with."""
SIGNAL_MESSAGES_S: Final = 10.0
"""See `SIGNAL_MESSAGES`."""
SIGNAL_QUEUE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that wait for one client before it is parted with."""
SIGNAL_NAME_CHARACTERS: Final = 256
"""A room or stream id on the wire."""
SIGNAL_OFFLINE: Final = 30
"""Messages that a client keeps while it has no connection."""
