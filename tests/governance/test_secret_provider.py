"""Secrets are read from their sources, for the tenants that may use them, and again when they change."""

import asyncio
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from hubbub import SecretDenied, SecretUnavailable
from hubbub.governance import secret_sources
from hubbub.governance.secret_provider import FAILURE_RETRY_S, SecretProvider
from hubbub.observe import JsonFormatter
from hubbub.security.redact import redact
from hubbub.settings.governance import SecretSettings, SecretSource

VALUE, OTHER = "first-value-of-it", "second-value-of-it"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Events(list[tuple[str, Mapping[str, str]]]):
    def __call__(self, event: str, fields: Mapping[str, str]) -> None:
        self.append((event, fields))


def provider(clock: Clock | None = None, environ: Mapping[str, str] | None = None, **secrets: Any) -> SecretProvider:
    return SecretProvider(secrets, Events(), clock=clock or Clock(), environ=environ or {})


async def value_of(secrets: SecretProvider, tenant: str | None = None, name: str = "key") -> str:
    return (await secrets.resolve(name, tenant)).reveal()


def replace_file(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)


class MemoryKeyring(KeyringBackend):
    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return VALUE if (service, username) == ("hubbub", "key") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


@pytest.fixture
def memory() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


def program(code: str) -> SecretSettings:
    return SecretSettings(command=(sys.executable, "-c", code))


# -- sources -----------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
async def test_a_secret_comes_from_a_variable_a_file_the_keyring_or_a_program(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{VALUE}\n")
    for settings in (
        SecretSettings(env="KEY"),
        SecretSettings(file=str(path)),
        SecretSettings(keyring="hubbub/key"),
        program(f"print({VALUE!r})"),
    ):
        assert await value_of(provider(environ={"KEY": VALUE}, key=settings)) == VALUE


async def test_only_the_last_line_break_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"  two lines\r\nof a key \r\n")
    assert await value_of(provider(key=SecretSettings(file=str(path)))) == "  two lines\r\nof a key "


async def test_a_program_gets_few_variables_no_input_and_no_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_CANARY", "canary-of-the-hub")
    code = "import os, sys; print('$HOME', sorted(os.environ), repr(sys.stdin.read()))"
    text = await value_of(provider(key=program(code)))
    assert text.startswith("$HOME [")
    assert text.endswith("''")
    assert "HUBBUB_CANARY" not in text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SecretSettings(env="MISSING"), "(env) cannot be read: the environment variable MISSING is not set; set it"),
        (SecretSettings(env="EMPTY"), "(env) cannot be read: it is empty; use a longer one"),
        (SecretSettings(env="SHORT"), "it is shorter than 8 characters"),
        (SecretSettings(file="/nowhere/key"), "(file) cannot be read: /nowhere/key is missing"),
        (SecretSettings(file="/dev/zero"), "not a regular file; correct `file`"),
        (
            SecretSettings(command=("no-such-program",)),
            "(command) cannot be read: the program 'no-such-program'",
        ),
        (program("print('the-secret-value'); raise SystemExit(3)"), "ended with status 3; run it by hand"),
        (program("print('the-secret-value' * 10_000)"), "larger than 65536 bytes"),
        (program("import sys; sys.stdout.buffer.write(b'\\xff' * 20)"), "not UTF-8"),
        (program("print('the-secret\\0value')"), "NUL"),
    ],
)
async def test_an_unreadable_secret_is_an_error_that_says_what_to_do(settings: SecretSettings, expected: str) -> None:
    secrets = provider(environ={"EMPTY": "", "SHORT": "the-sec"}, key=settings)
    with pytest.raises(SecretUnavailable) as raised:
        await secrets.resolve("key", None)
    assert expected in raised.value.message
    assert raised.value.message.startswith("The secret 'key' (")
    assert "the-sec" not in raised.value.message
    assert not raised.value.may_have_executed


@pytest.mark.usefixtures("memory")
async def test_a_missing_keyring_entry_or_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretUnavailable, match="add it with `keyring set hubbub other`"):
        await provider(key=SecretSettings(keyring="hubbub/other")).resolve("key", None)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SecretUnavailable, match="extra 'keyring'"):
        await provider(key=SecretSettings(keyring="hubbub/key")).resolve("key", None)


async def test_a_folder_is_not_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.mkdir()
    with pytest.raises(SecretUnavailable, match="not a regular file"):
        await provider(key=SecretSettings(file=str(path))).resolve("key", None)


async def test_a_program_that_does_not_end_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(secret_sources, "COMMAND_TIMEOUT_S", 0.5)
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    code = (
        "import os, subprocess, time; child = subprocess.Popen(['sleep', '600']);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); time.sleep(600)"
    )
    reading = asyncio.create_task(asyncio.to_thread(pids.read_text))
    secrets = provider(key=program(code))
    while True:  # A slow machine may need more than one attempt until the program has started.
        with pytest.raises(SecretUnavailable, match=r"took longer than 0\.5 s"):
            await secrets.resolve("key", None)
        if reading.done():
            break
        secrets = provider(key=program(code))
    for pid in map(int, (await reading).split()):
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


# -- rotation ----------------------------------------------------------------------------


async def test_a_variable_is_read_again_after_its_time() -> None:
    clock, environ = Clock(), {"KEY": VALUE}
    secrets = SecretProvider({"key": SecretSettings(env="KEY", refresh_s=60)}, clock=clock, environ=environ)
    assert await value_of(secrets) == VALUE
    environ["KEY"] = OTHER
    clock.now += 59
    assert await value_of(secrets) == VALUE
    clock.now += 1
    assert await value_of(secrets) == OTHER


