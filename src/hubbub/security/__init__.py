"""Authentication, rate limits, sealing, redaction and policies.

Imports only the protocol layer; server, client and hub build on it.
"""
