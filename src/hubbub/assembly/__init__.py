"""Putting a server together: the user's program, or packs, or both, with their settings.

`assemble.assemble` does it, with `targets` for programs, `entries` for the packs that are
installed, `installing` to put packs on a server, and `checking` for settings that belong to
nobody. Like `hubbub.app` it knows every part; that one runs what this one builds. The
command line calls both.
"""
