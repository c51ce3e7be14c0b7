"""Limits of the activity pack. Sizes are in bytes, times in seconds, unless the name says otherwise."""

from typing import Final

CONNECT_TIMEOUT_S: Final = 2.0
"""One connection to ActivityWatch or the sidecar; both are usually on this machine."""
REQUEST_TIMEOUT_S: Final = 5.0
"""One short request to either, unless the settings say otherwise."""
INFO_CACHE_S: Final = 30.0
"""How long the answer of ActivityWatch's `/info` is cached."""
INFO_REUSE_TIMEOUT_S: Final = 0.25
"""The cached `/info` is used only if `/buckets` answers within this time."""
EVENTS_TIMEOUT_S: Final = 30.0
"""One read of many events, and all the work of one tool on them."""
SCREEN_READ_TIMEOUT_S: Final = 60.0
"""One read of the screen; text recognition takes seconds."""
RESPONSE_BYTES: Final = 4 * 1024 * 1024
"""One short response of either: a list of buckets has a few kilobytes."""
INFO_BYTES: Final = 128 * 1024
"""Response to `/info` or a probe, or an error page."""
BUCKETS: Final = 5000
"""Buckets of one ActivityWatch; users have a few dozen."""
BUCKETS_PER_TYPE: Final = 32
"""Buckets of each type that one answer uses, the most recently written ones; the answer names the others."""
WATCHER_SILENCE_S: Final = 600.0
"""How long a watcher may record nothing, while others on its machine do, before it is reported as stopped.
The AFK watcher records nothing while there is no input: for three minutes by default.
"""
INLINE_BUCKETS: Final = 100
"""Buckets that are processed on the event loop; more are processed in a thread, so that other calls need not wait."""
EVENTS_BYTES: Final = 64 * 1024 * 1024
"""One response with events; a hundred thousand have about 20 MB."""
EVENTS: Final = 100_000
"""Events of one bucket that one tool reads, and events that a query may produce."""
RECENT_TABS: Final = 10
"""Newest events of a browser watcher that are read: the event of a window may be later than that of its page."""
PERIOD_DAYS: Final = 366
"""The longest period of one request."""
TIMELINE_DAYS: Final = 31
"""The longest period of a timeline chart."""
RESULT_ROWS: Final = 500
"""Rows of one summary or timeline, and events in the result of one query."""
INTERVALS: Final = 768
"""Hours, days, weeks or months of one breakdown: a month has at most 745 hours."""
INTERVAL_ROWS: Final = 1000
"""Rows of all intervals of one breakdown together; each has at least one."""
EXPORT_ROWS: Final = 5000
"""Rows of one page of an export."""
EXPORT_BYTES: Final = 512 * 1024
"""Text of one page of an export."""
QUERY_VALUES: Final = 20_000
"""Values in the result of one query."""
TEXT_CHARACTERS: Final = 1000
"""A disclosed title, address or line of text."""
CHECKED_CHARACTERS: Final = 16_000
"""The same when rules are applied: the private part may come after the part that is disclosed."""
MASKING_PASSES: Final = 5
"""Passes that search a text for secrets: text beside a secret may match only after that secret was replaced."""
DATA_DEPTH: Final = 32
"""Nesting of disclosed data of one event, bucket or probe; deeper values are replaced."""
CATEGORIES: Final = 500
"""Categories of one summary."""
ACTIVITYWATCH_CATEGORIES: Final = 2000
"""Categories of ActivityWatch that are used; users have a few dozen."""
MERGE_KEYS: Final = 50
"""Keys by which a query merges events: each event is checked for each of them."""
QUERY_CHARACTERS: Final = 10_000
"""One query."""
QUERY_STATEMENTS: Final = 100
"""Statements of one query."""
QUERY_DIGITS: Final = 20
"""Digits of one number in a query."""
QUERY_DEPTH: Final = 16
"""Nesting of calls, lists and objects in a query."""
PATTERN_CHARACTERS: Final = 500
"""A regular expression in a request."""
PATTERN_TEXT_CHARACTERS: Final = 256
"""Characters of a text that such a pattern is matched against."""
PATTERN_WAYS: Final = 2 * PATTERN_TEXT_CHARACTERS**2
"""Ways to match at one position that a pattern may have: two `.*` in each of two alternatives. More take seconds."""
PATTERN_TIMEOUT_S: Final = 5.0
"""Matching time of all patterns of one request."""
CLOCK_SKEW_S: Final = 5.0
"""How far into the future an event may reach before a clock difference is reported."""
CLOCK_AHEAD_S: Final = 600.0
"""How far into the future before a machine is no longer chosen as the last active one, unless it is the only one."""
SIDECAR_BODY_BYTES: Final = 32 * 1024 * 1024
"""One request to the sidecar, with its picture."""
SIDECAR_PIXELS: Final = 40_000_000
"""The largest picture that the sidecar reads: two screens of 5120 by 2880."""
SIDECAR_REQUEST_TIMEOUT_S: Final = 30.0
"""How long one request to the sidecar may take to arrive."""
SIDECAR_CHALLENGE_MAX_S: Final = 60.0
"""How long after the sidecar's challenge the request that proves the token may come."""
SOCKET_PATH_BYTES: Final = 103
"""The longest path of a Unix socket that every system can bind."""
SIDECAR_PROBE_CACHE_S: Final = 5.0
"""How long the sidecar caches the result of its self-check."""
PAUSE_MAX_S: Final = 366 * 86400.0
"""The longest pause that ends by itself."""
DISCLOSURE_LOG_BYTES: Final = 2 * 1024 * 1024
"""One file of the disclosure log; about ten thousand calls."""
DISCLOSURE_LOG_FILES: Final = 4
"""Files of the disclosure log, including the current one."""
DISCLOSURE_LOG_CHARACTERS: Final = 200
"""One text in the disclosure log, such as the name of a client."""
OCR_TIMEOUT_S: Final = 30.0
"""One run of the text recognition program."""
ACCESSIBILITY_TIMEOUT_S: Final = 5.0
"""One read of the accessibility tree."""
SCREEN_ELEMENTS: Final = 2000
"""Elements of one screen."""
SCREEN_WINDOWS: Final = 2000
"""Windows of one screen, including menus and minimised ones; users have a few dozen."""
SCREEN_SHOWN_WINDOWS: Final = 500
"""Windows that are not minimised; computing which covers which takes 0.1 s for this many."""
SCREEN_WINDOW_DEPTH: Final = 8
"""Levels of frames that a window manager may put around a window."""
SCREEN_SHAPE_PARTS: Final = 200
"""Rectangles of which the shape of one window consists."""
TITLE_TAIL_BYTES: Final = 1024
"""Bytes at the end of a long window title that are read; browsers write the kind of window there."""
PROCESS_ARGUMENTS_BYTES: Final = 64 * 1024
"""The command line of one process, as far as it is read."""
CAPTURE_ATTEMPTS: Final = 3
"""Screenshots that are taken until no window moves during one."""
SNAPSHOT_TIMEOUT_S: Final = 60.0
"""One inspection of another Python environment."""
SNAPSHOT_BYTES: Final = 4 * 1024 * 1024
"""One stored snapshot of an environment."""
STATE_FILE_BYTES: Final = 1000
"""The file of a pause or of the sidecar's token; a longer file is invalid."""
QUOTED_CHARACTERS: Final = 300
"""Quote of a failed response in an error message."""
NAMES_IN_ERROR: Final = 20
"""Buckets or machines listed in an error message."""
SCREEN_NOTES: Final = 20
"""Notes of one reading of the screen."""
SIDECAR_REQUESTS: Final = 32
"""Concurrent requests to the sidecar."""
