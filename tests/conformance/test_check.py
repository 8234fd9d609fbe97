"""One implementation on all its tests: results become outcomes, and rules hold that need more than one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from checks import CASES, CONTRACT, NOWHERE, Function, about, check, counted, implementation, only, refuse, statuses
from msgspec import structs
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.cases import Call, NoReply, Reply
from attnsuite.conformance.case_tests import CaseTest, CaseTests
from attnsuite.conformance.check import CORE_UNSUPPORTED, MAX_CONSECUTIVE_TIMEOUTS, MAX_TIMEOUTS, Check, Timeouts
from attnsuite.conformance.known import KnownBug
from attnsuite.conformance.request import CheckRequest
from attnsuite.implementations.attention.matmul import attention as matmul
from attnsuite.model import Outcome, Reason, Status
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.registry import Broken, Missing
from attnsuite.worker.calling import run_calls
from attnsuite.worker.worker import Crash, Timeout

# Results


def one_nan(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    output = sdpa(query, key, value)
    output[-1, -1, -1, -1] = math.nan
    return output


def scaling_in_place(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    output = sdpa(query, key, value)
    query.mul_(2)
    return output


@pytest.mark.parametrize(
    ("function", "status", "detail"),
    [
        (lambda q, k, v: None, "failed", "returned None, should return a Tensor"),
        (lambda q, k, v: sdpa(q, k, v).numpy(), "failed", "returned a numpy.ndarray, should return a Tensor"),
        (lambda q, k, v: (sdpa(q, k, v),), "failed", "returned a tuple, should return a Tensor"),
        (lambda q, k, v: sdpa(q, k, v).to("meta"), "failed", "returned a tensor of torch.float32, without data"),
        (lambda q, k, v: v.clone(), "failed", "output has shape (2, 2, 7, 8), should have (2, 2, 5, 8)"),
        (lambda q, k, v: sdpa(q, k, v).double(), "failed", "output is float64, should be float32"),
        (lambda q, k, v: sdpa(q, k, v) * math.nan, "failed", "output[0, 0, 0, 0] is nan, should be"),
        (one_nan, "failed", "1 of 160 elements"),
        (scaling_in_place, "failed", "changed its input query"),
        (lambda q, k, v: 1 / 0, "error", "ZeroDivisionError: division by zero"),
    ],
    ids=["none", "array", "tuple", "meta", "shape", "dtype", "nan", "one nan", "in place", "exception"],
)
def test_every_result_is_an_outcome(function: Function, status: str, detail: str) -> None:
    outcome = only(check(function, "plain/small"))

    assert outcome.status == status
    assert detail in outcome.detail


def test_an_output_on_another_device_is_wrong() -> None:
    def elsewhere(calls: Sequence[Call]) -> tuple[Reply, ...]:
        return tuple(replace(reply, device="cuda") for reply in run_calls(sdpa, calls))

    outcome = only(check(sdpa, "plain/small", run=elsewhere))

    assert (outcome.status, outcome.detail) == ("failed", "the output is on cuda, should be on cpu")


@pytest.mark.parametrize(
    ("failure", "status", "detail"),
    [
        (Crash("SIGSEGV", "ouch"), Status.CRASHED, "crashed: SIGSEGV; the last it printed: ouch"),
        (Timeout(60.0), Status.TIMEOUT, "timeout: no result within 60 s; --time-limit 120 allows more"),
        (Missing(NOWHERE, "No module named 'x'"), Status.MISSING, "No module named 'x'"),
        (Broken(NOWHERE, "ImportError: x"), Status.ERROR, "ImportError: x"),
    ],
    ids=["crashed", "timeout", "missing", "broken"],
)
def test_a_failed_process_is_an_outcome(failure: NoReply, status: Status, detail: str) -> None:
    outcome = only(check(sdpa, "plain/small", run=lambda calls: failure))

    assert (outcome.status, outcome.detail) == (status, detail)
    assert outcome.seconds == (60.0 if status == Status.TIMEOUT else None)


def test_bad_input_runs_in_another_process() -> None:
    here, apart = (lambda calls, where=where: Broken(NOWHERE, where) for where in ("here", "apart"))

    outcomes = check(sdpa, "plain/small", "bad_input/narrow_keys", run=here, run_isolated=apart)

    assert [outcome.detail for outcome in outcomes] == ["here", "apart"]


def test_expected_values_and_the_next_test_are_computed_while_another_process_runs() -> None:
    names = ("plain/small", "causal/square_5", "bad_input/narrow_keys")
    seen: list[tuple[int, bool]] = []
    made: list[CaseTest] = []

    class Watched(CaseTests):
        def test(self, *test: Any) -> CaseTest:
            made.append(super().test(*test))
            return made[-1]

    def elsewhere(calls: Sequence[Call], meanwhile: Callable[[], object]) -> tuple[Reply, ...]:
        replies, number = run_calls(sdpa, calls), len(made)
        assert "expected" not in vars(made[-1])
        meanwhile()
        seen.append((len(made) - number, "expected" in vars(made[number - 1])))
        return replies

    tests = CheckRequest(names, ("float32",)).tests(CONTRACT)
    of = implementation(sdpa, run_overlapped=elsewhere, run=None, run_isolated=None)
    outcomes = list(Check(of, Watched(CONTRACT, keep=False), tests).run())

    assert seen == [(1, True), (1, True), (0, True)]
    assert [(outcome.case, outcome.status) for outcome in outcomes] == [(name, "passed") for name in names]


def test_an_output_that_is_an_input_is_wrong() -> None:
    outcome = only(check(lambda query, key, value: value, "behaviour/one_key_one_query"))

    assert (outcome.status, outcome.detail) == ("failed", "the output shares memory with value")


def test_a_backward_pass_that_writes_to_the_output_gradient_is_wrong() -> None:
    class Spoils(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, output: Tensor) -> Tensor:
            return output.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            copy = gradient.clone()
            gradient.zero_()
            return copy

    outcome = only(check(lambda query, key, value: Spoils.apply(sdpa(query, key, value)), "gradients/plain"))

    assert (outcome.status, outcome.detail) == ("failed", "changed its input output_gradient")


# Timeouts


def timeouts(statuses: Iterable[str], time_limit: float = TIME_LIMIT, reason: Reason = Reason.NONE) -> Timeouts:
    count = Timeouts(time_limit)
    for status in statuses:
        count.add(Outcome("x", "attention", "plain/small", "float32", "cpu", Status(status), reason=reason))
    return count


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        (["timeout"] * (MAX_CONSECUTIVE_TIMEOUTS - 1), ""),
        (["passed", *["timeout"] * MAX_CONSECUTIVE_TIMEOUTS], "the 4 tests before it timed out"),
        ([*["timeout"] * (MAX_CONSECUTIVE_TIMEOUTS - 1), "failed", "timeout"], ""),
        (["crashed"] * MAX_CONSECUTIVE_TIMEOUTS, ""),
        (["timeout", "passed", "passed"] * (MAX_TIMEOUTS - 1), ""),
        (["timeout", "passed", "passed"] * MAX_TIMEOUTS, "10 tests before it timed out"),
    ],
)
def test_a_limit_of_timeouts_skips_the_remaining_tests(statuses: list[str], reason: str) -> None:
    assert timeouts(statuses).reason == reason


@pytest.mark.parametrize(("time_limit", "most"), [(3600.0, 10), (60.0, 10), (59.0, 11), (1.0, 600)])
def test_a_shorter_time_limit_allows_more_timeouts(time_limit: float, most: int) -> None:
    assert not timeouts(["timeout", "passed"] * (most - 1), time_limit).reason
    assert timeouts(["timeout", "passed"] * most, time_limit).reason


def test_the_longer_time_limit_of_a_compiler_allows_fewer_timeouts() -> None:
    count = timeouts(["passed"])
    hung = Outcome("x", "attention", "plain/small", "float32", "cpu", Status.TIMEOUT, seconds=300.0)
    count.add(hung)
    assert not count.reason
    count.add(hung)
    assert count.reason == "2 tests before it timed out"


def test_a_skipped_test_is_no_timeout() -> None:
    assert not timeouts(["timeout"] * 100, reason=Reason.SKIPPED).reason


@pytest.mark.parametrize(
    ("hangs_at_each", "cases", "runs"),
    [(1, ("plain",), MAX_CONSECUTIVE_TIMEOUTS), (3, ("plain", "keys", "queries", "both"), 3 * MAX_TIMEOUTS)],
)
def test_after_timeouts_every_remaining_test_has_a_row(hangs_at_each: int, cases: tuple[str, ...], runs: int) -> None:
    ran: list[object] = []

    def hangs(calls: Sequence[Call]) -> NoReply:
        ran.append(calls)
        return Timeout(60.0) if len(ran) % hangs_at_each == 0 else Crash("SIGSEGV")

    outcomes = check(sdpa, *cases, run=hangs)

    assert len(ran) == runs < len(outcomes)
    assert (outcomes[-1].status, outcomes[-1].reason) == ("timeout", Reason.SKIPPED)
    assert outcomes[-1].detail.startswith("timeout: skipped, because ")


@pytest.mark.parametrize("knows", [True, False])
def test_known_timeouts_skip_only_tests_that_are_known_to_time_out(knows: bool) -> None:
    ran: list[object] = []

    def hangs_in_half(calls: Sequence[Call]) -> tuple[Reply, ...] | NoReply:
        ran.append(calls)
        return Timeout(60.0) if calls[0].tensors["query"].dtype == torch.float16 else run_calls(sdpa, calls)

    bug = KnownBug("slow", ("*",), ("*",), {}, "It hangs.", "It may not.", "", dtypes=("float16",))

    outcomes = check(sdpa, "keys", dtypes=("float32", "float16"), known=[bug] if knows else [], run=hangs_in_half)

    halves = [outcome for outcome in outcomes if outcome.dtype == "float16"]
    others = [outcome for outcome in outcomes if outcome.dtype == "float32"]
    assert {outcome.status for outcome in halves} == {"timeout"}
    assert any(outcome.reason == Reason.SKIPPED for outcome in others) is not knows
    if knows:
        assert {outcome.status for outcome in others} == {"passed"}
        assert {outcome.known for outcome in halves} == {"slow"}
        assert len(ran) == len(others) + MAX_CONSECUTIVE_TIMEOUTS


# Known bugs


def bug(**fields: Any) -> KnownBug:
    usual = {
        "id": "one-key", "implementations": ("attention/mine",), "cases": ("behaviour/one_key_one_query",),
        "versions": {}, "says": "", "judgement": "", "reproduction": "",
    }  # fmt: skip
    return KnownBug(**usual | fields)


def test_a_known_bug_that_no_longer_fails_is_wrong() -> None:
    outcomes = check(sdpa, "plain/small", dtypes=(), known=[bug(cases=("plain/*",))])

    tests = ", ".join(f"plain/small ({dtype})" for dtype in ("bfloat16", "float16", "float32"))
    assert about(outcomes) == {
        "finding/one-key": "the known bug says that these tests fail, but they pass: "
        f"{tests} and 1 more; remove or narrow it"
    }
    assert outcomes[-1].fails


def test_a_known_bug_may_cover_unsupported_tests() -> None:
    outcomes = check(partial(refuse, "no"), "causal/square_5", parameters=None, known=[bug(cases=("causal/*",))])

    assert only(outcomes).status == "unsupported"


# Resuming


def test_a_resumed_check_runs_only_the_missing_tests() -> None:
    whole = check(sdpa, "plain")
    function, ran = counted(sdpa)

    rest = check(function, "plain", parameters=None, earlier=whole[2:])

    assert [outcome.case for outcome in rest] == [outcome.case for outcome in whole[:2]]
    assert len(ran) == 2
    assert check(function, "plain", parameters=None, earlier=whole) == []
    assert len(ran) == 2


def test_a_failure_that_was_interrupted_before_its_diagnosis_runs_again() -> None:
    unnamed, *others = check(lambda query, key, value: sdpa(query, key, value, scale=1.0), "plain")
    named = structs.replace(unnamed, diagnosis=("unscaled",))

    assert [
        o.case for o in check(sdpa, "plain", earlier=[unnamed, *(structs.replace(o, diagnosis=("x",)) for o in others)])
    ] == [unnamed.case]
    assert check(sdpa, unnamed.case, earlier=[named]) == []


@pytest.mark.parametrize(
    "other", [{"implementation": "attention/other"}, {"device": "cuda"}, {"dtype": "float16"}, {"case": "plain/large"}]
)
def test_outcomes_of_other_tests_do_not_count(other: dict[str, str]) -> None:
    earlier = [structs.replace(outcome, **other) for outcome in check(sdpa, "plain/small")]

    assert only(check(sdpa, "plain/small", earlier=earlier)).status == "passed"


def test_a_resumed_check_still_reports_known_bugs_that_no_longer_hold() -> None:
    earlier = check(sdpa, "behaviour/one_key_one_query")

    assert list(about(check(sdpa, "behaviour/one_key_one_query", known=[bug()], earlier=earlier))) == [
        "finding/one-key"
    ]


# Inputs


def test_inputs_are_stored_only_for_several_implementations() -> None:
    case = CASES["plain/small"]
    stored, fresh = CaseTests(CONTRACT, keep=True), CaseTests(CONTRACT, keep=False)

    assert stored.test(case, "float32", {}) is stored.test(case, "float32", {})
    assert fresh.test(case, "float32", {}) is not fresh.test(case, "float32", {})


def test_each_convention_has_its_own_expected_values() -> None:
    tests, case = CaseTests(CONTRACT, keep=True), CASES["causal/more_keys"]

    usual, other = (tests.test(case, "float32", conventions) for conventions in ({}, {"causal": "lower_right"}))

    assert (usual.expected[0].numbers != other.expected[0].numbers).any()


# Declined beforehand


def test_a_missing_parameter_makes_tests_unsupported_which_do_not_run() -> None:
    function, ran = counted(sdpa)
    parameters = frozenset({"query", "key", "value"})
    outcomes = check(function, "plain/small", "bool_mask/random", "scale/half", parameters=parameters)

    assert {outcome.case: (outcome.status, outcome.detail) for outcome in outcomes} == {
        "plain/small": ("passed", ""),
        "bool_mask/random": ("unsupported", "takes no attn_mask"),
        "scale/half": ("unsupported", "takes no scale"),
    }
    assert len(ran) == 1
    assert only(check(lambda q, k, v: v, "scale/zero_masked")).detail == "takes no attn_mask and no scale"
    assert only(check(lambda q, k, v, **options: sdpa(q, k, v, **options), "scale/half")).status == "passed"


def no_float_mask(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, **options: Any) -> Any:
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise ValueError("boolean masks only")
    return sdpa(query, key, value, attn_mask=attn_mask, **options)


def test_a_declared_gap_is_unsupported_with_its_reason_and_rechecked_once() -> None:
    function, ran = counted(no_float_mask)
    lacks = {"float_mask": "the kernel takes boolean masks only"}

    outcomes = check(function, "float_mask", "bool_mask/random", parameters=None, lacks=lacks)

    unsupported = [outcome for outcome in outcomes if outcome.case.startswith("float_mask")]
    assert {(o.status, o.detail) for o in unsupported} == {
        ("unsupported", "lacks float_mask: the kernel takes boolean masks only")
    }
    assert statuses(outcome for outcome in outcomes if outcome not in unsupported) == {"passed"}
    assert len(unsupported) > 10
    assert len(ran) == 2


def test_a_gap_quotes_the_reason_of_the_call() -> None:
    def declining(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        raise NotImplementedError("see issue 12")

    outcome = only(check(declining, "causal/square_5", lacks={"causal": "no triangle"}))

    assert outcome.detail == "lacks causal: no triangle; in its own words: see issue 12"


def test_a_declared_gap_that_passes_everything_is_wrong() -> None:
    outcomes = check(matmul, "plain/small", "heads/other_value_width", lacks={"value_width": "equal widths only"})

    assert about(outcomes) == {
        "declared/value_width": "declares it lacks value_width, yet passes every case that needs just that; "
        "remove the declaration"
    }
    assert [outcome.status for outcome in outcomes if outcome.case == "declared/value_width"] == ["failed"]


def test_a_gap_that_only_other_cases_show_is_right() -> None:
    def half_without_gradient(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if query.requires_grad and query.shape[-2] > 64:
            raise ValueError("too long to learn from")
        return sdpa(query, key, value)

    assert (
        about(check(half_without_gradient, "behaviour/repeated_gradient", lacks={"gradient": "short ones only"})) == {}
    )


def test_refusing_bad_input_does_not_refute_a_gap() -> None:
    def refusing(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
        if dropout_p:
            raise ValueError("no dropout")
        return sdpa(query, key, value)

    outcomes = check(refusing, "bad_input/dropout_above_one", lacks={"dropout": "inference only"})

    assert only(outcomes).status == "unsupported"


@pytest.mark.parametrize(
    ("case", "lacks", "status", "runs"),
    [
        ("plain/small", {"float16": "too coarse", "dropout": "inference"}, "passed", 1),
        ("plain/ordinary", {"large": "slow"}, "unsupported", 0),
    ],
)
def test_a_gap_that_no_test_needs_or_that_is_about_time_is_not_rechecked(
    case: str, lacks: dict[str, str], status: str, runs: int
) -> None:
    function, ran = counted(sdpa)

    assert only(check(function, case, parameters=None, lacks=lacks)).status == status
    assert len(ran) == runs


def test_python_s_error_shows_what_a_function_without_a_signature_lacks() -> None:
    outcomes = check(sdpa, "window/left_1", "plain/small", parameters=None)

    assert [(outcome.status, outcome.detail, outcome.reason) for outcome in outcomes] == [
        ("passed", "", Reason.NONE),
        ("unsupported", "takes no window", Reason.UNTAKEN),
    ]


def test_an_unexpected_argument_inside_a_function_is_its_mistake() -> None:
    def broken(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        return sdpa(query, key, value, is_causal=is_causal, nonsense=1)

    assert statuses(check(broken, "causal/square_2", parameters=frozenset({"is_causal"}))) == {"error"}
    assert statuses(check(broken, "causal/square_2", parameters=None)) == {"error"}


def test_an_unknown_feature_is_wrong_and_the_known_ones_are_listed() -> None:
    detail = about(check(sdpa, "plain/small", lacks={"masks": "what masks?"}))["declared/masks"]

    assert detail.startswith("'masks' is not a feature; there are: gqa, scale, softcap, bool_mask, float_mask")


# The core


def test_the_core_cannot_be_unsupported_by_declaration() -> None:
    outcome = check(partial(refuse, "no float32"), "plain/small", lacks={"float32": "half only"}, parameters=None)[0]

    assert outcome.status == "failed"
    assert outcome.detail == f"{CORE_UNSUPPORTED}: lacks float32: half only; in its own words: no float32"


def test_the_core_cannot_be_unsupported_at_run_time() -> None:
    outcomes = check(partial(refuse, "not today"), "plain/small", dtypes=("float32", "float16"), parameters=None)

    assert {outcome.dtype: (outcome.status, outcome.detail) for outcome in outcomes} == {
        "float32": ("failed", f"{CORE_UNSUPPORTED}: not today"),
        "float16": ("unsupported", "not today"),
    }


@pytest.mark.parametrize(
    ("reason", "detail"), [("no causal kernel", "no causal kernel"), ("", "NotImplementedError without a reason")]
)
def test_other_tests_may_be_unsupported_at_run_time(reason: str, detail: str) -> None:
    outcome = only(check(partial(refuse, reason), "causal/square_5", parameters=None))

    assert (outcome.status, outcome.detail) == ("unsupported", detail)


def test_the_core_may_be_unsupported_on_a_device_that_is_declared_lacking() -> None:
    outcome = only(check(partial(refuse, "GPU only"), "plain/small", parameters=None, lacks={"cpu": "a CUDA kernel"}))

    assert outcome.status == "unsupported"
    assert outcome.detail == "lacks cpu: a CUDA kernel; in its own words: GPU only"


# Conventions


def with_empty_rows_of(boolean: float, added: float) -> Function:
    """Correct attention whose rows that a boolean or an added mask leaves empty hold these numbers."""

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
        is_boolean = attn_mask.dtype == torch.bool
        closed = (~attn_mask if is_boolean else attn_mask == -math.inf).all(-1, keepdim=True)
        output = sdpa(query, key, value, attn_mask=attn_mask)
        return output.masked_fill(closed.expand(*output.shape[:-1], 1), boolean if is_boolean else added)

    return attention


def mean_in_empty_rows(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    hidden = None if attn_mask is None else ~attn_mask if attn_mask.dtype == torch.bool else attn_mask == -math.inf
    return (scores if hidden is None else scores.masked_fill(hidden, -1e30)).softmax(-1) @ value


def test_nan_by_convention_hides_no_other_nan() -> None:
    function = with_empty_rows_of(math.nan, math.nan)

    outcome = only(
        check(
            lambda query, key, value, *, attn_mask=None: function(query, key, value, attn_mask=attn_mask) * math.nan,
            "empty_row/bool",
            conventions={"empty_row": "nan"},
        )
    )

    assert outcome.status == "failed"


def test_gradients_of_empty_rows_are_undefined_where_nan_is_the_convention() -> None:
    outcomes = check(with_empty_rows_of(math.nan, math.nan), "empty_row", conventions={"empty_row": "nan"})

    reasons = {outcome.detail for outcome in outcomes if outcome.status == "unsupported"}
    assert "its convention gives NaN in empty rows, which leaves the gradients undefined" in reasons


def lower_right(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    queries, keys = query.shape[-2], key.shape[-2]
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if is_causal else None
    return sdpa(query, key, value, attn_mask=mask)


def may_not(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    return sdpa(query, key, value, attn_mask=~attn_mask if attn_mask.dtype == torch.bool else attn_mask)


@pytest.mark.parametrize(
    ("function", "cases", "conventions"),
    [
        (lower_right, ("causal/more_keys", "causal/more_queries", "causal/one_query"), {"causal": "lower_right"}),
        (may_not, ("bool_mask/random", "bool_mask/padding", "empty_row/bool"), {"bool_mask": "may_not"}),
        (mean_in_empty_rows, ("empty_row/bool",), {"empty_row": "mean"}),
        (with_empty_rows_of(math.nan, math.nan), ("empty_row/bool", "empty_row/float"), {"empty_row": "nan"}),
        (with_empty_rows_of(0.0, math.nan), ("empty_row/float",), {"empty_row": {"float_mask": "nan"}}),
    ],
)
def test_results_are_judged_by_the_declared_convention(
    function: Function, cases: tuple[str, ...], conventions: dict[str, Any]
) -> None:
    assert statuses(check(function, *cases, conventions=conventions)) == {"passed"}
    assert statuses(check(function, *cases)) == {"failed"}
    assert statuses(check(sdpa, *cases, conventions=conventions)) == {"failed"}
    assert statuses(check(sdpa, *cases)) == {"passed"}


POINTS = "bool_mask, causal, window, empty_row, lse_base, lse_empty_row, repeated_calls"


@pytest.mark.parametrize(
    ("conventions", "complaint"),
    [
        ({"masks": "inverted"}, f"'masks' is not a convention; there are: {POINTS}"),
        ({"masks": 3}, f"'masks' is not a convention; there are: {POINTS}"),
        ({"causal": "lower_left"}, "causal cannot be 'lower_left'; it can be: upper_left, lower_right"),
        ({"causal": True}, "causal cannot be True; it can be: upper_left, lower_right"),
        ({"causal": ["lower_right"]}, "causal cannot be ['lower_right']; it can be: upper_left, lower_right"),
        ({"empty_row": None}, "empty_row cannot be None; it can be: zeros, nan, mean"),
        ({"empty_row": {"bool_mask": "ones"}}, "empty_row cannot be 'ones'; it can be: zeros, nan, mean"),
        ({"empty_row": {"bool": "nan"}}, "empty_row cannot be declared for 'bool', which is not a feature"),
    ],
)
def test_an_unknown_convention_is_wrong_and_the_contract_s_own_is_tested(
    conventions: dict[str, Any], complaint: str
) -> None:
    outcomes = check(sdpa, "empty_row/bool", "causal/more_keys", conventions=conventions)

    assert list(about(outcomes).values()) == [complaint]
    assert [outcome.status for outcome in outcomes] == ["passed", "passed", "failed"]
