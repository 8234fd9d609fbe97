"""Rounds, on a clock that the tests turn, with members that are no processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import torch

from suite.benchmark import Benchmark, Request, request, rounds
from suite.benchmark.rounds import Course
from suite.contracts import contract
from suite.statistics import compare

CONTRACT = contract("attention")
TINY = "documents/one-sentence"


class Time:
    """A clock that only the tests turn."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    turned = Time()
    monkeypatch.setattr(rounds, "perf_counter", turned)
    return turned


@dataclass
class Fake:
    """A member whose samples take what a function of its turn says, and which claims a share of that."""

    name: str
    now: Time
    takes: Callable[[int], float] = lambda number: 0.005
    claims: float = 1.0
    says: Mapping[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    device: str = "cpu"
    log: list[tuple[str, str, Any]] = field(default_factory=list)
    turn: int = 0
    number: int = 0
    room: int = 10**9
    loaded: Sequence[int] = ()

    def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.log.append((self.name, verb, arguments))
        self.turn += verb == "sample"
        self.number = arguments.get("number", self.number)
        if said := self.says.get((verb, self.turn)):
            return dict(said)
        if verb == "rows":
            return {"rows": {"output": torch.tensor(float(self.number), dtype=torch.float64)}}
        seconds = self.takes(self.turn)
        if verb == "load":
            self.loaded = arguments["numbers"][: self.room]
            return {"loaded": len(self.loaded)}
        if verb == "prove":
            self.now.now += arguments["passes"] * len(self.loaded) * seconds + 0.001
            return {}
        if verb == "proof":
            return {"found": {"output": torch.tensor([float(number) for number in self.loaded], dtype=torch.float64)}}
        self.now.now += seconds * arguments["calls"] + 0.001
        return {"seconds": seconds * self.claims, "warmed": 0.0, "made": 0.0}


def course(of: Fake, calls: int = 1, **prepared: Any) -> Course:
    return Course(of, {"calls": calls, "cache": "hot", "direction": "forward", **prepared})


def race(*members: Fake, budget: float = 0.02, seed: int = 0, **prepared: Any) -> list[Course]:
    """The courses of a race against the first member."""
    courses = [course(of, **prepared) for of in members]
    rounds.run(courses, members[0].name, {"output": [3]}, budget, Random(seed))
    return courses


def noisy(seed: int, spread: float = 0.3) -> Callable[[int], float]:
    """Times that no interval of theirs makes narrow."""
    draw = Random(seed)
    return lambda number: 0.005 * draw.lognormvariate(0, spread)


def test_who_is_about_as_fast_as_the_baseline_makes_as_many_calls_in_a_sample(now: Time) -> None:
    calls = {"slower": 7, "slow": 15, "base": 30, "faster": 45, "fast": 60, "fastest": 61}
    courses = [course(Fake(name, now), count) for name, count in calls.items()]

    rounds.run(courses, "base", {"output": [3]}, 0.02, Random(0))

    assert [each.prepared["calls"] for each in courses] == [7, 30, 30, 30, 30, 61]


def test_everyone_has_one_turn_in_every_round_in_random_order(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    race(*(Fake(name, now, noisy(ord(name)), log=log) for name in "abc"), budget=0.2)

    turns = [(asked["number"], name) for name, verb, asked in log if verb == "sample"]

    in_rounds = [turns[at : at + 3] for at in range(0, len(turns), 3)]
    assert all(len({number for number, _ in of}) == 1 for of in in_rounds), "all are asked the same"
    orders = [tuple(name for _, name in of) for of in in_rounds]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len(set(orders)) == 6, "every order occurs"


def test_nobody_can_foresee_the_inputs_of_a_round(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    found = [race(Fake("a", now, noisy(1), log=log), budget=0.2, seed=seed)[0] for seed in (1, 2)]

    numbers = [asked["number"] for _, verb, asked in log if verb == "sample"]

    assert len(set(numbers)) == len(numbers) == sum(len(each.seconds) for each in found)
    assert all(number in rounds.UNSEEN for number in numbers)


def test_steady_times_end_the_rounds_as_soon_as_a_verdict_is_possible(now: Time) -> None:
    found = race(Fake("a", now), Fake("b", now, lambda number: 0.01), budget=100.0)

    assert [len(each.seconds) for each in found] == [rounds.FEWEST] * 2
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

    assert (len(slow.seconds), slow.stopped) == (rounds.TOO_FEW, "budget")
    assert min(len(base.seconds), len(other.seconds)) > 40


def test_nobody_races_on_without_the_baseline(now: Time) -> None:
    base, quick = race(Fake("base", now, lambda n: 10.0 + n % 3), Fake("quick", now, noisy(2)), budget=50.0)

    assert len(quick.seconds) <= max(len(base.seconds), rounds.FEWEST)
    assert quick.stopped == "budget"


def test_a_lone_implementation_is_timed_until_its_own_interval_is_narrow(now: Time) -> None:
    alone = race(Fake("a", now), budget=100.0)[0]
    without_base = race(Fake("gone", now, says={("sample", 1): {"status": "died", "detail": ""}}), Fake("b", now))

    assert (len(alone.seconds), alone.stopped) == (12, "narrow")
    assert (without_base[1].stopped, without_base[1].failed) == ("narrow", {})


@pytest.mark.parametrize("verb", ["sample", "rows"])
def test_one_that_fails_drops_out_and_the_others_go_on(now: Time, verb: str) -> None:
    said = {"status": "died", "detail": "died: SIGSEGV"}
    log: list[tuple[str, str, Any]] = []
    bad = Fake("bad", now, says={(verb, 1): said}, log=log)

    found = race(Fake("base", now), bad, Fake("other", now))

    status = "died" if verb == "sample" else "refused"
    assert (found[1].failed["status"], "died: SIGSEGV" in found[1].failed["detail"]) == (status, True)
    assert [len(each.seconds) for each in (found[0], found[2])] == [12, 12]
    assert len(log) == (1 if verb == "sample" else 2), "it is asked nothing more"


def test_every_round_is_verified_with_equal_chance(now: Time) -> None:
    def kept_of(seed: int) -> int:
        log: list[tuple[str, str, Any]] = []
        (found,) = race(Fake("a", now, log=log), seed=seed)
        assert found.kept is not None
        return [asked["number"] for _, verb, asked in log if verb == "sample"].index(found.kept[0])

    kept = Counter(map(kept_of, range(2400)))

    assert set(kept) == set(range(12))
    chi_squared = sum((count - 200) ** 2 / 200 for count in kept.values())
    assert chi_squared < 31.3, "one of 1,000 fair choices would exceed this (11 degrees of freedom)"


def test_all_are_verified_on_the_same_round(now: Time) -> None:
    found = race(*(Fake(name, now, noisy(ord(name))) for name in "abc"), budget=1e-9)

    kept = [each.kept for each in found if each.kept is not None]
    assert (len(kept), len({number for number, _ in kept})) == (3, 1)
    assert all(rows["output"] == number for number, rows in kept)


@pytest.mark.parametrize("noise", [0.05, 0.4])
def test_identical_implementations_are_rarely_told_apart(now: Time, noise: float) -> None:
    """Whole races, with the choice when to stop that depends on what was seen: at most 1 % of them end with a claim."""
    races, claims = 300, 0
    for seed in range(races):
        members = [Fake(f"{number}", now, noisy(seed * 100 + number, noise)) for number in range(5)]
        found = {each.member.name: each.seconds for each in race(*members, budget=0.3, seed=seed)}
        base = found.pop("0")
        claims += any(each.verdict in ("faster", "slower") for each in compare(base, found).values())

    assert claims <= 0.01 * races + 3 * math.sqrt(0.01 * races)


# Times that are claimed


@pytest.mark.parametrize("calls", [1, 500])
@pytest.mark.parametrize("claims", [0.1, 1 / 3])
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_times_that_are_too_short_to_be_true_are_not_believed(
    now: Time, calls: int, claims: float, direction: str
) -> None:
    liar = Fake("liar", now, lambda number: 0.05 / claims, claims)

    found = race(Fake("base", now), liar, calls=calls, direction=direction)

    assert (found[0].failed, found[0].proved) == ({}, True)
    assert found[1].failed["status"] == "refused"
    assert found[1].failed["detail"].startswith("it claims 0.05 s for a call, but 1 calls on new numbers took 0.")


def test_what_takes_a_hundred_times_as_long_as_it_claims_is_found_out_soon(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    liar = Fake("liar", now, lambda number: 5e-4, claims=0.01, room=16, log=log)

    _, found = race(Fake("base", now), liar)

    calls = [asked["passes"] * liar.room for _, verb, asked in log if verb == "prove"]
    assert found.failed["status"] == "refused"
    assert calls == [16, 20_000 // 16 // rounds.TASTE * 16] * rounds.ATTEMPTS, "and not 20,000, ten seconds"


@pytest.mark.parametrize("direction", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("seconds", [2e-5, 0.0049, 0.3, 16.0])
def test_true_times_are_proved_by_one_request(now: Time, seconds: float, direction: str) -> None:
    log: list[tuple[str, str, Any]] = []
    (found,) = race(Fake("base", now, lambda number: seconds, log=log), direction=direction)

    proofs = [asked["numbers"] for _, verb, asked in log if verb == "load"]

    assert (found.failed, found.proved) == ({}, True)
    due = min(rounds.MOST_PROVED, max(1, math.ceil(rounds.PROOF / seconds)))
    by_its_sample = seconds >= rounds.LONG and direction != "backward"
    assert list(map(len, proofs)) == ([] if by_its_sample else [due])


def test_long_samples_are_proof_enough(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    (found,) = race(Fake("a", now, lambda turn: rounds.LONG, log=log))

    assert (found.proved, found.proof) == (True, None)
    assert {verb for _, verb, _ in log} == {"sample", "rows"}


def test_nobody_is_timed_once_he_is_believed(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    found = race(*(Fake(name, now, noisy(ord(name)), log=log) for name in "abc"), budget=0.2)

    verbs = [verb for _, verb, _ in log]

    assert all(each.proved for each in found)
    assert "sample" not in verbs[verbs.index("load") :]


def test_what_most_long_samples_claim_has_to_be_true(now: Time) -> None:
    class Wavering(Fake):
        def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            answer = super().request(verb, arguments)
            lies = verb == "sample" and 3 < self.turn <= 10  # seven of twelve
            return {**answer, "seconds": answer["seconds"] / 10} if lies else answer

    _, found = race(Fake("base", now), Wavering("a", now, lambda turn: 2.0))

    assert found.failed["detail"] == "it claims 0.2 s for a call, but 1 calls on new numbers took 2 s"


@pytest.mark.parametrize(("calls", "cache", "proofs"), [(1, "hot", 0), (2, "hot", 1), (1, "cold", 1)])
def test_a_sample_of_several_calls_or_of_a_flushed_cache_is_none(
    now: Time, calls: int, cache: str, proofs: int
) -> None:
    log: list[tuple[str, str, Any]] = []
    (found,) = race(Fake("a", now, lambda turn: 0.2, log=log), calls=calls, cache=cache)

    assert (found.proved, [verb for _, verb, _ in log].count("prove")) == (True, proofs)


def test_a_long_one_may_be_disturbed_but_not_always(now: Time) -> None:
    class Disturbed(Fake):
        quiet_from = 0

        def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            answer = super().request(verb, arguments)
            self.now.now += 0.5 * (verb == "sample" and self.turn < self.quiet_from)
            return answer

    for Disturbed.quiet_from, believed in ((5, True), (1000, False)):
        (found,) = race(Disturbed("a", now, lambda turn: 0.2))
        assert (found.proved, found.failed == {}) == (believed, believed)
        assert (
            believed or found.failed["detail"] == "it claims 0.2 s for a call, but 1 calls on new numbers took 0.701 s"
        )


def test_all_prove_their_times_on_the_same_numbers_that_nobody_has_seen(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    found = race(Fake("a", now, log=log), Fake("b", now, lambda number: 0.05, log=log))

    asked = [told["numbers"] for _, verb, told in log if verb == "load"]

    assert sorted(map(len, asked)) == [1, 4]
    assert len({numbers[0] for numbers in asked}) == 1
    assert all(number in rounds.UNSEEN for numbers in asked for number in numbers)
    for each in found:
        assert each.proof is not None
        assert each.proof[1]["output"] == each.proof[0]


def test_every_number_of_a_proof_is_verified_with_equal_chance(now: Time) -> None:
    def place(seed: int) -> int:
        log: list[tuple[str, str, Any]] = []
        (found,) = race(Fake("a", now, log=log), seed=seed)
        (numbers,) = [told["numbers"] for _, verb, told in log if verb == "load"]
        assert found.proof is not None
        return int(numbers.index(found.proof[0]))

    kept = Counter(map(place, range(800)))

    assert set(kept) == {0, 1, 2, 3}
    chi_squared = sum((count - 200) ** 2 / 200 for count in kept.values())
    assert chi_squared < 16.3, "one of 1,000 fair choices would exceed this (3 degrees of freedom)"


def test_where_there_is_room_for_few_inputs_few_are_a_proof(now: Time) -> None:
    found = race(Fake("a", now, room=2), Fake("liar", now, lambda number: 0.05, claims=0.1, room=2))

    assert (found[0].failed, found[0].proved) == ({}, True)
    assert "but 2 calls on new numbers took" in found[1].failed["detail"]


def test_the_untimed_forward_before_a_backward_is_no_lie(now: Time) -> None:
    class Backward(Fake):
        def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            if verb == "prove":
                self.now.now += 4 * 0.005 * arguments["passes"] * len(self.loaded)
            return super().request(verb, arguments)

    assert race(Backward("a", now), direction="backward")[0].failed == {}
    assert race(Backward("a", now), direction="forward")[0].failed["status"] == "refused"


def test_a_machine_that_is_busy_by_turns_is_no_lie(now: Time) -> None:
    class Busy(Fake):
        proofs = 0

        def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            if verb == "prove":
                self.proofs += 1
                self.now.now += 5.0 * (self.proofs < rounds.ATTEMPTS)
            return super().request(verb, arguments)

    (found,) = race(Busy("a", now, noisy(1)))

    assert (found.failed, found.proved) == ({}, True)
    assert len(found.seconds) >= rounds.FEWEST


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_one_that_stalls_between_its_calls_is_out(now: Time, cache: str) -> None:
    class Staller(Fake):
        def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            self.now.now += 3.0 * (verb == "sample")
            return super().request(verb, arguments)

    _, found = race(Fake("base", now), Staller("a", now), cache=cache)

    says = "its samples took 12 s, the calls in them, as it claims, 0.02 s"
    assert found.failed == ({"status": "refused", "detail": says} if cache == "hot" else {}), "a flush takes long too"


def test_one_that_fails_while_it_proves_its_times_has_failed(now: Time) -> None:
    class Dies(Fake):
        dies = ""

        def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            died = {"status": "died", "detail": "died: SIGSEGV"}
            return died if verb == self.dies else super().request(verb, arguments)

    for verb in ("load", "prove", "proof"):
        Dies.dies = verb
        assert race(Fake("base", now), Dies("a", now))[1].failed["status"] == "died"


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("load", {"loaded": 1000}),
        ("proof", {"found": {"output": torch.zeros(3)}}),
        ("proof", {"found": {"output": torch.zeros(())}}),
        ("proof", {"found": {}}),
    ],
)
def test_a_proof_of_something_else_is_garbage(now: Time, verb: str, says: dict[str, Any]) -> None:
    class Other(Fake):
        def request(self, asked: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            return says if asked == verb else super().request(asked, arguments)

    assert race(Other("a", now))[0].failed["detail"].startswith("answered garbage")


# More cores


@pytest.mark.parametrize(
    ("threads", "used", "refused"), [(1, 1.3, False), (1, 1.4, True), (2, 2.5, False), (2, 2.7, True), (0, 9.0, False)]
)
def test_more_cores_than_were_given_are_seen_in_the_time_they_worked(threads: int, used: float, refused: bool) -> None:
    """A machine whose cores are all busy has none to steal, so that no test can do it for real."""
    workload = next(workload for workload in CONTRACT.workloads() if workload.name == TINY)
    table = request.Table(workload, "float32", "forward", threads, "hot")
    rows = workload.rows("forward", Random(1))
    output = {}
    for number in (3, 5):
        call = workload.call("float32")
        inputs = {**call.tensors, **workload.turned(call, number)}
        output[number] = torch.nn.functional.scaled_dot_product_attention(*(inputs[n] for n in call.positional))
    found = {number: {"output": of.flatten(0, -2)[list(rows["output"])]} for number, of in output.items()}
    course = Course(Fake("attention/a", Time()), {}, awake=1.0, kept=(3, found[3]), proof=(5, found[5]))

    Benchmark(CONTRACT, [], Request((TINY,)))._verify(table, course, rows, used)

    says = {"status": "refused", "detail": f"it was given {threads} cores and used {used:.2f}"}
    assert course.failed == (says if refused else {})
