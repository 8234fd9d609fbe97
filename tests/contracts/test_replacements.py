"""A deviation is called as the step that it stands in place of: one that is not raises, and would be caught by that."""

from __future__ import annotations

import re

import pytest

from attnsuite.cases import Case
from attnsuite.contracts import contract, names
from attnsuite.worker import ask

MISCALLED = re.compile(r"TypeError: .*(positional argument|unexpected keyword argument)")
FAMILIES = 6
"""Families of which one question is asked: steps differ by what is asked, and these ask all of them."""
OF_ATTENTION = {"plain", "gradients", "causal", "bool_mask", "dropout", "heads"}


def plainest(name: str) -> list[Case]:
    """The first case of each of some families."""
    found: dict[str, Case] = {}
    for case in contract(name).cases():
        wanted = name != "attention" or case.family in OF_ATTENTION
        if wanted and case.family != "bad_input" and "float32" in case.dtypes:
            found.setdefault(case.family, case)
    return list(found.values())[:FAMILIES]


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_no_deviation_is_called_with_what_it_does_not_take(name: str) -> None:
    asked = [case.calls("float32") for case in plainest(name)]
    miscalled = [
        (deviation.name, reply.error)
        for deviation in contract(name).mutants()
        for calls in asked
        for reply in ask(deviation.function, calls)
        if MISCALLED.match(reply.error)
    ]

    assert miscalled == []
    assert asked
