"""Rounds, on a clock that the tests turn, with participants that are no processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from clocks import Time
from racers import Asked, Fake, asked, entry_of, noisy, race

from attnsuite.benchmark import race as race_module
from attnsuite.benchmark.measure import MIN_ROUNDS
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.model import Status
from attnsuite.model.faster import PROCESSES_DIFFER, compare


def test_who_is_about_as_fast_as_the_baseline_makes_as_many_calls_in_a_sample(now: Time) -> None:
    calls = {"slower": 7, "slow": 15, "base": 30, "faster": 45, "fast": 60, "fastest": 61}
    entries = [entry_of(Fake(name, now), count) for name, count in calls.items()]

    race_module.race(entries, "base", {"output": [3]}, 0.02, Random(0))

    assert [each.calls for each in entries] == [7, 30, 30, 30, 30, 61]


def test_everyone_has_one_turn_in_every_round_in_random_order(now: Time) -> None:
    log: list[Asked] = []
    race(*(Fake(name, now, noisy(ord(name)), log=log) for name in "abc"), budget=0.2)

    turns = [(number, name) for name, verb, number in log if verb == "sample"]

    in_rounds = [turns[at : at + 3] for at in range(0, len(turns), 3)]
    assert all(len({number for number, _ in of}) == 1 for of in in_rounds), "all are asked the same"
    orders = [tuple(name for _, name in of) for of in in_rounds]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len(set(orders)) == 6, "every order occurs"


def test_steady_times_end_the_rounds_as_soon_as_a_verdict_is_possible(now: Time) -> None:
    found = race(Fake("a", now), Fake("b", now, lambda number: 0.01), budget=100.0)

    assert [len(each.seconds) for each in found] == [MIN_ROUNDS] * 2
    assert {each.stopped for each in found} == {"narrow"}


def test_more_comparisons_need_more_rounds(now: Time) -> None:
    found = race(*(Fake(f"{number}", now) for number in range(60)), budget=1e-9)

    assert {len(each.seconds) for each in found} == {14}, "two to the power of 1 − 14 is 0.01 / 59 or less"


def test_a_spent_budget_ends_the_rounds(now: Time) -> None:
    found = race(Fake("a", now, noisy(1)), Fake("b", now, noisy(2)), budget=0.5)

    assert {each.stopped for each in found} == {"budget"}
    assert 0.5 < sum(found[0].seconds) < 0.53


def test_a_slow_one_leaves_early_and_the_others_go_on(now: Time) -> None:
    others = Fake("base", now, noisy(1)), Fake("other", now, noisy(2))

    base, other, slow = race(*others, Fake("slow", now, lambda number: 16.0), budget=0.3)

    assert (len(slow.seconds), slow.stopped) == (race_module.FEWEST_OF_SLOW, "budget")
    assert min(len(base.seconds), len(other.seconds)) > 40


def test_nobody_races_on_without_the_baseline(now: Time) -> None:
    base, quick = race(Fake("base", now, lambda n: 10.0 + n % 3), Fake("quick", now, noisy(2)), budget=50.0)

    assert len(quick.seconds) <= max(len(base.seconds), MIN_ROUNDS)
    assert quick.stopped == "budget"


def test_a_lone_implementation_is_timed_until_its_own_interval_is_narrow(now: Time) -> None:
    alone = race(Fake("a", now), budget=100.0)[0]
    without_base = race(Fake("gone", now, says={("sample", 1): NoResult(Status.CRASHED, "")}), Fake("b", now))

    assert (len(alone.seconds), alone.stopped) == (12, "narrow")
    assert (without_base[1].stopped, without_base[1].failed) == ("narrow", None)


@pytest.mark.parametrize("verb", ["sample", "output_rows"])
def test_one_that_fails_drops_out_and_the_others_go_on(now: Time, verb: str) -> None:
    log: list[Asked] = []
    bad = Fake("bad", now, says={(verb, 1): NoResult(Status.CRASHED, "crashed: SIGSEGV")}, log=log)

    found = race(Fake("base", now), bad, Fake("other", now))

    assert found[1].failed == NoResult(Status.CRASHED if verb == "sample" else Status.REFUSED, "crashed: SIGSEGV")
    assert [len(each.seconds) for each in (found[0], found[2])] == [12, 12]
    assert len(log) == (1 if verb == "sample" else 2), "it is asked nothing more"


@pytest.mark.slow
def test_every_round_is_verified_with_equal_chance(now: Time) -> None:
    def kept_of(seed: int) -> int:
        log: list[Asked] = []
        (found,) = race(Fake("a", now, log=log), seed=seed)
        assert found.excerpt is not None
        return asked(log, "sample").index(found.excerpt.number)

    kept = Counter(map(kept_of, range(1200)))

    assert set(kept) == set(range(12))
    chi_squared = sum((count - 100) ** 2 / 100 for count in kept.values())
    assert chi_squared < 31.3, "one of 1,000 fair choices would exceed this (11 degrees of freedom)"


def test_all_are_verified_on_the_same_round(now: Time) -> None:
    found = race(*(Fake(name, now, noisy(ord(name))) for name in "abc"), budget=1e-9)

    kept = [each.excerpt for each in found if each.excerpt is not None]
    assert (len(kept), len({each.number for each in kept})) == (3, 1)
    assert all(each.rows["output"] == each.number for each in kept)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 0.4])
def test_identical_implementations_are_rarely_told_apart(now: Time, noise: float) -> None:
    """Whole races, with the choice when to stop that depends on what was seen: at most 1 % of them end with a claim."""
    races, claims = 300, 0
    for seed in range(races):
        members = [Fake(f"{number}", now, noisy(seed * 100 + number, noise)) for number in range(5)]
        found = {each.name: each.seconds for each in race(*members, budget=0.3, seed=seed)}
        base = found.pop("0")
        claims += any(each.verdict in ("faster", "slower") for each in compare(base, found).values())

    assert claims <= 0.01 * races + 3 * math.sqrt(0.01 * races)


# Processes in turns


def test_each_process_takes_every_second_sample_in_random_order(now: Time) -> None:
    members = [Fake(name, now, noisy(ord(name)), processes=2) for name in "abc"]

    found = race(*members, budget=0.3)

    for entry in found:
        pairs = [entry.processes[place : place + 2] for place in range(0, len(entry.processes) - 1, 2)]
        assert len(entry.processes) == len(entry.seconds)
        assert set(pairs) == {"01", "10"}
    assert len({entry.processes for entry in found}) == 3, "each has an order of its own"


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_process_adds_is_taken_for_a_difference_unless_there_are_two(now: Time, processes: int) -> None:
    """One is faster in its first process only, by 10 %, all its life."""
    torn = Fake("torn", now, processes=processes)
    torn.takes = lambda turn: 0.0045 if torn.process == 0 else 0.005

    base, other = race(Fake("base", now, processes=processes), torn, budget=0.1)

    (found,) = compare(
        base.seconds, {"torn": other.seconds}, processes={"torn": other.processes}, baseline_processes=base.processes
    ).values()
    assert (found.verdict, found.why) == (("faster", "") if processes == 1 else ("unclear", PROCESSES_DIFFER))


def test_a_race_goes_on_while_its_rounds_depend_on_each_other(now: Time) -> None:
    def rounds(takes: Callable[[int], float]) -> int:
        return len(race(Fake("base", now), Fake("other", now, takes), budget=1.0)[0].seconds)

    apart = rounds(lambda turn: 0.005 * (1 + 0.01 * (turn % 2)))
    together = rounds(lambda turn: 0.005 * (1 + 0.01 * (turn // 8 % 2)))

    assert apart < together
