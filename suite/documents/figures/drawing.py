"""Pictures as SVG and PNG files, drawn by Altair and vl-convert. This module needs both; pictures.py does not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import altair as alt
import vl_convert

from attnsuite.documents.figures.pictures import Axis, Colours, Curves, HeatMap, HeatMaps, LineStyle, Picture, Series
from attnsuite.model import UsageError
from attnsuite.model.files import file_errors, replace_bytes
from attnsuite.report.charts import COLOURS, CONFIG, FONT, INK, svg_of

# SVG and PNG

ZOOM = 2.0
"""Pixels of a PNG for each of the SVG: sharp on screens with two pixels for one."""
DECIMALS = 2
"""Decimals of coordinates in an SVG: smaller differences are invisible."""


def svg(name: str, picture: Picture) -> str:
    """The picture as the text of an SVG file on white, with a title and a description."""
    text = svg_of(_heat_maps(picture) if isinstance(picture, HeatMaps) else _curves(picture))
    text = re.sub(r' (?:d|transform|x|y|x1|x2|y1|y2)="[^"]*"', lambda match: _shortened(match[0]), text)
    opening, ending, rest = text.partition(">")
    title, description = escape(picture.title), escape(picture.description)
    words = f'<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>'
    return f'{opening} role="img" aria-labelledby="{name}-title {name}-desc"{ending}{words}{rest}'


def _shortened(coordinates: str) -> str:
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda match: f"{round(float(match[0]), DECIMALS):g}", coordinates)


def png(svg: str) -> bytes:
    """The same picture as the bytes of a PNG file."""
    data: bytes = vl_convert.svg_to_png(svg, scale=ZOOM)
    return data


def _grid(picture: Picture, panels: Sequence[Any], row_space: int) -> Any:
    title = alt.Title(picture.title, subtitle=picture.subtitle, anchor="start", offset=18)
    spacing = {"row": row_space, "column": 22}
    return alt.concat(*panels, columns=picture.columns, spacing=spacing, title=title, config=CONFIG)


def _titled(layers: list[Any], title: str, width: int, height: int) -> Any:
    """The layers as one panel, with its title 12 pixels above it in all panels."""
    if title:
        text = alt.Chart(alt.Data(values=[{}])).mark_text(fontSize=13, fontWeight="bold", font=FONT, color=INK)
        layers = [*layers, text.encode(x=alt.value(width / 2), y=alt.value(-12), text=alt.value(title))]
    return alt.layer(*layers, width=width, height=height)


# Heat maps

SHADES = {
    Colours.REDS: ["#fff5f0", "#fcbba1", "#fb6a4a", "#cb181d", "#67000d"],
    Colours.BLUES: ["#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"],
}
"""The colours along a colour bar, from its lowest number on: ColorBrewer's Reds and Blues, as matplotlib has them."""
DARK = 0.55
"""The share of the colour bar above which a cell is dark and its number is white."""


def _heat_maps(picture: HeatMaps) -> Any:
    chart = _grid(picture, [_map(picture, place) for place in range(len(picture.maps))], 22)
    return chart.resolve_scale(color="shared", x="independent", y="independent")


def _map(picture: HeatMaps, place: int) -> Any:
    """One map. The first of a row has labels on its left, the last of a column below it."""
    heat_map, shades, (low, high) = picture.maps[place], SHADES[picture.colours], picture.domain
    first, last = place % picture.columns == 0, place + picture.columns >= len(picture.maps)
    height, width = len(heat_map.rows), len(heat_map.rows[0])
    bar = alt.Legend(title=picture.bar, gradientLength=min(150, max(60, height * picture.cell)), tickCount=4)
    domain = [low + (high - low) * step / (len(shades) - 1) for step in range(len(shades))]
    colour = alt.Color("value:Q", scale=alt.Scale(range=shades, domain=domain), legend=bar)
    x = alt.X("left:Q", axis=_axis(picture.across, last, True), scale=_cells([0, width]))
    y = alt.Y("top:Q", axis=_axis(picture.down, first, False), scale=_cells([height, 0]))
    rectangles = alt.Chart(alt.Data(values=_runs(heat_map))).mark_rect()
    layers = [rectangles.encode(x, y, colour, x2="right:Q", y2="bottom:Q")]
    if picture.numbers:
        layers.append(_numbers(heat_map, low + DARK * (high - low), x, y))
    if heat_map.hidden:
        layers.append(_hatches(heat_map, x, y))
    return _titled(layers, heat_map.title, width * picture.cell, height * picture.cell)


def _cells(domain: list[int]) -> Any:
    return alt.Scale(domain=domain, nice=False, zero=False)


def _axis(axis: Axis, labelled: bool, across: bool) -> Any:
    """An axis with labels at the middle of rows or columns."""
    slanted = across and any(len(label) > 3 for label in axis.labels)
    return alt.Axis(
        values=[place + 0.5 for place, label in enumerate(axis.labels) if label] if labelled else [],
        labelExpr=f"{json.dumps(axis.labels)}[floor(datum.value)]",
        title=axis.title if labelled and axis.title else None,
        labelAngle=-45 if slanted else 0,
        ticks=False,
        grid=False,
        domain=False,
        labelOverlap=False,
        labelLimit=120,
    )


