"""What changed in outcomes and in the statuses of measurements: new, gone, another status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from attnsuite.model import Measurement, Outcome, Status
from attnsuite.model.compared import Change

Row = TypeVar("Row", Outcome, Measurement)


def changes(old: Sequence[Row], new: Sequence[Row]) -> list[Change]:
    """The rows whose status differs, those that fail now first; then what changed, what is new and what is gone.

    A failure that a finding records does not count as failing.
    """
    before: dict[tuple[str, ...], Row] = _by_key(old)
    after: dict[tuple[str, ...], Row] = _by_key(new)
    found = [_change(before.get(key), after.get(key)) for key in dict.fromkeys((*after, *before))]
    return sorted(filter(None, found), key=lambda change: (not change.worse, not change.new, not change.old))


def both(old: Sequence[Row], new: Sequence[Row]) -> int:
    """How many rows have one like it on the other side."""
    return len({row.key for row in old} & {row.key for row in new})


def _by_key(rows: Sequence[Row]) -> dict[tuple[str, ...], Row]:
    return {tuple(row.key): row for row in rows}


def _change(old: Row | None, new: Row | None) -> Change | None:
    if old is None or new is None:
        row = new or old
        return Change(row, _status(old), _status(new), new is not None and new.fails) if row else None
    if old.status == new.status and old.fails == new.fails:
        return None
    return Change(new, old.status, new.status, new.fails and not old.fails)


def _status(row: Outcome | Measurement | None) -> Status | None:
    return row.status if row else None
