"""Whoever is timed has kept the contract."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from attnsuite.benchmark import Benchmark, Request
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.conformance.check import MAX_CONSECUTIVE_TIMEOUTS, MAX_TIMEOUTS
from attnsuite.conformance.known import KnownBug
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract
from attnsuite.model import Outcome, Status, UsageError
from attnsuite.registry import Declaration

CONTRACT = contract("attention")


def failed(name: str, case: str, dtype: str = "float32", **more: Any) -> Outcome:
    return Outcome(name, "attention", case, dtype, "cpu", "failed", "it is wrong", **more)


FORWARD, CAUSALLY = frozenset({"float32", "large"}), frozenset({"float32", "causal", "large"})
LEARNING = frozenset({"float32", "gradient"})


Refusal = Callable[..., NoResult | None]


@pytest.fixture
def refusal(passed: Callable[..., list[Outcome]]) -> Refusal:
    """Says why the gate refuses one with these outcomes, and by which finding."""

    def of(*outcomes: Outcome, features: frozenset[str] = FORWARD, dtype: str = "float32") -> NoResult | None:
        declaration = Declaration("attention", "x", "x", file="/nowhere.py")
        gate = Gate(CONTRACT, "cpu", 60.0, {"attention/x": passed("attention/x", *outcomes)})
        gate.test([declaration], [("float32", features)])
        return gate.refusal("attention/x", dtype, features)

    return of


def test_what_fails_nothing_is_not_refused(refusal: Refusal) -> None:
    assert refusal() is None


def test_what_fails_a_case_that_needs_nothing_more_is_refused(refusal: Refusal) -> None:
    refused = refusal(failed("attention/x", "plain/small"), failed("attention/x", "keys/17"))

    assert refused == NoResult(Status.REFUSED, "it fails plain/small (float32) and 1 more: failed: it is wrong")


def test_what_fails_only_for_causal_is_refused_only_there(refusal: Refusal) -> None:
    wrong = failed("attention/x", "causal/square_5")

    assert refusal(wrong, features=FORWARD) is None
    assert refusal(wrong, features=CAUSALLY) == NoResult(
        Status.REFUSED, "it fails causal/square_5 (float32): failed: it is wrong"
    )


def test_wrong_gradients_do_not_keep_a_forward_from_being_timed(refusal: Refusal) -> None:
    wrong = failed("attention/x", "gradients/plain")

    assert refusal(wrong, features=FORWARD) is None
    assert str(refusal(wrong, features=LEARNING)).startswith("refused: it fails gradients/plain")


def test_what_fails_only_large_cases_is_refused_for_small_workloads_too(refusal: Refusal) -> None:
    wrong = failed("attention/x", "keys/4096")

    assert "large" in CONTRACT.needs(next(c for c in CONTRACT.cases() if c.name == "keys/4096").calls("float32"))
    assert str(refusal(wrong, features=frozenset({"float32"}))).startswith("refused: it fails keys/4096")


def test_a_finding_refuses_and_is_named(refusal: Refusal) -> None:
    wrong = failed("attention/x", "plain/small", known="a-finding")

    says = "it fails plain/small (float32): failed: it is wrong"
    assert refusal(wrong) == NoResult(Status.REFUSED, says, known="a-finding")
    new = failed("attention/x", "keys/17")
    assert refusal(wrong, new).known == "", "one failure that no finding knows makes it a failure"


class Asked:
    """Stands in for the check of an implementation: answers in a fixed status, and counts."""

    def __init__(self, status: Callable[[str], str], wait: float = 0.0) -> None:
        self.status, self.wait, self.cases = status, wait, list[str]()
        self.named = list[str]()

    def outcomes(self, asked: Iterable[tuple[Any, str]]) -> Iterator[Outcome]:
        for case, dtype in asked:
            time.sleep(self.wait)
            self.cases.append(case.name)
            yield Outcome("attention/x", "attention", case.name, dtype, "cpu", self.status(case.name), "x")

    def diagnosed_alone(self, outcome: Outcome) -> Outcome:
        self.named.append(outcome.case)
        return outcome


def gate_of(monkeypatch: pytest.MonkeyPatch, asked: Asked, time_limit: float = 60.0) -> Gate:
    monkeypatch.setattr("attnsuite.conformance.session.Session.check", lambda *_: asked)
    return Gate(CONTRACT, "cpu", time_limit)


X = Declaration("attention", "x", "x", file="/nowhere.py")


def test_each_case_is_asked_once_whatever_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(lambda case: "passed")
    gate = gate_of(monkeypatch, asked)

    gate.test([X], [("float32", FORWARD), ("float32", CAUSALLY)])
    gate.test([X], [("float32", FORWARD)])

    assert Counter(asked.cases).most_common(1)[0][1] == 1
    assert {"plain/small", "causal/square_5"} <= set(asked.cases)
    assert not {"gradients/plain", "bool_mask/random", "bad_input/widths"} & set(asked.cases)


@pytest.mark.parametrize("concerns", [True, False])
def test_what_a_finding_says_of_inputs_that_no_workload_has_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, concerns: bool
) -> None:
    of = ("attention/x",), ("layout/query_*",), {}, "It is wrong.", "It is.", ""
    finding = KnownBug("strided", *of, sometimes=("layout/key_offset",), concerns_workloads=concerns)
    monkeypatch.setattr("attnsuite.conformance.session.Session.known_bugs", lambda *_: [finding])
    shipped = replace(X, file="", module="attnsuite.implementations.attention.x")
    asked, others = Asked(lambda case: "passed"), Asked(lambda case: "passed")

    gate_of(monkeypatch, asked).test([shipped], [("float32", FORWARD)])
    gate_of(monkeypatch, others).test([X], [("float32", FORWARD)])

    spared = {"layout/query_sliced", "layout/query_offset", "layout/key_offset"}
    assert spared & set(asked.cases) == (spared if concerns else set())
    assert {"layout/key_sliced", "layout/value_offset"} <= set(asked.cases)
    assert spared <= set(others.cases), "findings are of those that ship"


def test_mistakes_get_names_where_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name for each of hundreds of wrong answers takes a minute, and a refusal shows one."""
    asked = Asked(lambda case: "failed")
    gate = gate_of(monkeypatch, asked)

    gate.test([X], [("float32", CAUSALLY)])

    shown = [gate.refusal("attention/x", "float32", features) for features in (FORWARD, CAUSALLY)]
    assert all(any(f"it fails {name} (float32)" in str(refused) for name in asked.named) for refused in shown)
    assert len(asked.named) < 10 < len(asked.cases)
    needed = [gate._needed("float32")[name, "float32"] for name in asked.named]
    assert not any(one <= other for one, other in combinations(needed, 2)), "a refusal shows the first"


