"""Times that are claimed are held against the suite's own clock, which the tests turn."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from clocks import Time
from racers import Asked, Fake, asked, noisy, race

from suite.benchmark import proof
from suite.measure import FEWEST
from suite.measure.protocol import Failed, Found, Loaded
from suite.records import Status


@pytest.mark.parametrize("calls", [1, 500])
@pytest.mark.parametrize("claims", [0.1, 1 / 3])
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_times_that_are_too_short_to_be_true_are_not_believed(
    now: Time, calls: int, claims: float, direction: str
) -> None:
    liar = Fake("liar", now, lambda number: 0.05 / claims, claims)

    found = race(Fake("base", now), liar, calls=calls, direction=direction)

    assert (found[0].failed, found[0].proved) == (None, True)
    failed = found[1].failed
    assert failed is not None
    assert failed.status == "refused"
    assert failed.detail.startswith("it claims 0.05 s for a call, but 1 calls on new numbers took 0.")


def test_what_takes_a_hundred_times_as_long_as_it_claims_is_found_out_soon(now: Time) -> None:
    log: list[Asked] = []
    liar = Fake("liar", now, lambda number: 5e-4, claims=0.01, room=16, log=log)

    _, found = race(Fake("base", now), liar)

    calls = [passes * liar.room for passes in asked(log, "run_proof")]
    assert found.failed is not None
    assert found.failed.status == "refused"
    assert calls == [16, 20_000 // 16 // proof.TRIAL * 16] * proof.MOST_ATTEMPTS, "and not 20,000, ten seconds"


@pytest.mark.parametrize("direction", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("seconds", [2e-5, 0.0049, 0.3, 16.0])
def test_true_times_are_proved_by_one_request(now: Time, seconds: float, direction: str) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("base", now, lambda number: seconds, log=log), direction=direction)

    proofs = asked(log, "load_proof")

    assert (found.failed, found.proved) == (None, True)
    due = min(proof.MOST_INPUTS, max(1, math.ceil(proof.NEW_INPUTS / seconds)))
    by_its_sample = seconds >= proof.REPEATED and direction != "backward"
    assert list(map(len, proofs)) == ([] if by_its_sample else [due])


def test_long_samples_are_proof_enough(now: Time) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("a", now, lambda turn: proof.REPEATED, log=log))

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

    says = "it claims 0.2 s for a call, but 1 calls on new numbers took 2 s"
    assert found.failed == Failed(Status.REFUSED, says)


@pytest.mark.parametrize(("calls", "cache", "proofs"), [(1, "hot", 0), (2, "hot", 1), (1, "cold", 1)])
def test_a_sample_of_several_calls_or_of_a_flushed_cache_is_none(
    now: Time, calls: int, cache: str, proofs: int
) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("a", now, lambda turn: 0.2, log=log), calls=calls, cache=cache)

    assert (found.proved, len(asked(log, "run_proof"))) == (True, proofs)


def test_a_long_one_may_be_disturbed_but_not_always(now: Time) -> None:
    class Disturbed(Fake):
        quiet_from = 0

        def sample(self, number: int, calls: int) -> Any:
            sampled = super().sample(number, calls)
            self.now.now += 0.5 * (self.turn < self.quiet_from)
            return sampled

    for Disturbed.quiet_from, believed in ((5, True), (1000, False)):
        (found,) = race(Disturbed("a", now, lambda turn: 0.2))
        says = "it claims 0.2 s for a call, but 1 calls on new numbers took 0.701 s"
        assert found.proved == believed
        assert found.failed == (None if believed else Failed(Status.REFUSED, says))


def test_all_prove_their_times_on_the_same_numbers_that_nobody_has_seen(now: Time) -> None:
    log: list[Asked] = []
    found = race(Fake("a", now, log=log), Fake("b", now, lambda number: 0.05, log=log))

    proofs = asked(log, "load_proof")

    assert sorted(map(len, proofs)) == [1, 4]
    assert len({numbers[0] for numbers in proofs}) == 1
    assert all(number in proof.ROUND_NUMBERS for numbers in proofs for number in numbers)
    for each in found:
        assert each.proof is not None
        assert each.proof.rows["output"] == each.proof.number


def test_every_number_of_a_proof_is_verified_with_equal_chance(now: Time) -> None:
    def place(seed: int) -> int:
        log: list[Asked] = []
        (found,) = race(Fake("a", now, log=log), seed=seed)
        (numbers,) = asked(log, "load_proof")
        assert found.proof is not None
        return int(numbers.index(found.proof.number))

    kept = Counter(map(place, range(800)))

    assert set(kept) == {0, 1, 2, 3}
    chi_squared = sum((count - 200) ** 2 / 200 for count in kept.values())
    assert chi_squared < 16.3, "one of 1,000 fair choices would exceed this (3 degrees of freedom)"


def test_where_there_is_room_for_few_inputs_few_are_a_proof(now: Time) -> None:
    found = race(Fake("a", now, room=2), Fake("liar", now, lambda number: 0.05, claims=0.1, room=2))

    assert (found[0].failed, found[0].proved) == (None, True)
    assert "but 2 calls on new numbers took" in str(found[1].failed)


def test_the_untimed_forward_before_a_backward_is_no_lie(now: Time) -> None:
    class Backward(Fake):
        def run_proof(self, passes: int) -> Any:
            self.now.now += 4 * 0.005 * passes * len(self.loaded)
            return super().run_proof(passes)

    (backward,), (forward,) = (race(Backward("a", now), direction=each) for each in ("backward", "forward"))

    assert backward.failed is None
    assert str(forward.failed).startswith("refused: it claims ")


def test_a_machine_that_is_busy_by_turns_is_no_lie(now: Time) -> None:
    class Busy(Fake):
        proofs = 0

        def run_proof(self, passes: int) -> Any:
            self.proofs += 1
            self.now.now += 5.0 * (self.proofs < proof.MOST_ATTEMPTS)
            return super().run_proof(passes)

    (found,) = race(Busy("a", now, noisy(1)))

    assert (found.failed, found.proved) == (None, True)
    assert len(found.seconds) >= FEWEST


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_one_that_stalls_between_its_calls_is_out(now: Time, cache: str) -> None:
    class Staller(Fake):
        def sample(self, number: int, calls: int) -> Any:
            self.now.now += 3.0
            return super().sample(number, calls)

    _, found = race(Fake("base", now), Staller("a", now), cache=cache)

    says = "its samples took 12 s, the calls in them, as it claims, 0.02 s"
    assert found.failed == (Failed(Status.REFUSED, says) if cache == "hot" else None), "a flush takes long too"


@pytest.mark.parametrize("verb", ["load_proof", "run_proof", "proof_found"])
def test_one_that_fails_while_it_proves_its_times_has_failed(now: Time, verb: str) -> None:
    died = Failed(Status.DIED, "died: SIGSEGV")

    _, found = race(Fake("base", now), Fake("a", now, says={(verb, FEWEST): died}))

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
    (found,) = race(Fake("a", now, says={(verb, FEWEST): says}))

    assert str(found.failed).startswith("refused: answered garbage")
