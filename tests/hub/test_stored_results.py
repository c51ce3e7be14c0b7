"""An oversized result, read page by page through a hub in each dialect."""

import re
from pathlib import Path

import pytest
from tests.hub.file_hub import call_text, run_file_hub, worker_section
from tests.server.raw_client import DIALECTS

from hubbub import bounds


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_oversized_result_is_read_through_the_hub_page_by_page(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "hubbub.toml"
    path.write_text("[hub]\nresult_bytes = 10000\n" + worker_section("one"))
    async with run_file_hub(path, dialect=dialect) as (_, client):
        full_text = await call_text(client, "one_story", length=9000)
        assert full_text.startswith("0 1 2 ")
        assert len(full_text) == 9000
        summary = await call_text(client, "one_story", length=200_000)
        assert len(summary) < 2 * bounds.PREVIEW_BYTES
        found = re.search(r"id ([\w-]+), offset (\d+)\)", summary)
        assert found is not None
        by_tool, offset = summary.partition("\n\n")[2], int(found[2])
        while len(by_tool) < 200_000:
            page = (await client.call("hub.read_result", {"id": found[1], "offset": offset}))["content"][0]["text"]
            by_tool, offset = by_tool + page, offset + len(page)
        by_resource, uri = "", f"hub://results/{found[1]}"
        while uri:
            (contents,) = (await client.result("resources/read", {"uri": uri}))["contents"]
            by_resource, uri = by_resource + contents["text"], contents["_meta"].get("next")
        assert by_tool == by_resource
        assert len(by_tool) == 200_000
        assert by_tool.startswith(full_text[:4000])
