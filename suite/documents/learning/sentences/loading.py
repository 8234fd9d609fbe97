"""Pairs of sentences from a file: a pair per line, source and target with a tab between them, as fra.txt has them."""

from __future__ import annotations

from pathlib import Path
from unicodedata import category

from attnsuite.documents.learning.sentences.preprocessing import RESERVED, tokens
from attnsuite.model import UsageError
from attnsuite.model.regular import read_bytes

Pair = tuple[str, str]
SHIPPED = Path(__file__).with_name("english_french.tsv")
"""The set that ships: written by [grammar.py](grammar.py)."""


def pairs(path: Path = SHIPPED) -> list[Pair]:
    """The pairs of a file, in its order. What follows a second tab, as the licence in fra.txt, is left out.

    Raises UsageError for a file that is absent, empty, not UTF-8, or has a line that is no pair or has control
    characters, as a lone carriage return.
    """
    found = [_pair(path, number, line) for number, line in enumerate(_text(path).split("\n"), 1) if line.strip()]
    if not found:
        raise UsageError(f"{path} has no pair; pairs of sentences are due, a line each, with a tab between the two")
    return found


def _text(path: Path) -> str:
    try:
        data = read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); a file of pairs of sentences is due") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}, line {line}: the byte {data[error.start]:#04x} is not UTF-8, which is due") from None


def _pair(path: Path, number: int, line: str) -> Pair:
    if controls := [each for each in line if category(each) == "Cc" and each != "\t"]:
        raise UsageError(f"{path}, line {number}: {controls[0]!r} in {line!r:.60}; text is due, a pair on each line")
    source, *rest = line.split("\t")
    if not rest or not source.strip() or not rest[0].strip():
        came = "no tab" if not rest else "nothing on one side of the tab"
        raise UsageError(f"{path}, line {number}: {came} in {line!r:.60}; source, tab, target are due")
    if own := [each for each in (*tokens(source), *tokens(rest[0])) if each in RESERVED]:
        raise UsageError(
            f"{path}, line {number}: {own[0]} in {line!r:.60} is a token of attnsuite's own; words are due"
        )
    return source, rest[0]
