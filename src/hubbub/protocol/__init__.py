"""The protocol without I/O: bytes to messages, messages to bytes, and the rules between.

Nothing here opens a socket, starts a task or reads a clock. Everything else may
import it; it imports only `hubbub.errors`, `hubbub.suggestions` and `hubbub.bounds`, and for types `hubbub.ports`.
"""
