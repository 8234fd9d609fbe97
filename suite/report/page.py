"""A page as data without markup: sections of notes, lists, tables and charts. A renderer turns it into text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from attnsuite.report.cells import LONGEST_CODE, NOTHING, Cell, Said, Span, cell, spans, text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: `title` is its heading for readers, `key` its name for programs.

    Readers do not see a column whose title is None; programs do not get a column without a key.
    """

    title: str | None = None
    key: str = ""
    right: bool = False
    """Whether a terminal aligns the column to the right."""


@dataclass(frozen=True)
class Table:
    """Columns and rows of cells. The last cell of a row that is shorter than the others takes the rest of its line."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    below: Mapping[int, Points] = field(default_factory=dict)
    """Lists that belong below a row, by the place of the row."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def shown(self) -> Table:
        """The table with only the columns that readers see."""
        return self._of([column.title is not None for column in self.columns])

    @property
    def data(self) -> Table:
        """The table with only the columns that programs read."""
        return self._of([bool(column.key) for column in self.columns])

    @property
    def filled(self) -> Table:
        """The table without columns that are empty in every row; in the others, empty cells get a dash."""
        found = self._of([any(cell.spans for cell in cells) for cells in zip(*self.rows, strict=True)])
        rows = (tuple(cell if cell.spans else text(NOTHING) for cell in row) for row in found.rows)
        return Table(found.columns, tuple(rows))

    def _of(self, kept: Sequence[bool]) -> Table:
        def of(row: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(each for each, keep in zip(row, kept, strict=False) if keep)

        return Table(of(self.columns), tuple(map(of, self.rows)), self.below)


def table(columns: Iterable[str | Column], rows: Iterable[Iterable[object]]) -> Table:
    """A table. A column may be given as its heading, a cell as a value, a text or a name."""
    heads = tuple(Column(column) if isinstance(column, str) else column for column in columns)
    return Table(heads, tuple(tuple(map(cell, row)) for row in rows))


def first(of: Table, most: int, file: str) -> tuple[Table, Note]:
    """The first rows of a table, `most` of them, and a line that counts the others, which stand in `file`."""
    rest = len(of.rows) - most
    if rest <= 0:
        return of, note()
    return Table(of.columns, of.rows[:most], of.below), note(f"{rest:,} more lines: ", beside_page(file))


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    spans: tuple[Span, ...]

    def __bool__(self) -> bool:
        return bool(self.spans)


def note(*parts: Said, longest: int = LONGEST_CODE) -> Note:
    """A paragraph; `longest` limits the characters of each part."""
    return Note(spans(*parts, longest=longest))


def beside_page(file: str) -> Span:
    """A link to a file that lies beside the page."""
    return Span(file, link=file)


@dataclass(frozen=True, slots=True)
class Points:
    """A list of notes; a list inside it belongs to the note before it."""

    points: tuple[Note | Points, ...]

    def __bool__(self) -> bool:
        return bool(self.points)


def points(lines: Iterable[Said]) -> Points:
    """A list with a note for each line."""
    return Points(tuple(map(note, lines)))


@dataclass(frozen=True)
class Mark:
    """The points of one implementation. `style` numbers the colour and shape that it has in all charts of a view."""

    name: str
    style: int
    points: tuple[tuple[float, float], ...]
    label: str = ""
    front: bool = False
    """In a chart of two quantities: whether no other implementation is better in both."""
    intervals: tuple[tuple[float, float] | None, ...] = ()
    """Of each point, the interval of the quantity that was timed; None where too few rounds leave it without ends."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    marks: tuple[Mark, ...]

    @property
    def stopped(self) -> tuple[Mark, ...]:
        """The lines that end before the longest one does."""
        longest = max(mark.points[-1][0] for mark in self.marks)
        return tuple(mark for mark in self.marks if mark.points[-1][0] < longest)


@dataclass(frozen=True)
class Picture:
    """What a chart shows. `kind` is `lines`, `bars` or `points`; `across` and `up` name the quantities on the axes."""

    kind: str
    title: str
    subtitle: str
    across: str
    up: str
    panels: tuple[Panel, ...]
    note: str = ""
    """How to read the chart."""

    @property
    def data(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def explained(self) -> str:
        """The note, and what the end of a line means that stopped."""
        some = self.kind == "lines" and any(panel.stopped for panel in self.panels)
        return "; ".join(filter(None, (self.note, "×: not measured beyond" if some else "")))

    @property
    def timed_across(self) -> bool:
        """Whether the quantity that was timed, which has intervals, is the one across."""
        return self.across in ("rate", "relative")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart in a file beside the page, and in words what it shows."""

    file: str
    title: str
    picture: Picture | None = None
    """Its data, for a renderer that draws; None if only the file is there."""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; `folded` ones are hidden until a reader unfolds them."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False

    def __bool__(self) -> bool:
        return bool(self.blocks)


Block: TypeAlias = "Note | Points | Table | Chart | Section"
Parts: TypeAlias = "Block | Iterable[Block]"


def blocks(*parts: Parts) -> tuple[Block, ...]:
    """These blocks one after the other, without those that are empty."""
    found: list[Block] = []
    for part in parts:
        found += [part] if isinstance(part, (Note, Points, Table, Chart, Section)) else part
    return tuple(each for each in found if each)


def section(title: str, *parts: Parts) -> Section:
    """Blocks under a heading. A page leaves out a section that has none."""
    return Section(title, blocks(*parts))


@dataclass(frozen=True)
class Page:
    """A page. `data` are its tables for programs, by the names of their files."""

    title: str
    blocks: tuple[Block, ...]
    data: Mapping[str, Table] = field(default_factory=dict)
