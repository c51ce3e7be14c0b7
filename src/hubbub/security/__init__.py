"""Keys, seals and redaction: what keeps callers honest and secrets secret.

Imports only the protocol layer; server, client and hub build on it.
"""
