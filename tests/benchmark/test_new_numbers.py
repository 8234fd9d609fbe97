"""Claims are held against answers on numbers that nobody has seen, by the suite's own clock, which the tests turn."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from clocks import Time
from racers import Asked, Fake, Slower, asked, entry_of, noisy, race, short

from attnsuite.benchmark import new_numbers
from attnsuite.benchmark.entry import Witnessed
from attnsuite.benchmark.measure import FEWEST
from attnsuite.benchmark.measure.messages import Failed
from attnsuite.benchmark.new_numbers import Terms, Witness
from attnsuite.benchmark.own_clock import HELD, Asking
from attnsuite.model import Status


@pytest.mark.parametrize("claims", [0.1, 1 / 3])
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_times_that_are_too_short_to_be_true_are_not_believed(now: Time, claims: float, direction: str) -> None:
    liar = Fake("liar", now, lambda number: 1e-4 / claims, claims, witnessed=False)

    found = race(Fake("base", now, short), liar, calls=10, direction=direction)

    assert (found[0].failed, found[0].proved) == (None, True)
    times = 1 / claims - new_numbers.BESIDE / 1e-4
    says = f"it claims 0.0001 s for a call, but calls on new numbers took {times:.2f} times as long"
    assert found[1].failed == Failed(Status.REFUSED, says)


def test_an_answer_that_is_remembered_every_second_time_is_refused(now: Time) -> None:
    _, found = race(Fake("base", now), Slower("a", now))

    assert found.failed == Failed(
        Status.REFUSED, "it claims 0.005 s for a call, but calls on new numbers took 2.00 times as long"
    )


class Wakes(Fake):
    """Calls on new numbers take so many seconds longer, however long they take in samples."""

    longer = 0.004

    def anew(self) -> float:
        return super().anew() + self.longer


def two_ms(turn: int) -> float:
    return 2e-3


def test_threads_may_take_a_while_to_wake_which_is_said_and_accuses_nobody(now: Time) -> None:
    _, alone = race(Fake("base", now, two_ms), Wakes("a", now, two_ms))
    _, several = race(Fake("base", now, two_ms, threads=2), Wakes("a", now, two_ms, threads=2))

    assert str(alone.failed).endswith("calls on new numbers took 3.00 times as long")
    assert (several.failed, several.proved) == (None, True)
    assert several.unbounded == "calls on new numbers took 3.00 times as long"


def test_no_thread_takes_as_long_to_wake_as_a_false_claim_may_hide(now: Time) -> None:
    slow = Wakes("a", now, two_ms, threads=2)
    slow.longer = new_numbers.WAKING + 1e-3

    _, found = race(Fake("base", now, two_ms, threads=2), slow)

    assert str(found.failed).endswith("calls on new numbers took 4.00 times as long")


def test_on_a_busy_machine_threads_may_take_as_much_longer_as_those_of_the_trusted_one(now: Time) -> None:
    class Waits(Fake):
        draw = Random(0)

        def anew(self) -> float:
            return super().anew() + self.draw.choice((0.0, 0.004))

    slow = Wakes("a", now, two_ms, threads=2)
    slow.longer = new_numbers.WAKING + 1e-3

    _, found = race(Waits("base", now, lambda turn: 0.02, threads=2), slow)

    assert (found.failed, found.proved) == (None, True)


def test_to_tell_the_truth_once_it_is_asked_again_comes_too_late(now: Time) -> None:
    class Repents(Fake):
        def sample(self, number: int, calls: int) -> Any:
            found = super().sample(number, calls)
            return found if self.turn > FEWEST else replace(found, seconds=found.seconds / 2, wall=found.wall / 2)

    _, found = race(Fake("base", now), Repents("a", now))

    assert str(found.failed).endswith("calls on new numbers took 2.00 times as long")


def test_what_takes_somewhat_longer_on_new_numbers_is_shown_and_said(now: Time) -> None:
    slower = Slower("a", now)
    slower.times = 1.3

    _, found = race(Fake("base", now), slower)

    assert (found.failed, found.proved) == (None, True)
    assert found.unbounded == "calls on new numbers took 1.30 times as long"
    assert found.own_clock == pytest.approx(1.3)


@pytest.mark.parametrize("seconds", [2e-6, 2e-5, 2e-4, 3e-4, 0.001, 0.0049, 0.09, 0.3, 16.0])
@pytest.mark.parametrize("asking", [2e-5, 0.02])
def test_true_claims_are_proved_and_long_ones_bounded(now: Time, seconds: float, asking: float) -> None:
    (found,) = race(Fake("base", now, lambda turn: seconds, asking=asking))

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


def test_the_untimed_forward_before_a_backward_is_no_lie(now: Time) -> None:
    class Backward(Fake):
        def anew(self) -> float:
            return 5 * super().anew()

    (backward,), (forward,) = (
        race(Backward("a", now, shipped=False), direction=each) for each in ("backward", "forward")
    )

    assert backward.failed is None
    assert (
        str(forward.failed) == "refused: it claims 0.005 s for a call, but calls on new numbers took 5.00 times as long"
    )


def test_the_forwards_of_the_trusted_one_are_no_sign_of_a_slower_machine(now: Time) -> None:
    """Four times its backward lies between its calls; what takes twelve times as long as claimed is refused."""

    class Backward(Fake):
        def anew(self) -> float:
            return 5 * super().anew()

    liar = Fake("liar", now, lambda turn: 1.2e-3, 1 / 12, witnessed=False, shipped=False)
    found = race(Backward("base", now, short), liar, calls=10, direction="backward")

    assert [each.proved for each in found] == [True, False]
    assert str(found[1].failed).startswith("refused: it claims 0.0001 s for a call, but ")


@pytest.mark.parametrize("seconds", [1e-4, 0.005])
@pytest.mark.parametrize(("shares", "believed"), [(1.0, False), (2.0, False), (4.0, True)])
def test_that_a_machine_has_become_slower_is_told_by_the_baseline(
    now: Time, seconds: float, shares: float, believed: bool
) -> None:
    base, other = (Slower(name, now, lambda turn: seconds, shipped=name == "base") for name in ("base", "other"))
    base.times, other.times = shares, 5.0

    found = race(base, other, calls=10)

    assert [each.proved for each in found] == [True, believed]
    assert (found[1].failed is None) == believed


@pytest.mark.parametrize("seconds", [1e-4, 0.005])
def test_it_is_not_told_by_a_stranger(now: Time, seconds: float) -> None:
    strangers = [Slower(name, now, lambda turn: seconds, shipped=False) for name in ("base", "a")]
    for each in strangers:
        each.times = 2.5

    assert [each.proved for each in race(*strangers, calls=10)] == [False, False]


@pytest.mark.parametrize("seconds", [1e-4, 0.005])
@pytest.mark.parametrize(("shares", "believed"), [(1.0, False), (4.0, True)])
def test_where_no_baseline_is_the_suite_s_own_a_yardstick_tells_how_busy_the_machine_is(
    now: Time, seconds: float, shares: float, believed: bool
) -> None:
    yardstick, base, other = (Slower(name, now, lambda turn: seconds) for name in ("yardstick", "base", "other"))
    base.shipped = other.shipped = False
    yardstick.times, base.times, other.times = shares, 1.0, 5.0

    found = race(base, other, calls=10, yardstick=yardstick)

    assert [each.proved for each in found] == [True, believed]
    assert (found[1].failed is None) == believed


@pytest.mark.parametrize(("budget", "samples"), [(0.5, 3), (3.5, 4)])
def test_a_yardstick_is_asked_no_longer_than_the_others_and_holds_nobody_up(
    now: Time, budget: float, samples: int
) -> None:
    log: list[Asked] = []
    slow = Fake("yardstick", now, lambda turn: 1.0, log=log)
    (found,) = race(Fake("base", now, noisy(1), shipped=False), yardstick=slow, budget=budget)

    assert (found.stopped, len(asked(log, "sample"))) == ("budget", samples)

    log.clear()
    dies = Fake("yardstick", now, says={("sample", 1): Failed(Status.DIED, "it died")}, log=log)
    (found,) = race(Fake("base", now, shipped=False), yardstick=dies)

    assert (found.proved, len(log)) == (True, 1)


@pytest.mark.parametrize(("claims", "believed"), [(1.0, True), (0.7, True), (0.45, False), (1e-3, False)])
@pytest.mark.parametrize("asking", [0.0, 6e-4])
def test_what_asking_takes_is_allowed_for_and_no_more(now: Time, claims: float, believed: bool, asking: float) -> None:
    liar = Fake("a", now, lambda turn: 2e-4, claims, asking=asking, witnessed=False)

    (found,) = race(liar, calls=25)

    assert (found.failed is None, found.proved) == (True, True), "the only one is the baseline: it tells itself"

    _, found = race(Fake("base", now, lambda turn: 2e-4, asking=asking), liar, calls=25)

    assert (found.failed is None, found.proved) == (believed, believed)


class Idles(Slower):
    """What belongs to an answer but the call takes it longer, by `longer` seconds."""

    longer = 5e-4

    def idles(self) -> float:
        return self.asking + self.longer


@pytest.mark.parametrize("shipped", [True, False])
@pytest.mark.parametrize(("seconds", "refused"), [(2e-3, True), (2e-4, False)])
def test_who_makes_asking_look_long_is_held_to_what_it_takes_others(
    now: Time, shipped: bool, seconds: float, refused: bool
) -> None:
    """Of calls that are short beside what waking takes it is said: an honest one may be woken later."""

    class Makes(Idles):
        def anew(self) -> float:
            return super().anew() - self.longer

    liar = Makes("liar", now, lambda turn: seconds)
    liar.times = 4.0

    _, found = race(Fake("base", now, lambda turn: seconds, shipped=shipped), liar, calls=25)

    says = str(found.failed) if refused else found.unbounded
    assert re.search(r"calls on new numbers took (4.00|3.9[78]) times as long$", says)
    assert found.proved != refused


def test_an_honest_one_that_is_woken_later_than_the_baseline_is_not_accused(now: Time) -> None:
    late = Idles("late", now, short, shipped=False)
    late.times = 1.0

    _, found = race(Fake("base", now, short), late, calls=10)

    assert (found.failed, found.proved) == (None, True)
    assert found.unbounded.startswith("calls on new numbers took 5.9"), "for who says so might be lying"


def test_who_is_woken_earlier_than_the_baseline_gains_nothing_by_it(now: Time) -> None:
    """The baseline's questions take so long without a call that those of the liar with one take less."""
    base, liar = Idles("base", now, short), Slower("liar", now, short, shipped=False)
    base.times, liar.times = 1.0, 4.0

    _, found = race(base, liar, calls=10)

    assert found.proved
    assert found.unbounded.startswith("calls on new numbers took 3.9")