def test_those_that_are_asked_at_once_share_questions_and_no_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The truth of a question takes longer than its answer, and is computed once for all."""
    sessions: list[Session] = []
    monkeypatch.setattr("attnsuite.benchmark.processes.cores", lambda: [0, 1, 2])
    monkeypatch.setattr(Session, "check", lambda self, *_: (sessions.append(self), Asked(lambda case: "passed"))[1])

    Gate(CONTRACT, "cpu", 60.0, threads=1).test([X, replace(X, name="y"), replace(X, name="z")], [("float32", FORWARD)])

    assert sorted(core for each in sessions for core in each.cores) == [0, 1, 2]
    assert len({id(each.inputs(CONTRACT)) for each in sessions}) == 1


def test_conformance_is_asked_on_as_many_threads_as_any_table_has(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(("documents/one-sentence",), threads=(1, 2))
    bench = Benchmark(CONTRACT, [X], request)
    monkeypatch.setattr(Gate, "test", lambda *_: None)

    gate = bench._gate(bench.tables())

    assert {table.threads for table in bench.tables()} == {1, 2}
    assert gate.threads == 2


@pytest.mark.parametrize("status", ["timeout", "crashed"])
def test_what_never_answers_is_given_up_and_refused(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    asked = Asked(lambda case: status)
    gate = gate_of(monkeypatch, asked)

    gate.test([X], [("float32", CAUSALLY)])

    assert len(asked.cases) == MAX_CONSECUTIVE_TIMEOUTS
    assert len(gate._known["attention/x"]) > MAX_CONSECUTIVE_TIMEOUTS
    assert {outcome.status for outcome in gate._known["attention/x"].values()} == {status}
    assert gate.refusal("attention/x", "float32", FORWARD)


@pytest.mark.parametrize("time_limit", [0.1, 60.0])
def test_what_hangs_now_and_then_is_asked_for_ten_minutes(monkeypatch: pytest.MonkeyPatch, time_limit: float) -> None:
    asked = Asked(lambda case: "passed" if len(asked.cases) % MAX_CONSECUTIVE_TIMEOUTS else "timeout")
    gate = gate_of(monkeypatch, asked, time_limit)

    gate.test([X], [("float32", FORWARD)])

    whole = len(gate._known["attention/x"])
    assert whole > MAX_CONSECUTIVE_TIMEOUTS * MAX_TIMEOUTS
    assert len(asked.cases) == (whole if time_limit == 0.1 else MAX_CONSECUTIVE_TIMEOUTS * MAX_TIMEOUTS)
    assert gate.refusal("attention/x", "float32", FORWARD)


def test_an_error_while_one_is_asked_lets_no_other_be_timed_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: str) -> str:
        if len(asked.cases) == 3:
            raise UsageError("it is not that")
        return "failed"

    asked = Asked(fails)
    gate = gate_of(monkeypatch, asked)
    with pytest.raises(UsageError):
        gate.test([X], [("float32", FORWARD)])
    other = replace(X, name="other")

    gate.test([other], [("float32", FORWARD)])

    assert gate.refusal(other.full_name, "float32", FORWARD)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What runs in a shell's background ignores interrupts, and so do the tests that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
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
        gate.test([X], [("float32", CAUSALLY)])
    before = len(asked.cases)
    time.sleep(0.3)

    assert len(asked.cases) == before < 20, "nothing is asked behind the user's back"
    over = gate._session().over
    assert over is not None
    assert over.is_set(), "nobody is waited for"


def test_what_was_tested_on_a_sample_is_asked_nothing_more() -> None:
    declaration = Declaration("attention", "x", "x", file="/nowhere.py")
    earlier = [Outcome("attention/x", "attention", "plain/small", "float32", "cpu", Status.PASSED)]
    gate = Gate(CONTRACT, "cpu", 60.0, {"attention/x": earlier}, sampled=["attention/x"])

    gate.test([declaration], [("float32", FORWARD)])

    assert (gate.wanted, gate.outcomes("attention/x")) == (1, earlier)
    assert gate.refusal("attention/x", "float32", FORWARD) is None
