"""Charts do not depend on the fonts of the system."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRAWS = """
import vl_convert
title = {"text": "wide " * 9, "font": "Liberation Sans", "fontWeight": "normal"}
print(vl_convert.vegalite_to_svg({"mark": "text", "title": title}))
"""
"""A chart that is as wide as its title, in the font that the library brings and that a system may have, too."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system's fonts come first"),
    pytest.mark.usefixtures("draws"),
]


@pytest.fixture
def draws():
    for module in ("altair", "vl_convert", "fontTools"):
        pytest.importorskip(module)


def write_font(path):
    """A font of the name that charts are drawn with, in which every letter is a wide triangle."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    letters = {ord(letter): letter for letter in "adeiw"}
    names = [".notdef", "space", *letters.values()]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({**letters, ord(" "): "space"})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((1900, 0))
    pen.lineTo((0, 700))
    pen.closePath()
    font.setupGlyf(dict.fromkeys(names, pen.glyph()))
    font.setupHorizontalMetrics(dict.fromkeys(names, (2000, 0)))
    font.setupHorizontalHeader(ascent=900, descent=-200)
    font.setupNameTable({"familyName": "Liberation Sans", "styleName": "Regular", "psName": "LiberationSans"})
    font.setupOS2()
    font.setupPost()
    font.save(path)


@pytest.fixture
def system(tmp_path):
    """The environment of a system with that font."""
    (tmp_path / "fonts").mkdir()
    write_font(tmp_path / "fonts" / "wide.ttf")
    configuration = tmp_path / "fonts.conf"
    configuration.write_text(f"<fontconfig><dir>{tmp_path / 'fonts'}</dir></fontconfig>", encoding="utf-8")
    return {"FONTCONFIG_FILE": str(configuration)}


def drawn(program, **surroundings):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **surroundings},
    )
    return done.stdout


def test_the_system_s_fonts_change_charts_of_the_library(system):
    assert drawn(DRAWS) != drawn(DRAWS, **system)


def test_they_change_no_chart_of_the_suite(system):
    program = f"from attnsuite.report.charts import load_fonts\nload_fonts()\n{DRAWS}"

    assert drawn(program) == drawn(program, **system)


def test_fonts_in_the_user_s_home_change_no_chart(tmp_path, system):
    program = f"from attnsuite.report.charts import load_fonts\nload_fonts()\n{DRAWS}"
    (tmp_path / ".local" / "share").mkdir(parents=True)
    (tmp_path / "fonts").rename(tmp_path / ".local" / "share" / "fonts")

    assert drawn(program) == drawn(program, HOME=str(tmp_path))


def test_a_configuration_of_fonts_is_restored(system):
    program = (
        "import os\nfrom attnsuite.report.charts import load_fonts\n"
        "load_fonts()\nprint(os.environ.get('FONTCONFIG_FILE'))"
    )

    assert drawn(program, **system).strip() == system["FONTCONFIG_FILE"]
