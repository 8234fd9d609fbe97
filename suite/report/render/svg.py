"""Pictures → SVG, with Altair: the same picture gives the same bytes. The only place that imports Altair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from attnsuite.report import units
from attnsuite.report.charting import COLOURS, CONFIG, FONT, INK, MUTED, svg_of
from attnsuite.report.page import Mark, Panel, Picture
from attnsuite.report.render.placing import LINE, OVERHANG, Box, Point, beside, nearest, spread

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
"""The shapes of marks: as many as there are colours, shifted by one after each round of colours."""

CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""The shape of a ×, which ends a line that stopped."""

AXES = {
    "length": "sequence length",
    "time": "time of one call",
    "relative": "time of one call, compared with the baseline's",
    "memory": "peak memory of one call",
    "rate": "FLOPs per second",
    "error": "error, in units of the bound",
    "speed": "speed compared with the baseline's",
    "epoch": "epoch",
    "loss": "mean loss of an epoch",
}
"""The title of an axis, by the quantity on it."""


def _scaled(units: Sequence[tuple[float, str]]) -> str:
    """An expression of Vega that writes a tick in the largest of these units in which it is at least 0.95."""
    said = [f"format(datum.value / {size!r}, '~g') + ' {name}'" for size, name in units]
    choices = (f"datum.value >= {0.95 * size!r} ? {says} : " for (size, _), says in zip(units, said[:-1], strict=False))
    return "".join(choices) + said[-1]


def _ratio(above: str, below: str) -> str:
    """An expression of Vega that writes a tick of an axis of ratios: "2× slower" on both sides of 1."""
    more, less = (
        f"format({value}, '.3~g') + '× {says}'" for value, says in (("datum.value", above), ("1 / datum.value", below))
    )
    return f"datum.value > 1 ? {more} : datum.value < 1 ? {less} : '1×'"


UNITS = {
    "length": "datum.value % 1024 ? format(datum.value, ',') : datum.value / 1024 + 'k'",
    "time": _scaled(units.TIMES),
    "memory": _scaled(units.SIZES),
    "rate": _scaled(units.RATES),
    "error": "format(datum.value, '~g')",
    "relative": _ratio("slower", "faster"),
    "speed": _ratio("faster", "slower"),
    "epoch": "format(datum.value, '~g')",
    "loss": "format(datum.value, '~g')",
}
"""An expression of Vega that writes a tick of an axis, by the quantity on it."""


def render(picture: Picture) -> str:
    """The picture as the text of an SVG file on white."""
    panel = {"lines": _lines, "points": _points, "bars": _bars}[picture.kind]
    charts = panel(picture)
    columns = 2 if len(charts) > 1 else 1
    said = [line for line in (picture.subtitle, picture.explained) if line]
    whole = alt.concat(
        *charts,
        columns=columns,
        spacing={"row": 36, "column": 44},
        title=alt.Title(picture.title, subtitle=said, anchor="start", offset=18),
        config=CONFIG,
        resolve={"scale": dict.fromkeys(("color", "shape", "strokeDash", "x", "y"), "independent")},
    )
    return svg_of(whole)


# Lines


def _lines(picture: Picture) -> list[Any]:
    """Panels of lines over the length, each labelled at its end; the panels share the scale upwards."""
    points = [[point for mark in panel.marks for point in mark.points] for panel in picture.panels]
    up = _Axis(picture.up, [*(y for each in points for _, y in each), *_ends(picture.panels)], 1.35)
    longest = max(len(panel.marks) for panel in picture.panels)
    size = (
        270 if len(picture.panels) > 1 else 520,
        max(290 if len(picture.panels) > 1 else 380, int(LINE * (longest + 1))),
    )
    return [
        _line_panel(panel, _Axis(picture.across, [x for x, _ in each], 1.12), up, size)
        for panel, each in zip(picture.panels, points, strict=True)
    ]


