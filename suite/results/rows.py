"""Records ↔ rows: lean JSON objects, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from suite.records import STATUSES, Machine, Outcome, Run, UsageError
from suite.results.files import Row, read_rows

FORMAT = 1
RUNS, CONFORMANCE, BENCHMARK = "runs.jsonl", "conformance.jsonl", "benchmark.jsonl"
LONGEST_TEXT = 2000
"""A submission may say megabytes; a row keeps this many characters of it."""

Record = TypeVar("Record")


class UnknownRun(UsageError):
    """A row names a run that runs.jsonl does not hold."""


def lean(record: Outcome) -> dict[str, Any]:
    """The record without what is at its default, floats at four digits."""
    row: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.default is MISSING or value != field.default:
            row[field.name] = _short(value)
    return row


def outcome(row: Row) -> tuple[str, Outcome]:
    """The run's id and the outcome that a row holds. Raises ValueError for what is no such row."""
    row = dict(row)
    run = _text("run", row.pop("run", None))
    for field in fields(Outcome):
        if field.name in row:
            row[field.name] = (_number if field.type == "float | None" else _text)(field.name, row[field.name])
    found = _made(Outcome, row)
    if found.status not in STATUSES:
        raise ValueError(f"status is {found.status!r}, not one of {', '.join(STATUSES)}")
    return run, found


def run_row(run: Run) -> dict[str, Any]:
    """A run as a JSON object, without what is empty."""
    row = {field.name: getattr(run, field.name) for field in fields(run)}
    row = {name: dict(value) if isinstance(value, Mapping) else value for name, value in row.items() if value}
    row["machine"] = {field.name: getattr(run.machine, field.name) for field in fields(Machine)}
    return {"format": FORMAT, **row}


def run(row: Row) -> Run:
    """The run that a row holds. Raises ValueError for another format and for what is no such row."""
    if row.get("format") != FORMAT:
        found = row.get("format")
        newer = isinstance(found, int) and found > FORMAT
        remedy = "a newer attnsuite wrote it, update yours" if newer else "move the folder away and run anew"
        raise ValueError(f"the format is {found!r:.80} and this attnsuite reads {FORMAT}: {remedy}")
    row = {"commit": "", "versions": {}, "sources": {}, "suite": "", **row}
    for field in fields(Run):
        if field.type == "str" and field.name in row:
            _text(field.name, row[field.name])
        elif field.name in ("machine", "versions", "sources", "notes"):
            _object(field.name, row.get(field.name, {}))
    machine = dict(row["machine"]) if "machine" in row else {}
    machine["accelerators"] = tuple(machine.get("accelerators", ()))
    return _made(Run, {**row, "machine": _made(Machine, machine)})


def read(folder: Path) -> tuple[dict[str, Run], list[tuple[str, Outcome]]]:
    """All runs, the one whose row was written last at the end, and all outcomes with their run's id, in file order."""
    numbered = _parsed(folder / CONFORMANCE, outcome)  # before the runs: a writer writes its run's row first
    runs: dict[str, Run] = {}
    for _, each in _parsed(folder / RUNS, run):
        runs.pop(each.id, None)
        runs[each.id] = each
    for number, (identity, _) in numbered:
        if identity not in runs:
            place = f"{folder / CONFORMANCE}, line {number}"
            raise UnknownRun(f"{place}: {RUNS} has no run {identity!r:.80}; restore both files")
    return runs, [row for _, row in numbered]


def _parsed(path: Path, parse: Callable[[Row], Record]) -> list[tuple[int, Record]]:
    parsed = []
    for number, row in read_rows(path):
        try:
            parsed.append((number, parse(row)))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
    return parsed


def _made(kind: Callable[..., Record], row: Mapping[str, Any]) -> Record:
    try:
        return kind(**row)
    except TypeError as error:  # a field too many or too few
        raise ValueError(str(error).replace(".__init__()", "")) from None


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else str(value)  # JSON has no inf and no nan
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        end = f" … ({len(value)} characters)"
        return value[: LONGEST_TEXT - len(end)] + end
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} should be a text, not {value!r:.80}")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) or value in ("inf", "-inf", "nan"):
        return float(value)
    raise ValueError(f"{name} should be a number, not {value!r:.80}")


def _object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{name} should be an object, not {value!r:.80}")