def _runs(heat_map: HeatMap) -> list[dict[str, float]]:
    """The cells as rectangles; equal neighbours in a row are one rectangle."""
    rectangles = []
    for top, row in enumerate(heat_map.rows):
        left = 0
        for value, run in groupby(row):
            right = left + len(list(run))
            rectangles.append({"left": left, "right": right, "top": top, "bottom": top + 1, "value": value})
            left = right
    return rectangles


def _hatches(heat_map: HeatMap, x: Any, y: Any) -> Any:
    """Two slanted lines through each hidden cell."""
    lines = [
        {"left": column + left, "right": column + right, "top": row + bottom, "bottom": row + top}
        for row, column in sorted(heat_map.hidden)
        for left, right, bottom, top in ((0.0, 0.5, 0.5, 0.0), (0.5, 1.0, 1.0, 0.5))
    ]
    rules = alt.Chart(alt.Data(values=lines)).mark_rule(color=INK, opacity=0.35)
    return rules.encode(x, y, x2="right:Q", y2="bottom:Q")


def _numbers(heat_map: HeatMap, dark: float, x: Any, y: Any) -> Any:
    """The number in each visible cell, to two decimals."""
    cells = [
        {"left": column + 0.5, "top": row + 0.5, "words": _short(value), "ink": "white" if value > dark else INK}
        for row, values in enumerate(heat_map.rows)
        for column, value in enumerate(values)
        if (row, column) not in heat_map.hidden
    ]
    text = alt.Chart(alt.Data(values=cells)).mark_text(fontSize=10, font=FONT, baseline="middle")
    return text.encode(x, y, text="words:N", color=alt.Color("ink:N", scale=None))


def _short(value: float) -> str:
    """`0.35` as `.35`, and 0 as `.00`: exact and rounded numbers look alike."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")


# Curves

MAGENTA = COLOURS[3]
"""The colour of dashed lines, as in the documents."""


def _curves(picture: Curves) -> Any:
    styles = {series.name: series.style for panel in picture.panels for series in panel.series}
    chart = _grid(picture, [_panel(picture, place, styles) for place in range(len(picture.panels))], 30)
    x: Any = "independent" if any(panel.across for panel in picture.panels) else "shared"
    return chart.resolve_scale(color="shared", shape="shared", strokeDash="shared", x=x, y="shared")


def _panel(picture: Curves, place: int, styles: dict[str, LineStyle]) -> Any:
    panel, first = picture.panels[place], place % picture.columns == 0
    x = alt.X("x:Q", title=panel.across or picture.across, axis=alt.Axis(tickCount=5, grid=False))
    y = alt.Y("y:Q", title=picture.up if first else None, axis=alt.Axis(tickCount=5, labels=first, ticks=first))
    points_first = sorted(
        panel.series, key=lambda series: series.style is not LineStyle.POINTS
    )  # lines are drawn over them
    layers = [_marks(series).encode(x, y, *_styles(series, styles)) for series in points_first]
    return _titled(layers, panel.title, *picture.size)


def _marks(series: Series) -> Any:
    chart = alt.Chart(alt.Data(values=[{"name": series.name, "x": x, "y": y} for x, y in series.points]))
    if series.style is LineStyle.POINTS:
        return chart.mark_point(size=28, opacity=0.6, filled=True)
    return chart.mark_line(strokeWidth=2)


def _styles(series: Series, styles: dict[str, LineStyle]) -> list[Any]:
    """Colour, and dashes or shape, all by name, so that they share one legend; a single name has no legend."""

    def scale(values: list[Any]) -> Any:
        return alt.Scale(domain=list(styles), range=values)

    legend = alt.Legend(title=None, orient="bottom", symbolSize=80, symbolOpacity=1) if len(styles) > 1 else None
    others = cycle(colour for colour in COLOURS if colour != MAGENTA)
    colours = [MAGENTA if style is LineStyle.DASHED else next(others) for style in styles.values()]
    colour = alt.Color("name:N", scale=scale(colours), legend=legend)
    if series.style is LineStyle.POINTS:
        shapes = ["circle" if style is LineStyle.POINTS else "stroke" for style in styles.values()]
        return [colour, alt.Shape("name:N", scale=scale(shapes), legend=legend)]
    dashes = [[5, 4] if style is LineStyle.DASHED else [1, 0] for style in styles.values()]
    return [colour, alt.StrokeDash("name:N", scale=scale(dashes), legend=legend)]


# Files


@dataclass(frozen=True)
class Target:
    """The files of one figure."""

    name: str
    svg: Path
    png: Path

    def write(self, picture: Picture) -> list[Path]:
        """Draw the picture into both files, atomically, and return their paths.

        Raises UsageError for a file that cannot be written.
        """
        text = svg(self.name, picture)
        replace_bytes(self.svg, text.encode() + b"\n")
        replace_bytes(self.png, png(text))
        return [self.svg, self.png]


def targets(folder: Path, names: Sequence[str], overwrite: bool = False) -> list[Target]:
    """The files of these figures, in a folder that is made if necessary.

    Raises UsageError for a file that exists, unless `overwrite`, and for a folder in place of a file.
    """
    with file_errors(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    figures = [Target(name, folder / f"{name}.svg", folder / f"{name}.png") for name in names]
    for file in (file for figure in figures for file in (figure.svg, figure.png)):
        if file.is_dir():
            raise UsageError(f"{file} is a folder: move it away")
        if os.path.lexists(file) and not overwrite:
            raise UsageError(f"{file} exists: name another folder with --to, or replace files with --overwrite")
    return figures
