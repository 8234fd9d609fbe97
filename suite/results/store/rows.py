"""Outcomes, measurements, what was learned, claims ↔ rows: lean JSON objects, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import NODEFAULT
from msgspec.structs import fields

from attnsuite.model import (
    CACHES,
    DIRECTIONS,
    EVERY_CASE,
    MEASURED_STATUSES,
    STATUSES,
    Claimed,
    Learned,
    Measurement,
    Outcome,
)
from attnsuite.model.typed import INFINITE
from attnsuite.results.store.files import Row
from attnsuite.results.store.typed import one_of, text_of, typed

LONGEST_TEXT = 2000
"""A submission may say megabytes; a row keeps this many characters of it."""

Record = TypeVar("Record")


def lean(record: Outcome | Measurement | Learned | Claimed) -> dict[str, Any]:
    """The record without what is at its default, floats at four digits (of all but outcomes at six), texts cut."""
    digits = 4 if isinstance(record, Outcome) else 6
    row: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        if default is NODEFAULT or value != default:
            row[field.name] = _short(value, digits)
    return row


def outcome(row: Row) -> tuple[str, Outcome]:
    """The run's id and the outcome that a row holds. Raises ValueError for what is no such row."""
    run, found = _answer(Outcome, row)
    one_of("status", found.status, STATUSES)
    return run, found


def measurement(row: Row) -> tuple[str, Measurement]:
    """The run's id and the measurement that a row holds. Raises ValueError for what is no such row."""
    run, found = _answer(Measurement, row)
    one_of("status", found.status, MEASURED_STATUSES)
    one_of("direction", found.direction, (*DIRECTIONS, EVERY_CASE))
    one_of("cache", found.cache, (*CACHES, EVERY_CASE))
    if found.status == "measured" and not found.seconds:
        raise ValueError("status is measured, yet there are no seconds")
    if found.processes and (
        len(found.processes) != len(found.seconds) or not set(found.processes) <= set("0123456789")
    ):
        raise ValueError(f"processes should have a digit for each of {len(found.seconds)} samples")
    return run, found


def learned(row: Row) -> tuple[str, Learned]:
    """The run's id and the training that a row holds. Raises ValueError for what is no such row."""
    run, found = _answer(Learned, row)
    if not found.curve:
        raise ValueError("there is no loss of any epoch")
    return run, found


def claimed(row: Row) -> tuple[str, Claimed]:
    """The run's id and the claim that a row holds. Raises ValueError for what is no such row."""
    return _answer(Claimed, row)


def _answer(kind: type[Record], row: Row) -> tuple[str, Record]:
    """The run's id, and the rest of the row as a record whose fields are of the right types."""
    row = dict(row)
    run = text_of("run", row.pop("run", None))
    return run, typed(kind, row)


def _short(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(f"{value:.{digits}g}") if math.isfinite(value) else math.copysign(INFINITE, value)
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        end = f" … ({len(value)} characters)"
        return value[: LONGEST_TEXT - len(end)] + end
    if isinstance(value, Mapping):
        return {name: _short(each, digits) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_short(each, digits) for each in value]
    return value
