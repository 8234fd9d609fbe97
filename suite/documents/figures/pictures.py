"""The data of the two kinds of pictures, heat maps and curves, without markup; drawing.py draws them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from torch import Tensor

DIGITS = 5
"""Significant digits of a number: at least as many as the documents print."""


@dataclass(frozen=True)
class Axis:
    """An axis of a heat map: its title, and the label of each row or column. An empty label is not written."""

    title: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class HeatMap:
    """One matrix, its rows from the top."""

    rows: tuple[tuple[float, ...], ...]
    title: str = ""


class Colours(StrEnum):
    """Colour maps from nearly white to a dark red or blue."""

    REDS = "reds"
    BLUES = "blues"


@dataclass(frozen=True)
class HeatMaps:
    """Heat maps in a grid of `columns`, with shared axes and one colour bar."""

    subtitle: str
    maps: tuple[HeatMap, ...]
    across: Axis
    down: Axis
    columns: int = 1
    bar: str = "weight"
    """The quantity, which is the title of the colour bar."""
    colours: Colours = Colours.REDS
    domain: tuple[float, float] = (0.0, 1.0)
    """The numbers at the ends of the colour bar."""
    cell: int = 28
    """The side of a cell in pixels. A whole number, or else seams would show between cells."""
    written: bool = True
    """Whether the number is written into each cell."""
    title: str = ""

    @property
    def shown(self) -> str:
        """A description in words, for readers who cannot see the picture."""
        return " ".join([self.subtitle + ".", *map(self._described, self.maps)])

    def _described(self, matrix: HeatMap) -> str:
        value, row, column = max((v, -i, -j) for i, values in enumerate(matrix.rows) for j, v in enumerate(values))
        size = f"{len(matrix.rows)} rows ({self.down.title}) by {len(matrix.rows[0])} columns ({self.across.title})"
        place = f"row {1 - row}, column {1 - column}"
        return f"{matrix.title or 'Heat map'}: {size}, the largest {self.bar} is {value:g} in {place}."


class LineStyle(StrEnum):
    """How a series of points is drawn."""

    LINE = "line"
    DASHED = "dashed line"
    POINTS = "points"


@dataclass(frozen=True)
class Series:
    """Points of one kind. Series of the same name look alike in all panels, and have one entry in the legend."""

    name: str
    points: tuple[tuple[float, float], ...]
    way: LineStyle = LineStyle.LINE


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `across` is its quantity where panels do not share one."""

    title: str
    series: tuple[Series, ...]
    across: str = ""


@dataclass(frozen=True)
class Curves:
    """Panels of series over one quantity, in `columns`; they share their scales."""

    subtitle: str
    panels: tuple[Panel, ...]
    columns: int
    across: str
    up: str
    size: tuple[int, int] = (220, 200)
    """Pixels: width and height of a panel."""
    title: str = ""

    @property
    def shown(self) -> str:
        """A description in words, for readers who cannot see the picture."""
        return " ".join([self.subtitle + ".", *map(self._described, self.panels)])

    def _described(self, panel: Panel) -> str:
        lines = []
        for series in panel.series:
            heights = [y for _, y in series.points]
            extent = f"{len(heights)} points from {min(heights):g} to {max(heights):g}"
            lines.append(f"{series.name} ({series.way}, {extent})")
        return f"{panel.title or 'Panel'}: {self.up} over {panel.across or self.across}; {'; '.join(lines)}."


Picture: TypeAlias = HeatMaps | Curves


def rounded(value: float) -> float:
    """A number as figures hold it: short, and the same where sums in another order differ in their last digits."""
    return float(f"{value:.{DIGITS}g}")


def heat_map(matrix: Tensor, title: str = "") -> HeatMap:
    """A heat map of a matrix."""
    return HeatMap(tuple(tuple(map(rounded, row)) for row in matrix.tolist()), title)


def series(name: str, x: Iterable[float], y: Tensor | Sequence[float], way: LineStyle = LineStyle.LINE) -> Series:
    """A series of points."""
    heights = y.tolist() if isinstance(y, Tensor) else y
    return Series(name, tuple((rounded(place), rounded(height)) for place, height in zip(x, heights, strict=True)), way)


def numbered(title: str, values: Sequence[float], every: int = 1) -> Axis:
    """An axis of numbers, of which one in `every` is written."""
    return Axis(title, tuple(f"{value:.3g}" if place % every == 0 else "" for place, value in enumerate(values)))
