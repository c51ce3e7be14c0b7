"""The tools of the pack, one kind in each file; `register(table)` adds them to the table's server.

They convert arguments and fill in missing ones from the context. All other errors are raised by the backend.
"""
