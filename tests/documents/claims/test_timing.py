"""Times become ratios and powers round by round; a claim about them that is turned round does not hold."""

from __future__ import annotations

import torch

from attnsuite.benchmark.measure import FEWEST
from attnsuite.documents.claims.claim import SLOWER, at_most, power
from attnsuite.documents.claims.timing import MOST_ROUNDS, power_of, raced, ratio
from attnsuite.model import Holds

SIZES = (16, 32, 64)
NOISE = [1.0, 1.02, 0.97, 1.01, 0.99, 1.04, 0.98, 1.0, 1.03, 0.96, 1.02, 1.01]
"""What twelve rounds are slower or faster than usual."""


def grown(exponent: int) -> dict[str, list[float]]:
    """Times that grow by this power, with another noise for each size."""
    return {
        str(size): [1e-6 * size**exponent * noise for noise in NOISE[place:] + NOISE[:place]]
        for place, size in enumerate(SIZES)
    }


def test_the_power_of_times_is_that_by_which_they_grow_and_no_other() -> None:
    found = power_of(SIZES, grown(2))

    assert len(found.samples) == len(NOISE)
    assert power(2).judge(found.of) == Holds.HOLDS
    assert {power(other).judge(found.of) for other in (0, 1, 3)} == {Holds.DOES_NOT}


def test_times_that_are_all_noise_make_no_claim_clear() -> None:
    rounds = {size: NOISE[place:] + NOISE[:place] for place, size in enumerate(SIZES)}
    times = {str(size): [1e-6 * noise**80 for noise in of] for size, of in rounds.items()}

    assert power(0).judge(power_of(SIZES, times).of) == Holds.UNCLEAR


def test_a_ratio_is_taken_within_rounds() -> None:
    slow_rounds = [1.0 + 10 * (place % 3 == 0) for place in range(12)]
    times = {"a": [2e-3 * slow for slow in slow_rounds], "b": [1e-3 * slow for slow in slow_rounds]}

    assert ratio("a", "b", times).of.low == ratio("a", "b", times).of.high == 2.0
    assert SLOWER.judge(ratio("a", "b", times).of) == Holds.HOLDS
    assert SLOWER.judge(ratio("b", "a", times).of) == Holds.DOES_NOT
    assert at_most(1).judge(ratio("a", "b", times).of) == Holds.DOES_NOT


def test_calls_take_turns_and_each_has_a_sample_of_each_round() -> None:
    calls = {"small": 0, "other": 0}

    def counted(name: str) -> None:
        calls[name] += 1

    threads = torch.get_num_threads()
    times = raced({name: lambda name=name: counted(name) for name in calls}, budget=0.0)

    assert {len(seconds) for seconds in times.values()} == {FEWEST}
    assert min(calls.values()) >= FEWEST
    assert all(second > 0 for seconds in times.values() for second in seconds)
    assert torch.get_num_threads() == threads
    assert FEWEST <= MOST_ROUNDS
