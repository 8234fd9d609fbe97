"""JSON values → the fields of records, each checked by the type that the record declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import ValidationError, convert

Record = TypeVar("Record")
Value = TypeVar("Value")
Reader: TypeAlias = Callable[[str, Any], Value]
"""Makes a field's value of its name and a JSON value. Raises ValueError for a value of another type."""

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that is read: no counter that a run writes is wider."""


def typed(kind: type[Record], row: Mapping[str, Any]) -> Record:
    """A record of these fields. Raises ValueError for a field too many, too few or of another type."""
    try:
        return convert(dict(row), kind)
    except ValidationError as error:
        raise ValueError(str(error).replace(" - at `$.", " - at `")) from None


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


def whole_of(name: str, value: Any) -> int:
    """The whole number, zero or more, that a field holds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_WHOLE:
        raise ValueError(f"{name} should be a whole number, not {value!r:.80}")
    return value