@pytest.mark.parametrize("seconds", [1e-4, 0.005])
@pytest.mark.parametrize(("drift", "said"), [(1.9, False), (5.0, True)])
def test_on_a_machine_that_is_far_slower_by_then_nothing_is_bounded(
    now: Time, seconds: float, drift: float, said: bool
) -> None:
    base, honest, liar = (Slower(name, now, lambda turn: seconds, shipped=name == "a") for name in "ahl")
    base.times, honest.times, liar.times = drift, drift, 10 * drift

    found = race(base, honest, liar, calls=10)

    assert [each.proved for each in found] == [True, True, False]
    assert [bool(each.unbounded) for each in found[:2]] == [said, said]


@pytest.mark.parametrize(("slowed", "refused"), [(1.1, True), (3.0, False)])
@pytest.mark.parametrize("base_takes", [0.004, 0.04])
def test_where_calls_of_the_baseline_wait_for_a_processor_those_of_others_may_have_as_well(
    now: Time, slowed: float, refused: bool, base_takes: float
) -> None:
    draw = Random(3)

    class Waits(Fake):
        def anew(self) -> float:
            return super().anew() * draw.choice((1.0, 1.0, slowed))

    other = Slower("other", now, lambda turn: 0.004, shipped=False)
    other.times = 1.9

    _, found = race(Waits("base", now, lambda turn: base_takes), other, calls=1)

    assert bool(found.failed) == refused
    assert bool(found.unbounded) != refused