@pytest.mark.requirement("K6")
async def test_a_changed_file_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(VALUE)
    secrets = provider(key=SecretSettings(file=str(path)))
    assert await value_of(secrets) == VALUE
    replace_file(path, OTHER)
    assert await value_of(secrets) == OTHER
    path.unlink()
    with pytest.raises(SecretUnavailable):
        await value_of(secrets)
    replace_file(path, VALUE)
    assert await value_of(secrets) == VALUE


async def test_a_program_runs_once_for_concurrent_calls_and_not_again_before_its_time(tmp_path: Path) -> None:
    runs, clock = tmp_path / "runs", Clock()
    secrets = provider(clock, key=program(f"open({str(runs)!r}, 'a').write('x'); print({VALUE!r})"))
    assert set(await asyncio.gather(*(value_of(secrets) for _ in range(20)))) == {VALUE}
    assert runs.read_text() == "x"
    clock.now += 60
    await value_of(secrets)
    assert runs.read_text() == "xx"


async def test_a_failing_program_is_not_started_by_every_call(tmp_path: Path) -> None:
    runs, clock = tmp_path / "runs", Clock()
    secrets = provider(clock, key=program(f"open({str(runs)!r}, 'a').write('x'); raise SystemExit(1)"))
    for _ in range(3):
        with pytest.raises(SecretUnavailable):
            await value_of(secrets)
    assert runs.read_text() == "x"
    clock.now += FAILURE_RETRY_S
    with pytest.raises(SecretUnavailable):
        await value_of(secrets)
    assert runs.read_text() == "xx"


async def test_old_and_new_values_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old-rotated-value")
    secrets = provider(key=SecretSettings(file=str(path)))
    await value_of(secrets)
    replace_file(path, "new-rotated-value")
    await value_of(secrets)
    assert redact("old-rotated-value new-rotated-value") == "*** ***"


async def test_a_value_is_masked_in_log_lines_and_tracebacks() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(redact))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    value = await value_of(provider(environ={"KEY": "value-of-a-log-line"}, key=SecretSettings(env="KEY")))
    try:
        raise ValueError(f"wrong: {value}")
    except ValueError:
        logger.exception("got %s", value, extra={"field": value, "more": {"inner": [value]}})
    assert stream.getvalue().count("***") >= 4
    assert value not in stream.getvalue()


# -- tenants -----------------------------------------------------------------------------

ENVIRON = {"KEY": VALUE, "KEY_OF_A": OTHER}
OVERRIDE = {"a": SecretSource(env="KEY_OF_A")}


@pytest.mark.requirement("K1")
@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (SecretSettings(env="KEY"), {None: VALUE, "a": VALUE, "b": VALUE}),
        (SecretSettings(env="KEY", tenants=("a",)), {None: None, "a": VALUE, "b": None}),
        (SecretSettings(env="KEY", tenants=("a",), hub=True), {None: VALUE, "a": VALUE, "b": None}),
        (SecretSettings(env="KEY", hub=False), {None: None, "a": VALUE, "b": VALUE}),
        (SecretSettings(env="KEY", tenant=OVERRIDE), {None: VALUE, "a": OTHER, "b": VALUE}),
        (SecretSettings(env="KEY", tenant=OVERRIDE, tenants=(), hub=True), {None: VALUE, "a": OTHER, "b": None}),
        (SecretSettings(tenant=OVERRIDE), {None: None, "a": OTHER, "b": None}),
    ],
)
async def test_a_secret_is_scoped_to_tenants(settings: SecretSettings, found: dict[str | None, str | None]) -> None:
    secrets = provider(environ=ENVIRON, key=settings)
    for _ in range(2):  # also from the cache
        for tenant, value in found.items():
            if value is not None:
                assert await value_of(secrets, tenant) == value
                continue
            with pytest.raises(SecretDenied) as denied:
                await secrets.resolve("key", tenant)
            assert VALUE not in denied.value.message
            assert "[secrets.key]" in denied.value.message


@pytest.mark.requirement("K1")
async def test_reading_failing_and_denying_are_reported_without_the_value() -> None:
    events = Events()
    clock, environ = Clock(), {"KEY": VALUE}
    settings = SecretSettings(env="KEY", tenants=("a",), refresh_s=1)
    secrets = SecretProvider({"key": settings}, events, clock=clock, environ=environ)
    await value_of(secrets, "a")
    clock.now += 1
    await value_of(secrets, "a")  # unchanged, so not reported again
    with pytest.raises(SecretDenied):
        await value_of(secrets, "b")
    clock.now += 1
    del environ["KEY"]
    with pytest.raises(SecretUnavailable):
        await value_of(secrets, "a")
    fields = {"secret": "key", "source": "env"}
    assert events == [
        ("secret.read", {**fields, "tenant": "a"}),
        ("secret.denied", {**fields, "tenant": "b"}),
        ("secret.failed", {**fields, "tenant": "a"}),
    ]


async def test_an_unknown_secret_is_an_error() -> None:
    with pytest.raises(SecretUnavailable, match=r"not configured; add \[secrets.other\]"):
        await provider(key=SecretSettings(env="KEY")).resolve("other", None)


def test_providers_with_the_same_settings_are_equal() -> None:
    assert provider(key=SecretSettings(env="A")) == provider(key=SecretSettings(env="A"))
    assert provider(key=SecretSettings(env="A")) != provider(key=SecretSettings(env="B"))
    assert "key" in repr(provider(key=SecretSettings(env="A")))


@pytest.mark.parametrize(
    "fields",
    [{}, {"env": "A", "file": "b"}, {"env": ""}, {"command": ()}, {"keyring": "service"}, {"keyring": "/user"}],
)
def test_a_secret_needs_exactly_one_valid_source(fields: Any) -> None:
    for kind in (SecretSettings, SecretSource):
        with pytest.raises(ValueError, match=r"set |must "):
            kind(**fields)
