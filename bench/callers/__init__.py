"""Clients under test: scripts that call a bare server and print the measurements of their own process as JSON."""
