"""Registers Hubbub in the configuration files of MCP clients, and reads what is registered there.

`clients` is the table of clients. The editors (`json_editor`, `toml_editor`, `yaml_editor`) change the text of one
entry and keep every other byte; `documents` chooses one by format and verifies its result.
"""
