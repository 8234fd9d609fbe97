"""How models are judged, and what the oracles of models are made of."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import attnsuite
from attnsuite.cases import Reply
from attnsuite.cases.model import ModelCase
from attnsuite.cases.tensors import generator
from attnsuite.contracts import contract
from attnsuite.contracts.models.transformer import contract as transformer
from attnsuite.contracts.models.vision_transformer import contract as vision
from attnsuite.contracts.models.vision_transformer.cases import FASHION
from attnsuite.contracts.sources import documents
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.rounded import Rounded, Unbounded, concatenated
from attnsuite.worker import run_calls

MODELS = ("transformer", "vision_transformer", "seq2seq_attention")


def posed(name: str, case: str = "plain/usual") -> ModelCase:
    found = next(each for each in contract(name).cases() if each.name == case)
    assert isinstance(found, ModelCase)
    return found


# Distances


def test_the_farthest_position_is_named() -> None:
    expected = np.zeros((2, 3, 4))
    expected[1, 2] = [3.0, 4.0, 0.0, 0.0]
    actual = expected.copy()
    actual[1, 2, 3] = 0.5
    actual[0, 1, 0] = 0.2

    said = compare.distance(actual, expected, np.full((2, 3), 0.1))

    assert said == (
        "output[1, 2] lies 0.5 from where it should be, a vector of norm 5; allowed is 0.1 (2 of 6 positions)"
    )
    assert compare.distance(actual, expected, np.full((2, 3), 0.6)) is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_lies_infinitely_far(wrong: float) -> None:
    actual = np.zeros((1, 2))
    actual[0, 1] = wrong

    assert compare.distances(actual, np.zeros((1, 2)), np.ones(1)).tolist() == [np.inf]


def test_no_distance_is_none_even_where_nothing_is_allowed() -> None:
    assert compare.distances(np.ones((2, 3)), np.ones((2, 3)), np.zeros(2)).tolist() == [0.0, 0.0]


# The rule


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_so_far_from_the_truth_a_model_may_be_and_no_farther(name: str, dtype: str) -> None:
    case = posed(name)
    calls = case.calls(dtype)
    (truth,) = case.expected(calls, {})
    # float64 holds the answer, so that only the distance is judged; the dtype is that of the weights
    for share, status in ((0.98, "passed"), (1.02, "failed")):
        moved = truth.value.astype(np.float64).copy()
        place = (0,) * (moved.ndim - 1)
        moved[place][0] += share * truth.allowed[place]
        ratio = float(compare.distances(moved, truth.value, truth.allowed).max())
        assert (ratio <= 1) == (status == "passed")
        reply = Reply(torch.from_numpy(moved).to(getattr(torch, dtype)))
        if dtype == "float64":
            assert case.verdict(calls, (reply,), [truth]).status == status


def test_twice_the_worst_of_the_eager_model_is_allowed_everywhere_and_the_floor_grows_with_the_truth() -> None:
    case = posed("transformer")
    calls = case.calls("bfloat16")
    (truth,) = case.expected(calls, {})
    eager = compare.numbers(run_calls(contract("transformer").controls()["correct"], calls)[0].output)  # type: ignore[arg-type]
    off = np.linalg.norm(eager - truth.value, axis=-1)
    size = np.linalg.norm(truth.value, axis=-1)

    floor = (truth.allowed - 2 * off.max()) / size

    assert np.allclose(floor, floor.flat[0], rtol=1e-6)
    assert PRECISIONS["bfloat16"].unit < floor.flat[0] < 1.1 * PRECISIONS["bfloat16"].unit


@pytest.mark.parametrize("when", ["built", "called"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_changes_the_weights_it_was_given_is_told_so(name: str, when: str) -> None:
    correct = contract(name).controls()["correct"]

    def factory(config: Any, weights: dict[str, torch.Tensor]) -> Any:
        model = correct({**config}, {each: tensor.clone() for each, tensor in weights.items()})
        last = weights[list(weights)[-1]]

        def spoiling(*inputs: torch.Tensor) -> torch.Tensor:
            last.add_(1)
            output: torch.Tensor = model(*inputs)
            return output

        if when == "built":
            last.add_(1)
        return spoiling if when == "called" else model

    (outcome,) = attnsuite.check(factory, contract=name, cases="plain/usual", dtypes="float32")

    assert outcome.status == "failed"
    assert re.fullmatch(r"changed its input weights\['\w[\w.]*'\]", outcome.detail)


def test_every_call_of_a_model_is_judged() -> None:
    case = posed("transformer", "sizes/several")
    calls = case.calls("float32")
    truth = case.expected(calls, {})
    replies = list(run_calls(contract("transformer").controls()["correct"], calls))
    assert case.verdict(calls, tuple(replies), truth).status == "passed"
    output = replies[5].output
    assert output is not None

    replies[5] = replace(replies[5], output=output + 0.1)

    verdict = case.verdict(calls, tuple(replies), truth)
    assert (verdict.status, verdict.detail.startswith("call 6 of 8: output[")) == ("failed", True)


def test_the_weights_of_a_config_are_the_same_in_all_cases() -> None:
    one, other = posed("transformer").calls("float32")[0], posed("transformer", "padding/none").calls("float32")[0]

    assert one.config == other.config
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


# Arithmetic without bounds


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_the_same_with_bounds_and_without(name: str) -> None:
    case = posed(name)
    call = case.calls("float32")[0]

    def value(kind: type[Rounded]) -> Any:
        def exact(tensor: torch.Tensor) -> Any:
            floating = tensor.dtype.is_floating_point
            return kind.exact(compare.numbers(tensor), PRECISIONS["float32"]) if floating else tensor.numpy()

        weights = {of: exact(tensor) for of, tensor in call.weights.items()}
        output, _ = case.model.oracle(case.config, weights, **{of: exact(given) for of, given in call.tensors.items()})
        return output

    bounded, unbounded = value(Rounded), value(Unbounded)

    assert np.array_equal(bounded.value, unbounded.value)
    assert bounded.bound.max() > 0
    assert (type(unbounded), unbounded.bound.max()) == (Unbounded, 0.0)


def test_what_is_put_together_stays_without_bounds() -> None:
    parts = [Unbounded.exact(np.ones((2, 2)), PRECISIONS["float32"])] * 2

    assert type(concatenated(parts)) is Unbounded
    assert type(-parts[0].T[0].relu().softmax()) is Unbounded


# What the documents say of sizes


def count(shapes: dict[str, tuple[int, ...]], of: str = "") -> int:
    return sum(int(np.prod(shape)) for name, shape in shapes.items() if name.startswith(of))


def derived(id: str, name: str = "num_parameters") -> int:
    return int(documents.examples()[f"doc-004/{id}"].derived[name])


def test_models_have_as_many_weights_as_the_documents_say() -> None:
    small = {"source_vocab": 200, "target_vocab": 24, "width": 24, "heads": 8, "ffn_width": 48,
             "encoder_blocks": 2, "decoder_blocks": 1}  # fmt: skip
    weights = transformer.shapes(small)

    assert count(weights, "encoder.0.") == derived("11.7.4-encoder-block-shape")
    assert count(weights, "encoder.") + count(weights, "source_embedding") == derived("11.7.4-encoder-shape")
    assert count(weights, "decoder.0.") == derived("11.7.5-decoder-block-shape")
    assert count(vision.shapes(FASHION)) == derived("11.8.5-config")
    assert count(vision.shapes(FASHION), "blocks.0.") == derived("11.8.5-config", "block_parameters")


# Exports


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("transformer", marks=pytest.mark.slow), "vision_transformer"])
@pytest.mark.parametrize("opset", [18, 23])
def test_attention_is_one_operator_from_opset_23_on(name: str, opset: int) -> None:
    pytest.importorskip("onnxscript")
    from importlib import import_module

    export = import_module(f"attnsuite.implementations.{name}.onnx_export")
    call = posed(name).calls("float32")[0]
    assert call.config is not None

    graph, seconds = export._graph(tuple(sorted(call.config.items())), torch.float32, opset)

    operators = {node.op_type for node in graph.graph.node}
    assert ("Attention" in operators) == (opset == 23)
    assert {each.domain: each.version for each in graph.opset_import}[""] == opset
    assert seconds > 0


@pytest.mark.parametrize("name", [pytest.param("transformer", marks=pytest.mark.slow), "vision_transformer"])
def test_a_model_says_what_its_making_took(name: str) -> None:
    pytest.importorskip("onnxscript")
    from importlib import import_module

    export = import_module(f"attnsuite.implementations.{name}.onnx_export")
    call = posed(name).calls("float32")[0]

    making = export.opset18(dict(call.config or {}), dict(call.weights)).making

    bytes_of_weights = sum(tensor.numel() * 4 for tensor in call.weights.values())
    assert making["export"] > 0
    assert making["session"] > 0
    assert making["file"] > bytes_of_weights


@pytest.mark.slow
def test_weights_are_those_of_the_case_and_not_of_an_earlier_model() -> None:
    """Graphs are kept by config; two models of one config must not share their weights."""
    pytest.importorskip("onnxscript")
    from attnsuite.implementations.transformer import onnx_export

    call = posed("transformer").calls("float32")[0]
    other = {name: tensor * 1.5 for name, tensor in call.weights.items()}
    config, inputs = dict(call.config or {}), [call.tensors[name] for name in call.positional]
    first, second = onnx_export.opset18(config, call.weights), onnx_export.opset18(config, other)

    assert torch.equal(first(*inputs), onnx_export.opset18(config, call.weights)(*inputs))
    assert not torch.allclose(first(*inputs), second(*inputs), atol=0.1)


def test_draws_depend_on_the_name_alone() -> None:
    assert generator("a").random() == generator("a").random() != generator("b").random()
