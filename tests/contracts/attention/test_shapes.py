"""Shapes that a user types: each becomes a workload that any process can make of its name."""

from __future__ import annotations

import pytest
import torch

from suite.contracts import contract
from suite.records import UsageError
from tests.contracts.test_workloads import judged

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
        ("l=8,dropout=0.25", "shape/l=8,e=64,dropout=0.25"),
    ],
)
def test_a_shape_is_a_workload_under_a_plain_name_that_makes_it_again(typed: str, name: str) -> None:
    found = CONTRACT.of_shape(typed)

    assert found.name == name
    assert CONTRACT.workload(name) == found


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("causal", "lacks l, the number of queries"),
        ("l=0", "l is a whole number of at least 1 .*, not '0'"),
        ("l", "l takes a value"),
        ("l=8,l=9", "names l twice"),
        ("l=8,h=3,g=2", "h=3 query heads cannot share g=2 key heads evenly"),
        ("l=8,causal=1", "causal stands alone"),
        ("l=8,widow=3:", "did you mean window.*there are: b, h, g, l, s, e, v, "),
        ("l=8,window=3", "window is LEFT:RIGHT.*not '3'"),
        ("l=8,window=:", "window is LEFT:RIGHT.*not ':'"),
        ("l=8,mask=bool.nope", "mask is bool or float.*not 'bool.nope'"),
        ("l=8,dropout=2", "dropout is a number from 0 to 1, not '2'"),
        ("l=8,scale=nan", "scale is a finite number"),
        ("l=8,causal,mask=bool", "not defined"),
        ("l=8,backward", "an option of its own, --backward"),
        ("l=8,float16", "an option of its own, --dtype"),
        ("", "a word is missing"),
    ],
)
def test_what_is_no_shape_is_said_in_one_line_with_what_exists(typed: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        CONTRACT.of_shape(typed)
    assert "\n" not in str(caught.value)


def test_only_attention_has_shapes() -> None:
    with pytest.raises(UsageError, match="transformer has no shapes"):
        contract("transformer").of_shape("l=8")


@pytest.mark.parametrize(
    "typed", ["h=2,l=20,s=30,e=8,v=4", "l=20,e=8,mask=bool", "l=20,e=8,mask=float", "l=20,scale=2"]
)
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_shapes_are_verified_with_all_their_features(typed: str, direction: str) -> None:
    workload = CONTRACT.of_shape(typed)

    assert judged(workload, direction=direction).status == "passed"  # type: ignore[arg-type]

    def off(found: dict[str, torch.Tensor]) -> None:
        found["output"] += 0.1

    assert judged(workload, direction=direction, spoil=off).status == "wrong"  # type: ignore[arg-type]


def test_dropout_is_held_against_what_is_drawn_seldom() -> None:
    workload = CONTRACT.of_shape("l=4096,e=16,dropout=0.5,scale=0.01")

    assert workload.directions == ("forward",)
    assert judged(workload).status == "passed"  # type: ignore[arg-type]

    def unscaled(found: dict[str, torch.Tensor]) -> None:
        found["output"] *= 0.1

    assert judged(workload, spoil=unscaled).status == "wrong"  # type: ignore[arg-type]
