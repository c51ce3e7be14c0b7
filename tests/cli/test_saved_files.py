"""Names of the files that results are saved to, which come from untrusted servers."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import SettingsError, bounds
from hubbub.cli.exit_codes import replace_controls
from hubbub.cli.saved_files import file_stem, save_file


@pytest.mark.parametrize(
    ("stem", "mime_type", "name"),
    [
        ("plot", "image/png", "plot.png"),
        ("plot", "image/png; charset=x", "plot.png"),
        ("../../etc/passwd", "text/plain", "etc_passwd.txt"),
        (".bashrc", "no/such", "bashrc.bin"),
        ("-rf", "", "rf.bin"),
        ("", "audio/wav", "result.wav"),
        ("naïve plan", "image/jpeg", "na_ve_plan.jpg"),
    ],
)
def test_a_name_is_made_safe(tmp_path: Path, stem: str, mime_type: str, name: str) -> None:
    path = save_file(b"x", stem=stem, mime_type=mime_type, folder=tmp_path)
    assert path == tmp_path / name
    assert path.read_bytes() == b"x"


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    names = [save_file(b"%d" % number, stem="a", mime_type="image/png", folder=tmp_path).name for number in range(3)]
    assert names == ["a.png", "a-2.png", "a-3.png"]
    assert (tmp_path / "a.png").read_bytes() == b"0"


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be written: No such file"):
        save_file(b"x", stem="a", mime_type="image/png", folder=tmp_path / "nowhere")


@given(st.text(max_size=200))
def test_no_uri_causes_a_write_outside_the_folder(tmp_path_factory: pytest.TempPathFactory, uri: str) -> None:
    folder = tmp_path_factory.mktemp("saved")
    path = save_file(b"x", stem=file_stem(uri), mime_type=uri, folder=folder)
    assert path.parent == folder
    assert len(path.name) <= bounds.SAVED_NAME_CHARACTERS + 20


@given(st.text())
def test_cleaned_text_contains_no_control_sequences(text: str) -> None:
    cleaned = replace_controls(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in cleaned)
    assert "\x7f" not in cleaned
    assert "\x9b" not in cleaned
