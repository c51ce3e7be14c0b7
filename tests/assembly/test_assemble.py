"""What settings describe but this version cannot build is refused, not ignored."""

import pytest

from hubbub.assembly.assemble import assemble
from hubbub.errors import SettingsError
from hubbub.settings import ServeSettings


def test_servers_of_an_mcp_json_are_refused_rather_than_left_out() -> None:
    with pytest.raises(SettingsError, match="mcp_json"):
        assemble(ServeSettings(mcp_json="mcp.json"))
