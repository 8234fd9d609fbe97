"""Types of the fields of rows: msgspec checks them when a row is read, and names the field that breaks one."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

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
