"""Curves and points as a chart of Altair: panels with shared scales and one legend."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import altair as alt

from attnsuite.documents.figures.picture import Curves, Panel, Series, Way
from attnsuite.documents.figures.render.panel import sized
from attnsuite.report.charting import COLOURS, CONFIG

MAGENTA = COLOURS[3]
"""The colour of what is dashed, as in the documents."""


def chart(picture: Curves) -> Any:
    """All panels."""
    every = [series for panel in picture.panels for series in panel.series]
    ways = {series.name: series.way for series in every}
    panels = [_panel(picture, place, ways) for place in range(len(picture.panels))]
    title = alt.Title(picture.title, subtitle=picture.subtitle, anchor="start", offset=18)
    whole = alt.concat(*panels, columns=picture.columns, spacing={"row": 30, "column": 22}, title=title, config=CONFIG)
    own: Any = "independent" if any(panel.across for panel in picture.panels) else "shared"
    return whole.resolve_scale(color="shared", shape="shared", strokeDash="shared", x=own, y="shared")


def _panel(picture: Curves, place: int, ways: dict[str, Way]) -> Any:
    panel = picture.panels[place]
    first = place % picture.columns == 0
    x = alt.X("x:Q", title=panel.across or picture.across, axis=alt.Axis(tickCount=5, grid=False))
    y = alt.Y("y:Q", title=picture.up if first else None, axis=alt.Axis(tickCount=5, labels=first, ticks=first))
    layers = [_drawn(series).encode(x, y, *_styles(series, ways)) for series in _front_last(panel)]
    width, height = picture.size
    return sized(layers, panel.title, width, height)


def _front_last(panel: Panel) -> list[Series]:
    """Points first, so that lines are drawn over them."""
    return sorted(panel.series, key=lambda series: series.way is not Way.POINTS)


def _drawn(series: Series) -> Any:
    rows = [{"name": series.name, "x": x, "y": y} for x, y in series.points]
    made = alt.Chart(alt.Data(values=rows))
    if series.way is Way.POINTS:
        return made.mark_point(size=28, opacity=0.6, filled=True)
    return made.mark_line(strokeWidth=2)


def _colours(ways: dict[str, Way]) -> list[str]:
    """A colour for each name: that of what is dashed, and the others in turn."""
    others = cycle(colour for colour in COLOURS if colour != MAGENTA)
    return [MAGENTA if way is Way.DASHED else next(others) for way in ways.values()]


def _styles(series: Series, ways: dict[str, Way]) -> list[Any]:
    """Colour, and dashes or shape, all by name, so that they make one legend; a single name needs none."""
    names = list(ways)
    legend = alt.Legend(title=None, orient="bottom", symbolSize=80, symbolOpacity=1) if len(names) > 1 else None
    shapes = ["circle" if way is Way.POINTS else "stroke" for way in ways.values()]
    dashes = [[5, 4] if way is Way.DASHED else [1, 0] for way in ways.values()]
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=_colours(ways)), legend=legend)
    if series.way is Way.POINTS:
        return [colour, alt.Shape("name:N", scale=alt.Scale(domain=names, range=shapes), legend=legend)]
    return [colour, alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=dashes), legend=legend)]
