"""The command `hubbub`. Each subcommand is a module of its own, imported when it is used."""
