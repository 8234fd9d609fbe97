"""Benchmarks: rounds on a clock that the tests turn, and implementations that misbehave in real processes."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import suite
from suite import benchmark, registry
from suite.benchmark import Benchmark, Request, request, rounds
from suite.benchmark.gate import Gate
from suite.benchmark.member import Member, checked, lost
from suite.benchmark.rounds import Course
from suite.contracts import contract
from suite.measure import ceilings, serving
from suite.measure.memory import METERS
from suite.records import EVERY_CASE, Measurement, Outcome, UsageError
from suite.registry import Broken, Declaration, Missing, from_function
from suite.runner import PATIENCE
from suite.statistics import compare
from suite.worker import Died, Hung

Write = Callable[[str, str], Path]

CONTRACT = contract("attention")
TINY = "documents/one-sentence"
CAUSAL = "flash-small/512-e64-causal"


def honest(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    return sdpa(query, key, value, is_causal=is_causal)


# What is asked for


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"device": "tpu"}, "unknown device 'tpu'; there are: cpu, cuda, cuda:N"),
        ({"profile": "fast"}, "unknown profile 'fast'; there are: quick, standard, full"),
        ({"cache": "warm"}, "the cache is hot or cold, not 'warm'"),
        ({"budget": 0.0}, "the budget is a number of seconds above 0, not 0"),
        ({"budget": math.nan}, "the budget is a number of seconds above 0, not nan"),
        ({"budget": math.inf}, "the budget is a number of seconds above 0, not inf"),
        ({"time_limit": -1.0}, "the time limit is a number of seconds above 0, not -1"),
        ({"threads": (0,)}, "0 threads were asked for; this machine has 1 to "),
        ({"threads": (1, 10_000)}, "10000 threads were asked for; this machine has 1 to "),
    ],
)
def test_a_request_for_what_does_not_exist_says_what_does(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match="^" + says.replace("?", r"\?")):
        Request(**asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"workloads": ("nosuch",)}, "no workload of attention matches 'nosuch'; groups are: documents, vit, decode, "),
        ({"workloads": ("laddr",)}, "no workload of attention matches 'laddr'; did you mean ladder? groups are: "),
        ({"workloads": ("flash",)}, "flash/512-e64, .*: not timed on cpu"),
        ({"workloads": ("ladder/64k",), "profile": "quick"}, "ladder/64k: not in the profile quick, but in "),
    ],
)
def test_workloads_that_are_not_there_are_said_in_one_line(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match="^" + says.replace("?", r"\?")):
        Request(**asked).tables(CONTRACT)


def test_a_group_is_what_a_device_is_usually_asked_of_it() -> None:
    ladder = {table.workload.name for table in Request(("ladder",)).tables(CONTRACT)}

    assert ladder == {w.name for w in CONTRACT.workloads() if w.group == "ladder" and "standard" in w.profiles}
    assert "ladder/64k" not in ladder
    assert [table.workload.name for table in Request(("ladder/64k",)).tables(CONTRACT)] == ["ladder/64k"]
    assert "ladder/64k" in {table.workload.name for table in Request(("ladder/*",)).tables(CONTRACT)}


def test_nothing_named_is_the_profile_quick() -> None:
    names = {table.workload.name for table in Request().tables(CONTRACT)}

    assert names == {w.name for w in CONTRACT.workloads() if "quick" in w.profiles and w.dtypes.get("cpu")}
    assert {TINY, "ladder/1k", "vit/b16"} <= names


def test_tables_of_one_thread_count_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "cores", lambda: [0, 1, 2, 3])

    tables = Request(("vit",), threads=(2, 1)).tables(CONTRACT)

    assert [table.threads for table in tables] == sorted(table.threads for table in tables)
    assert {table.threads for table in tables} == {1, 2}
    assert len(tables) == 2 * len(Request(("vit",), threads=(1,)).tables(CONTRACT))


def test_backward_is_timed_alone_and_together_with_forward() -> None:
    tables = Request((TINY,), backward=True).tables(CONTRACT)

    assert [table.direction for table in tables] == ["forward", "backward", "forward_backward"]


@pytest.mark.parametrize(
    "other",
    [
        {"profile": "full"}, {"backward": True}, {"cache": "cold"}, {"threads": (1,)}, {"budget": 1.0},
        {"workloads": (TINY, "vit")},
    ],
)  # fmt: skip
def test_requests_that_ask_for_something_else_are_told_apart_in_words(other: dict[str, Any]) -> None:
    usual = {"workloads": (TINY,), "profile": "standard"}

    assert Request(**usual | other).words != Request(**usual).words


def test_cores_are_one_thread_of_each_physical_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings lie side by side on some machines and far apart on others."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 6, 7})

    monkeypatch.setattr(request, "_siblings", lambda core: f"{core // 2 * 2}-{core // 2 * 2 + 1}")
    assert request.cores() == [0, 2, 6]
    monkeypatch.setattr(request, "_siblings", lambda core: f"{core % 4},{core % 4 + 4}")
    assert request.cores() == [0, 1, 2, 3]


# Rounds, with members that are no processes


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
    """A member whose samples take what a function of the round says, and which claims a share of that."""

    name: str
    now: Time
    takes: Callable[[int], float] = lambda number: 0.005
    claims: float = 1.0
    says: Mapping[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    device: str = "cpu"
    log: list[tuple[str, str, Any]] = field(default_factory=list)
    number: int = 0
    room: int = 10**9
    loaded: Sequence[int] = ()

    def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.log.append((self.name, verb, arguments))
        self.number = arguments.get("number", self.number)
        if said := self.says.get((verb, self.number)):
            return dict(said)
        if verb == "rows":
            return {"rows": {"output": torch.tensor(float(self.number))}}
        seconds = self.takes(self.number)
        if verb == "load":
            self.loaded = arguments["numbers"][: self.room]
            return {"loaded": len(self.loaded)}
        if verb == "prove":
            self.now.now += len(self.loaded) * seconds + 0.001
            return {"found": {"output": torch.tensor([float(number) for number in self.loaded], dtype=torch.float64)}}
        self.now.now += seconds * arguments["calls"] + 0.001
        return {"seconds": seconds * self.claims, "warmed": 0.0}


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


def test_everyone_has_one_turn_in_every_round_in_random_order(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    race(*(Fake(name, now, noisy(ord(name)), log=log) for name in "abc"), budget=0.2)

    turns = [(asked["number"], name) for name, verb, asked in log if verb == "sample" and asked["number"]]

    assert [number for number, _ in turns] == sorted(number for number, _ in turns)
    orders = [tuple(name for number, name in turns if number == at) for at in range(1, turns[-1][0] + 1)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len(set(orders)) == 6, "every order occurs"


def test_no_round_asks_with_the_inputs_of_the_warm_up(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    one = race(Fake("a", now, noisy(1), log=log), budget=0.2)[0]

    numbers = [asked["number"] for _, verb, asked in log if verb == "sample"][: len(one.seconds)]

    assert numbers == list(range(1, len(one.seconds) + 1))


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
    kept = Counter(race(Fake("a", now), seed=seed)[0].round for seed in range(2400))

    assert set(kept) == set(range(1, 13))
    chi_squared = sum((count - 200) ** 2 / 200 for count in kept.values())
    assert chi_squared < 31.3, "one of 1,000 fair choices would exceed this (11 degrees of freedom)"


def test_all_are_verified_on_the_same_round(now: Time) -> None:
    found = race(Fake("a", now, noisy(1)), Fake("b", now, noisy(2)), Fake("c", now, noisy(3)), budget=0.3)

    assert len({each.round for each in found}) == 1
    assert all(each.rows["output"] == each.round for each in found)


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


@pytest.mark.parametrize("direction", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("seconds", [2e-5, 0.0049, 0.3, 16.0])
def test_true_times_are_proved_by_one_request(now: Time, seconds: float, direction: str) -> None:
    log: list[tuple[str, str, Any]] = []
    (found,) = race(Fake("base", now, lambda number: seconds, log=log), direction=direction)

    proofs = [asked["numbers"] for _, verb, asked in log if verb == "load"]

    assert (found.failed, found.proved) == ({}, True)
    assert len(proofs) == 1
    assert len(proofs[0]) == min(rounds.MOST_PROVED, max(1, math.ceil(rounds.PROOF / seconds)))


def test_all_prove_their_times_on_the_same_numbers_that_nobody_has_seen(now: Time) -> None:
    log: list[tuple[str, str, Any]] = []
    found = race(Fake("a", now, log=log), Fake("b", now, lambda number: 0.1, log=log))

    asked = [told["numbers"] for _, verb, told in log if verb == "load"]

    assert sorted(map(len, asked)) == [1, 4]
    assert len({numbers[0] for numbers in asked}) == 1
    assert min(min(numbers) for numbers in asked) >= rounds.UNSEEN[0]
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
                self.now.now += 4 * 0.005 * len(self.loaded)
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

    for verb in ("load", "prove"):
        Dies.dies = verb
        assert race(Fake("base", now), Dies("a", now))[1].failed["status"] == "died"


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("load", {"loaded": 1000}),
        ("prove", {"found": {"output": torch.zeros(3)}}),
        ("prove", {"found": {"output": torch.zeros(())}}),
        ("prove", {"found": {}}),
    ],
)
def test_a_proof_of_something_else_is_garbage(now: Time, verb: str, says: dict[str, Any]) -> None:
    class Other(Fake):
        def request(self, asked: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            return says if asked == verb else super().request(asked, arguments)

    assert race(Other("a", now))[0].failed["detail"].startswith("answered garbage")


# What a process answers

NOTHING_TAKEN = dict.fromkeys(METERS, 0.0)
HONEST = {"making": {}, "first_call": 1.0, "warm_up": 0.1, "expected": 0.001, "calls": 5}


@pytest.mark.parametrize(
    ("verb", "answer", "detail"),
    [
        ("sample", {"seconds": 0.0, "warmed": 0.0}, "seconds 0.0"),
        ("sample", {"seconds": -1.0, "warmed": 0.0}, "seconds -1.0"),
        ("sample", {"seconds": math.nan, "warmed": 0.0}, "seconds nan"),
        ("sample", {"seconds": math.inf, "warmed": 0.0}, "seconds inf"),
        ("sample", {"seconds": "fast", "warmed": 0.0}, "seconds 'fast'"),
        ("sample", {"seconds": True, "warmed": 0.0}, "seconds True"),
        ("sample", {"seconds": 1.0, "warmed": -1.0}, "warmed -1.0"),
        ("sample", {}, "seconds None"),
        ("sample", {"seconds": 5e-324, "warmed": 0.0}, "seconds 5e-324"),
        ("sample", {"seconds": 1e300, "warmed": 0.0}, "seconds 1e+300"),
        ("prepare", {**HONEST, "calls": 0}, "calls 0"),
        ("prepare", {**HONEST, "calls": 10**30}, f"calls {10**30}"),
        ("prepare", {**HONEST, "making": {"factory": -1.0}}, "making {'factory': -1.0}"),
        ("prepare", {**HONEST, "calls": 2.5}, "calls 2.5"),
        ("prepare", {**HONEST, "first_call": None}, "first_call None"),
        ("prepare", {**HONEST, "expected": 0.0}, "expected 0.0"),
        ("rows", {"rows": {"output": [1.0]}}, "rows {'output': [1.0]}"),
        ("rows", {"rows": None}, "rows None"),
        ("memory", {"memory": {"resident": "much"}, "kernel": ""}, "memory {'resident': 'much'}"),
        ("memory", {"memory": {}, "kernel": ""}, "memory {}"),
        ("memory", {"memory": {**NOTHING_TAKEN, "more": 1.0}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": math.nan}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": -1e9}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": 10**400}, "kernel": ""}, None),
        ("memory", {"memory": {**NOTHING_TAKEN, "output": True}, "kernel": ""}, None),
        ("memory", {"memory": NOTHING_TAKEN, "kernel": 3}, "kernel 3"),
        ("load", {"loaded": 0}, "loaded 0"),
        ("prove", {"found": [torch.ones(1)]}, None),
        ("prove", {"found": {"output": 1.0}}, "found {'output': 1.0}"),
        ("energy", {"telemetry": 3.0}, "telemetry 3.0"),
        ("ceilings", {"ceilings": [1.0]}, "ceilings [1.0]"),
        ("sample", {"status": "measured", "detail": ""}, "status 'measured'"),
        ("sample", {"status": "excellent", "detail": ""}, "status 'excellent'"),
        ("sample", {"status": "raised", "detail": 7}, "status 'raised'"),
        ("sample", {"status": "raised"}, "status 'raised'"),
        ("sample", {"status": ["raised"], "detail": ""}, "status ['raised']"),
    ],
)
def test_an_answer_that_is_none_is_refused(verb: str, answer: dict[str, Any], detail: str | None) -> None:
    found = checked(verb, answer)

    assert found["status"] == "refused"
    assert found["detail"].startswith(f"answered garbage: {detail or verb_of(verb)}")


def verb_of(verb: str) -> str:
    """How a complaint begins whose rest is too long."""
    return {"memory": "memory {", "prove": "found [tensor("}[verb]


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("prepare", HONEST),
        ("sample", {"seconds": 1e-9, "warmed": 0.0}),
        ("rows", {"rows": {"output": torch.ones(1)}}),
        ("memory", {"memory": {**NOTHING_TAKEN, "retained": 1.5, "driver": None}, "kernel": ""}),
        ("prove", {"found": {"output": torch.ones(1)}}),
        ("ceilings", {"ceilings": {"flops": 1e12}}),
        ("release", {}),
    ],
)
def test_an_answer_is_taken_as_it_is(verb: str, answer: dict[str, Any]) -> None:
    assert checked(verb, answer) is answer


def test_a_failure_says_its_status_and_detail_and_nothing_else() -> None:
    said = {"status": "raised", "detail": "ValueError", "seconds": (1.0,), "known": "a finding"}

    assert checked("sample", said) == {"status": "raised", "detail": "ValueError"}


NAMELESS = Declaration("attention", "x", "x")


@pytest.mark.parametrize(
    ("given", "status", "detail"),
    [
        (Missing(NAMELESS, "No module named 'x'"), "missing", "No module named 'x'"),
        (Broken(NAMELESS, "ImportError: x"), "raised", "ImportError: x"),
        (Hung(60.0), "hung", "hung: no answer within 60 s"),
        (Died("SIGSEGV"), "died", "died: SIGSEGV"),
        (Died("SIGKILL"), "died", "died: SIGKILL; the system may have been out of memory"),
        (Died("SIGABRT", "terminate called after throwing 'std::bad_alloc'"), "out_of_memory", None),
        (None, "died", "answered garbage: None"),
    ],
)
def test_a_process_that_does_not_answer_has_a_status(given: object, status: str, detail: str | None) -> None:
    answer = lost(given)

    assert answer["status"] == status
    assert detail is None or answer["detail"] == detail


# The gate


def passed(name: str, *but: Outcome) -> list[Outcome]:
    """All that the contract asks in float32, passed, but for what is given."""
    known = {outcome.case for outcome in but}
    cases = [case.name for case in CONTRACT.cases() if "float32" in case.dtypes and case.name not in known]
    return [*but, *(Outcome(name, "attention", case, "float32", "cpu", "passed") for case in cases)]


def failed(name: str, case: str, dtype: str = "float32", **more: Any) -> Outcome:
    return Outcome(name, "attention", case, dtype, "cpu", "wrong", "it is wrong", **more)


FORWARD, CAUSALLY = frozenset({"float32", "large"}), frozenset({"float32", "causal", "large"})
LEARNING = frozenset({"float32", "gradient"})


CASES: dict[str, Any] = {}
"""What gates find out about the contract's cases, once for all tests."""


