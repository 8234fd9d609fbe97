"""How claims are proved on unseen numbers: in how many passes, of how many calls, and whose answers are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from clocks import Time
from racers import Asked, Fake, Slower, asked, noisy, race, short

from attnsuite.benchmark import proofs
from attnsuite.benchmark.entry import ProofTimes
from attnsuite.benchmark.measure import MIN_ROUNDS
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.model import STEP, Status


def test_answers_are_asked_for_in_turns_on_numbers_of_their_own(now: Time) -> None:
    log: list[Asked] = []
    race(Fake("a", now, short, log=log), Fake("b", now, short, log=log), calls=3)

    turns = [name for name, verb, _ in log if verb == "proof_times"]
    numbers = asked(log, "proof_times")

    assert {frozenset(turns[at : at + 2]) for at in range(0, len(turns), 2)} == {frozenset("ab")}
    assert {len(each) for each in numbers} == {3}
    assert len({number for each in numbers for number in each}) == 3 * len(turns) // 2, "the same for both, once"
    assert all(number in SECRET_NUMBERS for each in numbers for number in each)


def test_a_pass_has_few_enough_calls_for_a_dozen_passes_whatever_a_process_claims(now: Time) -> None:
    log: list[Asked] = []
    race(Fake("a", now, lambda turn: 0.002, log=log), calls=64)

    assert [len(numbers) for numbers in asked(log, "proof_times")] == [4] * proofs.VERIFIED


@pytest.mark.parametrize(("quick", "passes"), [((1, 2, 3), 3), ((1, 5, 6), 6), ((2, 9, 11), 11)])
def test_a_claim_is_accepted_after_three_quick_passes(now: Time, quick: tuple[int, ...], passes: int) -> None:
    class Disturbed(Fake):
        passes = 0

        def proof_times(self, numbers: Sequence[int], kept: int, warm: int) -> Any:
            self.passes += 1
            times = super().proof_times(numbers, kept, warm)
            return times if self.passes in quick else replace(times, seconds=[3 * each for each in times.seconds])

    entry = race(Fake("base", now), disturbed := Disturbed("a", now))[1]

    assert (entry.concluded, entry.unbounded, disturbed.passes) == (True, "", passes)
    assert len(entry.proofs) == proofs.VERIFIED


def test_doubts_that_could_only_mark_a_row_end_after_a_share_of_the_time_of_its_samples(now: Time) -> None:
    class Slightly(Slower):
        times = 1.3

    _, entry = race(Fake("base", now), slightly := Slightly("a", now))
    passes = len(asked(slightly.log, "proof_times"))

    assert entry.unbounded == "calls on new inputs took 1.30 times as long"
    assert (passes - 1) * 1.3 * 0.005 <= proofs.PROOF_SHARE * entry.sampling < (passes + 1) * 1.35 * 0.005


@pytest.mark.parametrize(("seconds", "passes"), [(0.005, proofs.VERIFIED), (0.06, 2), (0.2, 1), (16.0, 1)])
def test_long_calls_are_asked_for_less_often(now: Time, seconds: float, passes: int) -> None:
    log: list[Asked] = []
    (found,) = race(Fake("a", now, lambda turn: seconds, log=log))

    assert found.concluded
    assert len(asked(log, "proof_times")) == passes


def test_what_takes_a_hundred_times_as_long_is_found_out_in_few_passes(now: Time) -> None:
    log: list[Asked] = []
    liar = Slower("a", now, log=log)
    liar.times = 100.0

    _, found = race(Fake("base", now), liar)

    assert len(asked(log, "proof_times")) == proofs.MOST_SPENT / 0.5, "each takes half a second"
    assert found.failed is not None


def test_whose_calls_take_longer_than_claimed_is_asked_for_fewer_in_a_pass(now: Time) -> None:
    log: list[Asked] = []
    liar = Slower("liar", now, short, log=log)
    liar.times = 100.0

    _, found = race(Fake("base", now, short), liar, calls=64)

    first, *others = [len(each) for each in asked(log, "proof_times")]
    assert first == proofs.MOST_CALLS
    assert set(others) == {1}, "a call of 10 ms is all that a twelfth of a tenth of a second has room for"
    assert found.failed is not None


def test_nobody_is_timed_once_he_is_believed(now: Time) -> None:
    log: list[Asked] = []
    found = race(*(Fake(name, now, noisy(ord(name)), log=log) for name in "abc"), budget=0.2)

    verbs = [verb for _, verb, _ in log]

    assert all(each.concluded for each in found)
    assert "sample" not in verbs[verbs.index("proof_times") :]


def test_one_that_fails_meanwhile_has_failed(now: Time) -> None:
    died = NoResult(Status.CRASHED, "crashed: SIGSEGV")

    _, found = race(Fake("base", now), Fake("a", now, says={("proof_times", MIN_ROUNDS): died}))

    assert found.failed == died


PACKED = getattr(torch, "float4_e2m1fn_x2", None)
"""A dtype of which no rows can be taken; older versions of PyTorch lack it."""
ODD = [{}, {"output": torch.zeros(3, 1)}, {"other": torch.zeros(4, 1)}]
ODD += [{"output": torch.zeros(4, 1, dtype=torch.uint8).view(PACKED)}] if PACKED else []


@pytest.mark.parametrize("rows", ODD, ids=str)
def test_an_answer_to_something_else_is_garbage(now: Time, rows: dict[str, torch.Tensor]) -> None:
    (found,) = race(Fake("a", now, says={("proof_times", MIN_ROUNDS): ProofTimes([0.1], [0.1], rows)}))

    assert str(found.failed).startswith("refused: invalid reply")


def test_rows_of_some_answers_are_kept_the_same_for_all(now: Time) -> None:
    log: list[Asked] = []
    found = race(Fake("a", now, short, log=log), Fake("b", now, short, log=log), calls=4)

    passes = {frozenset(each) for each in asked(log, "proof_times")}
    numbers = [[each.number for each in entry.proofs] for entry in found]

    assert numbers[0] == numbers[1], "so that the truth is computed once"
    assert len(set(numbers[0])) == proofs.VERIFIED
    assert all(sum(number in each for each in passes) == 1 for number in numbers[0])
    for entry in found:
        for each in entry.proofs:
            assert each.rows["output"].tolist() == [[float(each.number)]]


@pytest.mark.parametrize("calls", [1, 3, 16])
def test_who_is_fast_and_wrong_in_a_third_of_the_passes_is_verified_there(now: Time, calls: int) -> None:
    """So many count, for what disturbs calls only adds to them."""

    class Partly(Fake):
        passes = 0

        def proof_times(self, numbers: Sequence[int], kept: int, warm: int) -> Any:
            found = super().proof_times(numbers, kept, warm)
            self.passes += 1
            wrong = 0 if self.passes % 3 else len(numbers) // 2 + 1
            seconds = [*(each / 3 for each in found.seconds[:wrong]), *found.seconds[wrong:]]
            rows = {"output": torch.full((4, 1), -1.0)} if numbers.index(kept) < wrong else found.rows
            return replace(found, seconds=seconds, rows=rows)

    def truth(turn: int) -> float:
        return 5e-4

    def caught(seed: int) -> bool:
        liar = Partly("liar", now, truth, 1 / 3, witnessed=False)
        _, found = race(Fake("base", now, truth), liar, calls=calls, seed=seed)
        return any(each.rows["output"].tolist() == [[-1.0]] for each in found.proofs)

    assert sum(map(caught, range(100))) >= 85


def test_of_a_training_step_one_is_kept(now: Time) -> None:
    (found,) = race(Fake("a", now), calls=4, direction=STEP)

    assert len(found.proofs) == 1


def test_an_output_of_each_accepting_pass_is_verified_each_call_with_equal_chance(now: Time) -> None:
    """Who is honest once, and then no more, is verified in what came later, too."""

    def places(seed: int) -> list[int]:
        log: list[Asked] = []
        found, _ = race(Fake("a", now, short, log=log), Fake("b", now, short), calls=4, seed=seed)
        passes = asked(log, "proof_times")
        verified = {excerpt.number for excerpt in found.proofs}
        assert len(passes) == len(verified) == proofs.VERIFIED
        return [at for numbers in passes for at, number in enumerate(numbers) if number in verified]

    kept = Counter(place for seed in range(134) for place in places(seed))

    assert set(kept) == {0, 1, 2, 3}
    chi_squared = sum((count - 100.5) ** 2 / 100.5 for count in kept.values())
    assert chi_squared < 16.3, "one of 1,000 fair choices would exceed this (3 degrees of freedom)"
