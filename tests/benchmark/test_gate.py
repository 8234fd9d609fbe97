"""The gate: no time without conformance."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark
from attnsuite.conformance.check import MAX_CONSECUTIVE_TIMEOUTS, MAX_TIMEOUTS
from attnsuite.conformance.known import KnownBug
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract
from attnsuite.model import Outcome, Status, UsageError
from attnsuite.registry import Declaration

CONTRACT = contract("attention")
X = Declaration("attention", "x", "x", file="/nowhere.py")


def failed(name: str, case: str, dtype: str = "float32", **more: Any) -> Outcome:
    return Outcome(name, "attention", case, dtype, "cpu", "failed", "it is wrong", **more)


FORWARD, CAUSALLY = frozenset({"float32", "large"}), frozenset({"float32", "causal", "large"})
LEARNING = frozenset({"float32", "gradient"})


Refusal = Callable[..., NoResult | None]


@pytest.fixture
def refusal(passed: Callable[..., list[Outcome]]) -> Refusal:
    """Says why the gate refuses one with these outcomes, and by which finding."""

    def of(*outcomes: Outcome, features: frozenset[str] = FORWARD, dtype: str = "float32") -> NoResult | None:
        gate = Gate(CONTRACT, "cpu", 60.0, {"attention/x": passed("attention/x", *outcomes)})
        gate.test([X], [("float32", features)])
        return gate.refusal("attention/x", dtype, features)

    return of


ONE, MORE = "it fails {} (float32): failed: it is wrong", "it fails {} (float32) and 1 more: failed: it is wrong"


@pytest.mark.parametrize(
    ("cases", "features", "detail"),
    [
        ((), FORWARD, None),
        (("plain/small", "keys/17"), FORWARD, MORE),
        (("causal/square_5",), FORWARD, None),
        (("causal/square_5",), CAUSALLY, ONE),
        (("gradients/plain",), FORWARD, None),
        (("gradients/plain",), LEARNING, ONE),
        (("keys/4096",), frozenset({"float32"}), ONE),  # a large case counts for small workloads, too
    ],
)
def test_a_failure_refuses_the_workloads_that_need_no_more_features(
    refusal: Refusal, cases: Sequence[str], features: frozenset[str], detail: str | None
) -> None:
    refused = refusal(*(failed("attention/x", case) for case in cases), features=features)

    assert refused == (detail and NoResult(Status.REFUSED, detail.format(*cases)))


def test_a_finding_refuses_and_is_named(refusal: Refusal) -> None:
    wrong = failed("attention/x", "plain/small", known="a-finding")

    says = "it fails plain/small (float32): failed: it is wrong"
    assert refusal(wrong) == NoResult(Status.REFUSED, says, known="a-finding")
    new = failed("attention/x", "keys/17")
    assert refusal(wrong, new).known == "", "one failure that no finding knows makes it a failure"


class FakeCheck:
    """A fake check with fixed statuses that counts its tests."""

    def __init__(self, status: Callable[[str], str], wait: float = 0.0) -> None:
        self.status, self.wait, self.cases = status, wait, list[str]()
        self.named = list[str]()

    def outcomes(self, check: Iterable[tuple[Any, str]]) -> Iterator[Outcome]:
        for case, dtype in check:
            time.sleep(self.wait)
            self.cases.append(case.name)
            yield Outcome("attention/x", "attention", case.name, dtype, "cpu", self.status(case.name), "x")

    def diagnosed_alone(self, outcome: Outcome) -> Outcome:
        self.named.append(outcome.case)
        return outcome


def gate_of(monkeypatch: pytest.MonkeyPatch, check: FakeCheck, time_limit: float = 60.0) -> Gate:
    monkeypatch.setattr("attnsuite.conformance.session.Session.check", lambda *_: check)
    return Gate(CONTRACT, "cpu", time_limit)


def test_each_case_is_tested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check = FakeCheck(lambda case: "passed")
    gate = gate_of(monkeypatch, check)

    gate.test([X], [("float32", FORWARD), ("float32", CAUSALLY)])
    gate.test([X], [("float32", FORWARD)])

    assert Counter(check.cases).most_common(1)[0][1] == 1
    assert {"plain/small", "causal/square_5"} <= set(check.cases)
    assert not {"gradients/plain", "bool_mask/random", "bad_input/widths"} & set(check.cases)


@pytest.mark.parametrize("concerns", [True, False])
def test_known_bugs_of_unused_inputs_are_skipped(monkeypatch: pytest.MonkeyPatch, concerns: bool) -> None:
    of = ("attention/x",), ("layout/query_*",), {}, "It is wrong.", "It is.", ""
    finding = KnownBug("strided", *of, sometimes=("layout/key_offset",), concerns_workloads=concerns)
    monkeypatch.setattr("attnsuite.conformance.session.Session.known_bugs", lambda *_: [finding])
    shipped = replace(X, file="", module="attnsuite.implementations.attention.x")
    check, others = FakeCheck(lambda case: "passed"), FakeCheck(lambda case: "passed")

    gate_of(monkeypatch, check).test([shipped], [("float32", FORWARD)])
    gate_of(monkeypatch, others).test([X], [("float32", FORWARD)])

    spared = {"layout/query_sliced", "layout/query_offset", "layout/key_offset"}
    assert spared & set(check.cases) == (spared if concerns else set())
    assert {"layout/key_sliced", "layout/value_offset"} <= set(check.cases)
    assert spared <= set(others.cases), "findings are of those that ship"


def test_only_shown_failures_are_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagnoses of hundreds of failures take a minute, and a refusal shows one."""
    check = FakeCheck(lambda case: "failed")
    gate = gate_of(monkeypatch, check)

    gate.test([X], [("float32", CAUSALLY)])

    shown = [gate.refusal("attention/x", "float32", features) for features in (FORWARD, CAUSALLY)]
    assert all(any(f"it fails {name} (float32)" in str(refused) for name in check.named) for refused in shown)
    assert len(check.named) < 10 < len(check.cases)
    needed = [gate._needed("float32")[name, "float32"] for name in check.named]
    assert not any(one <= other for one, other in combinations(needed, 2)), "a refusal shows the first"