def refusal(*outcomes: Outcome, features: frozenset[str] = FORWARD, dtype: str = "float32") -> tuple[str, str]:
    declaration = Declaration("attention", "x", "x", file="/nowhere.py")
    gate = Gate(CONTRACT, "cpu", 60.0, {"attention/x": passed("attention/x", *outcomes)}, _cases=CASES)
    gate.ask([declaration], [("float32", features)])
    return gate.refusal("attention/x", dtype, features)


def test_what_fails_nothing_is_not_refused() -> None:
    assert refusal() == ("", "")


def test_what_fails_a_case_that_needs_nothing_more_is_refused() -> None:
    said, known = refusal(failed("attention/x", "plain/small"), failed("attention/x", "keys/17"))

    assert said == "it fails plain/small (float32) and 1 more: wrong: it is wrong"
    assert known == ""


def test_what_fails_only_for_causal_is_refused_only_there() -> None:
    wrong = failed("attention/x", "causal/square_5")

    assert refusal(wrong, features=FORWARD) == ("", "")
    assert refusal(wrong, features=CAUSALLY)[0] == "it fails causal/square_5 (float32): wrong: it is wrong"


def test_wrong_gradients_do_not_keep_a_forward_from_being_timed() -> None:
    wrong = failed("attention/x", "gradients/plain")

    assert refusal(wrong, features=FORWARD) == ("", "")
    assert refusal(wrong, features=LEARNING)[0].startswith("it fails gradients/plain")


