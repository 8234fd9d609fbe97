"""Outcomes → counts for the cells of tables, and groups of failures that are shown as one line each."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from suite.records import DTYPES, EVERY_CASE, FAILURES, Outcome, Status

Key = TypeVar("Key", bound=tuple[object, ...])

COUNTS = ("passed", "asked", "declined", "failures", "known_failures", "missing")
GROUPS = 10
"""The most groups of failures shown of one implementation: one whose messages all differ would fill the page."""


@dataclass(frozen=True)
class Count:
    """How many outcomes have which status. What was declined or is missing was not asked and is never passed."""

    passed: int
    failures: int
    """Failures that no finding records."""
    known: int
    declined: int
    missing: int

    @property
    def asked(self) -> int:
        return self.passed + self.failures + self.known

    @property
    def numbers(self) -> list[int]:
        """In the order of COUNTS."""
        return [self.passed, self.asked, self.declined, self.failures, self.known, self.missing]

    def __str__(self) -> str:
        if self.asked:
            return f"{self.passed}/{self.asked}" + (f" (declined {self.declined})" if self.declined else "")
        return "declined" if self.declined else "missing" if self.missing else "–"


def count(outcomes: Iterable[Outcome]) -> Count:
    """Count outcomes by their status."""
    outcomes = list(outcomes)
    statuses = Counter(outcome.status for outcome in outcomes)
    failed = sum(statuses[status] for status in FAILURES)
    new = sum(outcome.fails for outcome in outcomes)
    return Count(statuses[Status.PASSED], new, failed - new, statuses[Status.DECLINED], statuses[Status.MISSING])


def breakdown(outcomes: Iterable[Outcome]) -> str:
    """The failures that no finding records, by kind: "3 wrong, 1 hung"; empty where there are none."""
    statuses = Counter(outcome.status for outcome in outcomes if outcome.fails)
    return ", ".join(f"{statuses[status]} {status}" for status in FAILURES if statuses[status])


def grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], Key]) -> dict[Key, list[Outcome]]:
    """The outcomes by `key`, keys and outcomes in an order that does not depend on when they were asked."""
    groups: dict[Key, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=_order):
        groups.setdefault(key(outcome), []).append(outcome)
    return {name: groups[name] for name in sorted(groups, key=lambda name: tuple(map(str, name)))}


def by_implementation(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """The outcomes by implementation and device."""
    return grouped(outcomes, lambda outcome: (outcome.implementation, outcome.device))


@dataclass(frozen=True)
class Group:
    """Outcomes of one implementation that say the same; `example` is the one to ask again first."""

    example: Outcome
    count: int
    others: int = 0
    """For the last line of a long list: how many further groups this line stands for."""
    asked: tuple[str, ...] = ()
    """The words by which the implementation is asked again; empty where its registered name does."""

    @property
    def says(self) -> str:
        """The example's status and detail, and what else this line stands for."""
        status, detail = self.example.status, self.example.detail
        says = detail if detail.startswith(f"{status}:") else f"{status}: {detail}" if detail else status
        return f"{self.others} other kinds, such as {says}" if self.others else says

    @property
    def where(self) -> str:
        """The example's question in words; some outcomes are about the implementation as a whole."""
        if self.example.case == EVERY_CASE:
            return "every case"
        return self.example.case if self._whole else f"{self.example.case} in {self.example.dtype}"

    @property
    def rerun(self) -> str:
        """The command that asks the example again."""
        words = ["attnsuite", "check", *(self.asked or [self.example.implementation])]
        if not self._whole:
            words += ["--case", self.example.case, "--dtype", self.example.dtype]
        if self.example.device not in ("", "cpu"):
            words += ["--device", self.example.device]
        return shlex.join(words)

    @property
    def _whole(self) -> bool:
        return EVERY_CASE in (self.example.case, self.example.dtype)


def groups(outcomes: Iterable[Outcome], again: Mapping[str, Sequence[str]] = MappingProxyType({})) -> list[Group]:
    """One group per implementation, status, finding and diagnosis, or message where there is no diagnosis.

    Groups with a diagnosis come first, larger ones before smaller ones. A wrong answer without a diagnosis joins the
    group that the same case has in another dtype. `again` maps implementations to the words by which they are asked
    again, where that is not their registered name.
    """
    found: list[Group] = []
    for (name, _), members in by_implementation(outcomes).items():
        asked = tuple(again.get(name, ()))
        alike = grouped(members, partial(_kind, _named(members)))
        ordered = sorted(alike.values(), key=lambda group: (not _telling(group).diagnosis, -len(group)))
        found += [Group(_telling(group), len(group), asked=asked) for group in ordered[:GROUPS]]
        if rest := ordered[GROUPS:]:
            found.append(Group(rest[0][0], sum(map(len, rest)), len(rest), asked))
    return found


def _telling(group: Sequence[Outcome]) -> Outcome:
    """The first whose mistake has a name, or the first."""
    return next((outcome for outcome in group if outcome.diagnosis), group[0])


def _kind(named: Mapping[str, str], outcome: Outcome) -> tuple[str, str, str]:
    elsewhere = named.get(outcome.case, "") if outcome.status == Status.WRONG else ""
    return outcome.status, outcome.known, _diagnosis(outcome) or elsewhere or pattern(outcome.detail)


def _diagnosis(outcome: Outcome) -> str:
    """The deviations that explain an outcome; failures with the same ones are of one kind, whatever their numbers."""
    return " or ".join(outcome.diagnosis)


def _named(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The deviations that explain each case, in the first dtype in which any does."""
    found: dict[str, str] = {}
    for outcome in sorted(outcomes, key=_order):
        if outcome.status == Status.WRONG and outcome.diagnosis:
            found.setdefault(outcome.case, _diagnosis(outcome))
    return found


def pattern(detail: str) -> str:
    """The detail with its numbers left out, so that two that differ in nothing else are equal."""
    numbers = r"(?<![A-Za-z_])[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf\b|nan\b)"
    return re.sub(r"#(?:\s*[,x×]\s*#)+", "#", re.sub(numbers, "#", detail))


def devices(outcomes: Iterable[Outcome]) -> list[str]:
    """The devices that were asked."""
    return sorted({outcome.device for outcome in outcomes})


def dtypes(outcomes: Iterable[Outcome]) -> list[str]:
    """The dtypes that were asked, widest first."""
    asked = {outcome.dtype for outcome in outcomes}
    return [dtype for dtype in DTYPES if dtype in asked]


def _order(outcome: Outcome) -> tuple[object, ...]:
    """float32 first: an example in it runs everywhere."""
    dtype = outcome.dtype
    place = -1 if dtype == "float32" else DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES)
    return outcome.implementation, outcome.device, place, outcome.case, dtype
