"""The hub: many servers and packs behind one endpoint.

A hub is a peer that forwards each call to another peer. `upstream` is the interface of one server behind it, `remote`
and `local` implement it; `catalog` holds what they offer under the names that clients see, and `front` serves a view
of it. Nothing here depends on bytes or transports.
"""
