"""Bytes in and out: stdio, HTTP, WebSocket, memory. Knows framing, nothing of calls."""
