"""Types of the fields of rows: msgspec checks them when a row is read, and names the field that breaks one."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Struct, to_builtins

LONGEST_TEXT = 2000
"""Characters that a row stores of a text: a submission may raise an exception of megabytes."""
INFINITE = 1e308
"""The number that stands for infinity in a file, because JSON has no infinity."""

Text: TypeAlias = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
"""A number that is not negative: seconds, bytes, FLOPs, an error in units of its bound."""
Sample: TypeAlias = Annotated[float, Meta(gt=0)]
"""Seconds of one timed call."""


class Row(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row of a file of results: a field at its default is not written, and an unknown field is an error."""

    DIGITS: ClassVar[int] = 6
    """Significant digits of its numbers in a file."""


def lean(row: Row, longest: int = LONGEST_TEXT) -> dict[str, Any]:
    """The row as a JSON object: without fields at their default, numbers rounded, texts cut to `longest` characters."""
    return {name: _short(value, row.DIGITS, longest) for name, value in to_builtins(row).items()}


def _short(value: Any, digits: int, longest: int) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return float(f"{value:.{digits}g}") if math.isfinite(value) else math.copysign(INFINITE, value)
    if isinstance(value, str):
        end = f" … ({len(value)} characters)"
        text = value if len(value) <= longest else value[: longest - len(end)] + end
        return text.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_short(name, digits, longest): _short(each, digits, longest) for name, each in value.items()}
    return [_short(each, digits, longest) for each in value] if isinstance(value, list) else value
