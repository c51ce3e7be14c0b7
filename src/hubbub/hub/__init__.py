"""The hub: many servers and packs behind one endpoint.

A hub is a peer that picks a peer. `upstream` is one server behind it, `remote` and
`local` are the two kinds; nothing here knows bytes or transports.
"""
