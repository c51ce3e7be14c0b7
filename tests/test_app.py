"""Scripts that serve with `run`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.http.certificates import Authority

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
ON_A_FREE_PORT = '"http", port=0'


def command(folder: Path, arguments: str) -> list[str]:
    script = folder / "script.py"
    script.write_text(f"from hubbub import Server, run\nrun(Server('script'), {arguments})\n")
    return [sys.executable, str(script)]


@contextmanager
def run_app(folder: Path, arguments: str = ON_A_FREE_PORT, **environ: str) -> Iterator[str]:
    """Run a script that serves over HTTP; yields its address."""
    with subprocess.Popen(
        command(folder, arguments), cwd=folder, env=os.environ | environ, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            output = process.stderr.readline().decode()
            assert re.fullmatch(r"script serves http://127\.0\.0\.1:\d+/mcp\n", output), output
            yield output.split()[-1]
        finally:
            process.terminate()
        assert process.wait() == 0


def run_refused(folder: Path, arguments: str, **environ: str) -> str:
    """Run a script that does not start; return its stderr."""
    done = subprocess.run(
        command(folder, arguments), cwd=folder, env=os.environ | environ, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert "--" not in line, "a script has no flags"
    return line


def status(url: str, **headers: str) -> int:
    request = Request(url, HELLO, {"Content-Type": "application/json", **headers})
    try:
        with urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def make_key(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hubbub", "keys", "create", "alice", "--key-file", "keys.toml"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def trust(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "hubbub", "trust", "--yes"], cwd=folder, timeout=60, check=True)


def test_a_script_serves_over_http_and_prints_its_address(tmp_path: Path) -> None:
    with run_app(tmp_path) as url, urlopen(url.removesuffix("mcp"), timeout=60) as answer:
        assert json.load(answer)["name"] == "script"


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (ON_A_FREE_PORT, {}),
        ('"http", port=0, config="hubbub.toml"', {}),
        ('"http", port=0, key_file="keys.toml"', {"HUBBUB_CONFIG": os.devnull}),
        (ON_A_FREE_PORT, {"HUBBUB_CONFIG": os.devnull, "HUBBUB_KEY_FILE": "keys.toml"}),
    ],
    ids=["file", "named-file", "argument", "variable"],
)
def test_a_script_with_a_key_file_refuses_anonymous_callers(
    tmp_path: Path, arguments: str, environ: dict[str, str]
) -> None:
    key = make_key(tmp_path)
    (tmp_path / "hubbub.toml").write_text('key_file = "keys.toml"\n')
    trust(tmp_path)
    with run_app(tmp_path, arguments, **environ) as url:
        assert status(url) == 401
        assert status(url, **{"X-API-Key": key}) == 200


def test_arguments_of_run_precede_variables(tmp_path: Path) -> None:
    with run_app(tmp_path, '"http"', HUBBUB_PORT="0") as url:
        assert status(url) == 200
    with run_app(tmp_path, HUBBUB_HTTP_ADDR="192.0.2.1:1", HUBBUB_PORT="1") as url:
        assert status(url) == 200


def test_a_script_serves_on_a_unix_socket_unless_it_names_a_port(tmp_path: Path) -> None:
    arguments = '"http", unix_socket="script.sock"'
    with subprocess.Popen(command(tmp_path, arguments), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "script serves http://localhost/mcp on the Unix socket script.sock\n"
        process.terminate()
    with run_app(tmp_path, HUBBUB_UNIX_SOCKET="script.sock") as url:
        assert status(url) == 200


def test_a_script_serves_https(tmp_path: Path) -> None:
    cert_file, key_file = Authority().issue().write(tmp_path)
    arguments = f'"http", port=0, tls_cert_file="{cert_file}", tls_key_file="{key_file}"'
    with subprocess.Popen(command(tmp_path, arguments), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("script serves https://127.0.0.1:")
        process.terminate()
    line = run_refused(tmp_path, '"http", port=0, tls_cert_file="none.pem"')
    assert line.startswith("hubbub: tls_cert_file: cannot read none.pem: No such file or directory; ")


def test_errors_name_the_arguments_of_run(tmp_path: Path) -> None:
    assert run_refused(tmp_path, '"http", port="many"') == "hubbub: port must be a whole number, not 'many'"
    line = run_refused(tmp_path, '"http", host="0.0.0.0", port=0')
    assert all(word in line for word in ("0.0.0.0", "(key_file)", "(jwt_keys)", "with insecure"))
    assert run_refused(tmp_path, '"http", host="192.0.2.1", port=0, insecure=True').endswith("try another host")
    assert "none.toml" in run_refused(tmp_path, '"http", port=0, key_file="none.toml"')
    assert "none.toml" in run_refused(tmp_path, '"http", port=0, config="none.toml"')


def test_a_script_over_http_does_not_start_in_an_untrusted_folder(tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text('key_file = "keys.toml"\nallowed_origins = ["*"]\n')
    line = run_refused(tmp_path, ON_A_FREE_PORT)
    assert "key_file, allowed_origins; " in line
    assert "hubbub trust" in line
    make_key(tmp_path)
    trust(tmp_path)
    with run_app(tmp_path) as url:
        assert status(url) == 401
    (tmp_path / "keys.toml").write_text("")
    assert "because keys.toml changed" in run_refused(tmp_path, ON_A_FREE_PORT)


def test_a_script_on_stdio_ignores_untrusted_settings_and_names_them(tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text("max_message_bytes = 1024\n")
    script = command(tmp_path, '"stdio"')

    def ask() -> tuple[bool, str]:
        message = HELLO.replace(b'"method"', b" " * 2000 + b'"method"')
        done = subprocess.run(script, cwd=tmp_path, input=message, capture_output=True, timeout=60, check=True)
        return "result" in json.loads(done.stdout), done.stderr.decode()

    is_answered, output = ask()
    assert is_answered
    assert "max_message_bytes" in output
    assert "hubbub trust" in output
    trust(tmp_path)
    is_answered, output = ask()
    assert not is_answered
    assert "hubbub trust" not in output
