"""More threads than one: PyTorch's own, which share the work of a call, and the caller's, which call at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attnsuite.cases import Call, Case
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.contracts.attention.cases.behaviour import InARow, Making
from attnsuite.contracts.attention.cases.case import AttentionCase

SHARED = ("float32", "float16")


def threads() -> list[Case]:
    """Rows, heads and items that do not divide among the threads; and calls of one shape at the same moment."""
    rows = AttentionCase(
        "threads/rows", "rows that leave a remainder", batch=1, heads=1, queries=131, keys=77, width=16, dtypes=SHARED
    )
    items = AttentionCase(
        "threads/items", "items and heads that leave a remainder", batch=5, heads=1, queries=20, keys=40, dtypes=SHARED
    )
    backward = rows.but(name="threads/gradients", why="the same backward", queries=67, gradient_of=INPUTS)
    several = [rows, items, backward, rows.but(name="threads/one_query", why="keys of one query", queries=1, keys=301)]
    at_once = AttentionCase("threads/called_at_once", "", batch=1, heads=2, queries=130, keys=130, width=16)
    return [
        *(LayoutCase(case.but(name=f"{case.name}_on_{count}"), _on(count)) for case in several for count in (2, 3)),
        InARow("threads/called_at_once", "four threads call at the same moment, each with numbers of its own", together(at_once, 4), ("float32",)),
    ]  # fmt: skip


def _on(count: int) -> Callable[[Call], Call]:
    return lambda call: replace(call, threads=count)


def together(case: AttentionCase, count: int) -> Making:
    calls = [case.but(name=f"{case.name}_{number}") for number in range(count)]
    return lambda draw: tuple(replace(draw(each), at_once=True) for each in calls)