@pytest.mark.parametrize(("spread", "refused"), [(1e-5, True), (1e-3, False)])
def test_on_a_machine_that_waits_more_than_that_it_is_said_and_nobody_accused(
    now: Time, spread: float, refused: bool
) -> None:
    draw = Random(1)

    class Waits(Slower):
        def answers(self, numbers: Any, kept: int, warm: int) -> Any:
            waited = draw.choice((0.0, spread))
            found = super().answers(numbers, kept, warm)
            return replace(found, idle=[self.asking + waited] * len(numbers))

    base, liar = Waits("base", now, short), Slower("a", now, short)
    base.times, liar.times = 1.0, 3.0

    _, found = race(base, liar, calls=10)

    assert (found.failed is not None) == refused
    assert bool(found.unbounded) != refused
    assert refused or f"{found.own_clock:.2f}" in found.unbounded
    assert found.proved != refused


@pytest.mark.parametrize(("disturbed", "believed"), [(0.7, True), (0.8, False)])
def test_passes_that_lie_between_two_turns_of_other_processes_are_enough(
    now: Time, disturbed: float, believed: bool
) -> None:
    class Waits(Fake):
        passes = 0

        def answers(self, numbers: Any, kept: int, warm: int) -> Any:
            self.passes += 1
            found = super().answers(numbers, kept, warm)
            waited = 0.02 * (self.passes % 10 < 10 * disturbed)
            return replace(found, seconds=[each + waited for each in found.seconds])

    _, found = race(Fake("base", now, short), Waits("other", now, short, shipped=False), calls=10)

    assert found.proved == believed


