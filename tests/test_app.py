"""A script that is a server: `run` as its last line."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

SCRIPT = """
from hubbub import Server, run
run(Server("script"), "http", port=0)
"""


def test_a_script_serves_over_http_and_says_where(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            told = process.stderr.readline().decode()
            assert told.startswith("script serves http://127.0.0.1:")
            assert told.endswith("/mcp\n")
            with urlopen(told.split()[-1].removesuffix("mcp"), timeout=10) as answer:
                assert json.load(answer)["name"] == "script"
        finally:
            process.terminate()
        assert process.wait(20) == 0
