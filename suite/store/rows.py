"""Outcomes, measurements and what was learned ↔ rows: lean JSON objects, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, TypeVar

from suite.records import (
    CACHES,
    DIRECTIONS,
    EVERY_CASE,
    MEASURED_STATUSES,
    STATUSES,
    Learned,
    Measurement,
    Outcome,
    Reason,
    Status,
)
from suite.store.files import Row

LONGEST_TEXT = 2000
"""A submission may say megabytes; a row keeps this many characters of it."""

Record = TypeVar("Record")


def lean(record: Outcome | Measurement | Learned) -> dict[str, Any]:
    """The record without what is at its default, floats at four digits (of all but outcomes at six), texts cut."""
    digits = 4 if isinstance(record, Outcome) else 6
    row: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or value != default:
            row[field.name] = _short(value, digits)
    return row


def outcome(row: Row) -> tuple[str, Outcome]:
    """The run's id and the outcome that a row holds. Raises ValueError for what is no such row."""
    run, found = _answer(Outcome, row)
    _one_of("status", found.status, STATUSES)
    return run, found


def measurement(row: Row) -> tuple[str, Measurement]:
    """The run's id and the measurement that a row holds. Raises ValueError for what is no such row."""
    run, found = _answer(Measurement, row)
    _one_of("status", found.status, MEASURED_STATUSES)
    _one_of("direction", found.direction, (*DIRECTIONS, EVERY_CASE))
    _one_of("cache", found.cache, (*CACHES, EVERY_CASE))
    if found.status == "measured" and not found.seconds:
        raise ValueError("status is measured, yet there are no seconds")
    return run, found


def learned(row: Row) -> tuple[str, Learned]:
    """The run's id and the training that a row holds. Raises ValueError for what is no such row."""
    run, found = _answer(Learned, row)
    if not found.curve:
        raise ValueError("there is no loss of any epoch")
    return run, found


def made(kind: Callable[..., Record], row: Mapping[str, Any]) -> Record:
    """A record of these fields. Raises ValueError for a field too many or too few."""
    try:
        return kind(**row)
    except TypeError as error:
        raise ValueError(str(error).replace(".__init__()", "")) from None


def _answer(kind: Callable[..., Record], row: Row) -> tuple[str, Record]:
    """The run's id, and the rest of the row as a record whose fields are of the right types."""
    row, readers = dict(row), _readers(kind)
    run = text_of("run", row.pop("run", None))
    return run, made(kind, {name: readers.get(name, _as_it_is)(name, value) for name, value in row.items()})


@lru_cache
def _readers(kind: Any) -> dict[str, Callable[[str, Any], Any]]:
    """How each field of a record is read, by its name."""
    return {field.name: _OF_TYPE[field.type] for field in fields(kind)}


def _as_it_is(name: str, value: Any) -> Any:
    return value


def _short(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)  # JSON has no inf and no nan
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        end = f" … ({len(value)} characters)"
        return value[: LONGEST_TEXT - len(end)] + end
    if isinstance(value, Mapping):
        return {name: _short(each, digits) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_short(each, digits) for each in value]
    return value


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {str(value)!r:.80}, not one of {', '.join(known)}")


def text_of(name: str, value: Any) -> str:
    """The text that a field holds. Raises ValueError for anything else, as the functions beside it do."""
    if not isinstance(value, str):
        raise ValueError(f"{name} should be a text, not {value!r:.80}")
    return value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} should be a whole number, not {value!r:.80}")
    return value


def _number(name: str, value: Any) -> float:
    if (isinstance(value, (int, float)) and not isinstance(value, bool)) or value in ("inf", "-inf", "nan"):
        with suppress(OverflowError):  # JSON has whole numbers without end
            return float(value)
    raise ValueError(f"{name} should be a number, not {value!r:.80}")


def _samples(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} should be a list, not {value!r:.80}")
    samples = tuple(_number(name, each) for each in value)
    if not all(0 < each < math.inf for each in samples):
        raise ValueError(f"{name} should be positive and finite, not {value!r:.80}")
    return samples


def _losses(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} should be a list, not {value!r:.80}")
    losses = tuple(_number(name, each) for each in value)
    if not all(map(math.isfinite, losses)):
        raise ValueError(f"{name} should be finite, not {value!r:.80}")
    return losses


def _numbers(name: str, value: Any) -> dict[str, float | None]:
    items = object_of(name, value).items()
    return {key: None if each is None else _number(f"{name}.{key:.40}", each) for key, each in items}


def object_of(name: str, value: Any) -> dict[str, Any]:
    """The JSON object that a field holds."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} should be an object, not {value!r:.80}")
    return value


def _status(name: str, value: Any) -> Status:
    if value not in tuple(Status):
        raise ValueError(f"{name} is {value!r:.80}, not one of {', '.join(Status)}")
    return Status(value)


def _reason(name: str, value: Any) -> Reason:
    if value not in tuple(Reason):
        raise ValueError(f"{name} is {value!r:.80}, not one of {', '.join(filter(None, Reason))}")
    return Reason(value)


def texts_of(name: str, value: Any) -> tuple[str, ...]:
    """The list of texts that a field holds."""
    if not isinstance(value, list):
        raise ValueError(f"{name} should be a list, not {value!r:.80}")
    return tuple(text_of(name, each) for each in value)


_OF_TYPE: Mapping[Any, Callable[[str, Any], Any]] = {
    "str": text_of,
    "Status": _status,
    "Reason": _reason,
    "tuple[str, ...]": texts_of,
    "int": _whole,
    "float | None": _number,
    "tuple[float, ...]": _samples,
    "Losses": _losses,
    "Mapping[str, float]": _numbers,
    "Mapping[str, float | None]": _numbers,
    "Mapping[str, Any]": object_of,
}
"""How a field is read, by its annotation."""
