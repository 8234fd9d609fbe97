"""What stands in a cell or in a note, as data: words in styles, and beside them the value that programs read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

LONGEST = 240
"""Characters of a text from a submission in a cell; the row in results/ has the whole text."""
LONGEST_CODE = 1000
"""Characters of a name or of a command, which must be whole to be of use."""
NOTHING = "–"
"""What a cell says where there is no number."""


def plain(text: object, longest: int = LONGEST) -> str:
    """The text on one line, without control characters (a terminal obeys them, a reader cannot see them)."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


class Style(StrEnum):
    """How words look."""

    PLAIN = "plain"
    CODE = "code"
    """A name or a command, to be copied."""
    STRONG = "strong"
    EMPHASIS = "emphasis"


@dataclass(frozen=True, slots=True)
class Span:
    """Words in one style, on one line and free of control characters; `link` is where they lead, or empty."""

    words: str
    style: Style = Style.PLAIN
    link: str = ""


Said: TypeAlias = "str | Span | Iterable[Span]"


def spans(*parts: Said, longest: int = LONGEST) -> tuple[Span, ...]:
    """Parts joined to one text. Strings become plain words; a space at their start or end is kept."""
    found: list[Span] = []
    for part in parts:
        if isinstance(part, str):
            found.append(Span(f"{' ' * part.startswith(' ')}{plain(part, longest)}{' ' * part.endswith(' ')}"))
        else:
            found += [part] if isinstance(part, Span) else part
    return tuple(span for span in found if span.words)


def code(text: object) -> Span:
    """A name or a command."""
    return Span(plain(text, LONGEST_CODE), Style.CODE)


def strong(text: object) -> Span:
    """Words that stand out."""
    return Span(plain(text), Style.STRONG)


def emphasis(text: object) -> Span:
    """A word that is explained."""
    return Span(plain(text), Style.EMPHASIS)


def joined(parts: Iterable[Span], by: str = ", ") -> tuple[Span, ...]:
    """Spans with some words between each two."""
    return tuple(span for part in parts for span in (Span(by), part))[1:]


def listed(names: Sequence[str], most: int | None = None, what: str = "") -> tuple[Span, ...]:
    """Names separated by commas, and how many more there are where they are more than `most`."""
    shown = joined(map(code, names[:most]))
    more = len(names) - (most or len(names))
    return (*shown, Span(f" and {more} more{what and f' {what}'}")) if more > 0 else shown


class Kind(StrEnum):
    """What a cell holds, for renderers that sort or colour."""

    TEXT = "text"
    NUMBER = "number"
    STATUS = "status"
    VERDICT = "verdict"


Value: TypeAlias = "str | int | float | None"


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a table: `spans` are for readers, `value` is for programs."""

    spans: tuple[Span, ...] = ()
    value: Value = None
    kind: Kind = Kind.TEXT
    unit: str = ""
    """That of the value: `s`, `B`, `FLOP/s`, `J`; empty where it has none."""

    @property
    def words(self) -> str:
        """What readers see, without styles."""
        return "".join(span.words for span in self.spans)


def text(words: object, longest: int = LONGEST) -> Cell:
    """A cell of words; programs get them whole."""
    return Cell(spans(Span(plain(words, longest))), str(words))


def number(value: float | None, words: str = "", unit: str = "") -> Cell:
    """A number, and how it is said. None is an empty cell."""
    return Cell(spans(words or ("" if value is None else str(value))), value, Kind.NUMBER, unit)


def status(value: str, *parts: Said) -> Cell:
    """What became of something, said in other words where there are any."""
    return Cell(spans(*parts) or spans(value), str(value), Kind.STATUS)


def said(*parts: Said, value: Value = None, kind: Kind = Kind.TEXT, longest: int = LONGEST) -> Cell:
    """A cell of several styles."""
    return Cell(spans(*parts, longest=longest), value, kind)


def cell(of: object) -> Cell:
    """The cell that stands for a value, a text or a name."""
    if isinstance(of, Cell):
        return of
    if isinstance(of, Span):
        return Cell(spans(of), of.words)
    return number(of) if of is None or isinstance(of, int | float) else text(of)
