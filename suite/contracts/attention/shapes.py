"""The parser of `--shape b=4,h=32,g=8,l=2048,e=128,causal`, which needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from attnsuite.contracts.attention.feature import Syntax, features
from attnsuite.model import UsageError

WIDTH = 64
"""The width of queries and keys that most models have."""
SIZES = {
    "b": "batch items, 1 by default",
    "h": "query heads, 1 by default",
    "g": "key and value heads, as many as query heads by default",
    "l": "queries, which have no default",
    "s": "keys, as many as queries by default",
    "e": f"the width, {WIDTH} by default",
    "v": "the width of the values, that of queries and keys by default",
}
"""The sizes of a shape, as the contract names its axes."""
LARGEST = 2**40
"""No size may be larger: tensors of this many numbers fit into no machine."""


def read(text: str) -> tuple[dict[str, int], dict[str, Any]]:
    """The sizes in a text, and the values of features. UsageError, in one line, if it is malformed."""
    words = _words(text)
    sizes = {name: _size(name, words[name]) for name in SIZES if name in words}
    if "l" not in sizes:
        raise UsageError(f"--shape {text!r} lacks l, the number of queries: l=2048")
    heads = sizes.get("h", 1)
    if heads % sizes.get("g", heads):
        raise UsageError(f"--shape {text!r}: h={heads} query heads cannot share g={sizes['g']} key heads evenly")
    values = {name: _value(name, syntax, words[name]) for name, syntax in typed().items() if name in words}
    return sizes, values


@cache
def typed() -> Mapping[str, Syntax]:
    """The features that a shape may have, by name."""
    return {feature.name: feature.syntax for feature in features() if feature.syntax}


def _words(text: str) -> dict[str, str]:
    """The values in a text by name; empty for a name that stands alone."""
    words: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in SIZES and name not in typed():
            raise UsageError(_unknown(text, name))
        if name in words:
            raise UsageError(f"--shape {text!r} names {name} twice")
        expects = SIZES.get(name) or typed()[name].expects
        if expects and not value:
            raise UsageError(f"--shape {text!r}: {name} takes a value, {name}=…: {expects}")
        if equals and not expects:
            raise UsageError(f"--shape {text!r}: {name} stands alone, without {value!r}")
        words[name] = value
    return words


def _unknown(text: str, name: str) -> str:
    there = [*SIZES, *typed()]
    if name in ("backward", "step"):
        return f"--shape {text!r}: {name} is an option of its own, --{name}"
    if name in ("dtype", "float64", "float32", "float16", "bfloat16"):
        return f"--shape {text!r}: the dtype is an option of its own, --dtype"
    close = get_close_matches(name, there, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    problem = f"there is no {name!r} in a shape" if name else "a word is missing between two commas"
    return f"--shape {text!r}: {problem}; {hint}there are: {', '.join(there)}"


def _size(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= LARGEST):
        raise UsageError(f"--shape: {name} is a whole number of at least 1 ({SIZES[name]}), not {text!r}")
    return int(text)


def _value(name: str, syntax: Syntax, text: str) -> Any:
    try:
        return syntax.parse(text or name)
    except ValueError:
        raise UsageError(f"--shape: {name} is {syntax.expects}, not {text!r}") from None
