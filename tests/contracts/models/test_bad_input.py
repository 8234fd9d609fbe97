"""Errors of shipped models for bad input beyond the contracts' cases, and their outputs for empty inputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from builders import case_named

import attnsuite
from attnsuite.cases import Call

DTYPE_OF = {"seq2seq_attention": "w_logits", "vision_transformer": "w_patch", "transformer": "source_embedding"}
"""By contract, the weight whose dtype is the model's."""
NO_TENSORS = [None, [[0]], np.zeros(3, np.float32)]
NO_INTEGERS = ["8", 8.0, True, None, 0]


def usual(name: str) -> Call:
    return case_named(name, "plain/usual").calls("float32")[0]


def factory(name: str, module: str = "eager") -> Callable[..., Any]:
    imported = import_module(f"attnsuite.implementations.{name}.{module}")
    function: Callable[..., Any] = getattr(imported, "opset18", getattr(imported, name, None))
    return function


def error(name: str, config: dict[str, Any], weights: dict[str, Any], inputs: dict[str, Any]) -> str:
    """The error of the eager model, with these changes, in one line."""
    call = usual(name)
    tensors = {**call.tensors, **inputs}
    with pytest.raises(ValueError, match=r"^[^\n]+$") as raised:
        factory(name)({**(call.config or {}), **config}, {**call.weights, **weights})(*tensors.values())
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "key", "value", "least"),
    [
        *(("seq2seq_attention", "hidden", value, 1) for value in NO_INTEGERS),
        ("transformer", "heads", "8", 1),
        ("vision_transformer", "patch", 0, 1),
        *(("seq2seq_attention", "window", value, 0) for value in ("3", 1.5, -1)),
    ],
)
def test_a_size_that_is_no_such_integer_is_an_error(name: str, key: str, value: Any, least: int) -> None:
    assert error(name, {key: value}, {}, {}) == f"{key} is {value!r}, expected an integer from {least}"


@pytest.mark.parametrize("value", NO_TENSORS)
@pytest.mark.parametrize("name", DTYPE_OF)
def test_weights_and_inputs_that_are_no_tensors_are_named_with_their_type(name: str, value: Any) -> None:
    expected = rf"is of type \S*{type(value).__name__}, expected a torch.Tensor"

    assert re.fullmatch(f"{DTYPE_OF[name]} {expected}", error(name, {}, {DTYPE_OF[name]: value}, {}))
    for tensor in usual(name).positional:
        if (name, tensor) != ("transformer", "target"):  # where None means an encoder
            assert re.fullmatch(f"{tensor} {expected}", error(name, {}, {}, {tensor: value}))


@pytest.mark.parametrize("name", DTYPE_OF)
def test_weights_of_integers_and_of_two_dtypes_are_named_with_their_dtype(name: str) -> None:
    integers = {weight: tensor.long() for weight, tensor in usual(name).weights.items()}
    double = {weight: tensor.double() for weight, tensor in list(usual(name).weights.items())[-1:]}

    assert error(name, {}, integers, {}).startswith(f"{DTYPE_OF[name]} is torch.int64, expected a floating dtype")
    assert error(name, {}, double, {}).endswith(f"is torch.float64, expected torch.float32 as {DTYPE_OF[name]} is")


@pytest.mark.parametrize("name", ["transformer", "seq2seq_attention"])
def test_sources_without_tokens_are_an_error(name: str) -> None:
    said = error(name, {}, {}, {"source": torch.zeros(3, 0, dtype=torch.int64)})

    assert said == "source has shape (3, 0), expected at least 1 token"


def test_a_factory_that_returns_no_model_fails_every_case_of_bad_input() -> None:
    outcomes = attnsuite.check(
        lambda config, weights: None, "vision_transformer", "float32", cases=("bad_input", "plain")
    )

    assert {outcome.status for outcome in outcomes} == {"failed"}
    details = [outcome.detail for outcome in outcomes]
    assert sum("the contract requires an error" in detail for detail in details) > 5
    assert "returned None in place of a model, should return a callable" in details


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize(
    ("name", "module"),
    [
        *(("transformer", module) for module in ("eager", "torch_nn", "onnx_export")),
        ("seq2seq_attention", "eager"),
        pytest.param("seq2seq_attention", "onnx_export", marks=pytest.mark.slow),
    ],
)
def test_an_empty_batch_and_an_empty_target_have_empty_logits(name: str, module: str, rows: int) -> None:
    if module == "onnx_export":
        pytest.importorskip("onnxscript")
    call = usual(name)
    source, lengths, target = (call.tensors[tensor][:rows] for tensor in call.positional)
    target = target[:, :0] if rows else target

    logits = factory(name, module)(call.config, call.weights)(source, lengths, target)

    assert (logits.shape, logits.dtype) == ((*target.shape, 13), torch.float32)
