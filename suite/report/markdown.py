"""Pages → Markdown. Texts from submissions are escaped, so that they cannot change the page."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from urllib.parse import quote

from attnsuite.report.page import Block, Note, Page, Points, Section, Span, Style, Table, plain


def render(page: Page) -> str:
    """The page as the text of a Markdown file."""
    lines = [f"# {_title(page.title)}", "", *_blocks(page.blocks, 2)]
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(words: str) -> str:
    """Words escaped so that Markdown shows them unchanged, also in a table."""
    words = re.sub(r"[\\`*\[\]~|$]", r"\\\g<0>", words)
    words = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", words)  # inside a word it does not mark emphasis
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(words: str) -> str:
    """Words in a code span, between more backticks than they contain, also in a table."""
    words = words.replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    space = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{space}{words}{space}{fence}"


def inline(spans: Iterable[Span]) -> str:
    """Words with the markup of their styles."""
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    words = code(span.words) if span.style is Style.CODE else escaped(span.words)
    return f"[{words}]({quote(span.link)})" if span.link else words


def _title(words: str) -> str:
    return escaped(plain(words))


def _blocks(blocks: Iterable[Block], level: int) -> list[str]:
    return [line for block in blocks for line in _lines(block, level)]


@singledispatch
def _lines(block: Block, level: int) -> Iterator[str]:
    """A block, and an empty line after it. `level` is the level of headings inside it."""
    raise TypeError(f"Markdown has no {type(block).__name__}")


@_lines.register
def _note(block: Note, level: int) -> Iterator[str]:
    yield from (_paragraph(block), "")


def _paragraph(note: Note) -> str:
    """The words of a note, escaped at the start so that they do not become a heading or a list."""
    return re.sub(r"^(\d*)([-+#=.)])", r"\1\\\2", inline(note.spans))


@_lines.register
def _points(block: Points, level: int) -> Iterator[str]:
    yield from (*_items(block, ""), "")


def _items(points: Points, indent: str) -> Iterator[str]:
    for point in points.points:
        if isinstance(point, Points):
            yield from _items(point, f"{indent}  ")
        else:
            yield f"{indent}- {_paragraph(point)}"


@_lines.register
def _table(block: Table, level: int) -> Iterator[str]:
    heads = [_title(column.title) for column in block.columns]
    yield from (_row(heads), "|---" * len(heads) + "|")
    for row in block.rows:
        yield _row([*(inline(cell.spans) for cell in row), *[""] * (len(heads) - len(row))])
    yield ""
    for points in block.below.values():
        yield from _points(points, level)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@_lines.register
def _section(block: Section, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {_title(block.title)}", "", *_blocks(block.blocks, level + 1))
