"""File transfer between peers: complete or not at all, in constant memory, restricted to allowed folders.

`files.Files` handles one session: envelopes from the room, and calls of the tools. `sender` and `receiver` are the two
ends of a transfer; `path_sandbox` is the only module that opens the files of callers.
"""