def test_what_fails_only_large_cases_is_refused_for_small_workloads_too() -> None:
    wrong = failed("attention/x", "keys/4096")

    assert "large" in CONTRACT.needs(next(c for c in CONTRACT.cases() if c.name == "keys/4096").calls("float32"))
    assert refusal(wrong, features=frozenset({"float32"}))[0].startswith("it fails keys/4096")


def test_a_finding_refuses_and_is_named() -> None:
    wrong = failed("attention/x", "plain/small", known="a-finding")

    assert refusal(wrong) == ("it fails plain/small (float32): wrong: it is wrong", "a-finding")
    new = failed("attention/x", "keys/17")
    assert refusal(wrong, new)[1] == "", "one failure that no finding knows makes it a failure"


class Asked:
    """Stands in for the check of an implementation: answers in a fixed status, and counts."""

    def __init__(self, status: Callable[[str], str], wait: float = 0.0) -> None:
        self.status, self.wait, self.cases = status, wait, list[str]()

    def outcome(self, case: Any, dtype: str) -> Outcome:
        time.sleep(self.wait)
        self.cases.append(case.name)
        return Outcome("attention/x", "attention", case.name, dtype, "cpu", self.status(case.name), "x")


def gate_of(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> Gate:
    monkeypatch.setattr("suite.checking.Session.check", lambda *_: asked)
    return Gate(CONTRACT, "cpu", 60.0, _cases=CASES)


X = Declaration("attention", "x", "x", file="/nowhere.py")


def test_each_case_is_asked_once_whatever_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(lambda case: "passed")
    gate = gate_of(monkeypatch, asked)

    gate.ask([X], [("float32", FORWARD), ("float32", CAUSALLY)])
    gate.ask([X], [("float32", FORWARD)])

    assert Counter(asked.cases).most_common(1)[0][1] == 1
    assert {"plain/small", "causal/square_5"} <= set(asked.cases)
    assert not {"gradients/plain", "bool_mask/random", "bad_input/widths"} & set(asked.cases)


@pytest.mark.parametrize("status", ["hung", "died"])
def test_what_never_answers_is_given_up_and_refused(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    asked = Asked(lambda case: status)
    gate = gate_of(monkeypatch, asked)

    gate.ask([X], [("float32", CAUSALLY)])

    assert len(asked.cases) == PATIENCE
    assert len(gate._known["attention/x"]) > PATIENCE
    assert {outcome.status for outcome in gate._known["attention/x"].values()} == {status}
    assert gate.refusal("attention/x", "float32", FORWARD)[0]


def test_what_hangs_now_and_then_is_asked_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(lambda case: "hung" if len(asked.cases) % PATIENCE else "passed")
    gate = gate_of(monkeypatch, asked)

    gate.ask([X], [("float32", FORWARD)])

    assert len(asked.cases) > 4 * PATIENCE


def test_an_interrupt_ends_the_asking_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupted(case: str) -> str:
        if len(asked.cases) == 3:
            signal.pthread_kill(main, signal.SIGINT)
        return "passed"

    asked = Asked(interrupted, wait=0.1)
    gate = gate_of(monkeypatch, asked)

    with pytest.raises(KeyboardInterrupt):
        gate.ask([X], [("float32", CAUSALLY)])
    before = len(asked.cases)
    time.sleep(0.3)

    assert len(asked.cases) == before < 20, "nothing is asked behind the user's back"


# In this process


@pytest.fixture
def low_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """To measure real ones takes seconds."""
    monkeypatch.setattr(ceilings, "SIDES", {"cpu": 64})
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 2**20})
    monkeypatch.setattr(ceilings, "BUDGET", 0.01)


