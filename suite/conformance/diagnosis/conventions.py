"""Conventions in plain words: what an answer does, and what the declared convention says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnsuite.cases import Conventions

SUBJECTS = {
    "causal": "causal is",
    "window": "the window is",
    "empty_row": "a query that may attend to nothing gives",
    "bool_mask": "True in a mask means",
}
"""How a sentence about each convention begins."""
CHOICES = {
    "upper_left": "aligned at the first key",
    "lower_right": "aligned at the last key",
    "nan": "NaN",
    "mean": "the mean of the values",
    "may_attend": "may attend",
    "may_not": "hidden",
}
"""The choices of conventions whose names need an explanation."""
DECLARED = "the declared convention:"


def broken(points: Sequence[str], known: Mapping[str, Sequence[str]], declared: Conventions) -> str:
    """`causal is aligned at the first key; the declared convention: aligned at the last key (causal is lower_right)`.

    `points` are the conventions that an answer breaks; of those in `known`, the first choice is the contract's own.
    """
    actual = " and ".join(f"{SUBJECTS.get(point, f'{point} is')} {_in_words(known[point][0])}" for point in points)
    expected = " and ".join(_in_words(declared[point]) for point in points)
    return f"{actual}; {DECLARED} {expected} ({', '.join(f'{point} is {declared[point]}' for point in points)})"


def names_one(detail: str) -> bool:
    """Whether the message of a failure says which convention is broken, also in the words of a signature."""
    return DECLARED.removeprefix("the declared") in detail


def _in_words(choice: str | Mapping[str, str]) -> str:
    """A choice in words; where it differs by the kind of mask, `NaN under a bool_mask`."""
    if isinstance(choice, Mapping):
        return " and ".join(f"{_in_words(each)} under a {kind}" for kind, each in choice.items())
    return CHOICES.get(choice, choice)
