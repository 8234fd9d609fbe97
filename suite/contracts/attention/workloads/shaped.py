"""A workload that a user types: `b=4,h=32,g=8,l=2048,e=128,causal`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from suite.contracts.attention.feature import Typed, features
from suite.contracts.attention.workloads.dropped import Dropped
from suite.contracts.attention.workloads.workload import Workload
from suite.records import PASSES, SHAPE, UsageError

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


def shaped(text: str) -> Workload:
    """The workload that a text names. UsageError, one line, for what it cannot be, with what exists.

    Its name is the text made plain: sizes first, nothing that is usual anyway. So whoever knows the name can make it.
    """
    words = _words(text)
    sizes = {name: _size(name, words[name]) for name in SIZES if name in words}
    if "l" not in sizes:
        raise UsageError(f"--shape {text!r} lacks l, the number of queries: l=2048")
    batch, heads, queries = sizes.get("b", 1), sizes.get("h", 1), sizes["l"]
    key_heads, keys, width = sizes.get("g", heads), sizes.get("s", queries), sizes.get("e", WIDTH)
    if heads % key_heads:
        raise UsageError(f"--shape {text!r}: h={heads} query heads cannot share g={key_heads} key heads evenly")
    values = {name: _value(name, typed, words[name]) for name, typed in _typed().items() if name in words}
    if {"causal", "mask"} <= set(values):
        raise UsageError(f"--shape {text!r}: what causal and a mask mean together is not defined; name one of them")
    given = {each.key: values[each.name] for each in features() if each.name in values}
    kind = Dropped if given.get("dropout_p") else Workload
    return kind(
        SHAPE + _plain(sizes, values),
        "a shape of one's own",
        queries,
        keys,
        width,
        heads,
        batch=batch,
        value_width=sizes.get("v", width),
        profiles=dict.fromkeys(("quick", "standard", "full"), PASSES[:1]),
        **(given if key_heads == heads else {"key_heads": key_heads, **given}),
    )


def explained() -> str:
    """What may stand in a shape, in a line."""
    typed = (f"{name}={each.due}" if each.due else name for name, each in _typed().items())
    return "; ".join((*(f"{name}: {says}" for name, says in SIZES.items()), *typed))


@cache
def _typed() -> Mapping[str, Typed]:
    """The features that a shape may have, by name."""
    return {each.name: each.typed for each in features() if each.typed}


def _words(text: str) -> dict[str, str]:
    """What stands in a text, by name: what comes after the equals sign, or empty."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in SIZES and name not in _typed():
            raise UsageError(_unknown(text, name))
        if name in found:
            raise UsageError(f"--shape {text!r} names {name} twice")
        due = SIZES.get(name) or _typed()[name].due
        if due and not value:
            raise UsageError(f"--shape {text!r}: {name} takes a value, {name}=…: {due}")
        if equals and not due:
            raise UsageError(f"--shape {text!r}: {name} stands alone, without {value!r}")
        found[name] = value
    return found


def _unknown(text: str, name: str) -> str:
    there = [*SIZES, *_typed()]
    if name in ("backward", "step"):
        return f"--shape {text!r}: {name} is an option of its own, --{name}"
    if name in ("dtype", "float64", "float32", "float16", "bfloat16"):
        return f"--shape {text!r}: the dtype is an option of its own, --dtype"
    close = get_close_matches(name, there, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    said = f"there is no {name!r} in a shape" if name else "a word is missing between two commas"
    return f"--shape {text!r}: {said}; {hint}there are: {', '.join(there)}"


def _size(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= LARGEST):
        raise UsageError(f"--shape: {name} is a whole number of at least 1 ({SIZES[name]}), not {text!r}")
    return int(text)


def _value(name: str, typed: Typed, text: str) -> Any:
    try:
        return typed.read(text or name)
    except ValueError:
        raise UsageError(f"--shape: {name} is {typed.due}, not {text!r}") from None


def _plain(sizes: Mapping[str, int], values: Mapping[str, Any]) -> str:
    """The text with nothing in it that is usual anyway, always in the same order."""
    every = {"e": WIDTH, **sizes}
    usual = {"b": 1, "h": 1, "g": sizes.get("h", 1), "s": sizes["l"], "v": every["e"]}

    def parts() -> Iterator[str]:
        for name in SIZES:
            if name in every and every[name] != usual.get(name):
                yield f"{name}={every[name]}"
        for name, value in values.items():
            typed = _typed()[name]
            yield f"{name}={typed.written(value)}" if typed.due else name

    return ",".join(parts())
