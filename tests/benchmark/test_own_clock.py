"""Claims are held against a clock that the claiming process cannot reach: of samples, and of calls on new numbers."""

from __future__ import annotations

from random import Random

import pytest
from clocks import Time
from racers import Fake, entry_of, race

from attnsuite.benchmark.entry import Witnessed
from attnsuite.benchmark.measure.messages import Done
from attnsuite.benchmark.own_clock import Asking, hold_samples, lasts, quick


def of(claimed: float, wall: float, idle: float = 0.001) -> Witnessed:
    return Witnessed(claimed, 0.0, 0.0, wall, idle)


@pytest.mark.parametrize("seconds", [2e-5, 0.0049, 0.3, 16.0])
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_half_of_what_samples_take_is_not_believed(now: Time, seconds: float, direction: str) -> None:
    liar = Fake("liar", now, lambda turn: seconds, claims=0.5)

    base, found = race(Fake("base", now), liar, calls=max(1, round(0.005 / seconds)), direction=direction)

    assert (base.failed, base.proved) == (None, True)
    assert found.failed is not None
    assert found.failed.status == "refused"
    assert "for the calls in its samples, but by the suite's own clock they took" in found.failed.detail


def test_who_makes_asking_look_long_is_held_to_what_it_takes_the_others() -> None:
    honest, liar = (entry_of(Fake(name, Time())) for name in ("honest", "liar"))
    honest.samples = [of(0.005, 0.006)] * 12
    liar.samples = [of(0.005, 0.011, idle=0.006)] * 12

    asking = Asking.of([honest, liar])
    hold_samples(honest, asking)
    hold_samples(liar, asking)

    assert asking.seconds == 0.001
    assert honest.own_clock == pytest.approx(1.0)
    assert str(liar.failed).startswith("refused: it claims 0.06 s for the calls in its samples")


def test_a_busy_machine_on_which_asking_takes_as_long_is_no_lie() -> None:
    busy = entry_of(Fake("busy", Time()))
    busy.samples = [of(0.002, 0.007, idle) for idle in (0.001, 0.001, 0.001, 0.001, 0.009, 0.009)]

    hold_samples(busy, Asking.of([busy]))

    assert busy.failed is None
    assert busy.own_clock == pytest.approx(3.0)
    assert busy.unbounded == "its samples took 3.00 times as long", "and it is not called bounded"


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_a_call_lasts_what_the_suite_s_own_clock_says_if_that_is_more(cache: str) -> None:
    liar = entry_of(Fake("liar", Time()), calls=2, cache=cache)
    liar.seconds, liar.samples = [0.0004] * 12, [of(0.0004, 0.0031)] * 12

    assert lasts(liar, Asking(seconds=0.001)) == pytest.approx(0.00105 if cache == "hot" else 0.0004)


def test_the_lower_quartile_is_never_above_what_is_quoted() -> None:
    draw = Random(1)
    claims = [draw.lognormvariate(0, 1) for _ in range(40)]

    assert quick(claims) < sorted(claims)[20]
    assert quick([3.0]) == 3.0
    assert Asking.of([]).seconds == 0.0
    assert isinstance(Done(), Done)
