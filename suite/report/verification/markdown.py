"""Pages in Markdown of which no rows are kept, read back: their tables, and the lines of their lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROW = re.compile(r"^\| (.*) \|$")
CELLS = re.compile(r"(?<!\\) \| ")
ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True)
class Row:
    """A row of a table: the headings above it, the line it stands on, its cells in plain words by their heads."""

    sections: tuple[str, ...]
    line: int
    cells: dict[str, str]

    @property
    def where(self) -> str:
        return f"line {self.line}"


def rows(text: str, heads: Sequence[str]) -> Iterator[Row]:
    """The rows of all tables with these heads, and of any table that begins with the first two of them."""
    sections: tuple[str, ...] = ()
    above: list[str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            depth = len(line) - len(line.lstrip("#"))
            sections = (*sections[: max(depth - 2, 0)], plain(line.lstrip("# ")))
        if line.startswith("|---"):
            continue
        found = ROW.match(line)
        if found is None:
            above = None
        elif above is None:
            above = [plain(cell) for cell in CELLS.split(found[1])]
        elif above[:2] == list(heads[:2]):
            cells = [plain(cell) for cell in CELLS.split(found[1])]
            yield Row(sections, number, dict(zip(above, cells, strict=False)))


def points(text: str) -> Iterator[tuple[int, str]]:
    """Each item of a list in plain words, and the line it stands on."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("- "):
            yield number, plain(line[2:])


def plain(words: str) -> str:
    """The words without what marks and escapes them."""
    return ESCAPED.sub(r"\1", words.strip().removeprefix("`").removesuffix("`"))


def number(words: str) -> int | None:
    """A count such as `1,875`; None for what is none."""
    return int(digits) if (digits := words.replace(",", "")).isascii() and digits.isdigit() else None
