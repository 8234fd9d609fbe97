"""The content of a cell or a note, as data: words with their styles, and the value that programs read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


Value: TypeAlias = "str | int | float | None"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table: `spans` are for readers, `value` is for programs."""

    spans: tuple[Span, ...] = ()
    value: Value = None

    @property
    def words(self) -> str:
        """The words that readers see, without styles."""
        return "".join(span.words for span in self.spans)


def text(words: object, longest: int = LONGEST) -> Cell:
    """A cell of words. Readers see `longest` characters, programs get all."""
    return Cell(spans(Span(plain(words, longest))), str(words))


def number(value: float | None, words: str = "") -> Cell:
    """A number, and the words that readers see for it (the number itself by default). None is an empty cell."""
    displayed = words or ("" if value is None else str(value))
    return Cell((Span(displayed),) if displayed else (), value)


def cell(value: object) -> Cell:
    """The cell of a value, a text or a name; a cell stays unchanged."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, Span):
        return Cell(spans(value), value.words)
    return number(value) if value is None or isinstance(value, int | float) else text(value)
