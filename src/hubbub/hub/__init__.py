"""The hub: many servers and packs behind one endpoint.

A hub is a peer that picks a peer. `upstream` is one server behind it, `remote` and
`local` are the two kinds; `catalog` says what they have under which names, `front` shows a
view of it as a server. Nothing here knows bytes or transports.
"""