def _line_panel(panel: Panel, across: _Axis, up: _Axis, size: tuple[int, int]) -> Any:
    """The longest lines are labelled at the right of the panel; others end with a × and a label there."""
    stopped = panel.stopped
    whole = [mark for mark in panel.marks if mark not in stopped]
    every = [
        {**_said(mark), "x": x, "y": y}
        for mark in panel.marks
        for x, y in (mark.points if mark in whole else mark.points[:-1])
    ]
    ends = [{**_said(mark), "x": x, "y": y} for mark in stopped for x, y in mark.points[-1:]]
    styles = _styles(panel.marks)
    each = alt.Detail("name:N")  # lines that look alike are several all the same
    bars = _bars_of(panel.marks, across, up, upright=True)
    x, y = across.encoding(alt.X, "x"), up.encoding(alt.Y, "y")
    line = _chart([*every, *ends]).mark_line(strokeWidth=2).encode(x, y, *styles[:1], styles[2], each)
    dots = _dots(every).encode(x, y, *styles[:2], each)
    crosses = _chart(ends).mark_point(shape=CROSS, filled=False, size=70, strokeWidth=2).encode(x, y, styles[0])
    labels = [
        *_labels_at_ends(stopped, panel.marks, across, up, size),
        *_labels_beyond(whole, panel.marks, across, up, size),
    ]
    return _sized([bars, line, dots, *labels, crosses], panel, size)


def _labels_beyond(
    marks: Sequence[Mark], all_marks: Sequence[Mark], across: _Axis, up: _Axis, size: tuple[int, int]
) -> list[Any]:
    """The labels of lines right of the panel, each with a line from its last point and the sign of its points."""
    width, height = size
    ends = [mark.points[-1] for mark in marks]
    places = spread([up.pixel(y, height, down=True) for _, y in ends], LINE, LINE / 2, height - LINE / 2)
    named = [
        {**_said(mark), "x": x, "y": y, "at": up.value(place, height, down=True)}
        for mark, (x, y), place in zip(marks, ends, places, strict=True)
    ]
    styles, at = _styles(all_marks), up.encoding(alt.Y, "at")
    x, y = across.encoding(alt.X, "x"), up.encoding(alt.Y, "y")
    leader = _chart(named).mark_rule().encode(x, y, styles[0], x2=alt.value(width + 12), y2="at:Q")
    sign = _dots(named).encode(at, *styles[:2], x=alt.value(width + 17))
    text = _chart(named).mark_text(align="left", baseline="middle", fontSize=12, font=FONT, color=INK)
    return [leader, sign, text.encode(at, x=alt.value(width + 26), text="label:N")]


def _labels_at_ends(
    marks: Sequence[Mark], all_marks: Sequence[Mark], across: _Axis, up: _Axis, size: tuple[int, int]
) -> list[Any]:
    """The labels of lines inside the panel, each near the end of its line, off the lines where there is room."""
    width, height = size
    lines = [[(across.pixel(x, width), up.pixel(y, height, down=True)) for x, y in mark.points] for mark in all_marks]
    ends = [line[-1] for mark, line in zip(all_marks, lines, strict=True) if mark in marks]
    boxes = beside(ends, [mark.label for mark in marks], (width - OVERHANG, height), lines)
    return _labels([(mark, *mark.points[-1]) for mark in marks], ends, boxes, _styles(all_marks)[0], across, up, size)


# Points


def _points(picture: Picture) -> list[Any]:
    """Panels of labelled points; those that no other beats in both quantities are filled and joined."""
    size = (380, 320) if len(picture.panels) > 1 else (620, 420)
    return [_point_panel(panel, picture, size) for panel in picture.panels]


def _point_panel(panel: Panel, picture: Picture, size: tuple[int, int]) -> Any:
    width, height = size
    ends = _ends([panel])
    sides, heights = ends if picture.timed_across else [], [] if picture.timed_across else ends
    across = _Axis(picture.across, [*(mark.points[0][0] for mark in panel.marks), *sides], 1.6)
    up = _Axis(picture.up, [*(mark.points[0][1] for mark in panel.marks), *heights], 2.2)
    pixels = [(across.pixel(x, width), up.pixel(y, height, down=True)) for x, y in (m.points[0] for m in panel.marks)]
    front = sorted(pixel for mark, pixel in zip(panel.marks, pixels, strict=True) if mark.front)
    boxes = beside(pixels, [mark.label for mark in panel.marks], size, [front])
    rows = [{**_said(mark), "x": mark.points[0][0], "y": mark.points[0][1]} for mark in panel.marks]
    best, behind = [row for row in rows if row["front"]], [row for row in rows if not row["front"]]
    styles = _styles(panel.marks)
    x, y = across.encoding(alt.X, "x"), up.encoding(alt.Y, "y")
    bars = _bars_of(panel.marks, across, up, upright=not picture.timed_across)
    joined = _chart(best).mark_line(color=MUTED, strokeDash=[5, 4], strokeWidth=1.2).encode(x, y)
    filled = _dots(best, 95).encode(x, y, *styles[:2])
    hollow = _chart(behind).mark_point(filled=False, size=75, strokeWidth=1.8, fill="white").encode(x, y, *styles[:2])
    leader, *words = _labels(
        [(mark, *mark.points[0]) for mark in panel.marks], pixels, boxes, styles[0], across, up, size
    )
    return _sized([joined, bars, leader, hollow, filled, *words], panel, size)


