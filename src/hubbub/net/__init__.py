"""Outgoing network access: every request that Hubbub makes goes through the client in this package."""
