"""What the pages show as Python passes a strict type checker, as their readers' programs will have to."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import PAGES, ROOT, page_name, read_blocks


@pytest.mark.timeout(600)  # without the cache of `make check`, it looks at the whole package first
def test_python_blocks_pass_the_type_checker(tmp_path: Path) -> None:
    for page in PAGES:
        for block in read_blocks(page):
            if block.language == "python":
                name = re.sub(r"\W", "_", f"{page_name(page)} {block.line}")
                # Lines as in the page, so that a message points there.
                (tmp_path / f"{name}.py").write_text("\n" * (block.line - 1) + block.text)
    files = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    assert files
    # From our folder, with our settings and cache: what `make check` has looked at is not looked at again.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=500
    )
    assert done.returncode == 0, done.stdout.replace(str(tmp_path), "")
