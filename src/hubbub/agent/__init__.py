"""Gives a model the tools of MCP servers: adapts them, runs its calls, and loops until it is done.

`ToolRegistryBuilder` connects and returns a `Snapshot`; `ToolsBuilder` makes the surface
that the model sees, `ExecutorBuilder` what runs its calls, `ToolLoopRunner` the loop.
"""
