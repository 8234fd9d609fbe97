"""What a figure shows, as data without markup; a renderer draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from torch import Tensor

DIGITS = 5
"""Significant digits of a number in a figure: no fewer than the documents print, and more than the eye sees."""

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """An axis of a heat map: its title, and what stands beside each row or column. An empty label is not written."""

    title: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class HeatMap:
    """One matrix, its rows from the top."""

    rows: tuple[tuple[float, ...], ...]
    title: str = ""

    @property
    def peak(self) -> tuple[float, int, int]:
        """The largest number, its row and its column."""
        return max((value, -i, -j) for i, row in enumerate(self.rows) for j, value in enumerate(row))


class Colours(StrEnum):
    """The colour maps of heat maps: from nearly white to a dark red or blue."""

    REDS = "reds"
    BLUES = "blues"


@dataclass(frozen=True)
class HeatMaps:
    """Heat maps in a grid, `columns` of them beside each other, with shared axes and one colour bar."""

    title: str
    subtitle: str
    maps: tuple[HeatMap, ...]
    columns: int
    across: Axis
    down: Axis
    bar: str = "weight"
    """What the numbers are: the title of the colour bar."""
    colours: Colours = Colours.REDS
    domain: tuple[float, float] = (0.0, 1.0)
    """The numbers at the ends of the colour bar."""
    cell: int = 28
    """Pixels: the side of a cell. A whole number, or else seams would show between cells."""
    written: bool = True
    """Whether the number is written into each cell."""

    @property
    def shown(self) -> str:
        """What can be seen, in words: for who cannot."""
        return " ".join([self.subtitle + ".", *map(self._said, self.maps)])

    def _said(self, one: HeatMap) -> str:
        value, row, column = one.peak
        place = f"row {1 - row}, column {1 - column}"
        size = f"{len(one.rows)} rows ({self.down.title}) by {len(one.rows[0])} columns ({self.across.title})"
        return f"{one.title or 'Heat map'}: {size}, the largest {self.bar} is {value:g} in {place}."


class Way(StrEnum):
    """How a series of points is drawn."""

    LINE = "line"
    DASHED = "dashed line"
    POINTS = "points"


@dataclass(frozen=True)
class Series:
    """Points of one kind. Series of the same name look alike in all panels, and have one entry in the legend."""

    name: str
    points: tuple[Point, ...]
    way: Way = Way.LINE


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `across` is its quantity where panels do not share one."""

    title: str
    series: tuple[Series, ...]
    across: str = ""


@dataclass(frozen=True)
class Curves:
    """Panels of series over one quantity, `columns` of them beside each other; they share their scales."""

    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    columns: int
    across: str
    up: str
    size: tuple[int, int] = (220, 200)
    """Pixels: width and height of a panel."""

    @property
    def shown(self) -> str:
        """What can be seen, in words: for who cannot."""
        return " ".join([self.subtitle + ".", *map(self._said, self.panels)])

    def _said(self, panel: Panel) -> str:
        quantities = f"{self.up} over {panel.across or self.across}"
        return f"{panel.title or 'Panel'}: {quantities}; {'; '.join(map(_series_said, panel.series))}."


Picture: TypeAlias = HeatMaps | Curves


def _series_said(series: Series) -> str:
    heights = [y for _, y in series.points]
    return f"{series.name} ({series.way}, {len(heights)} points from {min(heights):g} to {max(heights):g})"


def rounded(value: float) -> float:
    """A number as figures hold it: short in the file, and the same where other sums differ in their last digits."""
    return float(f"{value:.{DIGITS}g}")


def heat_map(weights: Tensor, title: str = "") -> HeatMap:
    """A heat map of a matrix, queries by keys."""
    return HeatMap(tuple(tuple(map(rounded, row)) for row in weights.tolist()), title)


def series(name: str, x: Iterable[float], y: Tensor | Sequence[float], way: Way = Way.LINE) -> Series:
    """A series of points."""
    heights = y.tolist() if isinstance(y, Tensor) else y
    return Series(name, tuple((rounded(at), rounded(height)) for at, height in zip(x, heights, strict=True)), way)


def numbered(title: str, values: Sequence[float], every: int) -> Axis:
    """An axis whose rows or columns are numbers, of which every so manieth is written."""
    return Axis(title, tuple(f"{value:.3g}" if place % every == 0 else "" for place, value in enumerate(values)))
