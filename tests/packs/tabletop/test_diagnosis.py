"""The check of `hubbub doctor` for the campaign database."""

from pathlib import Path

import pytest

from hubbub import Secret
from hubbub.packs.tabletop.model import GmMode
from hubbub.packs.tabletop.pack import campaigns
from hubbub.packs.tabletop.settings import TabletopSettings
from hubbub.packs.tabletop.store_backend import StoreBackend, default_path


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


async def test_the_check_does_not_create_a_database(data_folder: Path) -> None:
    check = await campaigns(TabletopSettings())
    assert check.ok
    assert check.detail == f"will be stored in {default_path()}"
    assert list(data_folder.iterdir()) == []


async def test_without_settings_campaigns_are_stored_in_the_data_folder(data_folder: Path) -> None:
    backend = StoreBackend(None)
    await backend.create_campaign("A", GmMode.AI)
    await backend.close()
    assert default_path().is_relative_to(data_folder)
    check = await campaigns(TabletopSettings())
    assert (check.ok, check.detail) == (True, f"stored in {default_path()}")


async def test_a_broken_database_is_reported_with_advice(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"x" * 5000)
    check = await campaigns(TabletopSettings(database=Secret(f"sqlite:///{tmp_path / 'a.db'}")))
    assert not check.ok
    assert "HUBBUB_TABLETOP_DATABASE" in check.advice
