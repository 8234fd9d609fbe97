"""The range in which a claim holds, read from the words that its row has for it."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from attnsuite.model import Claimed, Holds

NUMBER = r"([−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"
ROUNDED = 1e-5
"""The relative error of values that were rounded to six digits, and of ends of a range that were."""
SHORT = 5e-3
"""The same of an end that the words have to three digits."""
FORMS = {
    form: re.compile(words.format(NUMBER))
    for form, words in {
        "nearest": "nearest to {0}",
        "most": "at most {0}",
        "least": "at least {0}",
        "above": "above {0}",
        "about": "{0} ± {0}",
        "between": "{0} to {0}",
        "exactly": "{0}",
    }.items()
}


class DueRange(NamedTuple):
    """Both ends belong to the range, or not the lower one; each may be off by so much for what was rounded."""

    low: float
    high: float
    low_off: float = 0.0
    high_off: float = 0.0
    open: bool = False
    centre: float | None = None
    """A value that certainly holds, where the ends lie closer together than numbers are kept."""


def read(words: str) -> DueRange | None:
    """The range in these words, such as `nearest to 2` or `at most 0.05`; None for words that say none."""
    for form, pattern in FORMS.items():
        if said := pattern.fullmatch(words):
            one, *others = (float(each.replace(",", "").replace("−", "-")) for each in said.groups())
            return _made(form, one, *others)
    return None


def unlike(due: DueRange, of: Claimed) -> str:
    """What the value of a claim says against its verdict; empty where the verdict may follow from it."""
    value, low, high = of.value, of.low, of.high
    assert value is not None
    assert low is not None
    assert high is not None
    inside = _above(low, due, 1) and high <= due.high + due.high_off + _rounded(high)
    certainly = _above(low, due, -1) and high < due.high - due.high_off - _rounded(high)
    outside = not _above(high, due, -1) or low > due.high - due.high_off - _rounded(low)
    outside = outside and not low == high == due.centre
    surely = not _above(high, due, 1) or low > due.high + due.high_off + _rounded(low)
    may = {Holds.HOLDS: inside, Holds.DOES_NOT: outside, Holds.UNCLEAR: not certainly and not surely}
    if may[of.holds]:
        return ""
    between = f" (between {low:.6g} and {high:.6g})" if low < high else ""
    return f"it {of.holds}, where {of.due:.80} is due, and its value is {value:.6g}{between}"


def _above(value: float, due: DueRange, slack: int) -> bool:
    """Whether a value is not below the range, whose end is moved outwards by what was rounded, or inwards (−1)."""
    least = due.low - slack * (due.low_off + (_rounded(value) if due.low else 0.0))
    return value > least if due.open and due.low == 0 else value >= least


def _rounded(value: float) -> float:
    return ROUNDED * abs(value) if math.isfinite(value) else 0.0


def _made(form: str, one: float, other: float = 0.0) -> DueRange:
    short = SHORT * abs(one)
    return {
        "nearest": DueRange(one - 0.5, one + 0.5),
        "most": DueRange(-math.inf, one, high_off=short),
        "least": DueRange(one, math.inf, low_off=short),
        "above": DueRange(one, math.inf, open=True),
        "about": DueRange(one - other, one + other, ROUNDED * abs(one), ROUNDED * abs(one), centre=one),
        "between": DueRange(min(one, other), max(one, other)),
        "exactly": DueRange(one, one, ROUNDED * abs(one), ROUNDED * abs(one), centre=one),
    }[form]
