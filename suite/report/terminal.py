"""Pages → lines of a terminal: aligned columns, no markup, no control codes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch

from attnsuite.report.page import LONGEST_CODE, Block, Cell, Column, Note, Page, Points, Section, Span, Table, plain

GAP = "  "
"""The space between two columns, and before an indented line."""


def render(page: Page) -> list[str]:
    """The lines of a page without its title."""
    return _blocks(page.blocks)


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [line for block in blocks for line in _lines(block)]


def _words(spans: Iterable[Span]) -> str:
    return "".join(span.words for span in spans)


@singledispatch
def _lines(block: Block) -> Iterator[str]:
    raise TypeError(f"a terminal has no {type(block).__name__}")


@_lines.register
def _note(block: Note) -> Iterator[str]:
    yield _words(block.spans)


@_lines.register
def _points(block: Points) -> Iterator[str]:
    for point in block.points:
        if isinstance(point, Points):
            yield from (f"{GAP}{GAP}{line}" for line in _points(point))
        else:
            yield f"{GAP}{_words(point.spans)}"


@_lines.register
def _table(block: Table) -> Iterator[str]:
    whole = [row for row in block.rows if len(row) == len(block.columns)]
    widths = [max(len(cell.words) for cell in cells) for cells in zip(*(whole or block.rows), strict=False)]
    for place, row in enumerate(block.rows):
        yield _aligned(row, block.columns, widths)
        yield from _points(block.below.get(place, Points(())))


def _aligned(row: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """The cells of a row, padded to their columns; the last cell only where its column is aligned right."""
    words = [
        f"{cell.words:>{width}}" if column.right else f"{cell.words:{width}}"
        for cell, column, width in zip(row, columns, widths, strict=False)
    ]
    if len(row) < len(columns) or not columns[-1].right:
        words[-1] = row[-1].words
    return GAP.join(words)


@_lines.register
def _section(block: Section) -> Iterator[str]:
    yield plain(block.title, LONGEST_CODE)
    yield from (f"{GAP}{line}" for line in _blocks(block.blocks))
