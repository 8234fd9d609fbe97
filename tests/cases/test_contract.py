"""Declarations of contracts: wrong ones are refused in one line; the features that calls need."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from attnsuite.cases import Call, declare
from attnsuite.cases.contract import configured, needed_by

PAGE = "The contract `turn`.\n\n    turn(x, *, norm=None) -> output\n\nAxes."

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


@pytest.mark.parametrize(
    ("page", "declared", "message"),
    [
        ("The contract.", {}, "the second paragraph of the file's docstring is not the signature `turn(…) -> …`"),
        ("The contract.\n\nturns(x)", {}, "the second paragraph of the file's docstring is not the signature"),
        (PAGE, {"parameters": {"norm": ("batch",)}}, "parameter norm needs the feature 'batch'; declared are long, "),
        (PAGE, {"parameters": {"eps": ("long",)}}, "the signature has no parameter 'eps': turn(x, *, norm=None)"),
        (PAGE, {"also": {"wide": callable}}, "`also` tests the feature 'wide'; declared are long, float64"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused_in_one_line(
    page: str, declared: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "toys.turn", ModuleType("toys.turn", page))

    with pytest.raises(ValueError, match="contract turn: ") as error:
        declare("toys.turn", {"long": "long inputs"}, **declared)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_right_declaration_has_the_signature_of_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toys.turn", ModuleType("toys.turn", PAGE))

    declared = declare("toys.turn", {"long": "long inputs"}, {"norm": ("long",)})

    assert declared.signature == "turn(x, *, norm=None) -> output"
    assert declared.optional == {"norm"}
