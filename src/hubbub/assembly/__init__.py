"""Builds a server from the settings: the user's program, packs, or both.

`assemble.assemble` does it, with `targets` for programs, `entries` for the installed packs, `installing` to install
packs on a server, and `checking` for unknown settings. Like `hubbub.app` it depends on every part; `hubbub.app` runs
what this package builds. The command line calls both.
"""
