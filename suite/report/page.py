"""A page as data without markup: sections of notes, lists, tables and charts. A renderer turns it into text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from attnsuite.report.cells import LONGEST_CODE, Cell, Span, Text, cell, spans


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
    def visible(self) -> Table:
        """The table with only the columns that readers see."""
        return self._of([column.title is not None for column in self.columns])

    @property
    def data(self) -> Table:
        """The table with only the columns that programs read."""
        return self._of([bool(column.key) for column in self.columns])

    def _of(self, kept: Sequence[bool]) -> Table:
        def of(row: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(each for each, keep in zip(row, kept, strict=False) if keep)

        return Table(of(self.columns), tuple(map(of, self.rows)), self.below)


def table(columns: Iterable[str | Column], rows: Iterable[Iterable[object]]) -> Table:
    """A table. A column may be given as its heading, a cell as a value, a text or a name."""
    heads = tuple(Column(column) if isinstance(column, str) else column for column in columns)
    return Table(heads, tuple(tuple(map(cell, row)) for row in rows))


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    spans: tuple[Span, ...]

    def __bool__(self) -> bool:
        return bool(self.spans)


def note(*parts: Text, longest: int = LONGEST_CODE) -> Note:
    """A paragraph; `longest` limits the characters of each part."""
    return Note(spans(*parts, longest=longest))


def file_link(file: str) -> Span:
    """A link to a file that lies beside the page."""
    return Span(file, link=file)


@dataclass(frozen=True, slots=True)
class Points:
    """A list of notes; a list inside it belongs to the note before it."""

    points: tuple[Note | Points, ...]

    def __bool__(self) -> bool:
        return bool(self.points)


def points(lines: Iterable[Text]) -> Points:
    """A list with a note for each line."""
    return Points(tuple(map(note, lines)))


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]

    def __bool__(self) -> bool:
        return bool(self.blocks)


Block: TypeAlias = "Note | Points | Table | Section"
Parts: TypeAlias = "Block | Iterable[Block]"


def blocks(*parts: Parts) -> tuple[Block, ...]:
    """These blocks one after the other, without those that are empty."""
    found: list[Block] = []
    for part in parts:
        found += [part] if isinstance(part, (Note, Points, Table, Section)) else part
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
