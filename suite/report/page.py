"""A page as data without markup: sections of notes, lists and tables, whose cells have words and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from attnsuite.model import escaped

LONGEST = 240
"""Characters of a text in a cell, two lines of a page. The row in results/ has the whole message."""
LONGEST_CODE = 1000
"""Characters of a name or a command: far more than any needs, because a cut command does not run."""
NUMBER = re.compile(r"; [^;]+ is \S+, should be ")
"""The part of a message that states the wrong number, after an explanation."""
SHORTEST = 20
"""The fewest characters to which an explanation is cut: fewer would explain nothing."""
NOTHING = "–"
"""The text of a cell without a number."""


def plain(text: object, longest: int = LONGEST) -> str:
    """The text on one line, cut to `longest` characters, with control characters escaped."""
    words = escaped(str(text))
    words = " ".join(words.split()) if " " in words or not words.isprintable() else words
    return words if len(words) <= longest else _cut(words, longest)


def _cut(words: str, longest: int) -> str:
    """Words without their end. Before a wrong number the explanation is cut, and the number stays."""
    number = NUMBER.search(words)
    end = words[number.start() :] if number and len(words) - number.start() < longest - SHORTEST else ""
    return f"{words[: longest - 1 - len(end)]}…{end}"


class Style(StrEnum):
    """The look of words."""

    PLAIN = "plain"
    CODE = "code"
    """A name or a command that a reader copies."""


@dataclass(frozen=True, slots=True)
class Span:
    """Words in one style, on one line and free of control characters; `link` is an address, or empty."""

    words: str
    style: Style = Style.PLAIN
    link: str = ""


Text: TypeAlias = "str | Span | Iterable[Span]"
"""Words, plain or with a style."""


def spans(*parts: Text, longest: int = LONGEST) -> tuple[Span, ...]:
    """The parts as one text. Strings become words in plain style; a space at their start or end is kept."""
    result: list[Span] = []
    for part in parts:
        if isinstance(part, str):
            result.append(Span(f"{' ' * part.startswith(' ')}{plain(part, longest)}{' ' * part.endswith(' ')}"))
        else:
            result += [part] if isinstance(part, Span) else part
    return tuple(span for span in result if span.words)


def code(text: object) -> Span:
    """A name or a command."""
    return Span(plain(text, LONGEST_CODE), Style.CODE)


def joined(parts: Iterable[Span], by: str = ", ") -> tuple[Span, ...]:
    """The spans with `by` between each two."""
    return tuple(span for part in parts for span in (Span(by), part))[1:]


def name_list(names: Sequence[str], most: int | None = None) -> tuple[Span, ...]:
    """Names separated by commas: the first `most`, and the number of further ones."""
    first = joined(map(code, names[:most]))
    more = len(names) - (most or len(names))
    return (*first, Span(f" and {more} more")) if more > 0 else first


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    spans: tuple[Span, ...] = ()

    @property
    def words(self) -> str:
        """The words that readers see, without styles."""
        return "".join(span.words for span in self.spans)


def text(words: object, longest: int = LONGEST) -> Cell:
    """A cell of words, cut to `longest` characters."""
    return Cell(spans(Span(plain(words, longest))))


def cell(value: object) -> Cell:
    """The cell of a number, a text or a name; a cell stays unchanged."""
    if isinstance(value, Cell):
        return value
    return Cell(spans(value)) if isinstance(value, Span) else text(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
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
    """A page, and the CSV files that belong to it, by name without the ending."""

    title: str
    blocks: tuple[Block, ...]
    data: Mapping[str, str] = field(default_factory=dict)
