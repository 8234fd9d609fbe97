"""What a contract is declared with, and what its calls need."""

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
def test_an_argument_may_need_what_its_value_is_named(norm: str, features: set[str]) -> None:
    call = Call({"x": X[:1]}, {"norm": norm}, ("x",))

    assert needed(call, "norm") == {"float32"} | features
    assert needed(call) == {"float32", "batch", "group"}


def test_a_call_needs_what_it_is_tested_for() -> None:
    assert needed(Call({"x": X}, positional=("x",))) == {"float32", "long"}


def test_the_config_of_a_model_is_looked_at_where_it_is_given() -> None:
    cached = configured("decoding", "cached")

    assert cached(Call({"x": X}, config={"decoding": "cached"}))
    assert not cached(Call({"x": X}, config={"decoding": "full"}))
    assert not cached(Call({"x": X}, model_of=0))
