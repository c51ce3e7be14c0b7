"""The tools of the pack, one kind in each file; `register(service)` adds them to the server.

They convert arguments and fill in missing ones from the context. All other errors are raised by the backend.
"""
