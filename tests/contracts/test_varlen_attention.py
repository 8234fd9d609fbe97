"""The contract `varlen_attention`: judgement item by item, wrong submissions, and its workloads."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import torch
from torch import Tensor

from attnsuite import check
from attnsuite.cases import Call
from attnsuite.contracts import contract
from attnsuite.contracts.varlen_attention import cases
from attnsuite.contracts.varlen_attention.packed import PackedCase
from attnsuite.implementations.varlen_attention.matmul import varlen_attention as matmul
from attnsuite.judging.verdicts import Verdict
from attnsuite.worker.calling import run_calls

CONTRACT = contract("varlen_attention")
MUTANTS = {mutant.name: mutant.function for mutant in CONTRACT.mutants()}
WORKLOAD = next(workload for workload in CONTRACT.workloads() if workload.name == "packed/1k")


def judged(case: PackedCase, change: object = None) -> Verdict:
    calls = case.calls("float32")
    expected = case.expected(calls, {})
    (reply,) = run_calls(matmul, calls)
    output = reply.output.clone() if reply.output is not None else torch.zeros(0)
    if change is not None:
        output[change] = torch.nan
    return case.verdict(calls, (replace(reply, output=output),), expected)


def test_rows_behind_the_last_item_are_not_judged_and_all_others_are() -> None:
    case = PackedCase("test/unused", "", (2, 0, 3), unused=(2, 4))

    assert judged(case).status == "passed"
    assert judged(case, 5).status == "passed"
    assert judged(case, 4).detail.startswith("item 2, heads first: output[0, 2, 0] is nan")


def without_lengths(query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor) -> Tensor:
    """One attention over the whole pack."""
    query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return (scores.softmax(-1) @ value).transpose(0, 1)


def test_a_function_that_ignores_the_lengths_is_named() -> None:
    outcomes = check(without_lengths, contract="varlen_attention", cases="plain/*", dtypes=["float32"])

    assert [outcome.status for outcome in outcomes] == ["passed", "failed", "failed"]
    assert all('equals "ignores_lengths"' in outcome.detail for outcome in outcomes[1:])


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_the_stored_array_is_whole(profile: str) -> None:
    assert not cases.SPACE.coverage(cases.array().rows(profile), fused=profile == "full").unmet


@pytest.mark.parametrize(
    ("mutant", "direction", "status"),
    [
        ("", "forward_backward", "passed"),
        ("ignores_causal", "forward", "failed"),
        ("sees_first_key_of_next_item", "forward", "failed"),
        ("value_gradient_off_by_one_percent", "forward_backward", "failed"),
    ],
)
def test_sampled_rows_of_a_workload_show_a_mistake(mutant: str, direction: str, status: str) -> None:
    call: Call = WORKLOAD.call("float32", direction)
    call = replace(call, tensors={**call.tensors, **WORKLOAD.tensors_of_round(call, 5)})
    (reply,) = run_calls(MUTANTS.get(mutant, matmul), [call])
    rows = WORKLOAD.rows(direction, Random(3))
    tensors = {"output": reply.output, **reply.gradients}
    actual = {name: tensors[name].flatten(0, 1)[list(places)] for name, places in rows.items()}

    assert WORKLOAD.verdict("float32", direction, 5, rows, actual).status == status
