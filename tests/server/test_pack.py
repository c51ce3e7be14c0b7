"""`Pack`: required modules, and the advice if they are missing."""

import pytest

from hubbub import Pack


def pack(**options: object) -> Pack:
    return Pack(name="p", summary="s", install=lambda server, settings: None, **options)  # type: ignore[arg-type]


def test_a_pack_without_requirements_can_run() -> None:
    assert pack().missing() == []


def test_a_pack_names_its_missing_modules() -> None:
    wanting = pack(requires=("json", "no_such_module", "no_such.submodule", "json.no_such"))
    assert wanting.missing() == ["no_such_module", "no_such.submodule", "json.no_such"]


def test_checking_requirements_does_not_import_them() -> None:
    import sys

    sys.modules.pop("antigravity", None)
    assert pack(requires=("antigravity",)).missing() == []
    assert "antigravity" not in sys.modules


def test_the_advice_about_missing_modules_has_an_install_command() -> None:
    assert (
        pack(requires=("x",), extra="peers").advice()
        == "install Hubbub with its extra 'peers' (in a clone: pip install -e '.[peers]')"
    )
    assert "x" in pack(requires=("x",)).advice()


def test_a_pack_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        pack().name = "other"  # type: ignore[misc]


def test_one_of_several_modules_is_enough() -> None:
    assert pack(requires=("no_such_module|json",)).missing() == []
    assert pack(requires=("no_such_module|no_other", "json")).missing() == ["no_such_module or no_other"]
