"""The activity pack: what the user is doing now, from ActivityWatch and from the screen.

http, watch_server, sidecar_client   read-only clients of both, with timeouts and size limits
privacy, private_texts               which data is hidden: pure
sources                              applies privacy to all data of the clients; the only access to it
frames                               the three calls of the contract
now, summary, timeline, query        reports on events, with `transforms`, `categories` and `periods`
sidecar/                             a separate process that reads the screen
"""
