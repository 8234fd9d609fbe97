"""How models are judged, and what the oracles of models are made of."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from builders import case_named

import attnsuite
from attnsuite.cases import Reply
from attnsuite.contracts import contract
from attnsuite.contracts.models.vision_transformer import contract as vision
from attnsuite.contracts.models.vision_transformer.cases import FASHION
from attnsuite.contracts.sources import documents
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.running_error import Unbounded, WithError, concatenated
from attnsuite.worker.calling import run_calls

MODELS = ("transformer", "vision_transformer", "seq2seq_attention")


# Distances


def test_the_farthest_position_is_reported() -> None:
    expected = np.zeros((2, 3, 4))
    expected[1, 2] = [3.0, 4.0, 0.0, 0.0]
    actual = expected.copy()
    actual[1, 2, 3] = 0.5
    actual[0, 1, 0] = 0.2

    assert compare.distance(actual, expected, np.full((2, 3), 0.6)) is None
    assert compare.distance(actual, expected, np.full((2, 3), 0.1)) == (
        "output[1, 2] lies 0.5 from where it should be, a vector of norm 5; allowed is 0.1 (2 of 6 positions)"
    )


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_lies_infinitely_far(wrong: float) -> None:
    assert compare.distances(np.array([[0.0, wrong]]), np.zeros((1, 2)), np.ones(1)).tolist() == [np.inf]


def test_an_exact_result_has_no_error_even_without_tolerance() -> None:
    assert compare.distances(np.ones((2, 3)), np.ones((2, 3)), np.zeros(2)).tolist() == [0.0, 0.0]


# The rule


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_position_may_lie_as_far_as_its_tolerance_and_no_farther(name: str, dtype: str) -> None:
    case = case_named(name, "plain/usual")
    calls = case.calls(dtype)
    (expected,) = case.expected(calls, {})
    # float64 holds the moved result, so that only the distance is judged; the dtype is that of the weights
    for share, status in ((0.98, "passed"), (1.02, "failed")):
        moved = expected.value.astype(np.float64).copy()
        place = (0,) * (moved.ndim - 1)
        moved[place][0] += share * expected.allowed[place]
        ratio = float(compare.distances(moved, expected.value, expected.allowed).max())
        assert (ratio <= 1) == (status == "passed")
        reply = Reply(torch.from_numpy(moved).to(getattr(torch, dtype)))
        if dtype == "float64":
            assert case.verdict(calls, (reply,), [expected]).status == status


def test_the_tolerance_is_twice_the_worst_of_several_eager_models_plus_a_share_of_the_norm() -> None:
    case = case_named("transformer", "plain/usual")
    calls = case.calls("bfloat16")
    (expected,) = case.expected(calls, {})
    (reply,) = run_calls(contract("transformer").controls()["correct"], calls)
    assert reply.output is not None
    error = np.linalg.norm(compare.numbers(reply.output) - expected.value, axis=-1)

    share, twice_the_worst = np.polyfit(np.linalg.norm(expected.value, axis=-1).ravel(), expected.allowed.ravel(), 1)

    assert PRECISIONS["bfloat16"].unit < share < 1.1 * PRECISIONS["bfloat16"].unit
    assert 2 * error.max() <= twice_the_worst < 3 * 2 * error.max()


@pytest.mark.parametrize("when", ["built", "called"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_changes_its_weights_fails(name: str, when: str) -> None:
    correct = contract(name).controls()["correct"]

    def factory(config: Any, weights: dict[str, torch.Tensor]) -> Any:
        model = correct({**config}, {weight: tensor.clone() for weight, tensor in weights.items()})
        last = weights[list(weights)[-1]]

        def changing(*inputs: torch.Tensor) -> torch.Tensor:
            last.add_(1)
            output: torch.Tensor = model(*inputs)
            return output

        if when == "built":
            last.add_(1)
        return changing if when == "called" else model

    (outcome,) = attnsuite.check(factory, contract=name, cases="plain/usual", dtypes="float32")

    assert outcome.status == "failed"
    assert re.fullmatch(r"changed its input weights\['\w[\w.]*'\]", outcome.detail)


def test_the_weights_of_a_config_are_the_same_in_all_cases() -> None:
    first, second = (case_named("transformer", case).calls("float32")[0] for case in ("plain/usual", "padding/none"))

    assert first.config == second.config
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


# Arithmetic without bounds


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_the_same_with_bounds_and_without(name: str) -> None:
    case = case_named(name, "plain/usual")
    call = case.calls("float32")[0]

    def value(kind: type[WithError]) -> Any:
        def exact(tensor: torch.Tensor) -> Any:
            floating = tensor.dtype.is_floating_point
            return kind.exact(compare.numbers(tensor), PRECISIONS["float32"]) if floating else tensor.numpy()

        weights = {weight: exact(tensor) for weight, tensor in call.weights.items()}
        output, _ = case.model.oracle(case.config, weights, **{role: exact(x) for role, x in call.tensors.items()})
        return output

    bounded, unbounded = value(WithError), value(Unbounded)

    assert np.array_equal(bounded.value, unbounded.value)
    assert bounded.bound.max() > 0
    assert (type(unbounded), unbounded.bound.max()) == (Unbounded, 0.0)


def test_concatenated_numbers_stay_without_bounds() -> None:
    parts = [Unbounded.exact(np.ones((2, 2)), PRECISIONS["float32"])] * 2

    assert type(concatenated(parts)) is Unbounded
    assert type(-parts[0].T[0].relu().softmax()) is Unbounded


# Sizes in the documents


def test_the_vision_transformer_has_as_many_weights_as_in_the_document() -> None:
    derived = documents.examples()["doc-004/11.8.5-config"].derived
    weights = {name: int(np.prod(shape)) for name, shape in vision.shapes(FASHION).items()}

    assert sum(weights.values()) == derived["num_parameters"]
    assert sum(count for name, count in weights.items() if name.startswith("blocks.0.")) == derived["block_parameters"]


# Exports


def export_of(name: str) -> Any:
    pytest.importorskip("onnxscript")
    return import_module(f"attnsuite.implementations.{name}.onnx_export")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "vision_transformer"])
@pytest.mark.parametrize("opset", [18, 23])
def test_attention_is_one_operator_from_opset_23(name: str, opset: int) -> None:
    config = case_named(name, "plain/usual").config

    graph, seconds = export_of(name)._graph(tuple(sorted(config.items())), torch.float32, opset)

    operators = {node.op_type for node in graph.graph.node}
    assert ("Attention" in operators) == (opset == 23)
    assert {entry.domain: entry.version for entry in graph.opset_import}[""] == opset
    assert seconds > 0


@pytest.mark.parametrize("name", [pytest.param("transformer", marks=pytest.mark.slow), "vision_transformer"])
def test_a_model_reports_the_time_and_size_of_its_export(name: str) -> None:
    call = case_named(name, "plain/usual").calls("float32")[0]

    making = export_of(name).opset18(dict(call.config or {}), dict(call.weights)).making

    assert making["export"] > 0
    assert making["session"] > 0
    assert making["file"] > sum(tensor.numel() * 4 for tensor in call.weights.values())


@pytest.mark.slow
def test_two_models_of_one_config_do_not_share_their_weights() -> None:
    """Graphs are cached by config."""
    opset18, call = export_of("transformer").opset18, case_named("transformer", "plain/usual").calls("float32")[0]
    config, inputs = dict(call.config or {}), [call.tensors[name] for name in call.positional]

    first, second = opset18(config, call.weights), opset18(config, {k: 1.5 * w for k, w in call.weights.items()})

    assert torch.equal(first(*inputs), opset18(config, call.weights)(*inputs))
    assert not torch.allclose(first(*inputs), second(*inputs), atol=0.1)
