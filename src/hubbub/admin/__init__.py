"""Administration of a hub: functions that are tools at `/mcp/admin`, and that commands call on the running hub.

Each area is one module with a function `register(tools, part)`, where `part` is the narrow object that does the work.
`server.make_admin_server` puts the areas together; `unix_socket` serves them to the user who runs the hub.
"""
