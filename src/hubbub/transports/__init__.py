"""Transports move framed bytes: stdio, HTTP, WebSocket and memory. They know nothing of calls."""
