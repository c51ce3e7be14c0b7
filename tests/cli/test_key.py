"""`hubbub key`: the deprecated form of `hubbub keys`, which still works."""

from pathlib import Path

import pytest

from hubbub import Principal
from hubbub.cli.main import main
from hubbub.security.api_keys import ApiKeys


def test_an_added_key_is_accepted_and_one_line_names_the_new_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys.toml"
    assert main(["key", "add", "alice", "--key-file", str(keys), "--scope", "read", "--days", "3"]) == 0
    output = capsys.readouterr()
    principal = ApiKeys(keys).identify(output.out.strip().encode())
    assert principal == Principal("key:alice", frozenset({"read"}))
    assert output.err.splitlines()[0] == (
        "hubbub: `hubbub key add` is deprecated and will be removed in 0.3.0; use `hubbub keys create`"
    )
    assert output.err.count("deprecated") == 1


def test_the_list_of_keys_has_the_old_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys.toml"
    main(["key", "add", "alice", "--key-file", str(keys)])
    key = capsys.readouterr().out.strip()
    assert main(["key", "list", "--key-file", str(keys)]) == 0
    output = capsys.readouterr()
    assert output.out.split() == ["alice", f"{key[:11]}_…", "no", "expiry"]
    assert "use `hubbub keys list`" in output.err


def test_the_old_command_is_not_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    lines = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    assert ["keys"] in lines
    assert ["key"] not in lines
