"""Clients under test: each a script that calls a bare server and prints what its own process spent, as JSON."""
