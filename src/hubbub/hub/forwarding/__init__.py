"""Forwards calls to a remote server: the forwarded call, the pool of sessions, and the link that owns them."""
