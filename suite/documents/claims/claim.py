"""What a claim is: a document's words, one number that is measured, and the range in which they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from attnsuite.model import Claimed, Evidence, Holds
from attnsuite.model.statistics import MARGIN, Interval, interval, lies_within

DEVICE = "cpu"
"""Where claims are measured."""
LEAST = math.nextafter(0.0, 1.0)
"""The smallest number above 0."""


@dataclass(frozen=True)
class Range:
    """Where the number has to lie for the claim to hold; both ends belong to it."""

    low: float
    high: float
    words: str

    def judge(self, of: Interval) -> Holds:
        """What an interval says of the claim."""
        inside = lies_within(of, self.low, self.high)
        return {True: Holds.HOLDS, False: Holds.DOES_NOT, None: Holds.UNCLEAR}[inside]


def power(number: int) -> Range:
    """A power to which this whole number is the nearest."""
    return Range(number - 0.5, number + 0.5, f"nearest to {number}")


def exactly(number: float, rounding: float = 0.0) -> Range:
    """This very number, but for rounding."""
    words = f"{number:g}" + (f" ± {rounding:g}" if rounding else "")
    return Range(number - rounding, number + rounding, words)


def at_most(number: float) -> Range:
    """This number or less."""
    return Range(-math.inf, number, f"at most {number:.3g}")


def at_least(number: float) -> Range:
    """This number or more."""
    return Range(number, math.inf, f"at least {number:.3g}")


ABOVE_ZERO = Range(LEAST, math.inf, "above 0")
ABOVE_ONE = Range(math.nextafter(1.0, 2.0), math.inf, "above 1")
SLOWER = Range(1 + MARGIN, math.inf, f"above {1 + MARGIN:g}")
"""A ratio of times that is more than 1 by more than what counts as no difference: smaller ones come and go."""


@dataclass(frozen=True)
class Measured:
    """One number with its interval, and what it was made of."""

    of: Interval
    samples: tuple[float, ...] = ()
    detail: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


def number(value: float, detail: str = "", numbers: Mapping[str, float] | None = None) -> Measured:
    """A number that is exact."""
    exact = float(value)  # a count becomes a number like the others
    return Measured(Interval(exact, exact, exact), (), detail, numbers or {})


def sampled(values: Sequence[float], detail: str = "", numbers: Mapping[str, float] | None = None) -> Measured:
    """The median of samples that do not depend on each other."""
    return Measured(interval(values), tuple(values), detail, numbers or {})


@dataclass(frozen=True)
class Claim:
    """One claim. The name is `topic/what`."""

    name: str
    document: str
    section: str
    says: str
    """What the document says, in our words."""
    quantity: str
    """What `measure` measures, in words."""
    due: Range
    evidence: Evidence
    measure: Callable[[], Measured]

    @property
    def topic(self) -> str:
        return self.name.partition("/")[0]

    @property
    def implementation(self) -> str:
        """What its rows in results/ are counted by."""
        return f"claims/{self.topic}"

    @property
    def key(self) -> tuple[str, ...]:
        """The key of what becomes of it."""
        return (self.implementation, self.name, DEVICE)

    def examine(self) -> Claimed:
        """Measure it and say whether it holds. Whatever the measurement raises is in the answer."""
        started = perf_counter()
        try:
            found = self.measure()
        except ImportError as missing:
            return self._answer(Holds.MISSING, None, str(missing), started)
        except Exception as error:  # a claim that cannot be measured must not cost the others
            return self._answer(Holds.RAISED, None, f"{type(error).__name__}: {error}", started)
        return self._answer(self.due.judge(found.of), found, found.detail, started)

    def _answer(self, holds: Holds, found: Measured | None, detail: str, started: float) -> Claimed:
        of = found.of if found else None
        return Claimed(
            self.implementation,
            self.name,
            DEVICE,
            self.document,
            self.section,
            self.says,
            self.quantity,
            self.due.words,
            self.evidence,
            holds,
            of.median if of else None,
            of.low if of else None,
            of.high if of else None,
            detail,
            dict(found.numbers) if found else {},
            found.samples if found else (),
            perf_counter() - started,
        )
