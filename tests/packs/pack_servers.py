"""One pack, served as users serve it: as a command on stdio, or at an address."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.http.server_process import HUBBUB, ServerProcess
from tests.interop.http_recorder import ServerAddress


@contextmanager
def serve_pack(transport: str, pack: str, folder: Path, settings: str) -> Iterator[ServerAddress]:
    """Where a pack with these settings is; `folder` keeps them."""
    config = folder / "hubbub.toml"
    config.write_text(f"[packs.{pack}]\n{settings}\n")
    flags = ("--pack", pack, "--config", str(config))
    if transport == "stdio":
        yield [str(HUBBUB), "serve", *flags, "--transport", "stdio"]
        return
    with ServerProcess(*flags) as process:
        yield f"{process.url}/mcp"
