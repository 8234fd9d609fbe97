"""Heat maps as a chart of Altair: a grid with shared axes, a title over each map, and one colour bar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import altair as alt

from attnsuite.documents.figures.picture import Axis, Colours, HeatMap, HeatMaps
from attnsuite.documents.figures.render.panel import sized
from attnsuite.report.charting import CONFIG, FONT, INK

SHADES = {
    Colours.REDS: ["#fff5f0", "#fcbba1", "#fb6a4a", "#cb181d", "#67000d"],
    Colours.BLUES: ["#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"],
}
"""The colours along a colour bar, from its lowest number on: ColorBrewer's Reds and Blues, as matplotlib has them."""
DARK = 0.55
"""The share of the colour bar above which a cell is dark, and its number is written in white."""


def chart(picture: HeatMaps) -> Any:
    """The whole grid."""
    panels = [_panel(picture, place) for place in range(len(picture.maps))]
    title = alt.Title(picture.title, subtitle=picture.subtitle, anchor="start", offset=18)
    whole = alt.concat(*panels, columns=picture.columns, spacing={"row": 22, "column": 22}, title=title, config=CONFIG)
    return whole.resolve_scale(color="shared", x="independent", y="independent")


def _panel(picture: HeatMaps, place: int) -> Any:
    """One map. Only the leftmost of a row has labels beside it, and only the lowest of a column below it."""
    one = picture.maps[place]
    first, last = place % picture.columns == 0, place + picture.columns >= len(picture.maps)
    low, high = picture.domain
    bar = alt.Legend(title=picture.bar, gradientLength=min(150, max(60, len(one.rows) * picture.cell)), tickCount=4)
    colour = alt.Color(
        "value:Q",
        scale=alt.Scale(range=SHADES[picture.colours], domain=_evenly(low, high, len(SHADES[picture.colours]))),
        legend=bar,
    )
    width, height = (count * picture.cell for count in (len(one.rows[0]), len(one.rows)))
    x = _position(alt.X, "left", picture.across, len(one.rows[0]), picture.across.title if last else "", last)
    y = _position(alt.Y, "top", picture.down, len(one.rows), picture.down.title if first else "", first)
    runs = alt.Chart(alt.Data(values=list(_runs(one)))).mark_rect()
    layers = [runs.encode(x, y, colour, x2="right:Q", y2="bottom:Q")]
    if picture.written:
        layers.append(_numbers(one, low + DARK * (high - low), x, y))
    return sized(layers, one.title, width, height)


def _evenly(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * place / (count - 1) for place in range(count)]


def _position(channel: Any, field: str, axis: Axis, cells: int, title: str, shown: bool) -> Any:
    """Where a cell lies; labels stand at the middle of their row or column."""
    across = channel is alt.X
    words = f"{json.dumps(axis.labels)}[floor(datum.value)]"
    long = across and any(len(label) > 3 for label in axis.labels)
    drawn = alt.Axis(
        values=[place + 0.5 for place, label in enumerate(axis.labels) if label] if shown else [],
        labelExpr=words,
        title=title or None,
        labelAngle=-45 if long else 0,
        ticks=False,
        grid=False,
        domain=False,
        labelOverlap=False,
        labelLimit=120,
    )
    domain = [0, cells] if across else [cells, 0]
    return channel(f"{field}:Q", axis=drawn, scale=alt.Scale(domain=domain, nice=False, zero=False))


def _runs(one: HeatMap) -> Iterator[dict[str, float]]:
    """The cells; those of the same number beside each other are one."""
    for top, row in enumerate(one.rows):
        left = 0
        for value, run in groupby(row):
            right = left + len(list(run))
            yield {"left": left, "right": right, "top": top, "bottom": top + 1, "value": value}
            left = right


def _numbers(one: HeatMap, dark: float, x: Any, y: Any) -> Any:
    """The number in each cell, to two decimals."""
    cells = [
        {"left": column + 0.5, "top": row + 0.5, "words": _short(value), "ink": "white" if value > dark else INK}
        for row, values in enumerate(one.rows)
        for column, value in enumerate(values)
    ]
    text = alt.Chart(alt.Data(values=cells)).mark_text(fontSize=10, font=FONT, baseline="middle")
    return text.encode(x, y, text="words:N", color=alt.Color("ink:N", scale=None))


def _short(value: float) -> str:
    """`0.35` as `.35`, and a whole number below ten as one digit."""
    if value == int(value) and 0 <= value < 10:
        return f"{value:g}"
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")
