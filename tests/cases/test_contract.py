"""The features that calls of a declared contract need."""

from __future__ import annotations

import pytest
import torch

from attnsuite.cases import Call
from attnsuite.cases.contract import configured, needed_by

X = torch.zeros(2)


def needed(call: Call, *by_value: str) -> frozenset[str]:
    parameters = {"norm": ("batch", "group"), "eps": ("eps",), "mask": ("masks", "hiding")}
    return needed_by(parameters, by_value, {"long": lambda call: call.tensors["x"].numel() > 1})((call,))


def test_a_call_needs_its_dtype_and_the_features_of_its_arguments() -> None:
    call = Call({"x": X[:1].half(), "mask": X.bool()}, {"eps": 0.1}, ("x",))

    assert needed(call) == {"float16", "eps", "masks", "hiding"}


@pytest.mark.parametrize(("norm", "features"), [("batch", {"batch"}), ("group", {"group"}), ("layer", set())])
def test_an_argument_may_need_the_feature_that_its_value_names(norm: str, features: set[str]) -> None:
    call = Call({"x": X[:1]}, {"norm": norm}, ("x",))

    assert needed(call, "norm") == {"float32"} | features
    assert needed(call) == {"float32", "batch", "group"}


def test_a_call_needs_the_features_of_further_tests() -> None:
    assert needed(Call({"x": X}, positional=("x",))) == {"float32", "long"}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Call({"x": X}, config={"decoding": "cached"}), True),
        (Call({"x": X}, config={"decoding": "full"}), False),
        (Call({"x": X}, model_of=0), False),
    ],
)
def test_a_config_is_tested_where_there_is_one(call: Call, expected: bool) -> None:
    assert configured("decoding", "cached")(call) is expected
