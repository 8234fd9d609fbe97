"""Words that stand once in the data of the page, and elsewhere by their place: a name of a case, a detail."""

from __future__ import annotations


class Naming:
    """The words in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, words: str) -> int:
        """The place of these words, which is theirs from now on."""
        return self._places.setdefault(words, len(self._places))

    @property
    def words(self) -> list[str]:
        """All words, in the order of their places."""
        return list(self._places)


def rounded(value: float | None, digits: int) -> float | int | str | None:
    """A number of so many digits, as short as JSON has it; what JSON has no number for as a text."""
    if value is None:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
