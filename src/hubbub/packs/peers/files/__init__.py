"""Files between peers: whole or not at all, flat in memory, and nowhere but where they may be.

`files.Files` is one session's: it hears what the room brings and does what the tools ask.
`sender` and `receiver` are the two ends; `folders` is the only door to the disk.
"""
