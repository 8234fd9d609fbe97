"""Text from submissions made harmless, and tables of it: Markdown, CSV, terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from suite.store import replace_file

Row = Sequence[object]

LONGEST = 240
"""A cell's length in characters; the row in the .jsonl file has the whole text."""


def plain(text: object, longest: int = LONGEST) -> str:
    """The text on one line, without control characters (a terminal obeys them, a reader cannot see them)."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def escaped(text: object, longest: int = LONGEST) -> str:
    """The text so that Markdown shows it as it is, also within a table."""
    words = re.sub(r"[\\`*\[\]~|$]", r"\\\g<0>", plain(text, longest))
    words = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", words)  # within a word it is no emphasis
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: object) -> str:
    """The text in a code span, fenced by more backticks than it holds, also within a table."""
    words = plain(text, 1000).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    space = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{space}{words}{space}{fence}" if words else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table of cells that are escaped already. Empty where there is no row."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *lines, ""] if lines else []


def section(title: str, lines: list[str], level: str = "##") -> list[str]:
    """The lines under a heading; nothing where there are none."""
    return [f"{level} {escaped(title)}", "", *lines] if lines else []


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Row]) -> Path:
    """Write a table for pandas and spreadsheets; a text that a spreadsheet would compute is quoted."""
    import pandas  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

    cells = [[_harmless(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    replace_file(path, pandas.DataFrame(cells, columns=list(header)).to_csv(index=False, lineterminator="\n"))
    return path


def _harmless(cell: str) -> str:
    words = plain(cell, 1000)
    return f"'{words}" if words.startswith(("=", "+", "-", "@")) else words
