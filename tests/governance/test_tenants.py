"""Tenants of a hub: lookup, claims, and changes while it runs."""

from pathlib import Path

import pytest

from hubbub import SettingsError
from hubbub.governance.tenants import Tenants
from hubbub.settings import collect_sources
from hubbub.settings.governance import TenantSettings
from hubbub.settings.governance_reader import read_governance

ACME = TenantSettings(name="acme", allow_plain=True, servers=("notes",))
BETA = TenantSettings(name="beta", allow_stdio=True, claims=("7b1f", "beta.example"))


def test_an_unknown_tenant_may_do_nothing() -> None:
    tenants = Tenants([ACME, BETA])
    assert "gamma" not in tenants
    assert tenants.get("gamma") is None
    assert not tenants.allows_plain("gamma")
    assert not tenants.allows_stdio("gamma")
    assert not tenants.allows_server("gamma", "notes")
    assert not tenants.allows_plain("")


def test_each_tenant_has_its_own_rules() -> None:
    tenants = Tenants([ACME, BETA])
    assert tenants.names == ("acme", "beta")
    assert (tenants.allows_plain("acme"), tenants.allows_plain("beta")) == (True, False)
    assert (tenants.allows_stdio("acme"), tenants.allows_stdio("beta")) == (False, True)
    assert [tenants.allows_server("acme", server) for server in ("notes", "files")] == [True, False]
    assert tenants.allows_server("beta", "files")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("acme", "acme"),
        ("7b1f", "beta"),
        ("beta.example", "beta"),
        ("beta", None),
        ("ACME", None),
        ("acme ", None),
        ("\u0430cme", None),
        ("", None),
    ],
)
def test_a_claim_means_a_tenant_only_exactly(value: str, name: str | None) -> None:
    assert Tenants([ACME, BETA]).find_by_claim(value) == name


def test_an_update_replaces_everything_and_is_noticed() -> None:
    tenants = Tenants([ACME, BETA])
    tenants.update([ACME, BETA])
    assert tenants.generation == 0
    tenants.update([BETA])
    assert tenants.generation == 1
    assert "acme" not in tenants
    assert tenants.find_by_claim("acme") is None
    tenants.update([])
    assert len(tenants) == 0
    assert not tenants.allows_stdio("beta")


def read(folder: Path, text: str) -> tuple[TenantSettings, ...]:
    file = folder / "hubbub.toml"
    file.write_text(text)
    return read_governance(collect_sources({"--config": str(file)}, {})).tenants


def test_two_tenants_cannot_have_the_same_claim(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"line 4.*'x' already means the tenant 'a'"):
        read(tmp_path, '[[tenants]]\nname = "a"\nclaims = ["x"]\n[[tenants]]\nname = "b"\nclaims = ["y", "x"]\n')
    with pytest.raises(SettingsError, match="'a' already means the tenant 'a'"):
        read(tmp_path, '[[tenants]]\nname = "a"\n[[tenants]]\nname = "b"\nclaims = ["a"]\n')


def test_a_tenant_may_take_the_name_of_another_as_its_claim_if_that_one_has_other_claims(tmp_path: Path) -> None:
    tenants = Tenants(
        read(tmp_path, '[[tenants]]\nname = "a"\nclaims = ["1"]\n[[tenants]]\nname = "b"\nclaims = ["a"]\n')
    )
    assert (tenants.find_by_claim("1"), tenants.find_by_claim("a")) == ("a", "b")


@pytest.mark.parametrize("name", ["", "A", "a/b", "a#b", "a b", "-a", "a" * 64, "\u0430cme", "a\\nb"])
def test_a_name_has_no_separators_and_no_other_alphabets(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="line 2: tenants"):
        read(tmp_path, f'[[tenants]]\nname = "{name}"\n')
