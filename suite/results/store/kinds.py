"""The kinds of records, and how finished ones are written: outcomes that differ in their case alone share a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from attnsuite.model import DTYPES, Claimed, Learned, Measurement, Outcome
from attnsuite.results.store import rows
from attnsuite.results.store.files import row_text
from attnsuite.results.store.typed import texts_of

Record = TypeVar("Record", Outcome, Measurement, Learned, Claimed)
Numbers = Mapping[str, str]
"""The line that a record has in each column."""


class Line(NamedTuple, Generic[Record]):
    """A row, and the records that it stands for in their order."""

    row: dict[str, Any]
    records: Sequence[Record]


@dataclass(frozen=True)
class Kind(Generic[Record]):
    """How one kind of records is written: rows in a file called like it, numbers that vary in columns of their own."""

    name: str
    columns: Mapping[str, int]
    """The fields that are columns, and to how many digits their numbers are kept."""
    lines: Callable[[Sequence[Record]], Iterator[Line[Record]]]
    """The rows of one run's records of one implementation on one device, in a fixed order."""
    count: Callable[[Mapping[str, Any]], int]
    """How many records a row stands for."""
    records: Callable[[Mapping[str, Any], Sequence[Numbers]], list[Record]]
    """The records that a row stands for, each with its numbers. Raises ValueError for what is no such row."""

    @property
    def file(self) -> str:
        return f"{self.name}.jsonl"

    def column_file(self, column: str) -> str:
        """The file of a column."""
        return f"{self.name}.{column}.gz"


def _lean(record: Outcome | Measurement) -> dict[str, Any]:
    """The record's row without numbers of columns, and without a contract that its implementation's name says."""
    row = rows.lean(record)
    if record.implementation.partition("/")[0] == record.contract:
        del row["contract"]
    return row


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"contract": str(row.get("implementation")).partition("/")[0], **row}


def _outcome_lines(outcomes: Sequence[Outcome]) -> Iterator[Line[Outcome]]:
    """A row for each family and what became of its cases in the same dtypes; the dtypes with the widest first."""
    alike: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for outcome in sorted(outcomes, key=lambda each: (each.case, _place(each.dtype), each.dtype)):
        alike[_said(outcome)][outcome.case].append(outcome)
    found = []
    for cases in alike.values():
        by_dtypes: dict[tuple[str, ...], list[Outcome]] = defaultdict(list)
        for members in cases.values():
            by_dtypes[tuple(member.dtype for member in members)] += members
        found += [_outcome_line(dtypes, members) for dtypes, members in by_dtypes.items()]
    yield from sorted(found, key=lambda line: (line.row["cases"], row_text(line.row)))


def _outcome_line(dtypes: Sequence[str], outcomes: Sequence[Outcome]) -> Line[Outcome]:
    row = _lean(outcomes[0])
    for name in ("case", "dtype", *OUTCOMES.columns):
        row.pop(name, None)
    cases = list(dict.fromkeys(outcome.case for outcome in outcomes))
    return Line({**row, "dtypes": list(dtypes), "cases": cases}, outcomes)


def _said(outcome: Outcome) -> str:
    """The family of its case, and what became of it."""
    said = {name: value for name, value in _lean(outcome).items() if name not in ("case", "dtype", *OUTCOMES.columns)}
    return row_text({"family": outcome.case.partition("/")[0], **said})


def _place(dtype: str) -> int:
    return DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES)


def _outcome_count(row: Mapping[str, Any]) -> int:
    return len(texts_of("cases", row.get("cases"))) * len(texts_of("dtypes", row.get("dtypes")))


def _outcomes(row: Mapping[str, Any], numbers: Sequence[Numbers]) -> list[Outcome]:
    shared = {name: value for name, value in _whole(row).items() if name not in ("cases", "dtypes")}
    _, like = rows.outcome({**shared, "run": "", "case": "*", "dtype": "*"})
    asked = [(case, dtype) for case in row["cases"] for dtype in row["dtypes"]]
    return [
        Outcome(
            like.implementation, like.contract, case, dtype, like.device, like.status, like.detail,
            _number(of["error_ratio"]), _number(of["seconds"]), like.known, like.diagnosis, like.reason,
        )
        for (case, dtype), of in zip(asked, numbers, strict=True)
    ]  # fmt: skip


def _number(line: str) -> float | None:
    return float(line) if line else None


def _measurement_lines(measurements: Sequence[Measurement]) -> Iterator[Line[Measurement]]:
    for measurement in sorted(measurements, key=lambda each: each.key):
        row = _lean(measurement)
        row.pop("seconds", None)
        yield Line(row, [measurement])


def _measurements(row: Mapping[str, Any], numbers: Sequence[Numbers]) -> list[Measurement]:
    (of,) = numbers
    seconds = [float(each) for each in of["seconds"].split()]
    return [rows.measurement({**_whole(row), "run": "", **({"seconds": seconds} if seconds else {})})[1]]


def _learned_lines(learned: Sequence[Learned]) -> Iterator[Line[Learned]]:
    for each in sorted(learned, key=lambda each: each.key):
        row = rows.lean(each)
        del row["curve"]
        yield Line(row, [each])


def _learned(row: Mapping[str, Any], numbers: Sequence[Numbers]) -> list[Learned]:
    (of,) = numbers
    return [rows.learned({**row, "run": "", "curve": [float(each) for each in of["curve"].split()]})[1]]


def _claimed_lines(claimed: Sequence[Claimed]) -> Iterator[Line[Claimed]]:
    for each in sorted(claimed, key=lambda each: each.key):
        row = rows.lean(each)
        for name in CLAIMED.columns:
            row.pop(name, None)
        yield Line(row, [each])


def _claimed(row: Mapping[str, Any], numbers: Sequence[Numbers]) -> list[Claimed]:
    (of,) = numbers
    samples, seconds = [float(each) for each in of["samples"].split()], _number(of["seconds"])
    found = {"samples": samples} if samples else {}
    return [rows.claimed({**row, "run": "", **found, **({} if seconds is None else {"seconds": seconds})})[1]]


OUTCOMES = Kind("conformance", {"error_ratio": 3, "seconds": 3}, _outcome_lines, _outcome_count, _outcomes)
MEASUREMENTS = Kind("benchmark", {"seconds": 6}, _measurement_lines, lambda _: 1, _measurements)
LEARNED = Kind("learning", {"curve": 6}, _learned_lines, lambda _: 1, _learned)
CLAIMED = Kind("claims", {"samples": 6, "seconds": 3}, _claimed_lines, lambda _: 1, _claimed)
