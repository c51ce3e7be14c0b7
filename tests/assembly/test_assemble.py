"""Building a server from settings: missing files are errors."""

import pytest

from hubbub import SettingsError
from hubbub.assembly.assemble import assemble
from hubbub.settings import ServeSettings


def test_a_missing_mcp_json_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"none\.json cannot be read"):
        assemble(ServeSettings(mcp_json="none.json"))
