"""A page as data without markup: sections of notes, lists and tables. A renderer turns it into text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeAlias

from attnsuite.report.cells import LONGEST_CODE, Cell, Span, Text, cell, spans


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Readers see those with a title, programs those with a key."""

    title: str | None = None
    key: str = ""
    right: bool = False
    """Whether a terminal aligns the column to the right."""


@dataclass(frozen=True)
class Table:
    """Columns and rows of cells. The last cell of a short row takes the rest of its line."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    below: Mapping[int, Points] = field(default_factory=dict)
    """Lists that belong below a row, by the place of the row."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def visible(self) -> Table:
        """The table with only the columns that readers see."""
        return self._select([column.title is not None for column in self.columns])

    @property
    def data(self) -> Table:
        """The table with only the columns that programs read."""
        return self._select([bool(column.key) for column in self.columns])

    def _select(self, selected: Sequence[bool]) -> Table:
        rows = tuple(tuple(compress(row, selected)) for row in self.rows)
        return Table(tuple(compress(self.columns, selected)), rows, self.below)


def table(columns: Iterable[str | Column], rows: Iterable[Iterable[object]]) -> Table:
    """A table. A column may be given as its heading, a cell as a value, a text or a name."""
    heads = tuple(Column(column) if isinstance(column, str) else column for column in columns)
    return Table(heads, tuple(tuple(map(cell, row)) for row in rows))


def data_table(keys: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A table for programs: columns by their keys, without headings for readers."""
    return table([Column(key=key) for key in keys], rows)


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
    """A link to a file in the page's folder."""
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
    """These blocks in order, without empty ones."""
    result: list[Block] = []
    for part in parts:
        result += [part] if isinstance(part, (Note, Points, Table, Section)) else part
    return tuple(block for block in result if block)


def section(title: str, *parts: Parts) -> Section:
    """Blocks under a heading. A page leaves out a section without blocks."""
    return Section(title, blocks(*parts))


@dataclass(frozen=True)
class Page:
    """A page. `data` are its tables for programs, by the names of their files."""

    title: str
    blocks: tuple[Block, ...]
    data: Mapping[str, Table] = field(default_factory=dict)
