"""What every picture has in common: how it looks, what it needs to be drawn, and Altair's chart as SVG."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

NEEDED = {"altair": "altair", "vl_convert": "vl-convert-python"}
"""The modules that draw, and what installs each."""

INK = "#1f2328"
"""The colour of text and of the baseline."""
MUTED = "#59636e"
"""The colour of axes and of what explains the chart."""
GRID = "#e4e7eb"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8a8f98")
"""The palette of Okabe and Ito, which the colour-blind can tell apart; their yellow is too faint on white: grey."""
FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
"""The fonts of text, the first that is there. What draws brings Liberation Sans along and measures widths by it."""
SYSTEM_FONTS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
"""Where a Linux keeps its fonts."""
NO_FONTS = '<?xml version="1.0"?><fontconfig><dir>/nonexistent</dir></fontconfig>'
"""A configuration of fontconfig without a font. One that names no folder counts as none."""

CONFIG = {
    "background": "white",
    "padding": 14,
    "font": FONT,
    "aria": False,
    "view": {"stroke": None},
    "title": {"fontSize": 17, "color": INK, "subtitleFontSize": 13, "subtitleColor": MUTED, "subtitlePadding": 6},
    "axis": {
        "labelFontSize": 12,
        "labelColor": MUTED,
        "titleFontSize": 12,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
    },
}


def missing_packages() -> list[str]:
    """What has to be installed before anything can be drawn."""
    found = []
    for module, package in NEEDED.items():
        try:
            import_module(module)
        except ImportError:
            found.append(package)
    return found


def svg_of(chart: Any) -> str:
    """A chart of Altair as the text of an SVG file. The same chart gives the same text."""
    load_fonts()
    written = io.StringIO()
    chart.save(written, format="svg")
    return _numbered(written.getvalue())


@cache
def load_fonts() -> None:
    """Have the library that draws look for a font among its own first, and behind them among the system's.

    By itself it takes the system's first. An older Liberation Sans has other widths than the one that it brings, and
    a chart would come out another number of pixels wide where that is installed. The system's are needed for scripts
    that its own do not have. Elsewhere than on Linux the system's stay first; few systems there have Liberation Sans.
    """
    import vl_convert

    with tempfile.TemporaryDirectory() as folder:
        (file := Path(folder) / "fonts.conf").write_text(NO_FONTS, encoding="utf-8")
        with _fontconfig(str(file)):
            vl_convert.register_font_directory(folder)  # its fonts are looked for at the first call that needs them
    for place in SYSTEM_FONTS:
        with suppress(RuntimeError):  # nobody's home
            if (fonts := Path(place).expanduser()).is_dir():
                vl_convert.register_font_directory(str(fonts))


@contextmanager
def _fontconfig(file: str) -> Iterator[None]:
    """With this file as the configuration of fonts."""
    before = os.environ.get("FONTCONFIG_FILE")
    os.environ["FONTCONFIG_FILE"] = file
    try:
        yield
    finally:
        del os.environ["FONTCONFIG_FILE"]
        if before is not None:
            os.environ["FONTCONFIG_FILE"] = before


def _numbered(svg: str) -> str:
    """The drawing with its clip paths and gradients numbered from 1: the library counts on from chart to chart."""
    places: dict[str, dict[str, str]] = {"clip": {}, "gradient_": {}}

    def renumbered(found: re.Match[str]) -> str:
        known = places[found[1]]
        return known.setdefault(found[0], f"{found[1]}{len(known) + 1}")

    return re.sub(r'(?:(?<=id=")|(?<=url\(#))(clip|gradient_)\d+', renumbered, svg)
