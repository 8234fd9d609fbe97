"""Outcomes → counts for tables, and groups of failures with one line each."""

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
"""Groups of failures that are listed for an implementation: one whose messages all differ would fill the page."""


@dataclass(frozen=True)
class Count:
    """The number of outcomes by status. Unsupported and missing tests did not run, so they never count as passed."""

    passed: int
    failures: int
    """Failures without a known bug or an expected failure."""
    known: int
    """Failures of known bugs, and expected failures."""
    unsupported: int
    missing: int

    @property
    def run(self) -> int:
        """The number of tests that ran."""
        return self.passed + self.failures + self.known

    @property
    def numbers(self) -> list[int]:
        """The numbers in the order of COUNTS."""
        return [self.passed, self.run, self.unsupported, self.failures, self.known, self.missing]


@dataclass(frozen=True)
class Validation:
    """The number of bad inputs that an implementation was tested with, and that it refused."""

    refused: int
    total: int
    lenient: Sequence[Outcome]
    """Tests whose bad input was accepted, where that fails no check."""

    @property
    def message(self) -> str:
        """`input validation: 23 of 28 bad inputs are refused`; empty where no test ran."""
        return f"{INPUT_VALIDATION}{self.refused} of {self.total} bad inputs are refused" if self.total else ""


def validation(outcomes: Iterable[Outcome]) -> Validation:
    """The result of the tests that expect an error."""
    ran = (Status.PASSED, *FAILURES)
    tested = [o for o in outcomes if o.validates_input and o.status in ran and o.reason != Reason.SKIPPED]
    refused = sum(outcome.status == Status.PASSED for outcome in tested)
    return Validation(refused, len(tested), [outcome for outcome in tested if outcome.lenient])


