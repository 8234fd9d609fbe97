"""A mutation is called as the step that it replaces: one with other parameters raises, and would be killed by that."""

from __future__ import annotations

import re

import pytest

from attnsuite.cases import Case
from attnsuite.contracts import contract, names
from attnsuite.worker import run_calls

MISCALLED = re.compile(r"TypeError: .*(positional argument|unexpected keyword argument)")
FAMILIES = 6
"""The families of which one case runs: together these call all steps."""
OF_ATTENTION = {"plain", "gradients", "causal", "bool_mask", "dropout", "heads"}


def plainest(name: str) -> list[Case]:
    """The first case of each of some families."""
    first: dict[str, Case] = {}
    for case in contract(name).cases():
        wanted = name != "attention" or case.family in OF_ATTENTION
        if wanted and case.family != "bad_input" and "float32" in case.dtypes:
            first.setdefault(case.family, case)
    return list(first.values())[:FAMILIES]


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_no_mutation_is_called_with_other_parameters(name: str) -> None:
    cases = [case.calls("float32") for case in plainest(name)]
    miscalled = [
        (mutant.name, reply.error)
        for mutant in contract(name).mutants()
        for calls in cases
        for reply in run_calls(mutant.function, calls)
        if MISCALLED.match(reply.error)
    ]

    assert miscalled == []
    assert cases
