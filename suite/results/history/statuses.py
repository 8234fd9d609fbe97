"""Runs of one machine → measurements that came to have a time, or to have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnsuite.model import Snapshot, StatusChange, Timed


def status_changes(kept: Sequence[Snapshot]) -> Iterator[StatusChange]:
    """What each run says otherwise than the last before it that measured the same."""
    last: dict[tuple[str, ...], tuple[str, str]] = {}
    for of in kept:
        for timed in of.timed:
            after, before = last.get(timed.key, ("", timed.status))
            if before != timed.status:
                yield _changed(of.run.machine.name, of.run.id, after, before, timed)
            last[timed.key] = of.run.id, timed.status


def _changed(machine: str, run: str, after: str, before: str, of: Timed) -> StatusChange:
    return StatusChange(machine, of.implementation, of.workload, of.table_in_words, run, after, before, of.status)