def correctness(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes without bad input; with it where accepting bad input fails the check."""
    outcomes = list(outcomes)
    if any(o.validates_input and o.fails for o in outcomes):
        return outcomes
    return [o for o in outcomes if not (o.lenient or (o.validates_input and o.status == Status.PASSED))]


def count(outcomes: Iterable[Outcome]) -> Count:
    """Count outcomes by status. Accepted bad input that fails no check is not counted."""
    counts = Counter((outcome.status, bool(outcome.known)) for outcome in outcomes if not outcome.lenient)
    others = (Status.PASSED, Status.UNSUPPORTED, Status.MISSING)
    passed, unsupported, missing = (counts[status, False] + counts[status, True] for status in others)
    new, known = (sum(counts[status, is_known] for status in FAILURES) for is_known in (False, True))
    return Count(passed, new, known, unsupported, missing)


def breakdown(outcomes: Iterable[Outcome]) -> str:
    """The unexpected failures by status: "3 failed, 1 timeout"; empty without a failure."""
    statuses = Counter(outcome.status for outcome in outcomes if outcome.fails)
    return ", ".join(counted(statuses[status], status) for status in FAILURES if statuses[status])


def counted(number: int, status: Status) -> str:
    """`1 error`, `2 errors`, `3 failed`."""
    return f"{number} {status}" + ("s" if number != 1 and status in (Status.ERROR, Status.TIMEOUT) else "")


def grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], Key]) -> dict[Key, list[Outcome]]:
    """The outcomes by `key`, in an order that does not depend on the order of execution."""
    groups: dict[Key, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return {name: sorted(groups[name], key=_order) for name in sorted(groups, key=lambda name: tuple(map(str, name)))}


def by_implementation(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """The outcomes by implementation and device."""
    return grouped(outcomes, lambda outcome: (outcome.implementation, outcome.device))


@dataclass(frozen=True)
class Group:
    """Outcomes of one implementation with the same message; `example` is the best one to run again."""

    example: Outcome
    count: int
    others: int = 0
    """In the last line of a shortened list: the number of groups that this line replaces."""
    target: tuple[str, ...] = ()
    """Command-line words that name the implementation, where its registered name does not."""
    filters: tuple[str, ...] = ()
    """Command-line words that select the tests of the run, for an example about the whole implementation."""

    @property
    def message(self) -> str:
        """The known bug, status and detail of the example; in a shortened list, also the number of other groups."""
        known = f"known as {self.example.known}, " if self.example.known else ""
        return f"{known}{f'{self.others} other kinds, such as ' if self.others else ''}{self.example.says}"

    @property
    def where(self) -> str:
        """The example's case and dtype, or "every case" for an outcome about the whole implementation."""
        if self.example.case == EVERY_CASE:
            return "every case"
        return self.example.case if self._whole else f"{self.example.case} in {self.example.dtype}"

    @property
    def rerun(self) -> str:
        """The command that runs the example again."""
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
    """One group per implementation, status, known bug and diagnosis; without a diagnosis, per pattern of the message.

    Outcomes about the whole implementation come first, then groups with a diagnosis, larger ones before smaller ones.
    A wrong result without a diagnosis joins the group that the same case has in another dtype. `again` has
    command-line words by implementation, as `Group.target`, and under EVERY_CASE those of `Group.filters`.
    """
    filters = tuple(again.get(EVERY_CASE, ()))
    result: list[Group] = []
    for (name, _), members in by_implementation(outcomes).items():
        target = tuple(again.get(name, ()))
        alike = grouped(members, partial(_kind, _diagnoses(members)))
        ordered = sorted(alike.values(), key=_rank)
        # a single further group takes no more space than the line that counts it
        limit = MOST_GROUPS + (len(ordered) == MOST_GROUPS + 1)
        result += [Group(_example(group), len(group), 0, target, filters) for group in ordered[:limit]]
        if rest := ordered[limit:]:
            result.append(Group(_example(rest[0]), sum(map(len, rest)), len(rest), target, filters))
    return result


def _rank(group: Sequence[Outcome]) -> tuple[bool, bool, bool, bool, int]:
    """A sort key: outcomes about the whole implementation, wrong results, empty inputs, accepted bad input."""
    accepted = group[0].status == Status.FAILED and group[0].detail.startswith(INPUT_VALIDATION)
    empty = all("/no_" in f"/{outcome.case}" for outcome in group)
    return group[0].dtype != EVERY_CASE, accepted, empty, not _example(group).diagnosis, -len(group)


def _example(group: Sequence[Outcome]) -> Outcome:
    """The outcome with the simplest case, preferably with a diagnosis.

    A simple case has few parts joined by `+`, the features that it combines, and a short name.
    """
    diagnosed = [outcome for outcome in group if outcome.diagnosis] or group
    return min(diagnosed, key=lambda o: (_place(o), o.case.count("+"), not o.case.startswith("plain/"), len(o.case)))


def _kind(diagnoses: Mapping[str, str], outcome: Outcome) -> tuple[str, str, str]:
    elsewhere = diagnoses.get(outcome.case, "") if outcome.status == Status.FAILED else ""
    return outcome.status, outcome.known, _diagnosis(outcome) or elsewhere or pattern(outcome.detail)


def _diagnosis(outcome: Outcome) -> str:
    """The mutants that explain an outcome, as one text; failures with the same text form one group."""
    return " or ".join(outcome.diagnosis)


def _diagnoses(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The diagnosis of each case, from the first dtype with a diagnosis."""
    diagnoses: dict[str, str] = {}
    for outcome in sorted(outcomes, key=_order):
        if outcome.status == Status.FAILED and outcome.diagnosis:
            diagnoses.setdefault(outcome.case, _diagnosis(outcome))
    return diagnoses


def pattern(detail: str) -> str:
    """The detail with # for each number, so that details with other numbers are equal."""
    numbers = r"(?<![A-Za-z_])[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf\b|nan\b)"
    return re.sub(r"#(?:\s*[,x×]\s*#)+", "#", re.sub(numbers, "#", detail))


def devices(outcomes: Iterable[Outcome]) -> list[str]:
    """The devices of the outcomes, sorted."""
    return sorted({outcome.device for outcome in outcomes})


def _order(outcome: Outcome) -> tuple[object, ...]:
    """A sort key: float32 first, because every device runs it, so that the example of a group is in float32."""
    return outcome.implementation, outcome.device, _place(outcome), outcome.case, outcome.dtype


def _place(outcome: Outcome) -> int:
    return _PLACES.get(outcome.dtype, len(DTYPES))


_PLACES = {dtype: place for place, dtype in enumerate(DTYPES)} | {"float32": -1}
