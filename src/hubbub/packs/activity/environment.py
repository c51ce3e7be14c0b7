"""Inspect a Python environment without importing its packages, and print the result as JSON.

Imports nothing of Hubbub and uses nothing newer than Python 3.8, because other interpreters also run it as a script:
the protected environment need not be Hubbub's own. `hubbub sidecar snapshot` runs it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, Sequence  # noqa: UP035

PROTECTED_PACKAGES = ("torch", "torchvision", "torchaudio", "opencv-python", "opencv-python-headless")
PROTECTED_NAME_PARTS = ("nvidia", "cuda", "cudnn", "tensorrt")
_CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


def inspect_environment(
    names: Sequence[str] = PROTECTED_PACKAGES, parts: Sequence[str] = PROTECTED_NAME_PARTS
) -> dict[str, Any]:
    """Return the content of a snapshot."""
    errors: dict[str, str] = {}
    files = {name: _find_file(name, errors) for name in ("torch", "numpy", "cv2")}
    return {
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),  # noqa: UP017
        "python_executable": sys.executable,
        "torch_version": _version("torch"),
        "torch_version_cuda": _read_cuda_version(files["torch"]),
        "torch_cuda_available": None,  # only importing torch would show it
        "torch_file": files["torch"],
        "torchvision_version": _version("torchvision"),
        "torchaudio_version": _version("torchaudio"),
        "numpy_version": _version("numpy"),
        "numpy_file": files["numpy"],
        "cv2_file": files["cv2"],
        "protected_freeze": _list_protected(names, parts),
        "import_errors": errors,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _find_file(name: str, errors: dict[str, str]) -> str | None:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        errors[name] = type(error).__name__
        return None
    if found is None:
        errors[name] = "ModuleNotFoundError"
        return None
    return found.origin


def _read_cuda_version(torch_file: str | None) -> str | None:
    """Return the CUDA release that torch was built for, from torch's version file."""
    if torch_file is None:
        return None
    try:
        found = _CUDA.search(Path(torch_file).with_name("version.py").read_text(encoding="utf-8"))
    except OSError:
        return None
    return found.group(1) if found else None


def _list_protected(names: Sequence[str], parts: Sequence[str]) -> list[str]:
    lines = set()
    for found in metadata.distributions():
        name = (found.metadata["Name"] or "").lower().replace("_", "-")
        if name in names or any(part in name for part in parts):
            lines.add(f"{name}=={found.version}")
    return sorted(lines)


if __name__ == "__main__":
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    sys.stdout.write(json.dumps(inspect_environment(**options)))
