"""What a page says, as data without markup: sections of notes, lists, tables and charts. Renderers make it text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from suite.report.cells import LONGEST_CODE, NOTHING, Cell, Said, Span, cell, spans, text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `title` is its heading for readers, `key` its name for programs.

    Where the title is None it is not shown to readers, without a key it is not written for programs.
    """

    title: str | None = None
    key: str = ""
    right: bool = False
    """Whether a terminal aligns it to the right."""


@dataclass(frozen=True)
class Table:
    """Rows of cells below columns. The last cell of a shorter row takes the rest of its line."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    below: Mapping[int, Points] = field(default_factory=dict)
    """What is said below some rows, by the place of the row."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def shown(self) -> Table:
        """The columns that readers see."""
        return self._of([column.title is not None for column in self.columns])

    @property
    def data(self) -> Table:
        """The columns that programs read."""
        return self._of([bool(column.key) for column in self.columns])

    @property
    def filled(self) -> Table:
        """Without columns that are empty in every row; empty cells of other columns get a dash."""
        found = self._of([any(cell.spans for cell in cells) for cells in zip(*self.rows, strict=True)])
        rows = (tuple(cell if cell.spans else text(NOTHING) for cell in row) for row in found.rows)
        return Table(found.columns, tuple(rows))

    def _of(self, kept: Sequence[bool]) -> Table:
        def of(row: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(each for each, keep in zip(row, kept, strict=False) if keep)

        return Table(of(self.columns), tuple(map(of, self.rows)), self.below)


def table(columns: Iterable[str | Column], rows: Iterable[Iterable[object]]) -> Table:
    """A table of these columns, of which strings are headings, and of what stands for its cells."""
    heads = tuple(Column(column) if isinstance(column, str) else column for column in columns)
    return Table(heads, tuple(tuple(map(cell, row)) for row in rows))


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    spans: tuple[Span, ...]

    def __bool__(self) -> bool:
        return bool(self.spans)


def note(*parts: Said, longest: int = LONGEST_CODE) -> Note:
    """A paragraph of words in some styles."""
    return Note(spans(*parts, longest=longest))


@dataclass(frozen=True, slots=True)
class Points:
    """A list of notes; a list within it belongs to the note before."""

    points: tuple[Note | Points, ...]

    def __bool__(self) -> bool:
        return bool(self.points)


@dataclass(frozen=True)
class Mark:
    """A named place in a chart. `style` stands for the colour and shape that an implementation has in all charts."""

    name: str
    style: int
    points: tuple[tuple[float, float], ...]
    label: str = ""
    front: bool = False
    """Whether no other is better in both."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Picture:
    """What a chart shows. `kind` is `lines`, `bars` or `points`; `across` and `up` name what the axes measure."""

    kind: str
    title: str
    subtitle: str
    across: str
    up: str
    panels: tuple[Panel, ...]
    note: str = ""
    """How to read it."""

    @property
    def data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart in a file beside the page, and what it shows in words."""

    file: str
    title: str
    picture: Picture | None = None
    """Its data, for renderers that draw; None where only the file is at hand."""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; where it is `folded`, a reader unfolds them."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False

    def __bool__(self) -> bool:
        return bool(self.blocks)


Block: TypeAlias = "Note | Points | Table | Chart | Section"
Parts: TypeAlias = "Block | Iterable[Block]"


def blocks(*parts: Parts) -> tuple[Block, ...]:
    """Blocks in a row, without those that say nothing."""
    found: list[Block] = []
    for part in parts:
        found += [part] if isinstance(part, (Note, Points, Table, Chart, Section)) else part
    return tuple(each for each in found if each)


def section(title: str, *parts: Parts) -> Section:
    """Blocks under a heading; a section without any is left out of the page."""
    return Section(title, blocks(*parts))


@dataclass(frozen=True)
class Page:
    """What is said of one subject. `data` are the tables for programs, by the names of their files."""

    title: str
    blocks: tuple[Block, ...]
    data: Mapping[str, Table] = field(default_factory=dict)
