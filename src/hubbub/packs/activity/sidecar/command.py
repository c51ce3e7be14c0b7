"""`hubbub sidecar`: looks at the screen for servers in other processes; and `hubbub sidecar snapshot`."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from hubbub.net.listening import cannot_listen, refuse_strangers
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sidecar_token import token_of
from hubbub.settings import gather, read_settings

if TYPE_CHECKING:
    from hubbub import Secret
    from hubbub.packs.activity.sidecar.engine import Engine

ENGINES: Final = ("local", "omniparser", "mock")
_OMNIPARSER: Final = "http://127.0.0.1:8001"
_SNAPSHOT: Final = "snapshot"


def main(arguments: list[str]) -> int:
    """Serve until a signal comes, or take a snapshot; the exit code.

    Raises: HubbubError.
    """
    settings = read_settings(ActivitySettings, gather({}), ("packs", "activity"))
    if arguments[:1] == [_SNAPSHOT]:
        return _take_snapshot(_snapshot_parser().parse_args(arguments[1:]), settings)
    given = _parser().parse_args(arguments)
    check_host(given.host, insecure=given.insecure)
    token = None if given.engine == "mock" else token_of(settings, make=True)
    return _serve(given, make_engine(given.engine, given.omniparser_url, settings), token)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="hubbub sidecar",
        description="Look at the screen for `hubbub serve --pack activity`.",
        epilog="`hubbub sidecar snapshot --help`: see whether an installation left an environment as it was.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on  [default: %(default)s]")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one  [default: %(default)s]")
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


def check_host(host: str, *, insecure: bool) -> None:
    """Refuse an address that strangers reach, unless that is meant.

    Raises: SettingsError.
    """
    if not insecure:
        refuse_strangers(host, f"--host {host}", "see the screen")


def make_engine(name: str, omniparser_url: str, settings: ActivitySettings) -> Engine:
    """The engine of this name."""
    from hubbub.packs.activity.privacy import Privacy

    privacy = Privacy(settings.privacy)
    if name == "omniparser":
        from hubbub.packs.activity.sidecar.omniparser import OmniParserEngine

        return OmniParserEngine(omniparser_url, privacy)
    if name == "mock":
        from hubbub.packs.activity.sidecar.mock import MockEngine

        return MockEngine()
    from hubbub.packs.activity.sidecar.local import LocalEngine

    return LocalEngine(privacy)


def _serve(given: Namespace, engine: Engine, token: Secret | None) -> int:
    from hubbub.packs.activity.sidecar.server import SidecarServer

    host = given.host.strip("[]")
    try:
        server = SidecarServer((host, given.port), engine, takes_anything=given.engine == "mock", token=token)
    except (OSError, OverflowError) as error:
        raise cannot_listen(host, given.port, error) from error
    shown = f"[{host}]" if ":" in host else host
    label = " (mock: what it finds is made up)" if given.engine == "mock" else ""
    sys.stderr.write(
        f"hubbub: sidecar with the engine {given.engine}{label} listens on http://{shown}:{server.server_port} "
        "· Ctrl+C stops it\n"
    )
    sys.stderr.flush()
    _stop_on_signals(server)
    with server:
        server.serve_forever(poll_interval=0.2)
    return 0


def _stop_on_signals(server: Any) -> None:
    def stop(*_: Any) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()  # it waits for the loop that we are in

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
