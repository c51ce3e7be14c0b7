"""The generated tables in the pages are up to date."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.docs.blocks import PAGES, ROOT, page_name

spec = spec_from_file_location("docs_tables", ROOT / "docs/tables.py")
assert spec is not None
assert spec.loader is not None
tables = module_from_spec(spec)
spec.loader.exec_module(tables)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_generated_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == tables.fill_tables(text), "run `.venv/bin/python docs/tables.py`"


def test_every_table_is_on_one_page() -> None:
    marks = re.findall(r"<!-- table: (\w+) -->", "".join(page.read_text(encoding="utf-8") for page in PAGES))
    assert sorted(marks) == sorted(tables.TABLES)


def test_an_outdated_table_is_replaced() -> None:
    stale = "<!-- table: settings -->\n| old |\n<!-- end -->"
    assert "| old |" not in tables.fill_tables(stale)
    assert "`--port N`" in tables.fill_tables(stale)
