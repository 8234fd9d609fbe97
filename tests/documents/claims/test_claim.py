"""What a measurement says of a claim: it holds, it does not, or that is unclear; and why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.documents.claims import claims, every, topics
from attnsuite.documents.claims.claim import (
    ABOVE_ONE,
    ABOVE_ZERO,
    SLOWER,
    Claim,
    Measured,
    Range,
    at_least,
    at_most,
    exactly,
    number,
    power,
    sampled,
)
from attnsuite.model import Evidence, Holds, UsageError
from attnsuite.model.statistics import Interval, lies_within

TWENTY = [0.90 + 0.01 * place for place in range(20)]
"""Samples of a median of 0.995, whose interval is about 0.94 to 1.05."""


ONE = exactly(1)


def claim(measure: Callable[[], Measured], due: Range = ONE) -> Claim:
    return Claim("topic/what", "doc-004", "1.1", "one is one", "a number", due, Evidence.DRAWN, measure)


def raises(error: Exception) -> Callable[[], Measured]:
    def measure() -> Measured:
        raise error

    return measure


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [(1.0, 2.0, True), (0.5, 1.0, None), (1.9, 2.5, None), (0.5, 2.5, None), (0.1, 0.9, False), (2.1, 3.0, False)],
)
def test_an_interval_lies_within_a_range_outside_or_across_its_end(
    low: float, high: float, inside: bool | None
) -> None:
    assert lies_within(Interval((low + high) / 2, low, high), 1.0, 2.0) is inside


@pytest.mark.parametrize(
    ("due", "value", "holds"),
    [
        (power(2), 1.6, Holds.HOLDS), (power(2), 1.4, Holds.DOES_NOT), (power(-1), -1.2, Holds.HOLDS),
        (exactly(2), 2.0, Holds.HOLDS), (exactly(2), 2.0001, Holds.DOES_NOT), (exactly(2, 1e-3), 2.0001, Holds.HOLDS),
        (at_most(1), 1.0, Holds.HOLDS), (at_most(1), 1.1, Holds.DOES_NOT), (at_least(1), 0.9, Holds.DOES_NOT),
        (ABOVE_ZERO, 5e-324, Holds.HOLDS), (ABOVE_ZERO, 0.0, Holds.DOES_NOT),
        (SLOWER, 1.04, Holds.HOLDS), (SLOWER, 1.02, Holds.DOES_NOT),
        (ABOVE_ONE, 1.001, Holds.HOLDS), (ABOVE_ONE, 1.0, Holds.DOES_NOT),
    ],
)  # fmt: skip
def test_an_exact_number_holds_or_does_not(due: Range, value: float, holds: Holds) -> None:
    assert claim(lambda: number(value), due).examine().holds == holds


@pytest.mark.parametrize(
    ("due", "holds"),
    [
        (at_most(1.2), Holds.HOLDS),
        (at_least(1.2), Holds.DOES_NOT),
        (at_least(1.0), Holds.UNCLEAR),
        (at_most(1.0), Holds.UNCLEAR),
    ],
)
def test_samples_whose_interval_lies_across_the_end_are_unclear_whichever_way_the_claim_is_turned(
    due: Range, holds: Holds
) -> None:
    found = claim(lambda: sampled(TWENTY), due).examine()

    assert found.holds == holds
    assert found.samples == tuple(TWENTY)
    assert found.low is not None
    assert found.high is not None
    assert 0.9 < found.low < 0.995 < found.high < 1.09


def test_too_few_samples_are_never_enough() -> None:
    found = claim(lambda: sampled([1.0] * 7), at_most(2)).examine()

    assert found.holds == Holds.UNCLEAR
    assert found.high == math.inf


def test_what_raises_is_said_and_fails() -> None:
    found = claim(raises(ZeroDivisionError("by nothing"))).examine()

    assert (found.holds, found.detail, found.fails) == (Holds.RAISED, "ZeroDivisionError: by nothing", True)
    assert found.value is None


def test_a_library_that_is_absent_is_said_and_fails_nothing() -> None:
    found = claim(raises(ModuleNotFoundError("No module named 'no_such_library'"))).examine()

    assert (found.holds, found.detail, found.fails) == (Holds.MISSING, "No module named 'no_such_library'", False)


def test_claims_have_names_of_their_own_and_stand_in_the_file_of_their_topic() -> None:
    found = every()

    assert len({each.name for each in found}) == len(found) > 50
    assert all(each.says and each.quantity and each.due.words and each.document and each.section for each in found)
    assert {each.document for each in found} >= {"doc-000", "doc-001", "doc-002", "doc-003", "doc-004"}
    assert topics(found) == sorted(topics(found)), "a file's claims have its name, and files come in order"


def test_the_page_about_claims_names_every_topic() -> None:
    page = Path(__file__).parents[3] / "docs" / "claims.md"

    named = set(re.findall(r"`(\w+)`", page.read_text(encoding="utf-8")))
    assert set(topics(every())) - named == set()


def test_claims_are_chosen_by_name_topic_pattern_and_evidence() -> None:
    patterns = ["softmax/never_vanishes", "normalisation", "complexity/*_width_*"]

    names = [each.name for each in claims(patterns, ["exact"])]

    assert names == [
        *(f"complexity/{layer}_width_flops" for layer in ("convolution", "recurrence", "self_attention")),
        "normalisation/layer",
        "normalisation/batch",
        "softmax/never_vanishes",
    ]


@pytest.mark.parametrize(
    ("patterns", "evidence", "said"),
    [
        (["softmaxes"], [], "no claim is named 'softmaxes'; topics are: causal, complexity, "),
        ([], ["guessed"], "there is no evidence 'guessed'; there is: exact, drawn, trained, timed"),
        (["normalisation"], ["timed"], "no claim of normalisation has the evidence timed"),
    ],
)
def test_what_names_no_claim_is_said_in_a_line(patterns: list[str], evidence: list[str], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        claims(patterns, evidence)
    assert str(raised.value).startswith(said)
