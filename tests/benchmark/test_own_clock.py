"""Claims are held against a clock that the claiming process cannot reach: of samples, and of calls on new numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from clocks import Time
from racers import Asked, Fake, asked, entry_of, race

from suite.benchmark import new_numbers
from suite.benchmark.entry import Witnessed
from suite.benchmark.new_numbers import Witness
from suite.benchmark.own_clock import Asking, hold_samples, lasts, quick
from suite.measure import FEWEST
from suite.measure.protocol import Done, Failed, Found, Loaded
from suite.records import Status


class Slower(Fake):
    """Calls on new numbers take so many times as long as those of samples."""

    times = 2.0

    def run_proof(self, passes: int) -> Any:
        self.now.now += (self.times - 1) * passes * len(self.loaded) * self.takes(self.turn)
        return super().run_proof(passes)


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


def test_to_tell_the_truth_once_it_is_asked_again_comes_too_late(now: Time) -> None:
    class Repents(Fake):
        def sample(self, number: int, calls: int) -> Any:
            found = super().sample(number, calls)
            return found if self.turn > FEWEST else replace(found, seconds=found.seconds / 2, wall=found.wall / 2)

    _, found = race(Fake("base", now), Repents("a", now))

    assert str(found.failed).endswith("calls on new numbers took 2.00 times as long")


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


@pytest.mark.parametrize(("seconds", "margin"), [(1e-3, 1.1), (9e-4, 1.5), (3e-4, 1.5)])
def test_a_row_says_of_calls_under_a_millisecond_only_what_is_far_off(now: Time, seconds: float, margin: float) -> None:
    for times in (margin - 0.02, margin + 0.02):
        entry = entry_of(Fake("a", now), calls=5)
        entry.seconds, entry.samples = [seconds] * 12, [of(seconds, 5 * seconds + 0.001)] * 12
        asking = Asking(seconds=0.001, jitter=1.0)  # nobody is refused on a machine so busy
        witness = Witness(entry, asking, [seconds * times] * 60)

        assert witness.conclude(drift=1.0)
        assert bool(entry.unbounded) == (times > margin)


@pytest.mark.parametrize(("times", "refused"), [(9.9, False), (10.1, True)])
def test_no_time_is_given_that_is_off_by_ten_times_on_any_machine(now: Time, times: float, refused: bool) -> None:
    entry = entry_of(Fake("a", now), calls=5)
    entry.seconds, entry.samples = [0.001] * 12, [of(0.001, 0.006)] * 12

    assert Witness(entry, Asking(seconds=0.001, jitter=1.0), [0.001 * times] * 60).conclude(drift=1.0)
    assert (entry.failed is not None) == refused


@pytest.mark.parametrize("seconds", [3e-4, 9e-4])
def test_who_remembers_answers_of_calls_under_a_millisecond_is_held_to_numbers_that_are_new_each_time(
    now: Time, seconds: float
) -> None:
    """The answers to a block of new numbers would be known when the same block is asked for the second time."""

    class Remembers(Slower):
        def run_proof(self, passes: int) -> Any:
            known = len(self.loaded) * self.takes(self.turn) * (self.times - 1) * (passes - 1)
            self.now.now -= known
            return super().run_proof(passes)

    liar = Remembers("a", now, lambda turn: seconds, room=36)
    liar.times = 2.4

    _, found = race(Fake("base", now, lambda turn: seconds), liar, calls=round(0.005 / seconds))

    assert str(found.failed).endswith("calls on new numbers took 2.40 times as long")


def test_an_answer_that_is_remembered_every_second_time_is_refused(now: Time) -> None:
    _, found = race(Fake("base", now), Slower("a", now))

    assert found.failed == Failed(
        Status.REFUSED, "it claims 0.005 s for a call, but calls on new numbers took 2.00 times as long"
    )


def test_what_takes_somewhat_longer_on_new_numbers_is_shown_and_said(now: Time) -> None:
    slower = Slower("a", now)
    slower.times = 1.3

    _, found = race(Fake("base", now), slower)

    assert (found.failed, found.proved) == (None, True)
    assert found.unbounded == "calls on new numbers took 1.30 times as long"
    assert found.own_clock == pytest.approx(1.3)


@pytest.mark.parametrize("seconds", [3e-4, 0.001, 0.0049, 0.09, 0.3, 16.0])
def test_true_claims_are_bounded(now: Time, seconds: float) -> None:
    (found,) = race(Fake("base", now, lambda turn: seconds))

    assert (found.failed, found.proved, found.unbounded) == (None, True, "")
    assert found.own_clock == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("setting", "says"),
    [({"cache": "cold"}, "the cache is flushed"), ({"direction": "backward"}, "its forward lies between its calls")],
)
def test_where_the_clock_cannot_tell_the_row_says_so(now: Time, setting: dict[str, str], says: str) -> None:
    (found,) = race(Fake("base", now), **setting)

    assert (found.proved, found.own_clock) == (True, None)
    assert found.unbounded.startswith(says)


@pytest.mark.parametrize("shipped", [True, False])
def test_that_a_machine_has_become_slower_is_said_by_a_baseline_that_ships_alone(now: Time, shipped: bool) -> None:
    slower = [Slower(name, now, shipped=shipped) for name in ("base", "a")]

    found = race(*slower)

    assert [each.proved for each in found] == [shipped, shipped]
    assert [each.failed is None for each in found] == [shipped, shipped]


def test_passes_are_made_in_turns_of_as_many_calls_as_samples_on_numbers_of_their_own(now: Time) -> None:
    log: list[Asked] = []
    race(Fake("a", now, log=log), Fake("b", now, log=log), calls=3)

    turns = [name for name, verb, _ in log if verb == "run_proof"]
    numbers = asked(log, "load_proof")

    assert {frozenset(turns[at : at + 2]) for at in range(0, len(turns), 2)} == {frozenset("ab")}
    assert {len(each) for each in numbers} == {3}
    assert len({number for each in numbers for number in each}) == 3 * len(turns) // 2, "the same for both, once"
    assert all(number in new_numbers.ROUND_NUMBERS for each in numbers for number in each)


def test_what_takes_a_hundred_times_as_long_is_found_out_in_few_passes(now: Time) -> None:
    log: list[Asked] = []
    liar = Slower("a", now, log=log)
    liar.times = 100.0

    _, found = race(Fake("base", now), liar)

    assert len(asked(log, "run_proof")) == new_numbers.FEWEST_PASSES
    assert found.failed is not None


@pytest.mark.parametrize("verb", ["load_proof", "run_proof", "proof_found"])
def test_one_that_fails_meanwhile_has_failed(now: Time, verb: str) -> None:
    died = Failed(Status.DIED, "died: SIGSEGV")

    _, found = race(Fake("base", now), Fake("a", now, says={(verb, FEWEST): died}))

    assert found.failed == died


@pytest.mark.parametrize(
    ("verb", "says"), [("load_proof", Loaded(1000)), ("proof_found", Found({"output": torch.zeros(3)}))]
)
def test_garbage_is_no_proof(now: Time, verb: str, says: Any) -> None:
    (found,) = race(Fake("a", now, says={(verb, FEWEST): says}))

    assert str(found.failed).startswith("refused: answered garbage")


def test_rows_of_the_first_pass_are_kept(now: Time) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("a", now, log=log), calls=4)

    assert found.proof is not None
    assert found.proof.number in asked(log, "load_proof")[0]
    assert found.proof.rows["output"] == found.proof.number


def test_the_lower_quartile_is_never_above_what_is_quoted() -> None:
    draw = Random(1)
    claims = [draw.lognormvariate(0, 1) for _ in range(40)]

    assert quick(claims) < sorted(claims)[20]
    assert quick([3.0]) == 3.0
    assert Asking.of([]).seconds == 0.0
    assert isinstance(Done(), Done)