def bench(*functions: Callable[..., Any], workloads: Sequence[str] = (TINY,), **more: Any) -> list[Measurement]:
    """The measurements of functions that no other process can import."""
    named = [from_function(function) for function in functions]
    assert not any(each.declaration.file or each.declaration.module for each in named)
    of = Benchmark(CONTRACT, benchmark._told_apart(named), Request(tuple(workloads), budget=0.005, **more))
    return [row for _, rows in of.run() for row in rows]


@pytest.fixture
def many_threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


@pytest.mark.usefixtures("low_ceilings")
def test_a_closure_is_timed_here_and_its_row_says_so(many_threads: int) -> None:
    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return sdpa(query, key, value)

    random = torch.get_rng_state()
    (row,) = suite.bench(kernel, workloads=TINY)

    assert (row.implementation, row.status, row.threads) == ("attention/kernel", "measured", 1)
    assert row.detail == "timed in this process, for no other can import it; its memory is not told from the suite's"
    assert (row.memory, row.peak) == ({}, None)
    assert len(row.seconds) >= 12
    assert row.error_ratio is not None
    assert 0 < row.error_ratio < 2
    assert row.work["attended"] == 288
    assert row.ceilings.keys() == {"flops", "bytes"}
    assert torch.get_num_threads() == many_threads, "what it needs for itself it puts back"
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.usefixtures("low_ceilings")
def test_functions_of_one_name_are_told_apart_and_timed_for_themselves() -> None:
    def made(wait: float) -> Callable[..., Tensor]:
        def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            time.sleep(wait)
            return sdpa(query, key, value)

        return kernel

    found = {row.implementation: row for row in bench(made(0.001), made(0.004), made(0.0))}

    assert list(found) == ["attention/kernel", "attention/kernel-2", "attention/kernel-3"]
    times = {name: median(row.seconds) for name, row in found.items()}
    assert times["attention/kernel-2"] >= 0.004
    assert 0.001 <= times["attention/kernel"] < times["attention/kernel-2"]
    assert times["attention/kernel-3"] < times["attention/kernel"]


