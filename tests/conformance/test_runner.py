"""Implementations × cases → outcomes: what is asked, what is declined, and which declarations are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from suite import registry, worker
from suite.asking import Call, Reply, Unanswered
from suite.conformance import findings
from suite.conformance.runner import CORE, HUNG_IN_A_ROW, Check, Questions, Subject
from suite.conformance.session import Request
from suite.contracts.attention.contract import CONTRACT
from suite.records import EVERY_CASE, Outcome, Reason, Status
from suite.registry import Broken, Declaration, Missing
from suite.worker import Died, Hung

Function = Callable[..., Any]

CASES = {case.name: case for case in CONTRACT.cases()}

NOWHERE = Declaration("attention", "mine", "attention", "")


def subject(function: Function, **declared: Any) -> Subject:
    """The function as the runner sees it, asked in this process."""
    parameters = registry.from_function(function).declaration.parameters
    ask = partial(worker.ask, function)
    taken = None if parameters is None else frozenset(parameters)
    return Subject("attention/mine", CONTRACT, **{"ask": ask, "ask_apart": ask, "parameters": taken} | declared)


def check(
    function: Function,
    *cases: str,
    dtypes: Sequence[str] = ("float32",),
    found: Sequence[findings.Finding] = (),
    earlier: Sequence[Outcome] = (),
    **declared: Any,
) -> list[Outcome]:
    asked = Request(cases, tuple(dtypes)).asked(CONTRACT)
    return list(Check(subject(function, **declared), Questions(CONTRACT, keep=True), asked, found, earlier).run())


def only(outcomes: Iterable[Outcome]) -> Outcome:
    (outcome,) = outcomes
    return outcome


def statuses(outcomes: Iterable[Outcome]) -> set[str]:
    return {outcome.status for outcome in outcomes}


def about(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """What is said of the implementation as a whole."""
    return {outcome.case: outcome.detail for outcome in outcomes if outcome.dtype == EVERY_CASE}


def scores_of(query: Tensor, key: Tensor, scale: float | None = None) -> Tensor:
    return query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)


def counted(function: Function) -> tuple[Function, list[tuple[Any, ...]]]:
    """The function, and the shapes of the keys that it was called with."""
    asked: list[tuple[Any, ...]] = []

    def counting(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        asked.append((tuple(key.shape), *sorted(options)))
        return function(query, key, value, **options)

    return counting, asked


# Declining beforehand


def test_a_missing_parameter_declines_what_needs_it() -> None:
    outcomes = check(lambda query, key, value: sdpa(query, key, value), "plain/small", "bool_mask/random", "scale/half")

    said = {outcome.case: (outcome.status, outcome.detail) for outcome in outcomes}

    assert said == {
        "plain/small": ("passed", ""),
        "bool_mask/random": ("declined", "takes no attn_mask"),
        "scale/half": ("declined", "takes no scale"),
    }


def test_several_missing_parameters_are_all_named() -> None:
    outcome = only(check(lambda query, key, value: value, "scale/zero_masked"))

    assert outcome.detail == "takes no attn_mask and no scale"


def test_what_takes_everything_declines_nothing() -> None:
    outcome = only(check(lambda query, key, value, **options: sdpa(query, key, value, **options), "scale/half"))

    assert outcome.status == "passed"


def test_a_question_declined_by_signature_is_not_asked() -> None:
    function, asked = counted(sdpa)

    outcome = only(check(function, "scale/half", parameters=frozenset({"attn_mask"})))

    assert outcome.status == "declined"
    assert asked == []


def no_float_mask(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, **options: Any) -> Any:
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise ValueError("boolean masks only")
    return sdpa(query, key, value, attn_mask=attn_mask, **options)


def test_a_declared_gap_declines_with_its_reason() -> None:
    lacks = {"float_mask": "the kernel takes boolean masks only"}

    outcomes = check(no_float_mask, "float_mask/random", "bool_mask/random", lacks=lacks)

    assert [outcome.status for outcome in outcomes] == ["passed", "declined"]
    assert outcomes[1].detail == "lacks float_mask: the kernel takes boolean masks only"


def test_a_gap_that_its_first_case_confirms_is_not_asked_again() -> None:
    function, asked = counted(no_float_mask)

    outcomes = check(function, "float_mask", parameters=None, lacks={"float_mask": "boolean masks only"})

    assert statuses(outcomes) == {"declined"}
    assert len(outcomes) > 10
    assert len(asked) == 1


def test_a_gap_declined_in_other_words_quotes_them() -> None:
    def declining(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        raise NotImplementedError("see issue 12")

    outcome = only(check(declining, "causal/square_5", lacks={"causal": "no triangle"}))

    assert outcome.detail == "lacks causal: no triangle; in its own words: see issue 12"


def test_a_declared_gap_that_passes_everything_is_wrong() -> None:
    outcomes = check(sdpa, "plain/small", "heads/other_value_width", lacks={"value_width": "equal widths only"})

    assert about(outcomes) == {
        "declared/value_width": "declares it lacks value_width, yet passes every case that needs just that; "
        "remove the declaration"
    }
    assert [outcome.status for outcome in outcomes if outcome.case == "declared/value_width"] == ["wrong"]


def test_a_gap_shown_only_by_cases_that_are_not_asked_is_right() -> None:
    def half_without_gradient(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if query.requires_grad and query.shape[-2] > 64:
            raise ValueError("too long to learn from")
        return sdpa(query, key, value)

    outcomes = check(half_without_gradient, "behaviour/repeated_gradient", lacks={"gradient": "short ones only"})

    assert about(outcomes) == {}


def test_refusing_bad_input_does_not_refute_a_gap() -> None:
    def refusing(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
        if dropout_p:
            raise ValueError("no dropout")
        return sdpa(query, key, value)

    outcomes = check(refusing, "bad_input/dropout_above_one", lacks={"dropout": "inference only"})

    assert only(outcomes).status == "declined"


def test_a_gap_in_what_is_not_asked_costs_nothing() -> None:
    function, asked = counted(sdpa)

    outcomes = check(function, "plain/small", parameters=None, lacks={"float16": "too coarse", "dropout": "inference"})

    assert only(outcomes).status == "passed"
    assert len(asked) == 1


def test_a_gap_that_speaks_of_time_is_not_rechecked() -> None:
    function, asked = counted(sdpa)

    outcomes = check(function, "plain/ordinary", parameters=None, lacks={"large": "slow"})

    assert only(outcomes).status == "declined"
    assert asked == []


def test_a_function_whose_signature_nobody_can_read_declines_what_it_says_it_does_not_take() -> None:
    outcomes = check(sdpa, "window/left_1", "plain/small", parameters=None)

    assert [(outcome.status, outcome.detail, outcome.reason) for outcome in outcomes] == [
        ("passed", "", Reason.NONE),
        ("declined", "takes no window", Reason.UNTAKEN),
    ]


def test_an_unexpected_argument_inside_a_function_that_takes_it_is_its_mistake() -> None:
    def broken(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        return sdpa(query, key, value, is_causal=is_causal, nonsense=1)

    assert statuses(check(broken, "causal/square_2", parameters=frozenset({"is_causal"}))) == {"raised"}
    assert statuses(check(broken, "causal/square_2", parameters=None)) == {"raised"}


def test_an_unknown_feature_is_wrong_and_the_known_ones_are_listed() -> None:
    outcomes = check(sdpa, "plain/small", lacks={"masks": "what masks?"})

    detail = about(outcomes)["declared/masks"]

    assert detail.startswith("'masks' is no feature; there are: gqa, scale, bool_mask, float_mask")


# The core


def test_declining_float32_by_declaration_is_wrong() -> None:
    function = partial(refuse, "no float32")

    outcome = check(function, "plain/small", lacks={"float32": "half only"}, parameters=None)[0]

    assert outcome.status == "wrong"
    assert outcome.detail == f"{CORE}: lacks float32: half only; in its own words: no float32"


def refuse(reason: str, *_: object, **__: object) -> None:
    raise NotImplementedError(reason)


def test_declining_the_core_at_run_time_is_wrong() -> None:
    outcomes = check(partial(refuse, "not today"), "plain/small", dtypes=("float32", "float16"), parameters=None)

    said = {outcome.dtype: (outcome.status, outcome.detail) for outcome in outcomes}

    assert said == {"float32": ("wrong", f"{CORE}: not today"), "float16": ("declined", "not today")}


def test_declining_at_run_time_outside_the_core_carries_the_reason() -> None:
    outcome = only(check(partial(refuse, "no causal kernel"), "causal/square_5", parameters=None))

    assert (outcome.status, outcome.detail) == ("declined", "no causal kernel")


def test_declining_without_a_reason_says_so() -> None:
    outcome = only(check(partial(refuse, ""), "causal/square_5", parameters=None))

    assert outcome.detail == "NotImplementedError without a reason"


def test_the_core_may_be_declined_on_a_device_that_is_declared_lacking() -> None:
    outcome = only(check(partial(refuse, "GPU only"), "plain/small", parameters=None, lacks={"cpu": "a CUDA kernel"}))

    assert outcome.status == "declined"
    assert outcome.detail == "lacks cpu: a CUDA kernel; in its own words: GPU only"


# Answers


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
        (lambda q: q, "raised", "TypeError: <lambda>() takes 1 positional argument but 3 were given"),
    ],
    ids=["none", "array", "tuple", "meta", "shape", "dtype", "nan", "exception", "signature"],
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
        (Hung(60.0), Status.HUNG, "hung: no answer within 60 s"),
        (Missing(NOWHERE, "No module named 'x'"), Status.MISSING, "No module named 'x'"),
        (Broken(NOWHERE, "ImportError: x"), Status.RAISED, "ImportError: x"),
    ],
    ids=["died", "hung", "missing", "broken"],
)
def test_what_became_of_a_process_is_an_outcome(failure: Unanswered, status: Status, words: str) -> None:
    outcome = only(check(sdpa, "plain/small", ask=lambda calls: failure))

    assert (outcome.status, outcome.detail) == (status, words)


def test_bad_input_is_asked_in_a_process_of_its_own() -> None:
    here, apart = (partial(told, Broken(NOWHERE, where)) for where in ("here", "apart"))

    outcomes = check(sdpa, "plain/small", "bad_input/narrow_keys", ask=here, ask_apart=apart)

    assert [outcome.detail for outcome in outcomes] == ["here", "apart"]


def told(failure: Unanswered, calls: Sequence[Call]) -> Unanswered:
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


# Conventions


def with_empty_rows_of(value_of_empty: float, kinds: Mapping[str, float] | None = None) -> Function:
    """Correct attention whose empty rows hold this, or what `kinds` says for boolean and float masks."""

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        output = sdpa(query, key, value, attn_mask=attn_mask)
        if attn_mask is None:
            return output
        boolean = attn_mask.dtype == torch.bool
        closed = ~attn_mask if boolean else attn_mask == -math.inf
        empty = closed.all(-1, keepdim=True).expand(*output.shape[:-1], 1)
        filling = value_of_empty if kinds is None else kinds["bool_mask" if boolean else "float_mask"]
        return output.masked_fill(empty, filling)

    return attention


EMPTY_ROWS = ("empty_row/bool", "empty_row/float")
NAN_IN_FLOAT = with_empty_rows_of(0.0, {"bool_mask": 0.0, "float_mask": math.nan})


@pytest.mark.parametrize(
    ("function", "declared", "passing"),
    [
        (with_empty_rows_of(0.0), None, {"bool", "float"}),
        (with_empty_rows_of(0.0), "zeros", {"bool", "float"}),
        (with_empty_rows_of(0.0), "nan", set()),
        (with_empty_rows_of(math.nan), None, set()),
        (with_empty_rows_of(math.nan), "nan", {"bool", "float"}),
        (with_empty_rows_of(math.nan), "mean", set()),
        (NAN_IN_FLOAT, {"float_mask": "nan"}, {"bool", "float"}),
        (NAN_IN_FLOAT, {"bool_mask": "nan"}, set()),
        (NAN_IN_FLOAT, "nan", {"float"}),
    ],
)
def test_empty_rows_are_judged_by_the_declared_convention(function: Function, declared: Any, passing: set[str]) -> None:
    conventions = {} if declared is None else {"empty_row": declared}

    outcomes = check(function, *EMPTY_ROWS, conventions=conventions)

    assert {outcome.case.partition("/")[2] for outcome in outcomes if outcome.status == "passed"} == passing
    assert statuses(outcomes) <= {"passed", "wrong"}


def test_the_mean_in_empty_rows_may_be_declared() -> None:
    def mean(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
        scores = scores_of(query, key).masked_fill(~attn_mask, -1e30)
        return scores.softmax(-1) @ value

    assert only(check(mean, "empty_row/bool", conventions={"empty_row": "mean"})).status == "passed"
    assert only(check(mean, "empty_row/bool")).status == "wrong"


def test_nan_by_convention_hides_no_other_nan() -> None:
    function = with_empty_rows_of(math.nan)

    def all_nan(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        return function(query, key, value, attn_mask=attn_mask) * math.nan

    outcome = only(check(all_nan, "empty_row/bool", conventions={"empty_row": "nan"}))

    assert outcome.status == "wrong"


def test_gradients_of_empty_rows_are_not_asked_where_nan_is_the_convention() -> None:
    outcomes = check(with_empty_rows_of(math.nan), "empty_row_gradients", conventions={"empty_row": "nan"})

    reasons = {outcome.detail for outcome in outcomes if outcome.status == "declined"}

    assert "its convention answers NaN in empty rows, which leaves the gradients undefined" in reasons


def lower_right(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    queries, keys = query.shape[-2], key.shape[-2]
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if is_causal else None
    return sdpa(query, key, value, attn_mask=mask)


def test_causal_alignment_is_judged_by_the_declared_convention() -> None:
    cases = ("causal/more_keys", "causal/more_queries", "causal/one_query")

    assert statuses(check(lower_right, *cases, conventions={"causal": "lower_right"})) == {"passed"}
    assert statuses(check(lower_right, *cases)) == {"wrong"}
    assert statuses(check(sdpa, *cases, conventions={"causal": "lower_right"})) == {"wrong"}
    assert statuses(check(sdpa, *cases)) == {"passed"}


def test_an_inverted_boolean_mask_is_judged_by_the_declared_convention() -> None:
    def may_not(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
        return sdpa(query, key, value, attn_mask=~attn_mask if attn_mask.dtype == torch.bool else attn_mask)

    cases = ("bool_mask/random", "bool_mask/padding", "empty_row/bool")

    assert statuses(check(may_not, *cases, conventions={"bool_mask": "may_not"})) == {"passed"}
    assert statuses(check(may_not, *cases)) == {"wrong"}
    assert statuses(check(sdpa, *cases, conventions={"bool_mask": "may_not"})) == {"wrong"}


@pytest.mark.parametrize(
    ("conventions", "complaint"),
    [
        ({"masks": "inverted"}, "'masks' is no convention; there are: bool_mask, causal, empty_row"),
        ({"masks": 3}, "'masks' is no convention; there are: bool_mask, causal, empty_row"),
        ({"causal": "lower_left"}, "causal cannot be 'lower_left'; it can be: upper_left, lower_right"),
        ({"causal": True}, "causal cannot be True; it can be: upper_left, lower_right"),
        ({"causal": ["lower_right"]}, "causal cannot be ['lower_right']; it can be: upper_left, lower_right"),
        ({"empty_row": None}, "empty_row cannot be None; it can be: zeros, nan, mean"),
        ({"empty_row": {"bool_mask": "ones"}}, "empty_row cannot be 'ones'; it can be: zeros, nan, mean"),
        ({"empty_row": {"bool": "nan"}}, "empty_row cannot be declared for 'bool', which is no feature"),
    ],
)
def test_an_unknown_convention_is_wrong_and_the_contract_s_own_is_asked(
    conventions: dict[str, Any], complaint: str
) -> None:
    outcomes = check(sdpa, "empty_row/bool", "causal/more_keys", conventions=conventions)

    assert list(about(outcomes).values()) == [complaint]
    assert [outcome.status for outcome in outcomes] == ["passed", "passed", "wrong"]


# Findings


def finding(**fields: Any) -> findings.Finding:
    usual = {
        "id": "one-key", "implementations": ("attention/mine",), "cases": ("behaviour/one_key_one_query",),
        "versions": {}, "says": "", "judgement": "", "reproduction": "",
    }  # fmt: skip
    return findings.Finding(**usual | fields)


def test_a_known_failure_stays_wrong_and_does_not_fail_the_run() -> None:
    outcome = only(check(lambda query, key, value: value, "behaviour/one_key_one_query", found=[finding()]))

    assert (outcome.status, outcome.known, outcome.fails) == ("wrong", "one-key", False)


def test_a_finding_that_no_longer_fails_is_wrong() -> None:
    outcomes = check(sdpa, "behaviour/one_key_one_query", dtypes=(), found=[finding()])

    assert about(outcomes) == {
        "finding/one-key": "the finding says these fail, but they pass: behaviour/one_key_one_query (bfloat16), "
        "behaviour/one_key_one_query (float16), behaviour/one_key_one_query (float32) and 1 more; remove or narrow it"
    }
    assert outcomes[-1].fails


@pytest.mark.parametrize("other", [{"cases": ("causal/*",)}, {"implementations": ("attention/other",)}])
def test_a_finding_about_what_was_not_asked_says_nothing(other: dict[str, Any]) -> None:
    assert about(check(sdpa, "plain/small", found=[finding(**other)])) == {}


def test_a_finding_covers_what_is_declined_without_complaint() -> None:
    outcomes = check(partial(refuse, "no"), "causal/square_5", parameters=None, found=[finding(cases=("causal/*",))])

    assert only(outcomes).status == "declined"


# Resuming


def test_a_resumed_check_asks_only_what_is_missing() -> None:
    whole = check(sdpa, "plain")
    function, asked = counted(sdpa)

    rest = check(function, "plain", parameters=None, earlier=whole[2:])

    assert [outcome.case for outcome in rest] == [outcome.case for outcome in whole[:2]]
    assert len(asked) == 2


def test_nothing_is_asked_when_all_is_known() -> None:
    function, asked = counted(sdpa)

    assert check(function, "plain", parameters=None, earlier=check(sdpa, "plain")) == []
    assert asked == []


@pytest.mark.parametrize(
    "other", [{"implementation": "attention/other"}, {"device": "cuda"}, {"dtype": "float16"}, {"case": "plain/large"}]
)
def test_what_is_known_of_something_else_is_asked(other: dict[str, str]) -> None:
    earlier = [replace(outcome, **other) for outcome in check(sdpa, "plain/small")]

    assert only(check(sdpa, "plain/small", earlier=earlier)).status == "passed"


def test_a_resumed_check_still_sees_findings_that_no_longer_hold() -> None:
    earlier = check(sdpa, "behaviour/one_key_one_query")

    outcomes = check(sdpa, "behaviour/one_key_one_query", found=[finding()], earlier=earlier)

    assert list(about(outcomes)) == ["finding/one-key"]


# Questions


def test_questions_are_kept_only_for_several_implementations() -> None:
    case = CASES["plain/small"]
    kept, fresh = Questions(CONTRACT, keep=True), Questions(CONTRACT, keep=False)

    assert kept.question(case, "float32", {}) is kept.question(case, "float32", {})
    assert fresh.question(case, "float32", {}) is not fresh.question(case, "float32", {})


def test_each_convention_has_its_own_truth() -> None:
    questions = Questions(CONTRACT, keep=True)
    case = CASES["causal/more_keys"]

    usual, other = (questions.question(case, "float32", given) for given in ({}, {"causal": "lower_right"}))

    assert usual is not other
    assert (usual.truth[0].numbers != other.truth[0].numbers).any()


@pytest.mark.parametrize("case", ["plain/small", "behaviour/repeated"])
def test_a_function_that_cannot_be_called_so_is_told_how_it_is_called(case: str) -> None:
    def takes_two(query: Tensor, key: Tensor) -> Tensor:
        return query

    outcome = only(check(takes_two, case))

    assert outcome.status == "raised"
    assert (
        "takes 2 positional arguments but 3 were given; it is called as attention(query, key, value, " in outcome.detail
    )
    assert outcome.detail.startswith("call 1 of 3: ") == (case == "behaviour/repeated")


def test_what_always_hangs_is_given_up_and_every_question_still_has_a_row() -> None:
    asked: list[Sequence[Call]] = []

    def hangs(calls: Sequence[Call]) -> Unanswered:
        asked.append(calls)
        return Hung(60.0)

    outcomes = check(lambda query, key, value: value, "plain", ask=hangs)

    assert len(asked) == HUNG_IN_A_ROW < len(outcomes)
    assert {outcome.status for outcome in outcomes} == {"hung"}
    assert outcomes[-1].reason == Reason.NOT_ASKED


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
