"""Cases of several calls: what they leave as it was, one tensor in several roles, equal bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from builders import case_named

from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import expected_result
from attnsuite.contracts.attention.cases.several_calls import RepeatedCall, SharedTensor
from attnsuite.contracts.attention.mutants import CONTROLS
from attnsuite.judging.verdicts import Verdict
from attnsuite.worker.calling import run_calls


def test_cases_leave_threads_and_defaults_as_they_were() -> None:
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_inference_mode_enabled())

    for case in (case for case in cases() if case.family in ("threads", "state")):
        run_calls(CONTROLS["correct_dense"], case.calls("float32"))

    assert before == (torch.get_num_threads(), torch.get_default_dtype(), torch.is_inference_mode_enabled())


# One tensor in several roles


def test_the_gradient_of_one_tensor_is_the_sum_of_its_roles() -> None:
    case = case_named("attention", "roles/query_and_key")
    assert isinstance(case, SharedTensor)
    (call,) = case.calls("float64")

    (expected,) = case.expected((call,), {})

    assert set(expected.gradients) == set(expected.form.gradients) == {"query", "value"}
    separate = expected_result(replace(call, gradient_of=("query", "key")), {}).gradients
    summed = separate["query"].value + separate["key"].value
    assert (expected.gradients["query"].value == summed).all()
    assert (expected.gradients["query"].bound > separate["query"].bound + separate["key"].bound).all()


# Equal bits


def varying(calls: list[int]) -> Any:
    """Right within the bounds, with other bits in every call: sums run in another order each time."""

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        calls.append(len(calls))
        order = torch.randperm(key.shape[-2], generator=torch.Generator().manual_seed(len(calls)))
        key, value = key[..., order, :], value[..., order, :]
        return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1) @ value

    return attention


def repeated(conventions: dict[str, str], function: Any) -> Verdict:
    case = case_named("attention", "behaviour/repeated_tiled")
    assert isinstance(case, RepeatedCall)
    calls = case.calls("float32")
    return case.verdict(calls, run_calls(function, calls), case.expected(calls, conventions))


def test_equal_bits_are_required_only_where_they_are_declared() -> None:
    declared = {"repeated_calls": "equal_bits"}

    assert repeated({}, varying([])).status == "passed"
    assert repeated({"repeated_calls": "within_bounds"}, varying([])).status == "passed"
    assert repeated(declared, CONTROLS["correct_dense"]).status == "passed"
    broken = repeated(declared, varying([]))
    assert broken.status == "failed"
    assert (
        broken.detail == "the bits of the output differ from call to call; repeated_calls is declared to be equal_bits"
    )
