"""`hubbub sidecar`: serve the screen to other processes; `hubbub sidecar snapshot`: inspect an environment."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from hubbub.pack import format_address, listen_error, read_pack_settings, require_loopback, run_service
from hubbub.packs.activity.pause import Pause
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sidecar_socket import IS_SUPPORTED, SCHEME, Listener, default_path, path_in
from hubbub.packs.activity.sidecar_token import token_of

if TYPE_CHECKING:
    from hubbub.packs.activity.sidecar.engine import Engine
    from hubbub.packs.activity.sidecar.server import SidecarServer

ENGINES: Final = ("local", "omniparser", "mock")
_HOST: Final = "127.0.0.1"
_PORT: Final = 8000
_SOCKET: Final = "[default: a Unix socket that only you can reach]" if IS_SUPPORTED else f"[default: {_PORT}]"
_OMNIPARSER: Final = "http://127.0.0.1:8001"
_SNAPSHOT: Final = "snapshot"


def main(arguments: list[str]) -> int:
    """Serve until a signal arrives, or take a snapshot; return the exit code.

    Raises: HubbubError.
    """
    settings = read_pack_settings(ActivitySettings, "activity")
    if arguments[:1] == [_SNAPSHOT]:
        return _take_snapshot(_snapshot_parser().parse_args(arguments[1:]), settings)
    given = _parser().parse_args(arguments)
    if given.host is not None:
        require_loopback(given.host, f"--host {given.host}", "see the screen", insecure=given.insecure)
    label = " (mock: what it finds is made up)" if given.engine == "mock" else ""
    engine = make_engine(given.engine, given.omniparser_url, settings)
    return run_service(f"sidecar with the engine {given.engine}{label}", _running(given, engine, settings))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub sidecar",
        description="Look at the screen for `hubbub serve --pack activity`.",
        epilog="`hubbub sidecar snapshot --help`: see whether an installation left an environment as it was.",
    )
    parser.add_argument(
        "--port", type=int, help=f"listen on a TCP port, such as {_PORT}; 0 takes a free one  {_SOCKET}"
    )
    parser.add_argument("--host", help=f"listen on a TCP port of this address  [default with --port: {_HOST}]")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="local",
        help="local reads the screen with tesseract; omniparser hands it on; mock is for tests and makes things up  "
        "[default: %(default)s]",
    )
    parser.add_argument(
        "--omniparser-url", default=_OMNIPARSER, metavar="URL", help="where OmniParser runs  [default: %(default)s]"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that others can reach; they may see the screen"
    )
    return parser


def _snapshot_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub sidecar snapshot",
        description="Keep what is installed before (pre) and after (post) something else is; system.health compares.",
    )
    parser.add_argument("--stage", choices=("pre", "post"), required=True)
    parser.add_argument("--python", metavar="PATH", help="the interpreter to look at  [default: this one]")
    parser.add_argument(
        "--package",
        action="append",
        metavar="NAME",
        help="a package that must stay as it is; may be repeated  [default: torch, opencv and what belongs to CUDA]",
    )
    parser.add_argument(
        "--folder", metavar="FOLDER", help="where to keep it  [default: HUBBUB_ACTIVITY_PROTECTED_FOLDER]"
    )
    return parser


def _take_snapshot(given: Namespace, settings: ActivitySettings) -> int:
    from pathlib import Path

    from hubbub.packs.activity import protection

    folder = Path(given.folder) if given.folder else protection.folder_of(settings)
    path = protection.take(folder, given.stage, python=given.python, packages=given.package)
    sys.stdout.write(f"{path}\n")
    return 0


def make_engine(name: str, omniparser_url: str, settings: ActivitySettings) -> Engine:
    from hubbub.packs.activity.privacy import Privacy

    privacy = Privacy(settings.privacy)
    if name == "omniparser":
        from hubbub.packs.activity.sidecar.omniparser import OmniParserEngine

        return OmniParserEngine(omniparser_url, privacy)
    if name == "mock":
        from hubbub.packs.activity.sidecar.mock import MockEngine

        return MockEngine()
    from hubbub.packs.activity.sidecar.local import LocalEngine
    from hubbub.packs.activity.sidecar.tesseract import USUAL_LANGUAGE

    return LocalEngine(privacy, settings.ocr_language or USUAL_LANGUAGE)


@asynccontextmanager
async def _running(given: Namespace, engine: Engine, settings: ActivitySettings) -> AsyncIterator[str]:
    server, address = _open_server(given, engine, settings)
    with server:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(server.serve_forever, poll_interval=0.2))
            try:
                yield address
            finally:
                await asyncio.to_thread(server.shutdown)


def _open_server(given: Namespace, engine: Engine, settings: ActivitySettings) -> tuple[SidecarServer, str]:
    from hubbub.packs.activity.sidecar.server import SidecarServer

    is_mock = given.engine == "mock"
    if IS_SUPPORTED and given.host is None and given.port is None:
        url = settings.sidecar_url or ""
        listener = Listener(path_in(url) if url.startswith(SCHEME) else default_path())
        made = SidecarServer(listener, engine, takes_anything=is_mock, pause=Pause())
        return made, f"{SCHEME}{listener.path}"
    host, port = (given.host or _HOST).strip("[]"), _PORT if given.port is None else given.port
    token = token_of(settings, make=not is_mock)
    try:
        made = SidecarServer((host, port), engine, takes_anything=is_mock, token=token, pause=Pause())
    except (OSError, OverflowError) as error:
        raise listen_error(host, port, error) from error
    return made, f"http://{format_address(host, made.server_port)}"
