"""Times that are claimed are held against the suite's own clock, which the tests turn."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from clocks import Time
from racers import Asked, Fake, asked, entry_of, noisy, race

from suite.benchmark import new_numbers, proof
from suite.benchmark.race import race as race_of
from suite.measure import FEWEST
from suite.measure.fetching import Fetching
from suite.measure.protocol import Failed, Found, Loaded
from suite.records import Status


class Read(Fetching):
    """Reading takes what the tests say."""

    def __init__(self, takes: float) -> None:
        self.takes, self.asked = takes, list[tuple[int, bool]]()

    def seconds(self, calls: int, anew: bool = False) -> float:
        self.asked.append((calls, anew))
        return self.takes


def short(turn: int) -> float:
    """A tenth of a millisecond: too short to be held against passes of calls."""
    return 1e-4


@pytest.mark.parametrize("claims", [0.1, 1 / 3])
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_times_that_are_too_short_to_be_true_are_not_believed(now: Time, claims: float, direction: str) -> None:
    liar = Fake("liar", now, lambda number: 1e-4 / claims, claims, witnessed=False)

    found = race(Fake("base", now, short), liar, calls=10, direction=direction)

    assert (found[0].failed, found[0].proved) == (None, True)
    failed = found[1].failed
    assert failed is not None
    assert failed.status == "refused"
    assert failed.detail.startswith("it claims 0.0001 s for a call, but ")
    assert " calls on new numbers took 0." in failed.detail


def test_what_takes_a_hundred_times_as_long_as_it_claims_is_found_out_soon(now: Time) -> None:
    log: list[Asked] = []
    liar = Fake("liar", now, lambda number: 5e-4, claims=0.01, room=16, log=log, witnessed=False)

    _, found = race(Fake("base", now), liar)

    calls = [passes * liar.room for passes in asked(log, "run_proof")]
    assert found.failed is not None
    assert found.failed.status == "refused"
    trial = 20_000 // 16 // proof.TRIAL
    assert calls[:2] == [16, 16 * trial], "and not 20,000, ten seconds"
    assert calls[2:] == [16] * (1 + trial) * (proof.MOST_ATTEMPTS - 1), "one by one, from the second attempt on"


@pytest.mark.parametrize("direction", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("seconds", [2e-5, 2e-4])
def test_true_times_are_proved_by_one_request(now: Time, seconds: float, direction: str) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("base", now, lambda number: seconds, log=log), direction=direction)

    proofs = asked(log, "load_proof")

    assert (found.failed, found.proved) == (None, True)
    due = min(proof.MOST_INPUTS, max(1, math.ceil(proof.NEW_INPUTS / seconds)))
    assert list(map(len, proofs)) == [due]


def test_long_samples_are_proof_enough(now: Time) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("a", now, lambda turn: new_numbers.ENOUGH, log=log))

    assert (found.proved, found.proof) == (True, None)
    assert {verb for _, verb, _ in log} == {"sample", "found"}


def test_nobody_is_timed_once_he_is_believed(now: Time) -> None:
    log: list[Asked] = []
    found = race(*(Fake(name, now, noisy(ord(name)), log=log) for name in "abc"), budget=0.2)

    verbs = [verb for _, verb, _ in log]

    assert all(each.proved for each in found)
    assert "sample" not in verbs[verbs.index("load_proof") :]


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


def test_all_prove_their_times_on_the_same_numbers_that_nobody_has_seen(now: Time) -> None:
    log: list[Asked] = []
    found = race(Fake("a", now, short, log=log), Fake("b", now, lambda number: 2e-4, log=log), calls=10)

    proofs = asked(log, "load_proof")

    assert sorted(map(len, proofs)) == [100, 200]
    assert len({numbers[0] for numbers in proofs}) == 1
    assert all(number in proof.ROUND_NUMBERS for numbers in proofs for number in numbers)
    for each in found:
        assert each.proof is not None
        assert each.proof.rows["output"] == each.proof.number


def test_every_number_of_a_proof_is_verified_with_equal_chance(now: Time) -> None:
    def place(seed: int) -> int:
        log: list[Asked] = []
        (found,) = race(Fake("a", now, short, room=4, log=log), calls=10, seed=seed)
        (numbers,) = asked(log, "load_proof")
        assert found.proof is not None
        return int(numbers.index(found.proof.number))

    kept = Counter(map(place, range(800)))

    assert set(kept) == {0, 1, 2, 3}
    chi_squared = sum((count - 200) ** 2 / 200 for count in kept.values())
    assert chi_squared < 16.3, "one of 1,000 fair choices would exceed this (3 degrees of freedom)"


def test_where_there_is_room_for_few_inputs_few_are_a_proof(now: Time) -> None:
    liar = Fake("liar", now, lambda number: 0.005, claims=0.1, room=2, witnessed=False)
    found = race(Fake("a", now, short, room=2), liar, calls=10)

    assert (found[0].failed, found[0].proved) == (None, True)
    assert "calls on new numbers took" in str(found[1].failed)


def test_the_untimed_forward_before_a_backward_is_no_lie(now: Time) -> None:
    class Backward(Fake):
        def run_proof(self, passes: int) -> Any:
            self.now.now += 4 * 0.005 * passes * len(self.loaded)
            return super().run_proof(passes)

    (backward,), (forward,) = (
        race(Backward("a", now, shipped=False), direction=each) for each in ("backward", "forward")
    )

    assert backward.failed is None
    assert str(forward.failed).startswith("refused: it claims 0.005 s for a call, but calls on new numbers took ")


def test_a_machine_that_is_busy_by_turns_is_no_lie(now: Time) -> None:
    class Busy(Fake):
        proofs = 0

        def run_proof(self, passes: int) -> Any:
            self.proofs += 1
            self.now.now += 5.0 * (self.proofs < proof.MOST_ATTEMPTS)
            return super().run_proof(passes)

    (found,) = race(Busy("a", now, short), calls=10)

    assert (found.failed, found.proved) == (None, True)
    assert len(found.seconds) >= FEWEST


class Sharing(Fake):
    """One whose proofs take this many times as long as its samples."""

    times = 1.0

    def run_proof(self, passes: int) -> Any:
        self.now.now += (self.times - 1) * self.takes(self.turn) * passes * len(self.loaded)
        return super().run_proof(passes)


@pytest.mark.parametrize(("shares", "believed"), [(1.0, False), (2.0, False), (4.0, True)])
def test_who_shares_its_core_with_others_is_believed_as_the_trusted_one_tells(
    now: Time, shares: float, believed: bool
) -> None:
    """Samples lie between two turns of the others; proofs, which are longer, take four times as long."""
    base, other = Sharing("base", now, short), Sharing("other", now, short, shipped=False)
    base.times, other.times = shares, 5.0
    found = race(base, other, calls=10)

    assert [each.proved for each in found] == [True, believed]
    assert str(found[1].failed).startswith("None" if believed else "refused: it claims 0.0001 s for a call, but ")
    assert found[0].unbounded == ("1000 calls on new numbers took 0.405 s" if shares == 4 else "")


@pytest.mark.parametrize(("disturbed", "believed"), [(0.7, True), (0.8, False)])
def test_passes_that_lie_between_two_turns_of_other_processes_are_enough(
    now: Time, disturbed: float, believed: bool
) -> None:
    class Waits(Fake):
        passes = 0

        def run_proof(self, passes: int) -> Any:
            for _ in range(passes):
                self.passes += 1
                self.now.now += 0.02 * (self.passes % 10 < 10 * disturbed)
            return super().run_proof(passes)

    def takes(turn: int) -> float:
        return 1e-5

    _, found = race(Fake("base", now, takes), Waits("other", now, takes, shipped=False), calls=100)

    assert found.proved == believed


@pytest.mark.parametrize("length", ["short", "long"])
@pytest.mark.parametrize(("shares", "believed"), [(1.0, False), (4.0, True)])
def test_where_no_baseline_is_the_suite_s_own_a_yardstick_tells_how_busy_the_machine_is(
    now: Time, length: str, shares: float, believed: bool
) -> None:
    takes = short if length == "short" else lambda turn: 0.005
    yardstick, base, other = (Sharing(name, now, takes) for name in ("yardstick", "base", "other"))
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


def test_the_forwards_of_the_trusted_one_are_no_sign_of_a_shared_core(now: Time) -> None:
    """Four times its backward lies between its calls; what takes twelve times as long as claimed is refused."""

    class Backward(Fake):
        def run_proof(self, passes: int) -> Any:
            self.now.now += 4 * self.takes(self.turn) * passes * len(self.loaded)
            return super().run_proof(passes)

    liar = Fake("liar", now, lambda turn: 1.2e-3, 1 / 12, witnessed=False, shipped=False)
    found = race(Backward("base", now, short), liar, calls=10, direction="backward")

    assert [each.proved for each in found] == [True, False]
    assert str(found[1].failed).startswith("refused: it claims 0.0001 s for a call, but ")


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_one_that_stalls_between_its_calls_is_out(now: Time, cache: str) -> None:
    class Staller(Fake):
        def sample(self, number: int, calls: int) -> Any:
            self.now.now += 3.0
            return super().sample(number, calls)

    _, found = race(Fake("base", now), Staller("a", now), cache=cache)

    says = "its samples took 12 s, the calls in them, as it claims, 0.02 s"
    assert found.failed == (Failed(Status.REFUSED, says) if cache == "hot" else None), "a flush takes long too"


@pytest.mark.parametrize(("claims", "believed"), [(1.0, True), (0.7, True), (1 / 3, False), (1e-3, False)])
@pytest.mark.parametrize("reading", [0.0, 6e-4])
def test_reading_inputs_from_memory_is_allowed_for_and_no_more(
    now: Time, claims: float, believed: bool, reading: float
) -> None:
    """A call of 0.2 ms on inputs that take three times as long to read, timed without a baseline."""
    entry = entry_of(Fake("a", now, lambda turn: 2e-4, claims, reading=reading, witnessed=False), calls=25)
    entry.fetching = Read(reading)

    race_of([entry], "base", {"output": [3]}, 0.02, Random(0))

    assert (entry.failed is None, entry.proved) == (believed, believed)


def test_where_reading_is_not_known_it_counts_as_the_call_s(now: Time) -> None:
    (found,) = race(Fake("a", now, lambda turn: 2e-4, reading=6e-4, shipped=False), calls=25)

    assert str(found.failed).startswith("refused: it claims 0.0002 s for a call, but 100 calls on new numbers took 0.0")


def test_another_attempt_reads_anew(now: Time) -> None:
    class Busy(Fake):
        def run_proof(self, passes: int) -> Any:
            self.now.now += 5.0 * (len(read.asked) < 3)
            return super().run_proof(passes)

    read = Read(0.0)
    entry = entry_of(Busy("a", now, short), calls=10)
    entry.fetching = read

    race_of([entry], "base", {"output": [3]}, 0.02, Random(0))

    assert read.asked == [(200, False), (200, True), (200, True)]
    assert entry.proved


@pytest.mark.parametrize("verb", ["load_proof", "run_proof", "proof_found"])
def test_one_that_fails_while_it_proves_its_times_has_failed(now: Time, verb: str) -> None:
    died = Failed(Status.DIED, "died: SIGSEGV")

    _, found = race(Fake("base", now, short), Fake("a", now, short, says={(verb, FEWEST): died}), calls=10)

    assert found.failed == died


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("load_proof", Loaded(1000)),
        ("proof_found", Found({"output": torch.zeros(3)})),
        ("proof_found", Found({"output": torch.zeros(())})),
        ("proof_found", Found({})),
    ],
)
def test_a_proof_of_something_else_is_garbage(now: Time, verb: str, says: Any) -> None:
    (found,) = race(Fake("a", now, short, says={(verb, FEWEST): says}), calls=10)

    assert str(found.failed).startswith("refused: answered garbage")
