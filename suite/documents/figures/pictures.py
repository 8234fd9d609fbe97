"""Pictures as data, heat maps and curves, which drawing.py draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from torch import Tensor

DIGITS = 5
"""Significant digits of a number: the documents print at most as many."""


@dataclass(frozen=True)
class Axis:
    """An axis of a heat map: its title, and the label of each row or column, which may be empty."""

    title: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class HeatMap:
    """One matrix, its rows from the top."""

    rows: tuple[tuple[float, ...], ...]
    title: str = ""
    hidden: frozenset[tuple[int, int]] = frozenset()
    """Rows and columns of the cells that a mask hides: hatched, without a number."""


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
    """The quantity: the title of the colour bar."""
    colours: Colours = Colours.REDS
    domain: tuple[float, float] = (0.0, 1.0)
    """The numbers at the ends of the colour bar."""
    cell: int = 28
    """The side of a cell in pixels, a whole number, so that no seams show between cells."""
    numbers: bool = True
    """Whether each cell contains its number."""
    title: str = ""

    @property
    def description(self) -> str:
        """A description in words, for readers who cannot see the picture."""
        return " ".join([self.subtitle + ".", *map(self._describe, self.maps)])

    def _describe(self, matrix: HeatMap) -> str:
        value, row, column = max((v, -i, -j) for i, values in enumerate(matrix.rows) for j, v in enumerate(values))
        size = f"{len(matrix.rows)} rows ({self.down.title}) by {len(matrix.rows[0])} columns ({self.across.title})"
        place = f"row {1 - row}, column {1 - column}"
        return f"{matrix.title or 'Heat map'}: {size}, the largest {self.bar} is {value:g} in {place}."


class LineStyle(StrEnum):
    """The look of a series of points."""

    LINE = "line"
    DASHED = "dashed line"
    POINTS = "points"


@dataclass(frozen=True)
class Series:
    """Points of one kind. Series with one name look alike in all panels and share an entry of the legend."""

    name: str
    points: tuple[tuple[float, float], ...]
    style: LineStyle = LineStyle.LINE


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
    def description(self) -> str:
        """A description in words, for readers who cannot see the picture."""
        return " ".join([self.subtitle + ".", *map(self._describe, self.panels)])

    def _describe(self, panel: Panel) -> str:
        lines = []
        for series in panel.series:
            heights = [y for _, y in series.points]
            extent = f"{len(heights)} points from {min(heights):g} to {max(heights):g}"
            lines.append(f"{series.name} ({series.style}, {extent})")
        return f"{panel.title or 'Panel'}: {self.up} over {panel.across or self.across}; {'; '.join(lines)}."


Picture: TypeAlias = HeatMaps | Curves


def rounded(value: float) -> float:
    """The number to five digits, which do not depend on the order of sums."""
    return float(f"{value:.{DIGITS}g}")


def heat_map(matrix: Tensor, title: str = "", hidden: Tensor | None = None) -> HeatMap:
    """A heat map of a matrix; `hidden` is True in the cells that a mask hides."""
    places = [] if hidden is None else hidden.expand_as(matrix).nonzero().tolist()
    rows = tuple(tuple(map(rounded, row)) for row in matrix.tolist())
    return HeatMap(rows, title, frozenset((row, column) for row, column in places))


def later(matrix: Tensor) -> Tensor:
    """The cells that a causal mask hides."""
    return matrix.new_ones(matrix.shape).triu(1).bool()


def series(name: str, x: Iterable[float], y: Tensor | Sequence[float], style: LineStyle = LineStyle.LINE) -> Series:
    """A series of points."""
    heights = y.tolist() if isinstance(y, Tensor) else y
    points = zip(x, heights, strict=True)
    return Series(name, tuple((rounded(across), rounded(height)) for across, height in points), style)


def numbered(title: str, values: Sequence[float], every: int = 1) -> Axis:
    """An axis of numbers with a label at every `every`-th."""
    return Axis(title, tuple(f"{value:.3g}" if place % every == 0 else "" for place, value in enumerate(values)))
