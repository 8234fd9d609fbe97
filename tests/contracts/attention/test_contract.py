"""The contract `attention`: its words, what a call needs, and questions in the words of a declared convention."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from attnsuite.cases import Call
from attnsuite.cases.layouts import LAYOUTS
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase, oracle_result
from attnsuite.contracts.attention.contract import (
    CONTRACT,
    FEATURES,
    PARAMETERS,
    needs,
    undefined_reason,
)
from attnsuite.contracts.attention.feature import adapted as adapt
from attnsuite.contracts.attention.features.empty_row import kinds
from attnsuite.contracts.attention.features.mask import Mask

INPUTS = ("query", "key", "value")


def call(**changes: Any) -> Call:
    return AttentionCase("contract/any", "", **changes).call("float32")


# The vocabulary


def test_every_optional_parameter_has_features_that_exist() -> None:
    assert set(PARAMETERS) == CONTRACT.optional
    assert {feature for words in PARAMETERS.values() for feature in words} <= set(FEATURES)


def test_what_features_are_also_called_means_families_that_exist() -> None:
    families = {case.family for case in CONTRACT.cases()}

    assert set(CONTRACT.aliases.values()) <= families
    assert not {word for word, family in CONTRACT.aliases.items() if word in families and word != family}


def test_cases_pass_an_argument_exactly_when_its_feature_is_needed_and_are_defined() -> None:
    for case in cases():
        calls = case.calls(case.dtypes[-1])
        for made in calls:
            for parameter, features in PARAMETERS.items():
                assert (parameter in made.arguments) == bool(needs((made,)) & set(features)), case.name
        assert undefined_reason(case, needs(calls), {}) == "", "by the contract's own conventions"


def test_the_core_needs_no_feature() -> None:
    core = [case for case in cases() if case.family == CONTRACT.core]

    assert len(core) > 5
    plain = [case for case in core if needs(case.calls("float32")) <= {"float32", "large"}]
    assert plain == core


# What a call needs


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, ()),
        ({"mask": Mask()}, ("bool_mask",)),
        ({"mask": Mask("float")}, ("float_mask",)),
        ({"mask": Mask(pattern="empty_rows")}, ("bool_mask", "empty_row")),
        ({"mask": Mask(pattern="nothing", axes="b11s")}, ("bool_mask", "empty_row")),
        ({"mask": Mask("float", "one_empty_row")}, ("float_mask", "empty_row")),
        ({"mask": Mask("float", "nothing", hidden="lowest")}, ("float_mask",)),
        ({"mask": Mask("float", "nothing", hidden=-1e4)}, ("float_mask",)),
        ({"causal": True}, ("causal",)),
        ({"scale": 0.0}, ("scale",)),
        ({"dropout_p": 0.0}, ("dropout",)),
        ({"heads": 4, "key_heads": 2}, ("gqa",)),
        ({"key_heads": 2}, ("gqa",)),
        ({"gradient_of": ("value",)}, ("gradient",)),
        ({"gradient_of": ("attn_mask",), "mask": Mask("float")}, ("gradient", "mask_gradient", "float_mask")),
        ({"value_width": 3}, ("value_width",)),
        ({"rank": 2, "batch": 1, "heads": 1}, ("rank2",)),
        ({"rank": 3, "batch": 1}, ("rank3",)),
        ({"keys": 0}, ("no_keys",)),
        ({"queries": 0}, ("no_keys",)),
        ({"batch": 0}, ("no_keys",)),
        ({"keys": 0, "mask": Mask(pattern="everything")}, ("no_keys", "bool_mask")),
        ({"batch": 1, "heads": 1, "queries": 64, "keys": 64}, ()),
        ({"batch": 1, "heads": 1, "queries": 64, "keys": 65}, ("large",)),
        ({"batch": 1, "heads": 1, "queries": 64, "keys": 64, "value_width": 9}, ("large", "value_width")),
    ],
    ids=str,
)
def test_features_are_read_off_the_call(changes: Mapping[str, Any], needed: tuple[str, ...]) -> None:
    assert needs((call(**changes),)) == {*needed, "float32"}


# Masks that say who may not attend


@pytest.mark.parametrize(
    ("layout", "axes"),
    [*product(LAYOUTS, ("bhls", "b1ls", "b11s", "bhl1")), *product(["contiguous"], ("hls", "ls", "s"))],
)
def test_an_inverted_mask_lies_in_memory_as_the_mask_does(layout: str, axes: str) -> None:
    made = call(queries=6, mask=Mask(axes=axes), layout={"attn_mask": layout})
    mask = made.tensors["attn_mask"]
    before = mask.clone()

    inverted = adapt(made, {"bool_mask": "may_not"}).tensors["attn_mask"]

    assert torch.equal(inverted, ~before)
    assert torch.equal(mask, before), "the call itself is not changed"
    assert inverted.untyped_storage().data_ptr() != mask.untyped_storage().data_ptr()
    assert (inverted.stride(), inverted.storage_offset()) == (mask.stride(), mask.storage_offset())
    assert inverted.untyped_storage().nbytes() == mask.untyped_storage().nbytes()


# Empty rows


@pytest.mark.parametrize("kind", kinds())
def test_empty_rows_are_as_declared_for_their_kind_of_mask(kind: str) -> None:
    made = {
        "bool_mask": call(mask=Mask(pattern="nothing")),
        "float_mask": call(mask=Mask("float", "nothing")),
        "causal": call(queries=9, keys=4, causal=True),
        "window": call(queries=9, keys=4, window=(0, 0)),
        "no_keys": call(keys=0),
    }[kind]
    lower_right = {"causal": "lower_right"}

    zeros, nan, other = (
        oracle_result(made, {**lower_right, "empty_row": rule}).output.value[:, :, -1 if kind == "window" else 0]
        for rule in ("zeros", {kind: "nan"}, {one: "nan" for one in kinds() if one != kind})
    )

    assert (zeros == 0).all()
    assert np.isnan(nan).all()
    assert (other == 0).all(), "another kind of mask has another rule"


# Questions without a defined answer


BOOL = {"mask": Mask(pattern="empty_rows"), "gradient_of": INPUTS}
FLOAT = {"mask": Mask("float", "empty_rows"), "gradient_of": INPUTS}
TALL = {"causal": True, "queries": 9, "keys": 4, "gradient_of": INPUTS}
NO_KEYS = {"keys": 0, "gradient_of": INPUTS}


@pytest.mark.parametrize(
    ("changes", "conventions", "undefined"),
    [
        (BOOL, {"empty_row": "nan"}, True),
        (FLOAT, {"empty_row": "nan"}, True),
        (NO_KEYS, {"empty_row": {"no_keys": "nan"}}, True),
        (FLOAT, {"empty_row": {"bool_mask": "mean", "float_mask": "nan"}}, True),
        (TALL, {"empty_row": "nan", "causal": "lower_right"}, True),
        (TALL, {"empty_row": {"causal": "nan"}, "causal": "lower_right"}, True),
        (BOOL, {}, False),
        (BOOL, {"empty_row": "zeros"}, False),
        (BOOL, {"empty_row": "mean"}, False),
        (BOOL, {"empty_row": {"bool_mask": "mean", "float_mask": "nan"}}, False),
        ({"mask": Mask(pattern="empty_rows")}, {"empty_row": "nan"}, False),
        ({"mask": Mask(), "gradient_of": INPUTS}, {"empty_row": "nan"}, False),
        (TALL, {"empty_row": "nan"}, False),
        (TALL, {"causal": "lower_right"}, False),
        ({**TALL, "queries": 4}, {"empty_row": "nan", "causal": "lower_right"}, False),
        ({**TALL, "gradient_of": ()}, {"empty_row": "nan", "causal": "lower_right"}, False),
    ],
    ids=str,
)
def test_gradients_of_rows_with_nan_alone_are_undefined(
    changes: Mapping[str, Any], conventions: Mapping[str, Any], undefined: bool
) -> None:
    case = AttentionCase("contract/any", "", **changes)

    reason = undefined_reason(case, needs(case.calls("float32")), conventions)

    assert ("NaN in empty rows" in reason) == bool(reason) == undefined