# Bars


def _bars(picture: Picture) -> list[Any]:
    """Panels of bars, the longest first, each with its name on the left and its number on the right."""
    return list(map(_bar_panel, picture.panels))


def _bar_panel(panel: Panel) -> Any:
    rows = []
    for place, mark in enumerate(panel.marks):
        at = mark.points[0][0]
        low, high = next(iter(mark.intervals), None) or (at, at)
        rows.append({**_said(mark), "x": at, "place": place, "low": low, "high": high, "end": max(at, high)})
    names = {place: mark.name for place, mark in enumerate(panel.marks)}
    width, height = 210, 24 * len(rows)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, max(row["end"] for row in rows)], nice=False))
    y = alt.Y("place:O", axis=None, scale=alt.Scale(domain=list(names), paddingInner=0.28))
    bars = _chart(rows).mark_bar(cornerRadiusEnd=2).encode(x, y, _styles(panel.marks)[0])
    line = _chart(rows).mark_rule(strokeWidth=1.4, color=INK).encode(alt.X("low:Q", axis=None), y, x2="high:Q")
    said = _chart(rows).mark_text(align="left", dx=6, fontSize=12, font=FONT, color=INK)
    said = said.encode(alt.X("end:Q", axis=None), y, text="label:N")
    named = _chart(rows).mark_text(align="right", fontSize=12, font=FONT, color=INK)
    named = named.encode(y, x=alt.value(-8), text="name:N")
    return _sized([bars, line, said, named], panel, (width, height))


# What they share


