"""Limits of the peers pack. Sizes are in bytes, times in seconds, unless the name says otherwise."""

from typing import Final

PEERS_MESSAGE_BYTES: Final = 1_048_576
"""One message of a client to a server that serves this pack alone; the contract's value."""
PEER_FRAME_BYTES: Final = 262_144
"""One message on a data channel: the limit of the VDO.Ninja bridge, and the one that we announce."""
PEER_QUEUE_BYTES: Final = 4 * 1024 * 1024
"""Bytes queued on one channel before sending more is refused; the library itself fails at 16 MiB."""
PEER_HIGH_WATER_BYTES: Final = 1024 * 1024
"""Bytes queued on one channel before a file sender pauses."""
PEER_LOW_WATER_BYTES: Final = 256 * 1024
"""Bytes queued at which it continues."""
PEER_DESCRIPTION_BYTES: Final = 64 * 1024
"""One session description."""
PEERS_PER_ROOM: Final = 80
"""Peers that one session is connected to at once."""
PEER_REFUSAL_EVENT_S: Final = 10.0
"""Minimum time between two events that report refused peers, for instance because the room is full."""
PEER_OFFERS: Final = 20
"""Offers and requests for offers of one peer within `PEER_OFFERS_S`; further ones are ignored."""
PEER_OFFERS_S: Final = 60.0
"""See `PEER_OFFERS`."""
PEER_CONCURRENT_CONNECTS: Final = 8
"""Connections that a process starts at once; further ones wait for their turn."""
PEER_CONNECT_SLOT_S: Final = 2.0
"""Time after which the next connection starts even if this one is not finished: some peers never answer."""
PEER_CANDIDATES: Final = 100
"""ICE candidates of one peer that are queued until its description arrives."""
PEER_GATHER_S: Final = 3.0
"""How long a description waits for our own ICE candidates; later ones are sent separately."""
PEER_CONNECT_S: Final = 20.0
"""One connection to a peer, from the offer to an open channel."""
PEER_PING_S: Final = 3.0
"""Silence of a peer before it is pinged, and time between pings."""
PEER_PING_PUBLISHER_DELAY_S: Final = 1.0
"""Extra silence before the publisher of a connection pings: a ping of the viewer is a sign of life already."""
PEER_SILENCE_TIMEOUT_S: Final = 8.0
"""Silence after which a peer counts as dead."""
PEER_VIEW_GRACE_S: Final = 1.5
"""How long the peer with the greater stream id waits for an offer before it makes one itself."""
PEER_RESPONSE_TIMEOUT_S: Final = 5.0
"""How long an offer, or a request for one, may go unanswered."""
PEER_CLAIM_S: Final = 2.0
"""How long a peer may take to answer when another one claims its name."""
PEER_TARGET_S: Final = 15.0
"""How long a first connect waits for its target peer."""
PEER_NESTING: Final = 100
"""How deep arrays and objects of one frame may nest."""
PEER_REPLAY_WINDOW: Final = 1024
"""Messages of one peer that may overtake each other on different channels."""
PEER_KEYS: Final = 1024
"""Session keys whose counters are remembered."""
PEER_REFUSALS: Final = 20
"""Events about refused messages of one peer since its last accepted hello; later refusals cause no event."""
PEER_NAME_CHARACTERS: Final = 64
"""A stream id; longer ones are cut."""
ROOM_NAME_CHARACTERS: Final = 30
"""A room's name; longer ones are cut."""
STATE_CLOCK_MAX: Final = 2**52
"""The highest clock that is accepted from peers; JavaScript can still count on from there."""
STATE_KEY_CHARACTERS: Final = 1024
"""A key of the shared state."""
STATE_CLOCK_AHEAD_MS: Final = 24 * 3600 * 1000
"""How far the clock of a peer may be ahead of Unix time in milliseconds; no peer writes that often."""
STATE_ENTRY_BYTES: Final = PEER_FRAME_BYTES - 4096
"""One key and its value as JSON: with its envelope it has to fit into a frame."""
STATE_KEYS: Final = 2048
"""Default number of keys that one source may fill in a session; the others have a reserve of a seventh more."""
STATE_DELETED_KEYS: Final = 4096
"""Deleted keys that are remembered; older ones are forgotten, and a peer that was away can bring them back."""
STATE_KEYS_CAP: Final = 50_000
"""The largest value that a session may set."""
STATE_SNAPSHOT_ENTRIES: Final = 4096
"""Default number of entries in one message of a snapshot."""
STATE_SNAPSHOT_ENTRIES_CAP: Final = 100_000
"""The largest value that a session may set."""
STATE_BYTES: Final = 16 * 1024 * 1024
"""Size of the keys and values that one source may fill in a session; the others have a reserve of a seventh more."""
STATE_PAGE_BYTES: Final = 48 * 1024
"""Size of the entries in one message of a snapshot, unless a single entry is larger."""
STATE_SNAPSHOT_S: Final = 1.0
"""Minimum time between two snapshots to a peer, and between two requests for one."""
STATE_SNAPSHOT_PAUSE_MAX_S: Final = 30.0
"""The longest pause after a snapshot that took long to send."""
STATE_SNAPSHOT_REQUEST_MAX_S: Final = 120.0
"""Longest time between requests to a peer whose snapshots bring nothing new, while the two states differ."""
STATE_SNAPSHOT_EVENTS: Final = 100
"""Entries in one message of a snapshot that cause an event each."""

