"""Fixtures of identity providers; a `conftest.py` imports those that its folder needs.

The shared ones run once per test process. Tests may register clients there and log people in, and must not rotate its
keys or stop it: `start_oidc_provider` and `start_authlib_provider` start one for a single test.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.http.certificates import Authority
from tests.identity.provider_process import HERE, PEOPLE, ProviderProcess

ROOT = HERE.parent.parent
JUDGES = ROOT / "tests" / "judges" / "node_modules"
StartProvider = Callable[..., ProviderProcess]


def _find_node() -> str:
    local = ROOT / ".node" / "bin" / "node"
    found = str(local) if local.exists() else shutil.which("node")
    if found is None or not (JUDGES / "oidc-provider").is_dir():
        pytest.skip("no Node.js with oidc-provider here: `make setup` on a machine with node and npm installs them")
    return found


def _start_oidc(folder: Path, *, is_tls: bool = False, **options: Any) -> ProviderProcess:
    """`options`: `clients` that are configured, and whether `registration` is offered (default: yes)."""
    node = _find_node()
    environment = {"JUDGES": str(JUDGES)}
    ca, tls = _write_certificates(folder) if is_tls else (None, None)
    given = {"people": PEOPLE, "tls": tls, "clients": [], "registration": True, **options}
    command = [node, str(HERE / "oidc_provider.mjs"), json.dumps(given)]
    return ProviderProcess(command, folder / "oidc-provider.log", environment=environment, ca=ca)


def _start_authlib(folder: Path) -> ProviderProcess:
    command = [sys.executable, str(HERE / "authlib_provider.py"), json.dumps({"people": PEOPLE})]
    return ProviderProcess(command, folder / "authlib-provider.log")


def _write_certificates(folder: Path) -> tuple[Path, dict[str, str]]:
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_bytes(authority.certificate)
    certificate, key = authority.issue("127.0.0.1").write(folder)
    return ca, {"certificate": certificate, "key": key}


@pytest.fixture(scope="session")
def node() -> str:
    """The Node.js that runs the programs of others."""
    return _find_node()


@pytest.fixture(scope="session")
def oidc_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """`oidc-provider` over HTTP."""
    with closing(_start_oidc(tmp_path_factory.mktemp("oidc-provider"))) as process:
        yield process


@pytest.fixture(scope="session")
def tls_oidc_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """`oidc-provider` over HTTPS, with a certificate of a test authority."""
    with closing(_start_oidc(tmp_path_factory.mktemp("tls-oidc-provider"), is_tls=True)) as process:
        yield process


@pytest.fixture(scope="session")
def authlib_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Authlib's authorization server over HTTP."""
    with closing(_start_authlib(tmp_path_factory.mktemp("authlib-provider"))) as process:
        yield process


@pytest.fixture(params=["oidc_provider", "authlib_provider"])
def provider(request: pytest.FixtureRequest) -> ProviderProcess:
    """Each provider in turn."""
    process: ProviderProcess = request.getfixturevalue(request.param)
    return process


@pytest.fixture
def start_oidc_provider(tmp_path: Path) -> Iterator[StartProvider]:
    """Start an `oidc-provider` for this test."""
    yield from _starter(_start_oidc, tmp_path)


@pytest.fixture
def start_authlib_provider(tmp_path: Path) -> Iterator[StartProvider]:
    """Start an authorization server of authlib for this test."""
    yield from _starter(_start_authlib, tmp_path)


def _starter(start: StartProvider, folder: Path) -> Iterator[StartProvider]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(start(folder, **options)))
