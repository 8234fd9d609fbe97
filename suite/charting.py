"""What every picture has in common: how it looks, what it needs to be drawn, and Altair's chart as SVG."""

from __future__ import annotations

import io
import re
from importlib import import_module
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
FONT = "Helvetica, Arial, Liberation Sans, sans-serif"

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


def absent() -> list[str]:
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
    written = io.StringIO()
    chart.save(written, format="svg")
    return _numbered(written.getvalue())


def _numbered(svg: str) -> str:
    """The drawing with its clip paths and gradients numbered from 1: the library counts on from chart to chart."""
    places: dict[str, dict[str, str]] = {"clip": {}, "gradient_": {}}

    def renumbered(found: re.Match[str]) -> str:
        known = places[found[1]]
        return known.setdefault(found[0], f"{found[1]}{len(known) + 1}")

    return re.sub(r'(?:(?<=id=")|(?<=url\(#))(clip|gradient_)\d+', renumbered, svg)