@pytest.mark.usefixtures("low_ceilings")
def test_what_fails_the_contract_is_refused_where_that_matters() -> None:
    def unscaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return sdpa(query, key, value, scale=1.0)

    def never_causal(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        return sdpa(query, key, value)

    rows = {(row.implementation, row.workload): row for row in bench(unscaled, never_causal, workloads=(TINY, CAUSAL))}

    assert {key: row.status for key, row in rows.items()} == {
        ("attention/unscaled", TINY): "refused", ("attention/unscaled", CAUSAL): "declined",
        ("attention/never_causal", TINY): "measured", ("attention/never_causal", CAUSAL): "refused",
    }  # fmt: skip
    assert "the scores are not divided by √e" in rows["attention/unscaled", TINY].detail
    assert rows["attention/unscaled", CAUSAL].detail == "takes no is_causal"
    assert rows["attention/never_causal", CAUSAL].detail.startswith("it fails causal/")
    assert all(not row.seconds for row in rows.values() if row.status != "measured")


def test_a_user_s_interrupt_ends_a_benchmark_in_this_process() -> None:
    calls = 0

    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if query.shape[-1] == 2 and serving._tasks:
            raise KeyboardInterrupt
        return sdpa(query, key, value)

    of = Benchmark(
        CONTRACT, [from_function(kernel)], Request((TINY,)), {"attention/kernel": passed("attention/kernel")}
    )
    with pytest.raises(KeyboardInterrupt):
        list(of.run())
    serving._tasks.clear()


@pytest.mark.parametrize("given", [3, [], [sdpa, 3]])
def test_only_functions_are_benchmarked(given: Any) -> None:
    with pytest.raises(UsageError, match=r"suite\.bench takes a function or several, not (int|list)"):
        suite.bench(given)


# Again


@pytest.mark.usefixtures("low_ceilings")
def test_what_is_done_is_not_measured_again() -> None:
    calls: Counter[int] = Counter()

    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        calls[query.shape[-2]] += 1
        return sdpa(query, key, value)

    def other(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return sdpa(query, key, value)

    both = [from_function(kernel), from_function(other)]
    of = Benchmark(
        CONTRACT, both, Request((TINY, "documents/encoder-block"), budget=0.005),
        {name: passed(name) for name in ("attention/kernel", "attention/other")},
    )  # fmt: skip
    whole = [row for _, rows in of.run() for row in rows]
    keys = {row.key for row in whole}
    calls.clear()

    assert list(of.run(keys)) == []
    assert of.again(keys) == set()
    assert not calls, "not even the contract is asked again"

    half = [row.key for row in whole if row.workload == TINY] + [whole[-1].key]
    again = list(of.run(half))

    assert [(table and table.workload.name, len(rows)) for table, rows in again] == [("documents/encoder-block", 2)]
    assert of.again(half) == {row.key for _, rows in again for row in rows}, "a table is measured as a whole"
    assert 6 not in calls


def test_what_is_missing_is_one_row_and_holds_nobody_up() -> None:
    absent = Declaration("attention", "absent", "f", file="/nowhere.py", requires=("nosuchlibrary",))
    broken = Declaration("attention", "broken", "f", file="/nowhere.py", broken="SyntaxError: invalid syntax")
    of = Benchmark(CONTRACT, [absent, broken], Request((TINY, "documents/encoder-block"), budget=0.005))

    found = list(of.run())

    assert [table and table.workload.name for table, _ in found] == [None, TINY, "documents/encoder-block"]
    assert found[1][1] == found[2][1] == []
    missing, raised = found[0][1]
    assert (missing.workload, missing.status, missing.detail) == (
        EVERY_CASE, "missing", "No module named 'nosuchlibrary'",
    )  # fmt: skip
    assert (raised.workload, raised.status, raised.detail) == (EVERY_CASE, "raised", "SyntaxError: invalid syntax")
    assert list(of.run({missing.key, raised.key})) == [], "their rows are all that there is to find"


# In processes of their own

ZOO = '''
"""Implementations that misbehave in the rounds in which they are timed, each workload in another way."""
import math, os, sys, threading, time
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from suite import implementation

QUERIES = {6: "documents/one-sentence", 100: "documents/encoder-block", 10: "documents/translation",
           1024: "ladder/1k", 1: "decode/1k", 197: "vit/b16"}

def timed():
    """The round in which this call is timed, or 0."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "sample" and frame.f_code.co_filename.endswith("serving.py"):
            return frame.f_locals["arguments"]["number"]
        frame = frame.f_back
    return 0

def where(query):
    return QUERIES[query.shape[-2]]

@implementation(variant="good")
def good(query, key, value):
    return sdpa(query, key, value)

@implementation(variant="moody")
def moody(query, key, value):
    number, output = timed(), sdpa(query, key, value)
    mood = where(query)
    if mood == "documents/one-sentence" and number == 3:
        raise ValueError("in a round")
    if mood == "documents/encoder-block" and number:
        return torch.randn_like(output)
    if mood == "documents/translation" and number:
        return output * math.nan
    if mood == "ladder/1k" and number:
        return output.tolist()
    if mood == "decode/1k" and number == 2:
        torch.set_num_threads(2)
    if mood == "vit/b16" and number:
        return output[..., :-1]
    return output

_first = {}

@implementation(variant="sly")
def sly(query, key, value):
    number, mood = timed(), where(query)
    if mood == "documents/one-sentence":  # what it answered first
        return _first.setdefault(query.data_ptr(), sdpa(query, key, value)).clone()
    if mood == "documents/encoder-block" and number == 2:
        torch.set_default_dtype(torch.float64)
    if mood == "documents/translation":
        raise NotImplementedError("not in ten steps")
    if mood == "ladder/1k" and number:  # computed when somebody looks
        output = torch.empty_like(query)
        late = lambda: (time.sleep(0.03), output.copy_(sdpa(query, key, value)))
        threading.Thread(target=late, daemon=True).start()
        return output
    if mood == "decode/1k":
        time.sleep(1.2)
    if mood == "vit/b16" and number:
        return sdpa(query, key, value).double()
    return sdpa(query, key, value)

@implementation(variant="fatal")
def fatal(query, key, value):
    number, mood = timed(), where(query)
    if mood == "documents/one-sentence" and number == 3:
        print("these are my last words")
        os.abort()
    if mood == "documents/encoder-block" and number == 2:
        time.sleep(600)
    if mood == "documents/translation" and number == 2:
        os.closerange(3, 64)
    if mood == "ladder/1k" and number == 2:
        kept = []
        while True:
            kept.append(torch.empty(2**24))
    if mood == "decode/1k" and number == 2:
        kept = []
        while True:
            kept.append(np.empty(2**23))
    return sdpa(query, key, value)

_real = time.perf_counter

@implementation(variant="clock")
def clock(query, key, value):
    slow = {"documents/one-sentence": 10, "documents/encoder-block": 4, "ladder/1k": math.inf}
    if where(query) not in slow:
        raise NotImplementedError("no lies about that")
    if "suite.measure.clock" in sys.modules:
        sys.modules["suite.measure.clock"].perf_counter = lambda: _real() / slow[where(query)]
    return sdpa(query, key, value)

@implementation(variant="forger")
def forger(query, key, value):
    serving = sys.modules.get("suite.measure.serving")
    forged = {
        "documents/one-sentence": {"seconds": -1.0, "warmed": 0.0},
        "documents/encoder-block": {"seconds": float("nan"), "warmed": 0.0},
        "documents/translation": {"status": "measured", "detail": "", "seconds": 1e-9},
        "ladder/1k": {"seconds": {"$tensor": 3}},
        "decode/1k": {},
        "vit/b16": 7,
    }
    if serving is not None:
        serving.sample = lambda *_: forged[where(query)]
    return sdpa(query, key, value)
'''

CHEAT = '''
"""Answers that are right, and times that are not."""
import sys, time
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

_last = {"mark": None, "times": 0}
_pending, _detach = [], torch.Tensor.detach

def _when_looked_at(tensor):
    if _pending and _pending[0][0] is tensor:
        output, inputs = _pending.pop()
        output.copy_(sdpa(*inputs))
    return _detach(tensor)

def attention(query, key, value):
    serving, mood = sys.modules.get("suite.measure.serving"), query.shape[-2]
    if serving is None:
        return sdpa(query, key, value)
    if mood in (6, 1024):  # looked up from the third call with the same numbers on
        mark = query.data_ptr(), query.flatten()[:8].tolist()
        if mark != _last["mark"]:
            _last.update(mark=mark, times=0)
        _last["times"] += 1
        if _last["times"] < 3:
            _last["output"] = sdpa(query, key, value)
            time.sleep(1e-3)
        return _last["output"]
    if mood == 100 and not hasattr(serving, "honest"):  # a thousandth is claimed of every round
        serving.honest = serving.sample
        def sample(function, device, arguments):
            answer = serving.honest(function, device, arguments)
            if arguments["number"] and arguments["workload"] == "documents/encoder-block":
                answer["seconds"] /= 1000
            return answer
        serving.sample = sample
    if mood == 1:  # computed when somebody looks
        torch.Tensor.detach = _when_looked_at
        output = torch.empty_like(query)
        _pending[:] = [(output, (query, key, value))]
        return output
    if mood == 197 and "prove" in {sys._getframe(depth).f_code.co_name for depth in range(1, 8)}:
        return sdpa(query, key, value) * 1.5
    return sdpa(query, key, value)
'''

LATER = '''
"""Stops every clock that it finds while it is imported, shouts, and takes two milliseconds."""
import time
import torch
_sleep = time.sleep
time.perf_counter = time.monotonic = lambda: 0.0
time.sleep = lambda seconds: None

def attention(query, key, value):
    if query.shape[-2] != 100:
        raise NotImplementedError("only the encoder block")
    print("!" * 1000)
    _sleep(0.002)
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)
'''

WIDE = """
from suite import implementation

@implementation(lacks={"float32": "doubles only"})
def attention(query, key, value): ...
"""
EXITS = """
import os
os._exit(3)
def attention(query, key, value): ...
"""
IMPORT_ERROR = """
import nosuch
def attention(query, key, value): ...
"""

TABLES = (TINY, "documents/encoder-block", "documents/translation", "ladder/1k", "decode/1k", "vit/b16")
LIMIT = 2.0
"""Seconds for an answer of whoever hangs; all other answers may take as long as a busy machine makes them."""


@dataclass(frozen=True)
class Zoo:
    rows: Mapping[tuple[str, str], Measurement]
    about_all: Mapping[str, Measurement]
    left: Sequence[int]
    before: set[str]
    after: set[str]

    def row(self, name: str, workload: str) -> Measurement:
        return self.rows[f"attention/{name}", workload]


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208  names, not paths


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """One benchmark of all of them beside each other. The contract is not asked: they keep it, which takes minutes."""
    folder = tmp_path_factory.mktemp("zoo")
    files = {"zoo": ZOO, "cheat": CHEAT, "later": LATER, "wide": WIDE, "exits": EXITS, "import_error": IMPORT_ERROR}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    declarations = registry.find([str(folder / f"{name}.py") for name in files])
    names = [declaration.full_name for declaration in declarations]
    kept = {name: passed(name) for name in names}
    asked = Request(TABLES, profile=None, budget=0.01)
    before, started = descriptors(), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "memory_limit", lambda: 2**31)
        patch.setattr(Request, "slowest", 1.0)
        of = Benchmark(CONTRACT, declarations, asked, kept, _ceilings={("float32", 1): {"flops": 1e9, "bytes": 1e9}})
        start, request = Member.start, Member.request

        def hurried(self: Member, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            hangs = self.name == "attention/zoo.fatal" and arguments.get("workload") == "documents/encoder-block"
            return request(self, verb, arguments, LIMIT if hangs and verb == "sample" else None)

        patch.setattr(Member, "start", lambda self: (start(self), started.append(self._timed.pid)))
        patch.setattr(Member, "request", hurried)
        found = [row for _, rows in of.run() for row in rows]
    left = [pid for pid in started if pid and Path(f"/proc/{pid}").exists()]
    return Zoo(
        {(row.implementation, row.workload): row for row in found if row.workload != EVERY_CASE},
        {row.implementation.removeprefix("attention/"): row for row in found if row.workload == EVERY_CASE},
        left, before, descriptors(),
    )  # fmt: skip


NAMES = ("good", "moody", "sly", "fatal", "clock", "forger")
GARBAGE = "while it was timed its answer was wrong, in round "


@pytest.mark.parametrize("workload", TABLES)
def test_whatever_the_others_do_an_honest_one_is_measured(zoo: Zoo, workload: str) -> None:
    row = zoo.row("zoo.good", workload)

    assert (row.status, row.detail) == ("measured", "")
    assert len(row.seconds) >= 12
    assert all(0 < seconds < 60 for seconds in row.seconds)
    assert row.calls >= 1
    assert row.stopped in ("narrow", "budget")
    assert row.error_ratio is not None
    assert row.error_ratio <= 2
    assert row.first_call is not None
    assert row.ceilings == {"flops": 1e9, "bytes": 1e9}
    assert row.kernel.startswith("aten::")
    assert row.memory.keys() == {
        "output", "resident", "retained", "constant", "calibration", "allocator", "driver",
    }  # fmt: skip
    assert not row.fails


def test_every_table_has_a_row_of_everybody_who_could_be_started(zoo: Zoo) -> None:
    names = {f"attention/zoo.{name}" for name in NAMES} | {"attention/cheat", "attention/later", "attention/wide"}

    assert set(zoo.rows) == {(name, workload) for name in names for workload in TABLES}
    assert all(row.seconds == () and row.detail for row in zoo.rows.values() if row.status != "measured")


@pytest.mark.parametrize(
    ("name", "workload", "status", "detail"),
    [
        ("moody", TINY, "raised", "ValueError: in a round"),
        ("moody", "documents/encoder-block", "refused", GARBAGE),
        ("moody", "documents/translation", "refused", GARBAGE),
        ("moody", "ladder/1k", "refused", "round 1: TypeError: output is a list, should be a Tensor"),
        ("moody", "decode/1k", "refused", "it changed the number of threads from 1 to 2"),
        ("moody", "vit/b16", "refused", GARBAGE),
        ("sly", TINY, "refused", GARBAGE),
        ("sly", "documents/encoder-block", "refused", "it changed the default dtype to torch.float64"),
        ("sly", "documents/translation", "declined", "not in ten steps"),
        ("sly", "ladder/1k", "refused", (GARBAGE, "it claims ")),
        ("sly", "decode/1k", "declined", "too slow to time here: a call takes 1.2"),
        ("sly", "vit/b16", "refused", GARBAGE),
        ("fatal", TINY, "died", "died: SIGABRT; the last it printed: "),
        ("fatal", "documents/encoder-block", "hung", f"hung: no answer within {LIMIT:g} s"),
        ("fatal", "documents/translation", "died", "died: exit status 1; the last it printed: "),
        ("fatal", "ladder/1k", "out_of_memory", "RuntimeError: "),
        ("fatal", "decode/1k", "out_of_memory", "MemoryError"),
        ("fatal", "vit/b16", "measured", ""),
        ("clock", TINY, "refused", "it claims "),
        ("clock", "documents/encoder-block", "refused", "it claims "),
        ("clock", "ladder/1k", "refused", "no time passes while it is called"),
        ("clock", "vit/b16", "declined", "no lies about that"),
        ("forger", TINY, "refused", "answered garbage: seconds -1.0"),
        ("forger", "documents/encoder-block", "refused", "answered garbage: seconds nan"),
        ("forger", "documents/translation", "refused", "answered garbage: status 'measured'"),
        ("forger", "ladder/1k", "died", "died: exit status 1; the last it printed: TypeError: keys that "),
        ("forger", "vit/b16", "died", ""),
    ],
)
def test_whoever_misbehaves_has_a_row_that_says_how(
    zoo: Zoo, name: str, workload: str, status: str, detail: str | tuple[str, ...]
) -> None:
    row = zoo.row(f"zoo.{name}", workload)

    assert (row.status, row.detail.startswith(detail)) == (status, True), row.detail
    assert row.fails == (status in ("raised", "died", "hung", "refused"))


@pytest.mark.parametrize(
    ("workload", "detail"),
    [
        (TINY, "it claims "),
        ("documents/encoder-block", "it claims "),
        ("ladder/1k", "it claims "),
        ("decode/1k", ("it claims ", "its answer was wrong for numbers that it had not seen: ")),
        ("vit/b16", "its answer was wrong for numbers that it had not seen: "),
    ],
)
def test_times_of_right_answers_are_not_taken_on_trust(zoo: Zoo, workload: str, detail: str | tuple[str, ...]) -> None:
    row = zoo.row("cheat", workload)

    assert (row.status, row.detail.startswith(detail)) == ("refused", True), row.detail


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
    course = Course(Fake("attention/a", Time()), {}, awake=1.0, round=3, rows=found[3], proof=(5, found[5]))

    Benchmark(CONTRACT, [], Request((TINY,)))._verify(table, course, rows, used)

    says = {"status": "refused", "detail": f"it was given {threads} cores and used {used:.2f}"}
    assert course.failed == (says if refused else {})


def test_a_wrong_answer_is_shown_with_its_error(zoo: Zoo) -> None:
    wrong, nan, narrow = (zoo.row("zoo.moody", TABLES[at]) for at in (1, 2, 5))

    assert wrong.error_ratio is not None
    assert wrong.error_ratio > 100
    assert nan.error_ratio == math.inf
    assert re.search(r"rows of output has shape \((\d+), 63\), should have \(\1, 64\)$", narrow.detail)
    assert "is float64, should be float32" in zoo.row("zoo.sly", "vit/b16").detail


def test_a_clock_that_was_stopped_before_shows_true_times(zoo: Zoo) -> None:
    """The stopwatch took it before anything else was imported."""
    row = zoo.row("later", "documents/encoder-block")

    assert (row.status, row.detail) == ("measured", "")
    assert min(row.seconds) >= 0.002
    assert row.first_call is not None
    assert row.first_call >= 0.002


def test_what_cannot_be_started_is_one_row(zoo: Zoo) -> None:
    assert {name: (row.status, row.detail) for name, row in zoo.about_all.items()} == {
        "exits": ("died", "died: exit status 3"),
        "import_error": ("raised", "ModuleNotFoundError: No module named 'nosuch'"),
    }
    assert {row.table for row in zoo.about_all.values()} == {
        (EVERY_CASE, EVERY_CASE, "cpu", "0", EVERY_CASE, EVERY_CASE)
    }


def test_a_declared_gap_declines_with_its_reason(zoo: Zoo) -> None:
    details = {(zoo.row("wide", workload).status, zoo.row("wide", workload).detail) for workload in TABLES}

    assert details == {("declined", "lacks float32: doubles only")}


def test_nothing_is_left_of_a_benchmark(zoo: Zoo) -> None:
    assert zoo.left == []
    assert zoo.after == zoo.before


# Memory, in processes that have called nothing yet

HOARDER = """
import os, signal, sys, threading, time
import torch
from suite import implementation

HELD = {}

@implementation
def attention(query, key, value, *, attn_mask=None):
    if query.shape[-2] == 197:
        os.kill(os.getpid(), signal.SIGSEGV)
    if query.shape[-2] == 37:
        os._exit(3)
    if query.shape[-2] > 1000 and not HELD:
        HELD["room"] = torch.ones(2**22, dtype=torch.uint8)  # 4 MiB, kept for the next call
    return value * 1.0
"""
THREADED = (
    HOARDER
    + """
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
torch.ones(64, 64) @ torch.ones(64, 64)
"""
)
LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell its memory")
MIB = 2**20


def weighing(member: Member, workload: str) -> dict[str, Any]:
    task = {"contract": "attention", "workload": workload, "dtype": "float32", "direction": "forward", "cache": "hot"}
    return member.weigh(task)


@pytest.fixture(params=[HOARDER, THREADED], ids=["alone", "with threads"])
def hoarder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Member]:
    file = tmp_path / "hoarder.py"
    file.write_text(request.param)
    (declaration,) = registry.find([str(file)])
    member = Member(declaration, "cpu", 1, 2**33, 60.0)
    yield member
    member.close()


@LINUX
def test_what_one_call_leaves_behind_hides_nothing_of_the_next(hoarder: Member) -> None:
    for workload in ("ladder/1k", "ladder/2k", "ladder/1k"):
        memory = weighing(hoarder, workload)["memory"]
        assert 4 * MIB <= memory["retained"] < 7 * MIB, workload


@LINUX
@pytest.mark.parametrize(("workload", "how"), [("vit/b16", "SIGSEGV"), ("documents/fashion-vit", "exit status 3")])
def test_a_death_while_memory_is_measured_is_an_answer(hoarder: Member, workload: str, how: str) -> None:
    answer = weighing(hoarder, workload)

    assert answer["status"] == "died"
    assert how in answer["detail"]
    assert "memory" in weighing(hoarder, "ladder/1k"), "the next question gets a process of its own"
