"""JSON values → the fields of records, each checked by the type that the record declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias, TypeVar

from attnsuite.model import (
    ContractFacts,
    Evidence,
    Example,
    Facts,
    Holds,
    Machine,
    Operators,
    Reason,
    Status,
    WorkloadFacts,
)

Record = TypeVar("Record")
Value = TypeVar("Value")
Reader: TypeAlias = Callable[[str, Any], Value]
"""Makes a field's value of its name and a JSON value. Raises ValueError for a value of another type."""

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that is read: no counter that a run writes is wider."""


def typed(kind: type[Record], row: Mapping[str, Any]) -> Record:
    """A record of these fields. Raises ValueError for a field too many, too few or of another type."""
    readers: Mapping[str, Reader[Any]] = _readers(kind)  # type: ignore[arg-type]  # a class is hashable
    return made(kind, {name: readers.get(name, _as_it_is)(name, value) for name, value in row.items()})


def made(kind: Callable[..., Record], row: Mapping[str, Any]) -> Record:
    """A record of these fields. Raises ValueError for a field too many or too few."""
    try:
        return kind(**row)
    except TypeError as error:
        raise ValueError(str(error).replace(".__init__()", "")) from None


def one_of(name: str, value: str, known: Sequence[str]) -> None:
    """Raises ValueError for a value that is not among those that are known."""
    if value not in known:
        raise ValueError(f"{name} is {str(value)!r:.80}, not one of {', '.join(filter(None, known))}")


def text_of(name: str, value: Any) -> str:
    """The text that a field holds. Raises ValueError for anything else, as the functions beside it do."""
    if not isinstance(value, str):
        raise ValueError(f"{name} should be a text, not {value!r:.80}")
    return value


def texts_of(name: str, value: Any) -> tuple[str, ...]:
    """The list of texts that a field holds."""
    return tuple(text_of(name, each) for each in list_of(name, value))


def list_of(name: str, value: Any) -> list[Any] | tuple[Any, ...]:
    """The list that a field holds, or the tuple that becomes one in JSON."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} should be a list, not {value!r:.80}")
    return value


def object_of(name: str, value: Any) -> dict[str, Any]:
    """The JSON object that a field holds."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} should be an object, not {value!r:.80}")
    return value


def each_of(reader: Reader[Value]) -> Reader[dict[str, Value]]:
    """A reader of objects whose values all are of one type."""

    def read(name: str, value: Any) -> dict[str, Value]:
        return {key: reader(f"{name}.{key:.40}", each) for key, each in object_of(name, value).items()}

    return read


@cache
def _readers(kind: Any) -> dict[str, Reader[Any]]:
    """How each field of a record is read, by its name."""
    return {field.name: _OF_TYPE[str(field.type)] for field in fields(kind)}


def _as_it_is(name: str, value: Any) -> Any:
    return value


def whole_of(name: str, value: Any) -> int:
    """The whole number, zero or more, that a field holds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_WHOLE:
        raise ValueError(f"{name} should be a whole number, not {value!r:.80}")
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be true or false, not {value!r:.80}")
    return value


def _number(name: str, value: Any) -> float:
    if (isinstance(value, (int, float)) and not isinstance(value, bool)) or value in ("inf", "-inf", "nan"):
        with suppress(OverflowError):  # JSON has whole numbers without end
            return float(value)
    raise ValueError(f"{name} should be a number, not {value!r:.80}")


def _number_or_none(name: str, value: Any) -> float | None:
    return None if value is None else _number(name, value)


def _samples(name: str, value: Any) -> tuple[float, ...]:
    samples = tuple(_number(name, each) for each in list_of(name, value))
    if not all(0 < each < math.inf for each in samples):
        raise ValueError(f"{name} should be positive and finite, not {value!r:.80}")
    return samples


def _finite(name: str, value: Any) -> tuple[float, ...]:
    numbers = tuple(_number(name, each) for each in list_of(name, value))
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} should be finite, not {value!r:.80}")
    return numbers


def _word(of: type[Status] | type[Reason] | type[Holds] | type[Evidence]) -> Reader[Any]:
    def read(name: str, value: Any) -> Any:
        one_of(name, value, tuple(of))
        return of(value)

    return read


def _records(kind: type[Value]) -> Reader[tuple[Value, ...]]:
    def read(name: str, value: Any) -> tuple[Value, ...]:
        return tuple(typed(kind, object_of(name, each)) for each in list_of(name, value))

    return read


def _is_a(kind: type[Value]) -> Reader[Value]:
    """For what was made already."""

    def read(name: str, value: Any) -> Value:
        if not isinstance(value, kind):
            raise ValueError(f"{name} should be an object, not {value!r:.80}")
        return value

    return read


def _record(kind: type[Value]) -> Reader[Value]:
    def read(name: str, value: Any) -> Value:
        return typed(kind, object_of(name, value))

    return read


_OF_TYPE: Mapping[str, Reader[Any]] = {
    "str": text_of,
    "bool": _truth,
    "int": whole_of,
    "float": _number,
    "float | None": _number,
    "Status": _word(Status),
    "Reason": _word(Reason),
    "Holds": _word(Holds),
    "Evidence": _word(Evidence),
    "Machine": _is_a(Machine),
    "Facts": _is_a(Facts),
    "tuple[str, ...]": texts_of,
    "tuple[float, ...]": _samples,
    "Losses": _finite,
    "Samples": _finite,
    "tuple[Example, ...]": _records(Example),
    "Mapping[str, Any]": object_of,
    "Mapping[str, str]": each_of(text_of),
    "Mapping[str, int]": each_of(whole_of),
    "Mapping[str, float]": each_of(_number),
    "Mapping[str, float | None]": each_of(_number_or_none),
    "Mapping[str, Status]": each_of(_word(Status)),
    "Mapping[str, tuple[str, ...]]": each_of(texts_of),
    "Mapping[str, Mapping[str, str]]": each_of(each_of(text_of)),
    "Mapping[str, Mapping[str, Any]]": each_of(object_of),
    "Mapping[str, Operators]": each_of(_record(Operators)),
    "Mapping[str, ContractFacts]": each_of(_record(ContractFacts)),
    "Mapping[str, Mapping[str, WorkloadFacts]]": each_of(each_of(_record(WorkloadFacts))),
}
"""How a field is read, by its annotation."""
