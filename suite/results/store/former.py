"""The layout before this one, which is migrated: a row for each answer with its run's id, some facts in words alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import fields, replace

from attnsuite.model import Facts, Measurement, Outcome, Reason, Run, Status, UsageError
from attnsuite.results.store import rows, runs, together
from attnsuite.results.store.contents import Contents
from attnsuite.results.store.files import Row, parsed_rows
from attnsuite.results.store.kinds import MEASUREMENTS, OUTCOMES, Record
from attnsuite.results.store.runs import FORMAT, FORMER, RUNS

FILES = (RUNS, OUTCOMES.file, MEASUREMENTS.file)
TOO_SLOW = "too slow"
"""How a detail began where an implementation was declined because a call takes too long."""
MODELS = ("transformer", "vision_transformer", "seq2seq_attention")
"""The contracts of models, whose baseline was `eager` when runs did not say so; that of the others was `matmul`."""
_DEVIATION = re.compile(r'\bequals "([^"]+)"')


def is_former(folder: Path) -> bool:
    """Whether a folder has the former layout. Raises UsageError for a file that cannot be read."""
    found = parsed_rows(folder / RUNS, together.content(folder, RUNS), appended=True)
    return any(row.get("format") == FORMER for _, row in found)


def read(folder: Path) -> Contents:
    """What a folder of the former layout holds. Raises UsageError for a row that is none, or whose run is not there."""
    of_runs: dict[str, Run] = {}
    for _, found in _read(folder / RUNS, _run):
        of_runs.pop(found.id, None)
        of_runs[found.id] = found
    return Contents(
        of_runs,
        _with_runs(folder / OUTCOMES.file, of_runs, _outcome),
        _with_runs(folder / MEASUREMENTS.file, of_runs, _measurement),
    )


def _with_runs(
    path: Path, of_runs: Mapping[str, Run], parse: Callable[[Row], tuple[str, Record]]
) -> list[tuple[str, Record]]:
    found = []
    for number, (identity, record) in _read(path, parse):
        if identity not in of_runs:
            raise UsageError(f"{path}, line {number}: {RUNS} has no run {identity!r:.80}; restore both files")
        found.append((identity, record))
    return found


def _read(path: Path, parse: Callable[[Row], Any]) -> list[tuple[int, Any]]:
    found = []
    for number, row in parsed_rows(path, together.content(path.parent, path.name), appended=True):
        try:
            found.append((number, parse(row)))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
    return found


def _run(row: Row) -> Run:
    if row.get("format") != FORMER:
        raise ValueError(
            f"the format is {row.get('format')!r:.80}, and other runs here have {FORMER}: restore the file"
        )
    notes = row.get("notes", {})
    noted = {**notes, **notes.get("facts", {}), **row.get("facts", {})}
    contracts = {**{name: {} for name in noted.get("workloads", {})}, **noted.get("contracts", {})}
    noted["contracts"] = {name: _contract(name, of) for name, of in contracts.items()}
    own = {name: value for name, value in row.items() if name != "notes"}
    known = {field.name for field in fields(Facts)}
    return runs.run({**own, "format": FORMAT, "facts": {name: of for name, of in noted.items() if name in known}})


def _contract(name: str, noted: Mapping[str, Any]) -> dict[str, Any]:
    """What was noted of a contract, with its baseline where it was not."""
    is_model = noted.get("is_model", name in MODELS)
    return {**noted, "is_model": is_model, "baseline": noted.get("baseline", "eager" if is_model else "matmul")}


def _outcome(row: Row) -> tuple[str, Outcome]:
    """With the deviations that its detail names."""
    run, of = rows.outcome(row)
    named = tuple(_DEVIATION.findall(of.detail)) if of.status == Status.WRONG and not of.diagnosis else ()
    return run, replace(of, diagnosis=named) if named else of


def _measurement(row: Row) -> tuple[str, Measurement]:
    """With its reason, where it was declined because a call takes too long."""
    run, of = rows.measurement(row)
    is_slow = of.status == Status.DECLINED and of.detail.startswith(TOO_SLOW) and not of.reason
    return run, replace(of, reason=Reason.TOO_SLOW) if is_slow else of
