"""What was timed is held against the oracle, and the processor time that was used against the cores that were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.measure.protocol import Failed, Rows
from attnsuite.benchmark.request import Table
from attnsuite.model import Status

MORE_CORES = 1.25
"""An entry used more cores than it was given if its processor time is more than this many times what those have to give
(and `CPU_TIME_ERROR` more)."""
CPU_TIME_ERROR = 0.1
"""Seconds by which the system's count of processor time may be off: it counts in ticks, for every thread."""


def verify(table: Table, entry: Entry[Any], rows: Rows, used: float, approximate: bool = False) -> None:
    """Let an entry drop out whose kept answers are wrong, or which used more cores than it was given.

    `used` is seconds of processor time since its first round; of one that has failed it tells whether the others' times
    can be trusted. One that is `approximate` promises no limit of its
    errors: they are kept, whatever they are.
    """
    ratios = []
    for when, kept in (
        *([("while it was timed its answer was wrong", entry.kept)] if entry.kept else []),
        *(("its answer was wrong for numbers that it had not seen", each) for each in entry.proofs),
    ):
        if entry.failed:
            break
        found = verified(table, kept.number, rows, kept.rows, when, approximate)
        if isinstance(found, Failed):
            entry.failed = found
        else:
            ratios.append(found)
    entry.took_more_cores = bool(table.threads) and used > MORE_CORES * table.threads * entry.awake + CPU_TIME_ERROR
    if entry.failed:
        return
    entry.error_ratio = max(ratios)
    if entry.kept is not None:
        asked = (table.dtype, table.direction, entry.kept.number, rows, entry.kept.rows)
        entry.relative_error = table.workload.errors(*asked)
    if entry.took_more_cores:
        entry.refuse(f"it was given {table.threads} cores and used {used / entry.awake:.2f}")


def verified(
    table: Table, number: int, rows: Rows, found: Mapping[str, Tensor], when: str, approximate: bool = False
) -> float | Failed:
    """The largest error, in bounds, of rows found in a round; or a refusal that says `when` the answer was wrong."""
    verdict = table.workload.verdict(table.dtype, table.direction, number, rows, found)
    if verdict.status != Status.PASSED and not (approximate and verdict.error_ratio is not None):
        return Failed(Status.REFUSED, f"{when}: {verdict.detail}", verdict.error_ratio)
    return verdict.error_ratio or 0.0
