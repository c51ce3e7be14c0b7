"""Charts with untrusted text, drawn in an untrusted working directory."""

import os
import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from hubbub.pack.charts import Bar, Look, draw_bar_chart
from hubbub.pack.charts.canvas import find_families

MISSING_FOLDER = "\U000f0000"
"""A character for private use, which no font has."""
PROGRAM = """
from hubbub.pack.charts import Bar, Look, draw_bar_chart
assert draw_bar_chart([Bar("a", 1.0, Look("black"), "1")], title="t").png.startswith(b"\\x89PNG")
"""


def bar(name: str, value: float = 1.0) -> Bar:
    return Bar(name, value, Look("#0078c3"), "1")


def size(png: bytes) -> tuple[int, ...]:
    return struct.unpack(">II", png[16:24])


def test_a_matplotlibrc_of_the_working_folder_starts_no_program(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("latex", "dvipng", "kpsewhich"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (programs / name).chmod(0o755)
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "MPLCONFIGDIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=os.environ | environ, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name",
    [
        r"$\frac{1}{0}$ costs $5",
        "$" * 1000,
        "x" * 5_000_000,
        "line\nline\r\n\x1b[31m\x00",
        "\u202e\u2066" * 100 + "gnp.exe",
        "z" + "\u0335" * 10_000,
        "﷽" * 500,
        "𒐫" * 500,
        "\ud83d half",
        "",
    ],
    ids=["formula", "dollars", "megabytes", "controls", "overrides", "marks", "wide", "wider", "surrogate", "empty"],
)
def test_a_hostile_name_is_drawn_within_its_area(name: str) -> None:
    picture = draw_bar_chart([bar(name), bar("other")], title=name, lines=[name])
    assert size(picture.png) == size(draw_bar_chart([bar("name"), bar("other")], title="t", lines=["l"]).png)
    assert len(picture.png) < 100_000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_negative_or_non_finite_value_has_no_bar(value: float) -> None:
    from PIL import Image

    picture = draw_bar_chart([bar("odd", value), bar("even", 2.0)], title="t")
    image: Any = Image.open(BytesIO(picture.png)).convert("RGB")
    rows = [y for y in range(image.height) if (0, 0x78, 0xC3) in {image.getpixel((x, y)) for x in range(image.width)}]
    assert 0 < len(rows) < image.height / 3, "one bar, not two"


def test_a_character_without_a_glyph_is_drawn_as_its_code_and_noted() -> None:
    picture = draw_bar_chart([bar(f"a {MISSING_FOLDER}")], title="t")
    (note,) = picture.notes
    assert "U+F0000" in note
    assert "install a font" in note
    shown = draw_bar_chart([bar("a [U+F0000]")], title="t")
    assert picture.png == shown.png


def test_an_image_without_missing_glyphs_has_no_notes() -> None:
    assert draw_bar_chart([bar("Ünïcödé – ελληνικά Кириллица עברית العربية")], title="t").notes == ()


@pytest.mark.skipif(
    bool(find_families(frozenset("微信🎉"))[1]), reason="no fonts here: scripts/system-packages does it"
)
def test_chinese_and_emoji_are_drawn_as_glyphs() -> None:
    pictures = [draw_bar_chart([bar(name)], title="t") for name in ("微信", "日本語", "한국어", "信微", "🎉", "💡")]
    assert {picture.notes for picture in pictures} == {()}
    assert len({picture.png for picture in pictures}) == len(pictures)


def test_a_font_installed_after_the_first_image_is_found(tmp_path: Path) -> None:
    """matplotlib caches its list of fonts in a file and never updates it."""
    fonts = tmp_path / ".local/share/fonts"
    fonts.mkdir(parents=True)
    program = f"""
import matplotlib.font_manager, shutil
shutil.copy({str(make_font(tmp_path))!r}, {str(fonts)!r})
from hubbub.pack.charts.canvas import find_families
print(find_families(frozenset({MISSING_FOLDER!r})))
"""
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / ".local/share"), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "(['DejaVu Sans', 'Tiny'], frozenset())\n", done.stderr


def make_font(folder: Path) -> Path:
    """Make a font with one glyph, for a character that no other font has."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    for number, point in enumerate([(0, 0), (0, 500), (500, 500), (500, 0)]):
        (pen.lineTo if number else pen.moveTo)(point)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord(MISSING_FOLDER): "square"})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "square": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "square": (500, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Tiny", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    path = folder / "tiny.ttf"
    builder.save(path)
    return path
