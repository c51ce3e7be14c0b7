"""The activity pack: what the person is doing now, from ActivityWatch and from the screen.

http, watch_server, sidecar_client   how both are asked: read-only, bounded, in time
privacy, private_texts               what nobody is told: pure
sources                              the one way from the first to everything else, through the second
frames                               the three calls of the contract
now, summary, timeline, query        what is made of events: `transforms`, `categories`, `periods`
sidecar/                             a process of its own, that looks at the screen
"""
