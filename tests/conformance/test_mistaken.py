"""Common mistakes, written without the deviations' code, are named on the smallest case that shows them."""

from __future__ import annotations

import pytest
from mistaken import MISTAKEN

import attnsuite

NOT_TO_BE_NAMED = {"weights in half", "ε in the sum", "1/√64 always", "output in (b, l, h, e)"}
"""Their answers depend on the last bit of what is rounded, are too near the truth, equal those of several mistakes in
this case, or have another shape."""


@pytest.mark.slow
def test_what_shows_in_the_plainest_case_is_named_there() -> None:
    wrong = {}
    for says, (attention, names) in MISTAKEN.items():
        (outcome,) = attnsuite.check(attention, cases="plain/small", dtypes="float32")
        if outcome.fails and not names & set(outcome.diagnosis):
            wrong[says] = outcome.diagnosis

    assert wrong.keys() <= NOT_TO_BE_NAMED
