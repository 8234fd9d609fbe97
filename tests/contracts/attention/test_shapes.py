"""Shapes that a user types: each becomes a workload that any process can make of its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite import registry
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark
from attnsuite.contracts import contract
from attnsuite.model import Outcome
from attnsuite.registry import from_function
from tests.contracts.test_workloads import verdict_of

CONTRACT = contract("attention")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("l=10", "shape/l=10,e=64"),
        ("e=128,l=2048,causal,b=4,h=32,g=8", "shape/b=4,h=32,g=8,l=2048,e=128,causal"),
        ("b=1, h=2, g=2, l=8, s=8, v=64", "shape/h=2,l=8,e=64"),
        ("l=8,s=16,e=4,v=2,window=04:", "shape/l=8,s=16,e=4,v=2,window=4:"),
        ("l=8,mask=bool.random.bhls,scale=1", "shape/l=8,e=64,scale=1.0,mask=bool"),
        ("l=8,mask=float.padding.b11s", "shape/l=8,e=64,mask=float.padding.b11s"),
    ],
)
def test_a_shape_is_a_workload_under_a_plain_name_that_makes_it_again(typed: str, name: str) -> None:
    workload = CONTRACT.workload_of_shape(typed)

    assert workload.name == name
    assert CONTRACT.workload(name) == workload


@pytest.mark.parametrize(
    "typed", ["h=2,l=20,s=30,e=8,v=4", "l=20,e=8,mask=bool", "l=20,e=8,mask=float", "l=20,scale=2"]
)
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_shapes_are_verified_with_all_their_features(typed: str, direction: str) -> None:
    workload = CONTRACT.workload_of_shape(typed)

    assert verdict_of(workload, direction=direction).status == "passed"  # type: ignore[arg-type]

    def off(workload: dict[str, torch.Tensor]) -> None:
        workload["output"] += 0.1

    assert verdict_of(workload, direction=direction, change=off).status == "failed"  # type: ignore[arg-type]


# Under conventions

LOWER = {"causal": "lower_right", "window": "lower_right", "repeated_calls": "equal_bits"}


def test_a_mask_that_hides_is_passed_and_judged_as_one() -> None:
    ours = CONTRACT.workload_of_shape("h=2,l=20,e=8,mask=bool")
    theirs = ours.under({"bool_mask": "may_not"})

    def hiding(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Tensor:
        return sdpa(query, key, value, attn_mask=~attn_mask)

    assert verdict_of(theirs, hiding).status == "passed"  # type: ignore[arg-type]
    assert verdict_of(theirs, sdpa).status == "failed"  # type: ignore[arg-type]
    assert ours.under({"repeated_calls": "equal_bits"}) is ours, "it is not of a feature"


def declared(function: Any, **more: Any) -> Any:
    named = from_function(function)
    return replace(named, declaration=replace(named.declaration, **more))


ALIGNED = """
import torch


def attention(query, key, value, is_causal=False):
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2])
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)
"""


@pytest.mark.parametrize("declares", [LOWER, {}])
def test_a_convention_that_is_declared_counts_where_an_own_shape_is_timed(
    declares: dict[str, str], passed: Callable[..., list[Outcome]], write: Callable[[str, str], Path]
) -> None:
    (found,) = registry.find([str(write("kernel.py", ALIGNED))])
    named = replace(found, conventions=declares)
    benchmark = Benchmark(
        CONTRACT, [named], Request(shapes=("h=2,l=8,s=32,causal",), budget=0.005),
        {"attention/kernel": passed("attention/kernel")}, ceilings={("float32", 1): {"flops": 1e18, "bytes": 1e9}},
    )  # fmt: skip

    (row,) = [row for _, rows in benchmark.run() for row in rows]

    if declares:
        assert row.status == "measured", row.detail
        assert row.work["attended"] == 4 * 64 * 2 * (25 + 32) * 8 / 2, "25 to 32 keys of each query, in two heads"
        assert "its declared conventions need 6.33 times the work" in row.detail
    else:
        assert (row.status, row.detail[:21]) == ("refused", "its output was wrong ")


def test_what_a_convention_leaves_undefined_is_unsupported() -> None:
    (table,) = Request(shapes=("l=9,s=4,causal",), backward=True).tables(CONTRACT)[1:2]
    undefined = declared(sdpa, conventions={"causal": "lower_right", "empty_row": "nan"}).declaration

    failed = table.unsupported(undefined, CONTRACT, "cpu")

    assert str(failed) == "unsupported: its convention gives NaN in empty rows, which leaves the gradients undefined"
