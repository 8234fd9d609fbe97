"""The stopwatch: first calls, warm-up, how many calls make a sample, and when there are samples enough."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from clocks import Device, Time

from attnsuite.benchmark import measure
from attnsuite.benchmark.measure import Stopwatch
from attnsuite.model.statistics import interval


def test_the_first_call_is_timed_without_what_comes_before_it(now: Time) -> None:
    watch = Stopwatch(now.takes(7.0, 1.0), before=now.takes(100.0))

    assert watch.first_call() == 7.0


FASTER = [0.1 * 0.9**step for step in range(14)]


@pytest.mark.parametrize(
    ("calls", "least", "most", "expected"),
    [
        ((*FASTER, 0.001), sum(FASTER) + 0.0039, sum(FASTER) + 0.0041, 0.001),  # until three are no faster than before
        ((1e-5,), measure.SAMPLE, measure.SAMPLE + 3e-5, 1e-5),  # as long as a sample
        ((30.0,), 30.0, 30.0, 30.0),  # one long call
        ([0.1 * 0.95**step for step in range(200)], measure.LONGEST_WARM_UP, measure.LONGEST_WARM_UP + 0.1, None),
    ],
    ids=["faster", "short", "long", "faster for ever"],
)
def test_warm_up_ends_when_calls_get_no_faster(
    now: Time, calls: Sequence[float], least: float, most: float, expected: float | None
) -> None:
    spent, seconds = Stopwatch(now.takes(*calls)).warm_up()

    assert least <= spent <= most
    assert expected is None or seconds == pytest.approx(expected)


@pytest.mark.parametrize(
    ("cache", "expected", "calls"), [("hot", 0.001, 5 + 1), ("hot", 0.5, 5), ("cold", 0.001, 5), ("hot", 0.019, 6)]
)
def test_a_short_hot_sample_begins_with_a_call_that_is_not_timed(
    now: Time, cache: str, expected: float, calls: int
) -> None:
    function = now.takes(*([9.0] if calls > 5 else []), 1.0)
    watch = Stopwatch(function, cache=cache)

    warmed, seconds = watch.warm(expected), watch.sample(5)

    assert seconds == 1.0
    assert function() == calls
    assert watch.result == calls - 1, "what the last call returned"
    assert warmed == (9.0 if calls > 5 else 0.0)
    assert watch.made == 0.0


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_what_is_made_for_calls_is_counted_apart(now: Time, cache: str) -> None:
    watch = Stopwatch(now.takes(1.0), before=now.takes(5.0), cache=cache)

    assert watch.sample(3) == 1.0
    assert watch.made == 15.0


@pytest.mark.parametrize(
    ("expected", "calls"),
    [(1e-6, 5000), (1e-5, 500), (0.001, 5), (0.004, 1), (0.005, 1), (20.0, 1), (1e-12, measure.MOST_CALLS)],
)
def test_a_sample_has_as_many_calls_as_it_takes_to_last(expected: float, calls: int) -> None:
    assert measure.calls_per_sample(expected) == calls
    assert calls == measure.MOST_CALLS or calls * expected >= 0.7 * measure.SAMPLE


def test_pacing_believes_whole_samples_rather_than_the_warm_up(now: Time) -> None:
    assert Stopwatch(now.takes(0.001)).pace(0.002) == (5, pytest.approx(0.001))
    assert Stopwatch(now.takes(0.003)).pace(0.001) == (5, 0.001), "an interruption makes no longer sample"
    untouched = now.takes(0.1)
    assert Stopwatch(untouched).pace(0.1) == (1, 0.1)
    assert untouched() == 0, "one long call is a sample anyway"


def test_what_is_steady_is_sampled_until_its_interval_is_narrow(now: Time) -> None:
    found = measure.measure(now.takes(3.0, 0.001), budget=100.0)

    assert found == pytest.approx([0.001] * 12), "the first call is none of them"


def test_what_is_unsteady_is_sampled_until_the_budget_is_spent(now: Time) -> None:
    noise = [0.001, 0.01, 0.002, 0.008, 0.003] * 1000
    started = now.now

    found = measure.measure(now.takes(*noise, 0.001), budget=1.0)

    assert not measure.is_narrow(interval(found))
    assert 1.0 < now.now - started < 2.0, "what warms up and fills the cache comes on top"


def test_a_spent_budget_still_leaves_the_fewest_samples(now: Time) -> None:
    noise = [10.0, 30.0, 20.0] * 10

    found = measure.measure(now.takes(*noise, 10.0), budget=0.01, fewest=8)

    assert len(found) == 8


def test_the_first_call_on_a_device_lasts_until_it_is_idle(device: Device) -> None:
    watch = Stopwatch(device.works(3.0), before=device.works(20.0), device="cuda")

    assert watch.first_call() == 3.0
