"""The pages work: Python blocks run, commands print the output that is shown, links have a target."""

import json
import re
import subprocess
import tomllib
from contextlib import ExitStack, chdir
from pathlib import Path

import pytest
from tests.docs.blocks import GOVERNANCE_PAGES, PAGES, ROOT, Block, output_matches, page_name, parse_steps, read_blocks
from tests.docs.shell import Shell
from tests.packs.activity.activitywatch_server import insert_morning, run_activitywatch
from tests.packs.peers.processes import SignalServerProcess

LANGUAGES = ("python", "console", "json", "toml", "text", "mermaid", "sh")
"""`sh` blocks are not run: they download, install or do not end."""

OTHER_PAGES = [
    *(ROOT / name for name in ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASE.md", "SECURITY.md")),
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
"""Pages for contributors, of which only the links are checked."""

_LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_code_and_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    with Shell(tmp_path) as shell, ExitStack() as stack:
        if page.name == "activity.md":
            watch = stack.enter_context(run_activitywatch(tmp_path / "activitywatch", is_testing=False))
            insert_morning(watch)
            shell.replacements = {"http://127.0.0.1:5600": watch.url}
        if page.name == "peers.md":
            place = SignalServerProcess()
            stack.callback(place.end)
            shell.replacements = {"ws://127.0.0.1:8765": place.host}
        for block in read_blocks(page):
            run(block, shell, page)
        shell.check_background()


def run(block: Block, shell: Shell, page: Path) -> None:
    place = f"{page_name(page)} line {block.line}"
    assert block.language in LANGUAGES, f"{place}: unknown language {block.language!r}"
    text = shell.translate(block.text)
    if block.title is not None:
        target = shell.folder / block.title
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    match block.language:
        case "python":
            # Line numbers as in the page, for tracebacks.
            code = compile("\n" * (block.line - 1) + text, str(page), "exec")
            with chdir(shell.folder):
                exec(code, {"__name__": block.title or "block"})
        case "console":
            for step in parse_steps(block.text):
                (shell.run_in_background if block.has_terminal else shell.run)(step)
        case "json":
            json.loads(text)
        case "toml":
            tomllib.loads(text)


def test_python_blocks_run_in_the_folder_of_the_shell(tmp_path: Path) -> None:
    block = Block("python", None, "from pathlib import Path\n\nPath('made').touch()\n", 1)
    with Shell(tmp_path) as shell:
        run(block, shell, PAGES[0])
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=page_name)
def test_links_of_a_page_have_a_target(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page_name(page)}: broken link {link}"
        if anchor:
            assert anchor in read_anchors(target), f"{page_name(page)}: unknown heading {link}"


def read_anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_links_to_every_page() -> None:
    links = _LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    missing = {page_name(page) for page in PAGES[1:] if page not in GOVERNANCE_PAGES} - {
        link.partition("#")[0] for link in links
    }
    assert not missing


def test_the_readme_reaches_a_working_tool_within_400_words() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    start, result, _ = text.partition('"result":{"city":"Oslo","days":["sunny","sunny"]}')
    assert result
    assert len(start.split()) <= 400


def test_the_registration_in_the_readme_starts_a_server(tmp_path: Path) -> None:
    blocks = {block.title: block for block in read_blocks(ROOT / "README.md") if block.title is not None}
    (tmp_path / "weather.py").write_text(blocks["weather.py"].text)
    translated = blocks["mcp.json"].text.replace("/path/to/hubbub", str(ROOT)).replace("/path/to/", f"{tmp_path}/")
    registered = json.loads(translated)["mcpServers"]["weather"]
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "reader", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    done = subprocess.run(
        [registered["command"], *registered["args"]], input=json.dumps(hello).encode() + b"\n",
        capture_output=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "weather"


def test_output_is_compared_with_wildcards() -> None:
    assert output_matches("one ... three\n...\nfive", "one two three\nfour\nfour\nfive\n")
    assert output_matches("...\n", "")
    assert output_matches("", "")
    assert not output_matches("one\n", "one\ntwo\n")
    assert not output_matches("", "something\n")
    assert not output_matches("one ... three\n", "one two\nthree\n")


def test_blocks_of_a_page_are_read_with_title_and_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('# Page\n\n```python title="a.py"\nx = 1\n```\n\ntext\n\n```console terminal\n$ true\n```\n')
    assert read_blocks(page) == [
        Block("python", "a.py", "x = 1\n", 4),
        Block("console", None, "$ true\n", 10, has_terminal=True),
    ]


def test_a_command_can_be_continued_in_the_next_line() -> None:
    steps = parse_steps("$ one \\\n  two\nout\nput\n$ three\n")
    assert [tuple(step) for step in steps] == [("one \\\n  two", "out\nput\n"), ("three", "")]
