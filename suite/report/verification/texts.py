"""A file held against the text that is due, and where they differ: a line, or a row and a column."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from attnsuite.model import Refusal, UsageError
from attnsuite.model.regular import read_bytes
from attnsuite.results.store.files import one_line

MOST_SHOWN = 3
"""The most differences of one file that are shown; of more, the others are counted."""
LONGEST_SHOWN = 100
"""Characters of what is shown of a line, from where it differs."""
REMEDY = "`attnsuite report` makes it of the rows"


def text_of(path: Path) -> str | None:
    """The text of a file, None where there is none. Raises UsageError where it cannot be read."""
    try:
        with one_line(path, "read"):
            return read_bytes(path).decode() if path.exists() or path.is_symlink() else None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text: {error}") from None


def unlike(path: Path, due: str) -> Iterator[Refusal]:
    """Where a file is not the text that is due."""
    try:
        found = text_of(path)
    except UsageError as error:
        yield Refusal(str(path), "", str(error))
        return
    if found is None:
        yield Refusal(str(path), "", f"there is no such file; {REMEDY}")
    elif found != due:
        yield from _first(path, _cells(found, due) if path.suffix == ".csv" else _lines(found, due))


def _first(path: Path, differences: Iterator[tuple[str, str]]) -> Iterator[Refusal]:
    count = 0
    for count, (where, why) in enumerate(differences, 1):
        if count <= MOST_SHOWN:
            yield Refusal(str(path), where, why)
    if not count:
        yield Refusal(str(path), "", f"it holds what the rows give, written otherwise; {REMEDY}")
    elif count > MOST_SHOWN:
        yield Refusal(str(path), "", f"{count - MOST_SHOWN} more places are not what the rows give; {REMEDY}")


def _lines(found: str, due: str) -> Iterator[tuple[str, str]]:
    for number, (line, its) in enumerate(zip_longest(found.split("\n"), due.split("\n")), 1):
        if line != its:
            yield f"line {number}", _said(line, its)


def _cells(found: str, due: str) -> Iterator[tuple[str, str]]:
    try:
        rows, theirs = (list(csv.reader(text.split("\n"), strict=True)) for text in (found, due))
    except csv.Error:
        yield from _lines(found, due)
        return
    heads = theirs[0] if theirs else []
    for number, (row, its) in enumerate(zip_longest(rows, theirs), 1):
        if row is None or its is None or len(row) != len(its):
            yield f"row {number}", _said(*(None if of is None else ",".join(of) for of in (row, its)))
            continue
        for head, cell, given in zip(heads, row, its, strict=False):
            if cell != given:
                yield f"row {number}, column {head}", _said(cell, given)


def _said(found: str | None, due: str | None) -> str:
    """What stands there and what the rows give, from a little before where they differ."""
    if found is None or due is None:
        return f"{_shown(due or '', 0)} is lost" if found is None else f"no row gives {_shown(found, 0)}"
    place = next((place for place, (one, other) in enumerate(zip(found, due, strict=False)) if one != other), 0)
    place = max(0, (place or min(len(found), len(due))) - LONGEST_SHOWN // 4)
    return f"{_shown(found, place)} stands here, and the rows give {_shown(due, place)}"


def _shown(text: str, place: int) -> str:
    part = text[place : place + LONGEST_SHOWN]
    return ascii(f"{'…' * bool(place)}{part}{'…' * (place + len(part) < len(text))}").replace("\\u2026", "…")