class _Axis:
    """A logarithmic axis: its domain, its ticks, and where a value lies on it. `room` widens the domain by a factor."""

    def __init__(self, what: str, values: Sequence[float], room: float) -> None:
        self.what = what
        self.low, self.high = min(values) / room, max(values) * room
        self.ticks = sorted(set(values)) if what == "length" else self._powers()

    def encoding(self, channel: Callable[..., Any], field: str) -> Any:
        axis = alt.Axis(values=self.ticks, labelExpr=UNITS[self.what], title=AXES[self.what], labelOverlap=True)
        scale = alt.Scale(type="log", domain=[self.low, self.high], nice=False)
        return channel(f"{field}:Q", axis=axis, scale=scale)

    def pixel(self, value: float, length: float, down: bool = False) -> float:
        """How far along the axis a value lies; `down` for an axis whose pixels count from the top."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return length * (1 - share if down else share)

    def value(self, pixel: float, length: float, down: bool = False) -> float:
        """The value at a pixel: the inverse of `pixel`."""
        share = 1 - pixel / length if down else pixel / length
        return self.low * float((self.high / self.low) ** share)

    def _powers(self) -> list[float]:
        """Powers of two for bytes, else of ten; with steps between them if there would be less than three ticks."""
        if self.what == "memory":
            step = max(1, round(math.log2(self.high / self.low) / 7))
            return [2.0**power for power in range(0, 60, step) if self.low <= 2.0**power <= self.high]
        found: list[float] = []
        for steps in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
            every = [float(f"{step}e{power}") for power in range(-12, 18) for step in steps]
            if self.what in ("relative", "speed"):  # as far from 1 on both sides
                above = [tick for tick in every if tick >= 1]
                every = [*(1 / tick for tick in reversed(above[1:])), *above]
            found = [tick for tick in every if self.low <= tick <= self.high and (tick >= 1 or self.what != "epoch")]
            if len(found) > 2:
                break
        return found


def _chart(rows: Sequence[dict[str, Any]]) -> Any:
    return alt.Chart(alt.Data(values=list(rows)))


def _ends(panels: Sequence[Panel]) -> list[float]:
    """The ends of all intervals: an axis has room for them."""
    return [end for panel in panels for mark in panel.marks for each in mark.intervals if each for end in each]


def _bars_of(marks: Sequence[Mark], across: _Axis, up: _Axis, *, upright: bool) -> Any:
    """The intervals of all points as thin lines, upright or lying."""
    rows = [
        {**_said(mark), "x": x, "y": y, "low": of[0], "high": of[1]}
        for mark in marks
        for (x, y), of in zip(mark.points, mark.intervals, strict=False)
        if of
    ]
    drawn = _chart(rows).mark_rule(strokeWidth=1.3, opacity=0.75)
    if upright:
        return drawn.encode(across.encoding(alt.X, "x"), up.encoding(alt.Y, "low"), _styles(marks)[0], y2="high:Q")
    return drawn.encode(across.encoding(alt.X, "low"), up.encoding(alt.Y, "y"), _styles(marks)[0], x2="high:Q")


def _labels(
    points: Sequence[tuple[Mark, float, float]],
    pixels: Sequence[Point],
    boxes: Sequence[Box],
    colour: Any,
    across: _Axis,
    up: _Axis,
    size: tuple[int, int],
) -> list[Any]:
    """Labels in their boxes inside a panel: a line from each point to its label, white around the words, the words."""
    width, height = size
    rows = [
        {
            **_said(mark),
            "x": x,
            "y": y,
            "text_x": across.value(box[0], width),
            "text_y": up.value((box[1] + box[3]) / 2, height, down=True),
            "near_x": across.value(nearest(pixel, box)[0], width),
        }
        for (mark, x, y), pixel, box in zip(points, pixels, boxes, strict=True)
    ]
    x, y = across.encoding(alt.X, "x"), up.encoding(alt.Y, "y")
    text_x, text_y = across.encoding(alt.X, "text_x"), up.encoding(alt.Y, "text_y")
    leader = _chart(rows).mark_rule(strokeWidth=1).encode(x, y, colour, x2="near_x:Q", y2="text_y:Q")
    halo = _chart(rows).mark_text(align="left", fontSize=12, font=FONT, stroke="white", strokeWidth=3.5)
    text = _chart(rows).mark_text(align="left", fontSize=12, font=FONT, color=INK)
    return [leader, *(each.encode(text_x, text_y, text="label:N") for each in (halo, text))]


def _dots(rows: Sequence[dict[str, Any]], size: int = 55) -> Any:
    return _chart(rows).mark_point(filled=True, opacity=1, size=size, stroke="white", strokeWidth=0.8)


def _said(mark: Mark) -> dict[str, Any]:
    return {"style": f"{mark.style:03d}", "name": mark.name, "label": mark.label, "front": mark.front}


def _styles(marks: Sequence[Mark]) -> tuple[Any, Any, Any]:
    """Colour, shape and dashes by style. The baseline has INK; up to 49 styles, no two share both colour and shape."""
    numbers = sorted({mark.style for mark in marks})
    domain = [f"{number:03d}" for number in numbers]
    colours = [COLOURS[(number - 1) % len(COLOURS)] if number else INK for number in numbers]
    shapes = [
        SHAPES[(number - 1 + (number - 1) // len(COLOURS)) % len(SHAPES)] if number else "circle" for number in numbers
    ]
    dashes = [[1, 0] if number <= len(COLOURS) else [6, 3] for number in numbers]
    return (
        alt.Color("style:N", scale=alt.Scale(domain=domain, range=colours), legend=None),
        alt.Shape("style:N", scale=alt.Scale(domain=domain, range=shapes), legend=None),
        alt.StrokeDash("style:N", scale=alt.Scale(domain=domain, range=dashes), legend=None),
    )


def _sized(layers: Sequence[Any], panel: Panel, size: tuple[int, int]) -> Any:
    named = {}
    if panel.title:
        named["title"] = alt.Title(panel.title, fontSize=13, anchor="start", offset=8, color=INK)
    return alt.layer(*layers, width=size[0], height=size[1], **named)
