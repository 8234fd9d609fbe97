"""A claim's number is written with its interval, whatever its size, and what it was made of stands below."""

from __future__ import annotations

import math

import pytest
from builders import RUN
from msgspec.structs import replace

from attnsuite.model import Claimed, Evidence, Holds
from attnsuite.report.claims import claims, headline, line, measured
from attnsuite.report.render import markdown
from attnsuite.results.store import Recorded

CLAIM = Claimed(
    "claims/toy", "toy/number", "cpu", "doc-004", "11.1", "it grows", "power of n", "nearest to 2",
    Evidence.TIMED, Holds.HOLDS, 1.98, 1.95, 2.031, "sizes 16, 32", {"16": 0.0123, "32": 0.0456},
    (1.95, 1.98, 2.031), 3.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "low", "high", "written"),
    [
        (1.98, 1.95, 2.031, "1.98 (1.95 to 2.03)"),
        (64.0, 64.0, 64.0, "64"),
        (1470.0, 1470.0, 1470.0, "1,470"),
        (-1.194, -1.194, -1.194, "−1.19"),
        (3.72e-44, 3.72e-44, 3.72e-44, "3.72e−44"),
        (1.0, -math.inf, math.inf, "1 (−∞ to ∞)"),
        (0.0, 0.0, 0.0, "0"),
        (None, None, None, ""),
    ],
)
def test_a_number_is_written_with_its_interval(
    value: float | None, low: float | None, high: float | None, written: str
) -> None:
    assert measured(replace(CLAIM, value=value, low=low, high=high)) == written


def test_a_claim_is_a_line_in_a_terminal() -> None:
    assert line(CLAIM) == "toy/number  holds: power of n: 1.98 (1.95 to 2.03) (nearest to 2 is due)"


def test_the_headline_counts_what_there_is() -> None:
    other = replace(CLAIM, holds=Holds.DOES_NOT)

    assert headline([CLAIM]) == "1 claim: 1 holds"
    assert headline([CLAIM, CLAIM, other, other]) == "4 claims: 2 hold, 2 do not hold"
    assert headline([replace(CLAIM, holds=Holds.UNCLEAR), other]) == "2 claims: 1 does not hold, 1 unclear"


def test_claims_stand_with_what_their_numbers_are_made_of() -> None:
    other = replace(CLAIM, claim="other_toy/count", evidence=Evidence.EXACT, numbers={"first 1": 0.5}, detail="")
    recorded = Recorded("machine", {RUN.id: RUN}, (), examined=((RUN.id, CLAIM), (RUN.id, other)))

    text = markdown.render(claims(recorded))

    assert "| claim | numbers |\n|---|---|\n| `toy/number` | sizes 16, 32; 16: 12.3 ms, 32: 45.6 ms |\n" in text
    assert "\n| `other_toy/count` | first 1: 0.500 |\n" in text


def test_what_a_claim_says_cannot_change_the_page() -> None:
    odd = replace(CLAIM, says="a | b\n# heading", detail="| x |")
    text = markdown.render(claims(Recorded("machine", {RUN.id: RUN}, (), examined=((RUN.id, odd),))))

    assert r"| a \| b # heading |" in text
    assert "\n# heading" not in text
