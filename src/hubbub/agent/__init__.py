"""Gives a model the tools of MCP servers: adapts them, runs its calls, and loops until it is done.

`ToolRegistryBuilder` connects and returns a `Snapshot`; `ToolsBuilder` builds the registry that the model sees,
`ExecutorBuilder` the executor of its calls, and `ToolLoopRunner` runs the loop.
"""
