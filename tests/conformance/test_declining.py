"""What is declined beforehand, which declared gaps are wrong, and the core that nobody may decline."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from checks import about, check, counted, only, refuse, statuses
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.conformance.runner import CORE_DECLINED
from attnsuite.implementations.attention.matmul import attention as matmul
from attnsuite.model import Reason

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
    outcomes = check(matmul, "plain/small", "heads/other_value_width", lacks={"value_width": "equal widths only"})

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

    assert detail.startswith("'masks' is not a feature; there are: gqa, scale, bool_mask, float_mask")


# The core


def test_declining_float32_by_declaration_is_wrong() -> None:
    function = partial(refuse, "no float32")

    outcome = check(function, "plain/small", lacks={"float32": "half only"}, parameters=None)[0]

    assert outcome.status == "wrong"
    assert outcome.detail == f"{CORE_DECLINED}: lacks float32: half only; in its own words: no float32"


def test_declining_the_core_at_run_time_is_wrong() -> None:
    outcomes = check(partial(refuse, "not today"), "plain/small", dtypes=("float32", "float16"), parameters=None)

    said = {outcome.dtype: (outcome.status, outcome.detail) for outcome in outcomes}

    assert said == {"float32": ("wrong", f"{CORE_DECLINED}: not today"), "float16": ("declined", "not today")}


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