def test_parallel_checks_share_expected_values_and_no_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected values take longer than a call, and are computed once for all."""
    sessions: list[Session] = []
    monkeypatch.setattr("attnsuite.benchmark.processes.cores", lambda: [0, 1, 2])
    monkeypatch.setattr(Session, "check", lambda self, *_: (sessions.append(self), FakeCheck(lambda case: "passed"))[1])

    Gate(CONTRACT, "cpu", 60.0, threads=1).test([X, replace(X, name="y"), replace(X, name="z")], [("float32", FORWARD)])

    assert sorted(core for each in sessions for core in each.cores) == [0, 1, 2]
    assert len({id(each.inputs(CONTRACT)) for each in sessions}) == 1


def test_the_gate_has_the_largest_number_of_threads_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(("documents/one-sentence",), threads=(1, 2))
    bench = Benchmark(CONTRACT, [X], request)
    monkeypatch.setattr(Gate, "test", lambda *_: None)

    gate = bench._gate(bench.tables())

    assert {table.threads for table in bench.tables()} == {1, 2}
    assert gate.threads == 2


@pytest.mark.parametrize("status", ["timeout", "crashed"])
def test_consecutive_timeouts_and_crashes_end_the_tests(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    check = FakeCheck(lambda case: status)
    gate = gate_of(monkeypatch, check)

    gate.test([X], [("float32", CAUSALLY)])

    assert len(check.cases) == MAX_CONSECUTIVE_TIMEOUTS
    assert len(gate._known["attention/x"]) > MAX_CONSECUTIVE_TIMEOUTS
    assert {outcome.status for outcome in gate._known["attention/x"].values()} == {status}
    assert gate.refusal("attention/x", "float32", FORWARD)


@pytest.mark.parametrize("time_limit", [0.1, 60.0])
def test_the_total_of_timeouts_is_limited(monkeypatch: pytest.MonkeyPatch, time_limit: float) -> None:
    check = FakeCheck(lambda case: "passed" if len(check.cases) % MAX_CONSECUTIVE_TIMEOUTS else "timeout")
    gate = gate_of(monkeypatch, check, time_limit)

    gate.test([X], [("float32", FORWARD)])

    whole = len(gate._known["attention/x"])
    assert whole > MAX_CONSECUTIVE_TIMEOUTS * MAX_TIMEOUTS
    assert len(check.cases) == (whole if time_limit == 0.1 else MAX_CONSECUTIVE_TIMEOUTS * MAX_TIMEOUTS)
    assert gate.refusal("attention/x", "float32", FORWARD)


def test_after_an_error_other_implementations_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: str) -> str:
        if len(check.cases) == 3:
            raise UsageError("it is not that")
        return "failed"

    check = FakeCheck(fails)
    gate = gate_of(monkeypatch, check)
    with pytest.raises(UsageError):
        gate.test([X], [("float32", FORWARD)])
    other = replace(X, name="other")

    gate.test([other], [("float32", FORWARD)])

    assert gate.refusal(other.full_name, "float32", FORWARD)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_tests_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupted(case: str) -> str:
        if len(check.cases) == 3:
            signal.pthread_kill(main, signal.SIGINT)
        return "passed"

    check = FakeCheck(interrupted, wait=0.1)
    gate = gate_of(monkeypatch, check)

    with pytest.raises(KeyboardInterrupt):
        gate.test([X], [("float32", CAUSALLY)])
    before = len(check.cases)
    time.sleep(0.3)

    assert len(check.cases) == before < 20, "no test runs after the interrupt"
    cancelled = gate._session().cancelled
    assert cancelled is not None
    assert cancelled.is_set(), "nothing is awaited"


def test_a_tested_sample_suffices() -> None:
    earlier = [Outcome("attention/x", "attention", "plain/small", "float32", "cpu", Status.PASSED)]
    gate = Gate(CONTRACT, "cpu", 60.0, {"attention/x": earlier}, sampled=["attention/x"])

    gate.test([X], [("float32", FORWARD)])

    assert (gate.wanted, gate.outcomes("attention/x")) == (1, earlier)
    assert gate.refusal("attention/x", "float32", FORWARD) is None
