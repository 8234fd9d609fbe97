"""Steps are reported only with at least two runs on either side."""

import math
import random

import pytest

from attnsuite.model.faster import MARGIN
from attnsuite.results import steps


def runs(*levels: tuple[float, int], spread: float = 0.01, seed: int = 0) -> list[float]:
    """`count` runs at each level, normally distributed, as logarithms."""
    draw = random.Random(seed)
    return [math.log(level) + draw.gauss(0, spread) for level, count in levels for _ in range(count)]


def places(logs: list[float], **others: float) -> list[int]:
    return [item.at for item in steps.steps(logs, **others)]


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 9), (9, 2), (10, 10)])
def test_a_step_of_a_third_is_found_where_it_is_with_its_size(before, after):
    (result,) = steps.steps(runs((0.6, before), (0.8, after)))

    assert result.at == before
    assert result.low < 4 / 3 < result.high
    assert 1 + MARGIN < result.low < result.ratio < result.high


def test_a_step_down_and_one_up_again_are_two():
    logs = runs((1, 8), (0.7, 6), (1, 8))

    first, second = steps.steps(logs)

    assert (first.at, second.at) == (8, 14)
    assert first.high < 1 < second.low


@pytest.mark.parametrize("count", range(4))
def test_series_too_short_for_two_runs_on_either_side_have_no_step(count):
    assert steps.candidates([0.0] * count) == steps.steps([float(number) for number in range(count)]) == []


@pytest.mark.parametrize("place", range(12))
@pytest.mark.parametrize("size", [-0.5, 0.1, 3.0])
def test_a_change_in_a_single_run_is_no_step(place, size):
    logs = runs((1, 12))
    logs[place] += size

    assert places(logs) == []


def test_a_single_odd_run_hides_no_step():
    logs = runs((1, 10), (1.2, 10))
    logs[4] += 2.0
    logs[15] -= 2.0

    assert places(logs) == [10]


def test_a_change_within_the_margin_is_no_step():
    logs = runs((1, 100), (1 + 0.9 * MARGIN, 100), spread=0.001)

    assert steps.candidates(logs) == [100]
    assert places(logs) == []


def test_numbers_that_are_all_the_same_have_no_step():
    assert places([0.25] * 20) == []
    assert places([0.0] * 10 + [0.5] * 10) == [10]


def test_among_many_series_a_step_has_to_be_larger():
    logs = runs((1, 3), (1.1, 3))

    assert places(logs) == [3]
    assert places(logs, series=10**6) == []


def test_where_the_machine_s_series_spread_widely_a_step_has_to_be_larger():
    logs = runs((1, 3), (1.1, 3), spread=0.002)

    assert places(logs) == [3]
    assert places(logs, usual=0.1) == []


def test_the_usual_spread_is_that_of_most_series_and_never_below_what_a_quiet_machine_has():
    assert steps.usual_spread([]) == steps.usual_spread([[1.0, 1.0, 1.0, 1.0]]) == steps.USUAL
    wide = [runs((1, 12), (2, 12), spread=0.05, seed=seed) for seed in range(9)]

    assert 0.03 < steps.usual_spread([*wide, [0.0] * 8]) < 0.06, "steps are no spread"


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "neighbours alike"])
def test_at_most_3_false_steps_in_600_series_of_different_spreads(kind):
    draw = random.Random(kind)

    def noise() -> list[float]:
        sigma = 0.012 * math.exp(draw.gauss(0, 0.5))
        values = [draw.gauss(0, 1) for _ in range(16)]
        if kind == "heavy tails":  # Student's with five degrees of freedom
            values = [item / math.sqrt(draw.gammavariate(2.5, 2) / 5) for item in values]
        if kind == "neighbours alike":
            for place in range(1, 16):
                values[place] = 0.3 * values[place - 1] + math.sqrt(1 - 0.3**2) * values[place]
        return [sigma * item for item in values]

    series = [noise() for _ in range(600)]

    assert sum(map(bool, steps.steps_of(series))) <= 3
    assert sum(bool(steps.candidates(logs)) for logs in series) > 60, "candidates alone would accuse many"