# -- sessions ----------------------------------------------------------------------
PEER_SESSIONS: Final = 32
"""Sessions of one server, including those that are being opened."""
PEER_SESSION_IDLE_S: Final = 24 * 3600.0
"""How long a session may be unused before it is closed."""
PEER_EVENTS: Final = 2000
"""Events queued for reading; above that, old ones are dropped."""
PEER_EVENTS_BYTES: Final = 16 * 1024 * 1024
"""Size of the queued events as JSON."""
PEER_EVENTS_ANSWER_BYTES: Final = 1024 * 1024
"""Size of the events in one answer; the rest stay for the next one, and a larger event is returned alone."""
PEER_EVENTS_READ: Final = 500
"""Events that one `vdo_receive` returns."""
PEER_EVENTS_WAIT_MS: Final = 30_000
"""How long `vdo_receive` may wait for an event."""
PEER_LEAVE_TIMEOUT_S: Final = 5.0
"""How long a session may take to leave its room when the server stops."""

# -- files between peers ---------------------------------------------------------
FILE_CHUNK_BYTES: Final = 65_536
"""Default size of a chunk."""
FILE_CHUNK_MIN_BYTES: Final = 1024
"""The smallest chunk."""
FILE_CHUNK_MAX_BYTES: Final = 262_144
"""The largest chunk; smaller if a frame would exceed its limit."""
FILE_MAX_BYTES: Final = 67_108_864
"""Default size of the largest file."""
FILE_MAX_BYTES_CAP: Final = 8 * 1024**3
"""The largest value that a session may set."""
FILE_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Unacknowledged bytes in flight to another Hubbub."""
FILE_ENVELOPE_WINDOW_BYTES: Final = 1024 * 1024
"""The same for chunks in envelopes, which are read one by one, over a path with a long delay."""
FILE_ENVELOPE_WINDOW_MIN_BYTES: Final = 128 * 1024
"""The same over a path without delay: more would only queue in the receiver's socket, and be lost there."""
FILE_BACKLOG_BYTES: Final = 2 * FILE_WINDOW_BYTES
"""Bytes of one transfer that wait to be written; further ones are dropped and have to be sent again."""
FILE_BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Bytes read from or written to a disk at once."""
FILE_ENVELOPE_OVERHEAD_BYTES: Final = 1024
"""Largest overhead of an envelope over the base64 of a chunk, with names of 64 and ids of 256 characters."""
FILE_INCOMING_PER_PEER: Final = 8
"""Unfinished transfers of one peer."""
FILE_INCOMING_TOTAL: Final = 256
"""Unfinished transfers of all peers."""
FILE_QUOTA_FILES: Final = 4
"""Quota of one peer, as a multiple of the largest file size; finished files count."""
FILE_QUOTA_PEERS: Final = 16
"""Quota of all peers, as a multiple of the quota of one."""
FILES_FINISHED_PER_PEER: Final = 12
"""Finished transfers that are kept: incoming ones of each peer, and outgoing ones of the session."""
FILES_FINISHED_TOTAL: Final = 256
"""Finished incoming transfers of all peers that are kept."""
FILE_CONCURRENT_SENDS: Final = 32
"""Transfers that one session sends at once."""
FILE_IDLE_S: Final = 900.0
"""How long an unfinished transfer waits for its sender before it may be discarded."""
FILE_RESPONSE_TIMEOUT_S: Final = 1.0
"""Minimum time to wait for the answer to an offer and to the end of a file, even if a caller sets less."""
FILE_HELLO_TIMEOUT_S: Final = 1.0
"""How long a transfer waits for the hello of a peer that just connected, and for its bulk channel."""
FILE_GAPS: Final = 64
"""Gaps that a receiver reports in one message."""
FILE_CHUNK_EVENTS: Final = 32
"""Chunk events of one transfer."""
FILE_NAME_CHARACTERS: Final = 200
"""A file name from a peer; longer ones are cut."""
FILE_ID_CHARACTERS: Final = 256
"""A transfer id on the wire; longer ones are refused, and cut in events."""
FILE_ANSWER_BYTES: Final = 1024 * 1024
"""The largest file that a tool returns; the answer, which holds it twice, fits into one message."""
FILE_TIMEOUT_MS: Final = 86_400_000
"""The longest idle timeout that a caller may set for a transfer."""
FILE_ACK_TIMEOUT_MS: Final = 30_000
"""The longest timeout that a caller may set for the acknowledgement of a chunk."""
FILE_RETRIES: Final = 1000
"""The most retries that a caller may set."""

# -- the signalling server -------------------------------------------------------
SIGNAL_MESSAGE_BYTES: Final = 256 * 1024
"""One message; an encrypted description takes a few thousand bytes."""
SIGNAL_JOIN_S: Final = 10.0
"""How long a client waits for the member list of a room."""
SIGNAL_CHECK_S: Final = 3.0
"""How long the signalling server may take to answer `hubbub doctor`."""
SIGNAL_IDLE_S: Final = 60.0
"""How long a client may be silent; answers to pings count as activity."""
SIGNAL_JOIN_GRACE_S: Final = 30.0
"""How long a client may stay connected without joining a room or naming a stream id."""
SIGNAL_CLIENTS: Final = 5000
"""Clients of one server."""
SIGNAL_CLIENTS_PER_ADDRESS: Final = 256
"""Clients of one address; IPv6 addresses of one /64 count as one."""
SIGNAL_CLIENTS_PER_ROOM: Final = 200
"""Clients in one room."""
SIGNAL_MESSAGES: Final = 600
"""Messages of one client within `SIGNAL_MESSAGES_S`; a client that sends more is disconnected."""
SIGNAL_BYTES: Final = 2 * 1024 * 1024
"""Bytes of these messages: half of the queue of one client, so that no client alone can overflow another."""
SIGNAL_MESSAGES_S: Final = 10.0
"""See `SIGNAL_MESSAGES`."""
SIGNAL_QUEUE_BYTES: Final = 4 * 1024 * 1024
"""Bytes queued for one client before it is disconnected."""
SIGNAL_NAME_CHARACTERS: Final = 256
"""A room or stream id on the wire."""
SIGNAL_OFFLINE_MESSAGES: Final = 30
"""Messages that a client queues while it is disconnected."""
SIGNAL_OPEN_S: Final = 15.0
"""How long a client may take to send the request that opens its WebSocket."""
SIGNAL_CLOSE_S: Final = 2.0
"""How long closing one WebSocket may take."""
SIGNAL_ALERT_CHARACTERS: Final = 400
"""Text of one alert of the signalling server."""
JOIN_TOKEN_BYTES: Final = 8 * 1024
"""One join token."""

# -- misbehaving peers, and intervals -----------------------------------------------
PEER_BAD_FRAMES: Final = 100
"""Unreadable frames on one connection before it is closed."""
PEER_UNKNOWN_CHANNELS: Final = 8
"""Channels of unknown labels that the other end may open before the connection is closed."""
PEER_OFFER_ADDRESSES: Final = 10_000
"""Addresses whose recent offers are counted; above that, all counts start again."""
PEER_CANDIDATE_CHARACTERS: Final = 1024
"""One ICE candidate; longer ones are ignored."""
PEER_BULK_CONNECTIONS: Final = 4
"""Connections to one peer that carry file data."""
PEER_LABEL_CHARACTERS: Final = 200
"""The label of a session in a VDO.Ninja bridge; longer ones are cut."""
PEER_EVENT_TYPES: Final = 100
"""Types of events that one `vdo_receive` filters by."""
PEER_BYE_TIMEOUT_S: Final = 2.0
"""How long a peer may take to close a connection after our goodbye."""
PEER_CHECK_S: Final = 0.5
"""How often the peers of a room are checked."""
PEER_STALL_S: Final = 3.0
"""Time between two checks after which our own process counts as suspended."""
PEER_RETRY_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Pauses before a lost peer is retried; after the last one it is given up."""
PEER_STALE_S: Final = 60.0
"""Silence after which a peer may be shown as stale."""
PEER_SESSION_CHECK_S: Final = 60.0
"""How often unused sessions are looked for."""
PEER_PRELOAD_S: Final = 0.5
"""Delay after the start of a server before the WebRTC library is loaded, so that it does not delay first answers."""
ADMISSION_PEERS: Final = 5
"""Peers that one explanation of missing admission names."""
ADMISSION_REASON_CHARACTERS: Final = 200
"""One reason in such an explanation; it may be text from the peer."""
FILE_PENDING_ACKS: Final = 4096
"""Chunks of one transfer that wait for an acknowledgement each; further ones are covered by the next one."""
FILE_PROGRESS_S: Final = 0.2
"""Minimum time between two progress reports of a transfer."""
FILE_REASON_CHARACTERS: Final = 200
"""The reason of a refusal, as stated by the other end; longer ones are cut."""
STATE_TIME_CHARACTERS: Final = 40
"""The time of an entry, as stated by the other end; longer ones are dropped."""
SIGNAL_CLIENT_QUEUE: Final = 1000
"""Messages that a client queues for the signalling server, or from it while joining."""
SIGNAL_SEED_REFUSAL_S: Final = 0.3
"""How long to wait for a refusal of a signalling server that does not confirm stream ids."""
