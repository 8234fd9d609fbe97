"""Pages → parts of the page that browsers open. Every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import singledispatch
from html import escape
from itertools import count
from urllib.parse import quote

from attnsuite.report.cells import Cell, Kind, Span, Style, plain
from attnsuite.report.page import Block, Chart, Note, Points, Section, Table

TAGS = {Style.CODE: "code", Style.STRONG: "strong", Style.EMPHASIS: "em"}
"""The element of each style."""

MARK = ' aria-label=""'
"""Where the name of a table goes; no escaped text holds it, for the quotes of texts are escaped."""


def render(blocks: Iterable[Block], level: int, name: str) -> str:
    """Blocks as the text of a part of a page; `level` is that of the headings in it, `name` what its tables are called.

    Tables may be scrolled with keys, and each of a part has a name of its own that says so.
    """
    text = _parts(blocks, level)
    places = count(1)
    return re.sub(MARK, lambda _: f' aria-label="{escape(name)}, table {next(places)}"', text)


def _parts(blocks: Iterable[Block], level: int) -> str:
    return "".join(_part(block, level) for block in blocks)


def said(spans: Iterable[Span]) -> str:
    """Words with the elements of their styles."""
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    words, tag = escape(span.words), TAGS.get(span.style)
    words = f"<{tag}>{words}</{tag}>" if tag else words
    return f'<a href="{escape(quote(span.link))}">{words}</a>' if span.link else words


@singledispatch
def _part(block: Block, level: int) -> str:
    """A block as HTML. `level` is the level of headings inside it."""
    raise TypeError(f"HTML has no {type(block).__name__}")


@_part.register
def _note(block: Note, level: int) -> str:
    return f"<p>{said(block.spans)}</p>\n"


@_part.register
def _points(block: Points, level: int) -> str:
    return f"<ul>\n{''.join(_items(block))}</ul>\n"


def _items(of: Points) -> Iterator[str]:
    for point in of.points:
        yield f"<li>{_points(point, 0)}</li>\n" if isinstance(point, Points) else f"<li>{said(point.spans)}</li>\n"


@_part.register
def _table(block: Table, level: int) -> str:
    shown = block.shown
    heads = [plain(column.title or "") for column in shown.columns]
    top = "".join(f'<th scope="col">{escape(head)}</th>' if head else "<td></td>" for head in heads)
    head = f"<thead><tr>{top}</tr></thead>\n" if any(heads) else ""
    body = "".join(_row(row, len(heads)) for row in shown.rows)
    below = "".join(map(_points, block.below.values(), [level] * len(block.below)))
    return (
        f'<div class="wide" tabindex="0" role="region"{MARK}><table>\n'
        f"{head}<tbody>\n{body}</tbody></table></div>\n{below}"
    )


def _row(row: tuple[Cell, ...], columns: int) -> str:
    first, *others = row
    cells = "".join(map(_cell, others)) + "<td></td>" * (columns - len(row))
    return f'<tr><th scope="row">{said(first.spans)}</th>{cells}</tr>\n'


def _cell(cell: Cell) -> str:
    number = cell.kind is Kind.NUMBER and isinstance(cell.value, (int, float))
    order = f' data-v="{cell.value}"' if number and cell.words != str(cell.value) else ""
    return f"<td{' class=n' if number else ''}{order}>{said(cell.spans)}</td>"


@_part.register
def _chart(block: Chart, level: int) -> str:
    return f'<p><a href="{escape(quote(block.file))}">{escape(plain(block.title))}</a></p>\n'


@_part.register
def _section(block: Section, level: int) -> str:
    title, inner = escape(plain(block.title)), _parts(block.blocks, level + 1)
    if block.folded:
        return f"<details><summary>{title}</summary>\n{inner}</details>\n"
    return f"<h{level}>{title}</h{level}>\n{inner}"
