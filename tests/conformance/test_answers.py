"""Whatever a submission answers, or does to the process or to its inputs, is an outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from checks import CONTRACT, NOWHERE, Function, check, only, subject
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite import worker
from attnsuite.cases import Call, NoReply, Reply
from attnsuite.conformance.findings import Finding
from attnsuite.conformance.patience import HUNG_ALTOGETHER, HUNG_IN_A_ROW
from attnsuite.conformance.questions import Question, Questions
from attnsuite.conformance.runner import Check
from attnsuite.conformance.session import CheckRequest
from attnsuite.model import Reason, Status
from attnsuite.registry import Broken, Missing
from attnsuite.worker import Died, Hung


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        (lambda q, k, v: None, "wrong", "returned None, should return a Tensor"),
        (lambda q, k, v: sdpa(q, k, v).numpy(), "wrong", "returned a numpy.ndarray, should return a Tensor"),
        (lambda q, k, v: (sdpa(q, k, v),), "wrong", "returned a tuple, should return a Tensor"),
        (lambda q, k, v: sdpa(q, k, v).to("meta"), "wrong", "returned a tensor without data (device meta), should"),
        (lambda q, k, v: v.clone(), "wrong", "output has shape (2, 2, 7, 8), should have (2, 2, 5, 8)"),
        (lambda q, k, v: sdpa(q, k, v).double(), "wrong", "output is float64, should be float32"),
        (lambda q, k, v: sdpa(q, k, v) * math.nan, "wrong", "output[0, 0, 0, 0] is nan, should be"),
        (lambda q, k, v: 1 / 0, "raised", "ZeroDivisionError: division by zero"),
    ],
    ids=["none", "array", "tuple", "meta", "shape", "dtype", "nan", "exception"],
)
def test_whatever_comes_back_is_an_outcome(answer: Function, status: str, detail: str) -> None:
    outcome = only(check(answer, "plain/small"))

    assert outcome.status == status
    assert detail in outcome.detail


def test_one_nan_never_passes() -> None:
    def one_nan(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = sdpa(query, key, value)
        output[-1, -1, -1, -1] = math.nan
        return output

    outcome = only(check(one_nan, "plain/small"))

    assert outcome.status == "wrong"
    assert outcome.error_ratio == math.inf
    assert "1 of 160 elements" in outcome.detail


def test_an_output_on_another_device_is_wrong() -> None:
    def elsewhere(calls: Sequence[Call]) -> tuple[Reply, ...]:
        return tuple(replace(reply, device="cuda") for reply in worker.ask(sdpa, calls))

    outcome = only(check(sdpa, "plain/small", ask=elsewhere))

    assert (outcome.status, outcome.detail) == ("wrong", "the output is on cuda, should be on cpu")


@pytest.mark.parametrize(
    ("failure", "status", "words"),
    [
        (Died("SIGSEGV", "ouch"), Status.DIED, "died: SIGSEGV; the last it printed: ouch"),
        (Hung(60.0), Status.HUNG, "hung: no result within 60 s; --time-limit 120 allows more"),
        (Missing(NOWHERE, "No module named 'x'"), Status.MISSING, "No module named 'x'"),
        (Broken(NOWHERE, "ImportError: x"), Status.RAISED, "ImportError: x"),
    ],
    ids=["died", "hung", "missing", "broken"],
)
def test_what_became_of_a_process_is_an_outcome(failure: NoReply, status: Status, words: str) -> None:
    outcome = only(check(sdpa, "plain/small", ask=lambda calls: failure))

    assert (outcome.status, outcome.detail) == (status, words)
    assert outcome.seconds == (60.0 if status == Status.HUNG else None)


def test_bad_input_is_asked_in_a_process_of_its_own() -> None:
    here, apart = (partial(told, Broken(NOWHERE, where)) for where in ("here", "apart"))

    outcomes = check(sdpa, "plain/small", "bad_input/narrow_keys", ask=here, ask_apart=apart)

    assert [outcome.detail for outcome in outcomes] == ["here", "apart"]


def test_while_another_process_answers_the_truth_is_found_and_the_next_question_is_made() -> None:
    names = ("plain/small", "causal/square_5", "bad_input/narrow_keys")
    at_work: list[tuple[int, bool]] = []
    made: list[Question] = []

    class Watched(Questions):
        def question(self, *asked: Any) -> Question:
            made.append(super().question(*asked))
            return made[-1]

    def elsewhere(calls: Sequence[Call], meanwhile: Callable[[], object]) -> tuple[Reply, ...]:
        replies = worker.ask(sdpa, calls)
        number = len(made)
        assert "truth" not in vars(made[-1])
        meanwhile()
        at_work.append((len(made) - number, "truth" in vars(made[number - 1])))
        return replies

    asked = CheckRequest(names, ("float32",)).asked(CONTRACT)
    of = subject(sdpa, ask_meanwhile=elsewhere, ask=None, ask_apart=None)
    outcomes = list(Check(of, Watched(CONTRACT, keep=False), asked).run())

    assert at_work == [(1, True), (1, True), (0, True)]
    assert [(each.case, each.status) for each in outcomes] == [(name, "passed") for name in names]


def told(failure: NoReply, calls: Sequence[Call]) -> NoReply:
    return failure


def test_changing_an_input_is_wrong() -> None:
    def scaling_in_place(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = sdpa(query, key, value)
        query.mul_(2)
        return output

    outcome = only(check(scaling_in_place, "plain/small"))

    assert (outcome.status, outcome.detail) == ("wrong", "changed its input query")


def test_an_output_that_is_an_input_is_wrong() -> None:
    outcome = only(check(lambda query, key, value: value, "behaviour/one_key_one_query"))

    assert (outcome.status, outcome.detail) == ("wrong", "the output shares memory with value")


def test_an_output_overwritten_by_a_later_call_is_wrong() -> None:
    buffers: dict[torch.Size, Tensor] = {}

    def into_one_buffer(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = sdpa(query, key, value)
        return buffers.setdefault(output.shape, torch.empty_like(output)).copy_(output)

    outcome = only(check(into_one_buffer, "behaviour/other_numbers"))

    assert outcome.status == "wrong"
    assert outcome.detail == "call 1 of 2: a later call changed this output"


def test_a_submission_that_writes_to_its_inputs_cannot_touch_the_truth() -> None:
    def answering_zeros(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        value.zero_()
        return sdpa(query, key, value)

    outcomes = check(answering_zeros, "plain/small")
    again = check(sdpa, "plain/small")

    assert only(outcomes).status == "wrong"
    assert only(again).status == "passed"


def test_what_always_hangs_is_given_up_and_every_question_still_has_a_row() -> None:
    asked: list[Sequence[Call]] = []

    def hangs(calls: Sequence[Call]) -> NoReply:
        asked.append(calls)
        return Hung(60.0)

    outcomes = check(lambda query, key, value: value, "plain", ask=hangs)

    assert len(asked) == HUNG_IN_A_ROW < len(outcomes)
    assert {outcome.status for outcome in outcomes} == {"hung"}
    assert outcomes[-1].reason == Reason.NOT_ASKED


def test_what_hangs_at_each_third_question_is_given_up_too() -> None:
    asked: list[Sequence[Call]] = []

    def hangs(calls: Sequence[Call]) -> NoReply:
        asked.append(calls)
        return Hung(60.0) if len(asked) % 3 == 0 else Died("SIGSEGV")

    outcomes = check(lambda query, key, value: value, "plain", "keys", "queries", "both", ask=hangs)

    assert len(asked) == 3 * HUNG_ALTOGETHER < len(outcomes)
    assert outcomes[-1].reason == Reason.NOT_ASKED
    assert outcomes[-1].detail == "hung: not asked, because 10 answers before it did not come"


@pytest.mark.parametrize("knows", [True, False])
def test_where_hanging_is_known_what_may_hang_is_given_up_and_nothing_else(knows: bool) -> None:
    def hangs_in_double(calls: Sequence[Call]) -> tuple[Reply, ...] | NoReply:
        asked.append(calls)
        return Hung(60.0) if calls[0].tensors["query"].dtype == torch.float64 else worker.ask(sdpa, calls)

    asked: list[Sequence[Call]] = []
    known = Finding("slow", ("*",), ("*",), {}, "It hangs.", "It may not.", "", dtypes=("float64",))

    outcomes = check(sdpa, "keys", dtypes=("float32", "float64"), found=[known] if knows else [], ask=hangs_in_double)

    doubles = [outcome for outcome in outcomes if outcome.dtype == "float64"]
    others = [outcome for outcome in outcomes if outcome.dtype == "float32"]
    given_up = [outcome for outcome in outcomes if outcome.reason == Reason.NOT_ASKED]
    assert {outcome.status for outcome in doubles} == {"hung"}
    if knows:
        assert {outcome.status for outcome in others} == {"passed"}
        assert {outcome.known for outcome in doubles} == {"slow"}
        assert len(given_up) == len(doubles) - HUNG_IN_A_ROW
        assert len(asked) == len(others) + HUNG_IN_A_ROW
    else:
        assert any(outcome.dtype == "float32" for outcome in given_up), "nobody knew that the others would be answered"


def test_a_backward_pass_that_writes_to_the_output_gradient_is_wrong() -> None:
    class Spoils(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, output: Tensor) -> Tensor:
            return output.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            kept = gradient.clone()
            gradient.zero_()
            return kept

    outcome = only(check(lambda query, key, value: Spoils.apply(sdpa(query, key, value)), "gradients/plain"))

    assert (outcome.status, outcome.detail) == ("wrong", "changed its input output_gradient")
