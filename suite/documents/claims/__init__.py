"""Measurable claims of the documents: one number each, and the range in which the claim holds.

The table of claims is claims.toml. Each row names a function of exact.py, drawn.py, trained.py or timed.py, which
measures the number; the module is the kind of evidence.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from attnsuite.model import ClaimResult, ClaimStatus, Evidence, UsageError
from attnsuite.model.statistics import Interval, interval, lies_within

TABLE = Path(__file__).with_name("claims.toml")
DEVICE = "cpu"
"""The device on which claims are measured."""


@dataclass(frozen=True)
class Range:
    """The numbers for which a claim holds, both ends included."""

    low: float
    high: float
    words: str

    def judge(self, measured: Interval) -> ClaimStatus:
        """Whether the claim holds, for a true value within the interval."""
        inside = lies_within(measured, self.low, self.high)
        return {True: ClaimStatus.HOLDS, False: ClaimStatus.DOES_NOT, None: ClaimStatus.UNCLEAR}[inside]


def power(number: int) -> Range:
    """Powers whose nearest integer is this one."""
    return Range(number - 0.5, number + 0.5, f"nearest to {number}")


def exactly(number: float, rounding: float = 0.0) -> Range:
    """This number, up to rounding."""
    return Range(number - rounding, number + rounding, f"{number:g}" + (f" ± {rounding:g}" if rounding else ""))


def at_most(number: float) -> Range:
    """This number or less."""
    return Range(-math.inf, number, f"at most {number:.3g}")


def at_least(number: float) -> Range:
    """This number or more."""
    return Range(number, math.inf, f"at least {number:.3g}")


def above(number: float) -> Range:
    """More than this number."""
    return Range(math.nextafter(number, math.inf), math.inf, f"above {number:g}")


RANGES: Mapping[str, Callable[..., Range]] = {
    **{make.__name__: make for make in (power, exactly, at_most, at_least, above)},
    "range": Range,
}
"""By the first entry of a row's `range`, the function of the other entries."""


@dataclass(frozen=True)
class MeasuredValue:
    """A number with its interval, its samples and further numbers."""

    interval: Interval
    samples: tuple[float, ...] = ()
    detail: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


def number(value: float, detail: str = "", numbers: Mapping[str, float] | None = None) -> MeasuredValue:
    """An exact number."""
    exact = float(value)  # an integer, too
    return MeasuredValue(Interval(exact, exact, exact), (), detail, numbers or {})


def sampled(values: Sequence[float], detail: str = "", numbers: Mapping[str, float] | None = None) -> MeasuredValue:
    """The median of independent samples."""
    return MeasuredValue(interval(values), tuple(values), detail, numbers or {})


@dataclass(frozen=True)
class Claim:
    """A claim; the first part of its name is its topic."""

    name: str
    document: str
    section: str
    statement: str
    """The document's claim, in our words."""
    quantity: str
    """The measured number, in words."""
    expected: Range
    evidence: Evidence
    measure: Callable[[], MeasuredValue]
    why: str = ""
    """The reason why the claim does not hold, for a reader of the document; empty for other claims."""

    @property
    def topic(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def implementation(self) -> str:
        """The name that stands for an implementation in its rows of results/."""
        return f"claims/{self.topic}"

    @property
    def key(self) -> tuple[str, ...]:
        """The key of its row."""
        return (self.implementation, self.name, DEVICE)

    def examine(self) -> ClaimResult:
        """Measure the claim and judge it. An exception of the measurement becomes part of the result."""
        started = perf_counter()
        try:
            measured = self.measure()
        except ImportError as missing:
            return self._row(started, ClaimStatus.MISSING, str(missing))
        except Exception as error:  # the other claims are still measured
            return self._row(started, ClaimStatus.ERROR, f"{type(error).__name__}: {error}")
        return self._row(started, self.expected.judge(measured.interval), measured.detail, measured)

    def _row(
        self, started: float, holds: ClaimStatus, detail: str, measured: MeasuredValue | None = None
    ) -> ClaimResult:
        interval = measured.interval if measured else None
        return ClaimResult(
            self.implementation,
            self.name,
            DEVICE,
            *(self.document, self.section, self.statement, self.quantity, self.expected.words),
            evidence=self.evidence,
            holds=holds,
            value=interval.median if interval else None,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            detail=detail,
            numbers=dict(measured.numbers) if measured else {},
            why=self.why if holds == ClaimStatus.DOES_NOT else "",
            samples=measured.samples if measured else (),
            seconds=perf_counter() - started,
        )


def all_claims() -> list[Claim]:
    """All claims, by topic."""
    return list(_table())


@cache
def _table() -> tuple[Claim, ...]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(_claim(name, **row) for name, row in rows.items())


def _claim(
    name: str,
    *,
    range: Sequence[Any],
    measure: str,
    arguments: Mapping[str, Any] | None = None,
    ours: bool = False,
    **texts: str,
) -> Claim:
    kind, *numbers = range
    expected: Range = RANGES[kind](*numbers)
    if ours:
        expected = replace(expected, words=f"{expected.words}, our threshold")
    module, _, function = measure.partition(".")

    def run() -> MeasuredValue:
        measured: MeasuredValue = getattr(import_module(f"{__name__}.{module}"), function)(**(arguments or {}))
        return measured

    return Claim(name, **texts, expected=expected, evidence=Evidence(module), measure=run)


def claims(patterns: Sequence[str] = (), evidence: Sequence[str] = ()) -> list[Claim]:
    """The claims with these names, topics or shell patterns (all by default) and these kinds of evidence.

    Raises UsageError for a pattern or a kind without a match.
    """
    table = all_claims()
    kinds = sorted({claim.evidence for claim in table})
    for kind in evidence:
        if kind not in kinds:
            raise UsageError(f"there is no evidence {kind!r:.80}; there is: {', '.join(kinds)}")
    for pattern in patterns:
        if not any(_matches(claim, pattern) for claim in table):
            topics = ", ".join(dict.fromkeys(claim.topic for claim in table))
            raise UsageError(f"no claim is named {pattern!r:.80}; topics are: {topics}")
    chosen = [claim for claim in table if not patterns or any(_matches(claim, pattern) for pattern in patterns)]
    chosen = [claim for claim in chosen if not evidence or claim.evidence in evidence]
    if not chosen:
        raise UsageError(f"no claim of {', '.join(patterns)} has the evidence {', '.join(evidence)}")
    return chosen


def _matches(claim: Claim, pattern: str) -> bool:
    return pattern in (claim.name, claim.topic) or fnmatchcase(claim.name, pattern)
