"""Builds a server from the settings: the user's program, packs, or both.

`assemble.assemble` does it, with `targets` for programs, `pack_discovery` for the installed packs, `pack_installation`
to install packs on a server, and `settings_checks` for unknown settings. Like `hubbub.app` it depends on every part;
`hubbub.app` runs what this package builds. The command line calls both.
"""
