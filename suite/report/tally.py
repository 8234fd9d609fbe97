"""Outcomes → counts for the cells of tables, and groups of failures that are shown as one line each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from attnsuite.model import DTYPES, EVERY_CASE, FAILURES, INPUT_VALIDATION, Outcome, Reason, Status, command_line

Key = TypeVar("Key", bound=tuple[object, ...])

COUNTS = ("passed", "run", "unsupported", "failures", "known_failures", "missing")
"""The columns of `Count.numbers`."""
MOST_GROUPS = 10
"""The most groups of failures shown of one implementation: if all its messages differ, they would fill the page."""


@dataclass(frozen=True)
class Count:
    """How many outcomes have which status. Unsupported and missing ones did not run, so they never count as passed."""

    passed: int
    failures: int
    """Failures that no finding records; `known` are those that one does."""
    known: int
    unsupported: int
    missing: int

    @property
    def run(self) -> int:
        return self.passed + self.failures + self.known

    @property
    def numbers(self) -> list[int]:
        """The numbers in the order of COUNTS."""
        return [self.passed, self.run, self.unsupported, self.failures, self.known, self.missing]

    def __str__(self) -> str:
        if self.run:
            return f"{self.passed}/{self.run}" + (f" (unsupported {self.unsupported})" if self.unsupported else "")
        return "unsupported" if self.unsupported else "missing" if self.missing else "–"


@dataclass(frozen=True)
class Validation:
    """How many bad inputs an implementation refused, of those that it was given."""

    refused: int
    total: int
    lenient: Sequence[Outcome]
    """Those that were accepted and fail no check."""

    @property
    def says(self) -> str:
        """`input validation: 23 of 28 bad inputs are refused`; empty where none was given."""
        return f"{INPUT_VALIDATION}{self.refused} of {self.total} bad inputs are refused" if self.total else ""


def validation(outcomes: Iterable[Outcome]) -> Validation:
    """What became of the cases that expect an error."""
    answered = (Status.PASSED, *FAILURES)
    given = [o for o in outcomes if o.validates_input and o.status in answered and o.reason != Reason.SKIPPED]
    refused = sum(outcome.status == Status.PASSED for outcome in given)
    return Validation(refused, len(given), [outcome for outcome in given if outcome.lenient])


def correctness(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes without bad input; with it where accepting bad input fails the check."""
    outcomes = list(outcomes)
    if any(o.validates_input and o.fails for o in outcomes):
        return outcomes
    return [o for o in outcomes if not (o.lenient or (o.validates_input and o.status == Status.PASSED))]


_ANSWERS = (Status.PASSED, Status.UNSUPPORTED, Status.MISSING)


def count(outcomes: Iterable[Outcome]) -> Count:
    """Count outcomes by their status. Bad input that was accepted, where that fails no check, counts as nothing."""
    of = Counter((outcome.status, bool(outcome.known)) for outcome in outcomes if not outcome.lenient)
    passed, unsupported, missing = (of[each, False] + of[each, True] for each in _ANSWERS)
    new, known = (sum(of[each, is_known] for each in FAILURES) for is_known in (False, True))
    return Count(passed, new, known, unsupported, missing)


def breakdown(outcomes: Iterable[Outcome]) -> str:
    """The failures that no finding records, by status: "3 failed, 1 timeout"; empty if there are none."""
    statuses = Counter(outcome.status for outcome in outcomes if outcome.fails)
    return ", ".join(counted(statuses[status], status) for status in FAILURES if statuses[status])


def counted(number: int, status: Status) -> str:
    """`1 error`, `2 errors`, `3 failed`."""
    return f"{number} {status}" + ("s" if number != 1 and status in (Status.ERROR, Status.TIMEOUT) else "")


def grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], Key]) -> dict[Key, list[Outcome]]:
    """The outcomes by `key`, in an order that does not depend on when they were asked."""
    groups: dict[Key, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return {name: sorted(groups[name], key=_order) for name in sorted(groups, key=lambda name: tuple(map(str, name)))}


def by_implementation(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """The outcomes by implementation and device."""
    return grouped(outcomes, lambda outcome: (outcome.implementation, outcome.device))


@dataclass(frozen=True)
class Group:
    """Outcomes of one implementation that say the same; `example` is the one to ask again first."""

    example: Outcome
    count: int
    others: int = 0
    """In the last line of a list that was cut short: how many more groups that line stands for."""
    target: tuple[str, ...] = ()
    """The words of a command line that name the implementation; empty if its registered name does."""
    filters: tuple[str, ...] = ()
    """The words that say what was asked at all, where the example is about all of it."""

    @property
    def says(self) -> str:
        """The example's status and detail, and how many more groups this line stands for."""
        return f"{self.others} other kinds, such as {self.example.says}" if self.others else self.example.says

    @property
    def where(self) -> str:
        """The example's case and dtype; some outcomes are about the implementation as a whole."""
        if self.example.case == EVERY_CASE:
            return "every case"
        return self.example.case if self._whole else f"{self.example.case} in {self.example.dtype}"

    @property
    def rerun(self) -> str:
        """The command that asks the example again."""
        words = ["attnsuite", "check", *(self.target or [self.example.implementation])]
        if self._whole:
            words += self.filters
        else:
            words += ["--case", self.example.case, "--dtype", self.example.dtype]
        if self.example.device not in ("", "cpu"):
            words += ["--device", self.example.device]
        return command_line(words)

    @property
    def _whole(self) -> bool:
        return EVERY_CASE in (self.example.case, self.example.dtype)


def groups(outcomes: Iterable[Outcome], again: Mapping[str, Sequence[str]] = MappingProxyType({})) -> list[Group]:
    """One group per implementation, status, finding and diagnosis; without a diagnosis, the message takes its place.

    What is about the implementation as a whole comes first, then groups with a diagnosis, larger ones before smaller
    ones. A wrong answer without a diagnosis joins the group that the same case has in another dtype. `again` has the
    words of a command line that name an implementation whose registered name does not, and under EVERY_CASE those that
    say what was asked.
    """
    filters = tuple(again.get(EVERY_CASE, ()))
    found: list[Group] = []
    for (name, _), members in by_implementation(outcomes).items():
        asked = tuple(again.get(name, ()))
        alike = grouped(members, partial(_kind, _named(members)))
        ordered = sorted(alike.values(), key=_rank)
        shown = MOST_GROUPS + (
            len(ordered) == MOST_GROUPS + 1
        )  # one more takes no more lines than to say that there is
        found += [Group(_example(group), len(group), 0, asked, filters) for group in ordered[:shown]]
        if rest := ordered[shown:]:
            found.append(Group(_example(rest[0]), sum(map(len, rest)), len(rest), asked, filters))
    return found


def _rank(group: Sequence[Outcome]) -> tuple[bool, bool, bool, int]:
    """A key to sort groups by: wrong numbers stand above bad input that was accepted.

    A declaration or a gap that no longer holds would be overlooked further down.
    """
    accepted = group[0].status == Status.FAILED and group[0].detail.startswith(INPUT_VALIDATION)
    return group[0].dtype != EVERY_CASE, accepted, not _example(group).diagnosis, -len(group)


def _example(group: Sequence[Outcome]) -> Outcome:
    """The outcome with the simplest case, of those with a diagnosis if there are any.

    Of the names of cases the one with the fewest parts joined by `+` combines the fewest features, and a short one such
    as `causal/more_keys` is simpler than `causal/many_more_keys`.
    """
    named = [outcome for outcome in group if outcome.diagnosis] or group
    return min(named, key=lambda o: (_place(o), o.case.count("+"), not o.case.startswith("plain/"), len(o.case)))


def _kind(named: Mapping[str, str], outcome: Outcome) -> tuple[str, str, str]:
    elsewhere = named.get(outcome.case, "") if outcome.status == Status.FAILED else ""
    return outcome.status, outcome.known, _diagnosis(outcome) or elsewhere or pattern(outcome.detail)


def _diagnosis(outcome: Outcome) -> str:
    """The mutants that explain an outcome, as one text: failures with the same ones form one group."""
    return " or ".join(outcome.diagnosis)


def _named(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The diagnosis of each case, from the first dtype that has one."""
    found: dict[str, str] = {}
    for outcome in sorted(outcomes, key=_order):
        if outcome.status == Status.FAILED and outcome.diagnosis:
            found.setdefault(outcome.case, _diagnosis(outcome))
    return found


def pattern(detail: str) -> str:
    """The detail with each number replaced by #, so that details which differ in numbers alone are equal."""
    numbers = r"(?<![A-Za-z_])[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf\b|nan\b)"
    return re.sub(r"#(?:\s*[,x×]\s*#)+", "#", re.sub(numbers, "#", detail))


def devices(outcomes: Iterable[Outcome]) -> list[str]:
    """The devices that were asked."""
    return sorted({outcome.device for outcome in outcomes})


def _order(outcome: Outcome) -> tuple[object, ...]:
    """A key to sort by: float32 first, because it runs on every device, so that the example of a group is in it."""
    return outcome.implementation, outcome.device, _place(outcome), outcome.case, outcome.dtype


def _place(outcome: Outcome) -> int:
    return _PLACES.get(outcome.dtype, len(DTYPES))


_PLACES = {dtype: place for place, dtype in enumerate(DTYPES)} | {"float32": -1}
