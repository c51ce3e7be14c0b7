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
from hubbub.packs.activity.sidecar_socket import IS_SUPPORTED, SCHEME, Listener, default_path, parse_socket_path
from hubbub.packs.activity.sidecar_token import load_token

if TYPE_CHECKING:
    from hubbub.packs.activity.sidecar.engine import Engine
    from hubbub.packs.activity.sidecar.server import SidecarServer

ENGINES: Final = ("local", "omniparser", "mock")
_DEFAULT_HOST: Final = "127.0.0.1"
_DEFAULT_PORT: Final = 8000
_SOCKET_HELP: Final = (
    "[default: a Unix socket that only you can reach]" if IS_SUPPORTED else f"[default: {_DEFAULT_PORT}]"
)
_OMNIPARSER_URL: Final = "http://127.0.0.1:8001"
_SNAPSHOT_COMMAND: Final = "snapshot"


def main(arguments: list[str]) -> int:
    """Serve until a signal arrives, or take a snapshot; return the exit code.

    Raises: HubbubError.
    """
    settings = read_pack_settings(ActivitySettings, "activity")
    if arguments[:1] == [_SNAPSHOT_COMMAND]:
        return _take_snapshot(_make_snapshot_parser().parse_args(arguments[1:]), settings)
    options = _make_parser().parse_args(arguments)
    if options.host is not None:
        require_loopback(options.host, f"--host {options.host}", "read the screen", insecure=options.insecure)
    label = " (mock: its results are invented)" if options.engine == "mock" else ""
    engine = make_engine(options.engine, options.omniparser_url, settings)
    return run_service(f"sidecar with the engine {options.engine}{label}", _run_server(options, engine, settings))


def _make_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub sidecar",
        description="Read the screen for `hubbub serve --pack activity`.",
        epilog="`hubbub sidecar snapshot --help`: check whether an installation changed a Python environment.",
    )
    parser.add_argument(
        "--port", type=int, help=f"listen on a TCP port, such as {_DEFAULT_PORT}; 0 takes a free one  {_SOCKET_HELP}"
    )
    parser.add_argument("--host", help=f"listen on a TCP port of this address  [default with --port: {_DEFAULT_HOST}]")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="local",
        help="local reads the screen with tesseract; omniparser forwards it to OmniParser; "
        "mock invents results, for tests  [default: %(default)s]",
    )
    parser.add_argument(
        "--omniparser-url", default=_OMNIPARSER_URL, metavar="URL", help="where OmniParser runs  [default: %(default)s]"
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow an address that other machines can reach; they can read the screen",
    )
    return parser


def _make_snapshot_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub sidecar snapshot",
        description="Record what is installed before (pre) and after (post) an installation; system.health compares.",
    )
    parser.add_argument("--stage", choices=("pre", "post"), required=True)
    parser.add_argument("--python", metavar="PATH", help="the interpreter to inspect  [default: this one]")
    parser.add_argument(
        "--package",
        action="append",
        metavar="NAME",
        help="a package that must not change; repeatable  [default: torch, opencv and the packages of CUDA]",
    )
    parser.add_argument(
        "--folder", metavar="FOLDER", help="where to store it  [default: HUBBUB_ACTIVITY_PROTECTED_FOLDER]"
    )
    return parser


def _take_snapshot(options: Namespace, settings: ActivitySettings) -> int:
    from pathlib import Path

    from hubbub.packs.activity import environment_snapshots

    folder = Path(options.folder) if options.folder else environment_snapshots.snapshot_folder(settings)
    path = environment_snapshots.take_snapshot(folder, options.stage, python=options.python, packages=options.package)
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
    from hubbub.packs.activity.sidecar.tesseract import DEFAULT_LANGUAGE

    return LocalEngine(privacy, settings.ocr_language or DEFAULT_LANGUAGE)


@asynccontextmanager
async def _run_server(options: Namespace, engine: Engine, settings: ActivitySettings) -> AsyncIterator[str]:
    server, address = _open_server(options, engine, settings)
    with server:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(server.serve_forever, poll_interval=0.2))
            try:
                yield address
            finally:
                await asyncio.to_thread(server.shutdown)


def _open_server(options: Namespace, engine: Engine, settings: ActivitySettings) -> tuple[SidecarServer, str]:
    from hubbub.packs.activity.sidecar.server import SidecarServer

    is_mock = options.engine == "mock"
    if IS_SUPPORTED and options.host is None and options.port is None:
        url = settings.sidecar_url or ""
        listener = Listener(parse_socket_path(url) if url.startswith(SCHEME) else default_path())
        sidecar_server = SidecarServer(listener, engine, takes_anything=is_mock, pause=Pause())
        return sidecar_server, f"{SCHEME}{listener.path}"
    host, port = (options.host or _DEFAULT_HOST).strip("[]"), _DEFAULT_PORT if options.port is None else options.port
    token = load_token(settings, create=not is_mock)
    try:
        sidecar_server = SidecarServer((host, port), engine, takes_anything=is_mock, token=token, pause=Pause())
    except (OSError, OverflowError) as error:
        raise listen_error(host, port, error) from error
    return sidecar_server, f"http://{format_address(host, sidecar_server.server_port)}"
