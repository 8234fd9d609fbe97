"""What shipped models refuse in one line beyond what cases ask, and their answers to targets of no steps."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import attnsuite
from attnsuite.cases import Call
from attnsuite.contracts import contract

FACTORIES = {"seq2seq_attention": "w_logits", "vision_transformer": "w_patch"}
"""By contract, the tensor whose dtype is the model's."""


def usual(name: str) -> Call:
    return next(case for case in contract(name).cases() if case.name == "plain/usual").calls("float32")[0]


def factory(name: str, module: str = "eager") -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(f"attnsuite.implementations.{name}.{module}"), name)
    return found


def refusal(name: str, config: dict[str, Any], weights: dict[str, Any], inputs: tuple[Any, ...]) -> str:
    with pytest.raises(ValueError, match=r"due|should") as caught:
        factory(name)({**(usual(name).config or {}), **config}, {**usual(name).weights, **weights})(*inputs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hidden", 8.0, "the config's hidden should be a whole number from 1 on, not 8.0"),
        ("hidden", "8", "the config's hidden should be a whole number from 1 on, not '8'"),
        ("layers", 1.0, "the config's layers should be a whole number from 1 on, not 1.0"),
        ("layers", True, "the config's layers should be a whole number from 1 on, not True"),
        ("layers", None, "the config's layers should be a whole number from 1 on, not None"),
        ("embedding", 0, "the config's embedding should be a whole number from 1 on, not 0"),
        ("window", "3", "the config's window should be None or a whole number from 0 on, not '3'"),
        ("window", 1.5, "the config's window should be None or a whole number from 0 on, not 1.5"),
    ],
)
def test_a_recurrent_config_has_whole_numbers(key: str, value: Any, said: str) -> None:
    assert refusal("seq2seq_attention", {key: value}, {}, ()) == said


def test_a_factory_that_returns_nothing_refuses_nothing() -> None:
    outcomes = attnsuite.check(
        lambda config, weights: None, "vision_transformer", "float32", cases=("bad_input", "plain")
    )

    assert {outcome.status for outcome in outcomes} == {"failed"}
    says = [outcome.detail for outcome in outcomes]
    assert sum("the contract requires an error" in each for each in says) > 5
    assert "returned None in place of a model, should return a callable" in says


@pytest.mark.parametrize("value", [None, [0.0], np.zeros(3, np.float32)])
@pytest.mark.parametrize("name", FACTORIES)
def test_a_weight_that_is_no_tensor_is_refused_by_name(name: str, value: Any) -> None:
    said = refusal(name, {}, {FACTORIES[name]: value}, ())

    assert FACTORIES[name] in said
    assert type(value).__name__ in said


@pytest.mark.parametrize("name", FACTORIES)
def test_weights_of_integers_are_refused_by_dtype(name: str) -> None:
    integers = {each: tensor.long() for each, tensor in usual(name).weights.items()}

    assert "torch.int64" in refusal(name, {}, integers, ())


@pytest.mark.parametrize("value", [None, [[0]], np.zeros((3, 7))])
@pytest.mark.parametrize("name", FACTORIES)
def test_inputs_that_are_no_tensors_are_refused_by_name(name: str, value: Any) -> None:
    call = usual(name)
    for number, each in enumerate(call.positional):
        inputs = [call.tensors[other] for other in call.positional]

        said = refusal(name, {}, {}, (*inputs[:number], value, *inputs[number + 1 :]))

        assert said.startswith(each)
        assert type(value).__name__ in said


@pytest.mark.parametrize("module", ["eager", pytest.param("onnx_export", marks=pytest.mark.slow)])
def test_a_target_of_no_steps_has_logits_of_no_steps(module: str) -> None:
    if module == "onnx_export":
        pytest.importorskip("onnxscript")
    call = usual("seq2seq_attention")
    model = factory("seq2seq_attention", module)(call.config, call.weights)

    logits = model(call.tensors["source"], call.tensors["lengths"], torch.zeros((3, 0), dtype=torch.int64))

    assert logits.shape == (3, 0, 13)
    assert logits.dtype == torch.float32
