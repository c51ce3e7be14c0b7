"""The Python blocks of the pages pass mypy in strict mode."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import PAGES, ROOT, page_name, read_blocks


@pytest.mark.timeout(600)  # without the cache of `make check`, mypy checks the whole package first
def test_python_blocks_pass_the_type_checker(tmp_path: Path) -> None:
    for page in PAGES:
        for block in read_blocks(page):
            if block.language == "python":
                name = re.sub(r"\W", "_", f"{page_name(page)} {block.line}")
                # Line numbers as in the page, for messages.
                (tmp_path / f"{name}.py").write_text("\n" * (block.line - 1) + block.text)
    files = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    assert files
    # In the repository's folder, with its settings and cache, so that nothing is checked twice.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=500
    )
    assert done.returncode == 0, done.stdout.replace(str(tmp_path), "")