@pytest.mark.parametrize(("seconds", "margin"), [(2e-3, 1.1), (1e-3, 1.1), (5e-4, 1.2), (2.5e-4, 1.4)])
def test_a_row_says_so_beyond_ten_per_cent_or_a_tenth_of_a_millisecond(
    now: Time, seconds: float, margin: float
) -> None:
    for times in (margin - 0.02, margin + 0.02):
        entry = entry_of(Fake("a", now), calls=5)
        entry.seconds, entry.samples = [seconds] * 12, [sample(seconds)] * 12
        witness = Witness(entry, Asking(seconds=0.001), HELD, [1e-4 + seconds * times] * 60)

        assert witness.conclude(Terms(idle=1e-4, jitter=1.0)), "nobody is refused on such a machine"
        assert bool(entry.unbounded) == (times > margin)


@pytest.mark.parametrize(("times", "refused"), [(9.9, False), (10.1, True)])
def test_no_time_is_given_that_is_off_by_ten_times_on_any_machine(now: Time, times: float, refused: bool) -> None:
    entry = entry_of(Fake("a", now), calls=5)
    entry.seconds, entry.samples = [0.001] * 12, [sample(0.001)] * 12
    witness = Witness(entry, Asking(seconds=0.001), HELD, [1e-4 + 0.001 * times] * 60)

    assert witness.conclude(Terms(idle=1e-4, jitter=1.0))
    assert (entry.failed is not None) == refused


def test_what_most_long_samples_claim_has_to_be_true(now: Time) -> None:
    class Wavering(Fake):
        def sample(self, number: int, calls: int) -> Any:
            sampled = super().sample(number, calls)
            lies = 3 < self.turn <= 10  # seven of twelve
            return replace(sampled, seconds=sampled.seconds / 10) if lies else sampled

    _, found = race(Fake("base", now), Wavering("a", now, lambda turn: 2.0))

    says = "it claims 11.4 s for the calls in its samples, but by the suite's own clock they took 24 s"
    assert found.failed == Failed(Status.REFUSED, says)


def test_a_long_one_may_be_disturbed_but_not_always(now: Time) -> None:
    class Disturbed(Fake):
        quiet_from = 0

        def sample(self, number: int, calls: int) -> Any:
            sampled = super().sample(number, calls)
            return replace(sampled, wall=sampled.wall + 0.5) if self.turn < self.quiet_from else sampled

    for Disturbed.quiet_from, believed in ((5, True), (1000, False)):
        (found,) = race(Disturbed("a", now, lambda turn: 0.2))
        says = "it claims 2.4 s for the calls in its samples, but by the suite's own clock they took 8.4 s"
        assert found.proved == believed
        assert found.failed == (None if believed else Failed(Status.REFUSED, says))


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_one_that_stalls_between_its_calls_is_out(now: Time, cache: str) -> None:
    class Staller(Fake):
        def sample(self, number: int, calls: int) -> Any:
            self.now.now += 3.0
            return super().sample(number, calls)

    _, found = race(Fake("base", now), Staller("a", now), cache=cache)

    says = "its samples took 12 s, the calls in them, as it claims, 0.02 s"
    assert found.failed == (Failed(Status.REFUSED, says) if cache == "hot" else None), "a flush takes long too"


def sample(seconds: float) -> Witnessed:
    """A sample of five calls of so many seconds."""
    return Witnessed(seconds, 0.0, 0.0, 5 * seconds + 0.001, 0.001)
