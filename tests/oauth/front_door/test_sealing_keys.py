"""Processes that share a database need the same sealing key; otherwise the operator learns why logins fail."""

import logging
from pathlib import Path

import pytest
from tests.interop.external_servers import free_port
from tests.oauth.front_door.door_site import open_door
from tests.oauth.front_door.test_hub import open_hub

PROBLEM = "has another sealing key, so logins fail; give all processes the same sealing_key_file"


async def test_a_process_with_another_sealing_key_logs_and_reports_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    port = free_port()  # both have the same URL: a database belongs to one
    monkeypatch.setattr("tests.oauth.front_door.test_hub.free_port", lambda: port)
    async with open_door(tmp_path / "other", database=f"sqlite:///{tmp_path / 'oauth.db'}", port=port):
        pass
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "hubbub.oauth"):
        async with open_hub(tmp_path) as hub:  # its sealing key is another
            [problem] = (await hub.administer("hub.status", {}))["problems"]
            assert PROBLEM in problem
    [record] = caplog.records
    assert record.message == "oauth_sealing_key_differs"
    assert PROBLEM in record.__dict__["reason"]
