"""The documents' numeric examples of attention, each printed quantity a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Conventions, Replies
from attnsuite.cases.documented import DERIVED, DocumentedNumbers, DocumentedShape
from attnsuite.cases.expected import Expected, WithinBounds
from attnsuite.cases.formula import Formula, FormulaCase
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import Array, Generator, Inputs, numbers, valid
from attnsuite.contracts.attention import feature
from attnsuite.contracts.attention.cases.case import expected_result
from attnsuite.contracts.attention.feature import DrawContext
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging import compare
from attnsuite.model import Figures


class Attention(Formula):
    """The contract as a formula, whose oracle is not written in `WithError` numbers."""

    def expected_output(self, call: Call, conventions: Conventions, **known: Any) -> WithinBounds:
        return expected_result(call, conventions, decided=True)


def drawn(random: Generator, **shapes: tuple[int, ...]) -> Inputs:
    """Tensors of these shapes; a mask is boolean and shows most keys."""
    tensors = {name: random.normal(size=shape) for name, shape in shapes.items()}
    return {name: array > -0.5 if name == "attn_mask" else array for name, array in tensors.items()}


attention = Attention(None, INPUTS, drawn)


POOLING = "pooling"
"""The stage of examples that give weights or scores and values, and no query or key."""
EXPRESSIBLE = ("doc-003/3.3.1-softmax-naive", "doc-003/3.3.1-softmax",
    "doc-004/11.3.1-gaussian-equals-dot-minus-key-norm", "doc-004/11.3.3-bilinear")  # fmt: skip
"""Examples of another stage that the signature can express: softmax weights, and a matrix that maps the query."""
SATURATED = "doc-004/11.1-softmax-gradient-saturates"
"""The derivative of a softmax that is nearly 1, which a document says never vanishes."""


def printed_examples() -> list[DocumentedNumbers | DocumentedShape]:
    """Every example of this contract that the signature can express, and weights read through identity values."""
    shapes = [
        example for example in documents.examples_of("attention", kind="shape") if "query_shape" in example.inputs
    ]
    return [*_printed(), *map(_unseeded, shapes), _saturated()]


def _printed() -> Iterator[DocumentedNumbers]:
    for example in documents.examples_of("attention", kind="values"):
        if example.parameters.get("stage", POOLING) == POOLING or example.id in EXPRESSIBLE:
            for quantity in ("output", "weights"):
                if quantity in example.expected:
                    yield _quantity(example, quantity)


def _quantity(example: Excerpt, quantity: str) -> DocumentedNumbers:
    """An output as it is, or weights read through identity values."""
    tensors, printed = arrays(example), numbers(example.expected[quantity])
    if quantity == "weights":
        *lead, keys, _ = tensors["key"].shape
        tensors["value"] = np.broadcast_to(np.eye(keys), (*lead, keys, keys)).copy()
    case = attention.with_inputs(*example.named(quantity), tensors, **options(example))
    return DocumentedNumbers(case, example.gives(quantity), lambda output: output.reshape(printed.shape))


class KeyGradient(DocumentedNumbers):
    """A gradient of the key, which of a query of 1 is that of its scores; judged in float64, relatively alone."""

    def __init__(self, base: FormulaCase, figures: Figures, select: Callable[[Array], Array]) -> None:
        super().__init__(base, figures, select)
        self.dtypes = ("float64",)

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        ones = torch.ones(*call.tensors["query"].shape[:-1], 1, dtype=call.tensors["query"].dtype)
        return (replace(call, gradient_of=("key",), output_gradient=ones),)

    def printed_part(self, replies: Replies) -> Array:
        gradient = replies[0].gradients["key"]
        assert gradient is not None, "the form has been looked at"
        return self.select(compare.numbers(gradient))

    def tolerance(self, expected: Expected, dtype: str) -> Array:
        assert isinstance(expected, WithinBounds)
        slack = self.select(expected.gradients["key"].bound)
        return np.asarray(DERIVED * abs(self.printed) + slack)


def _saturated() -> KeyGradient:
    """The derivative of one weight with respect to a score 100 below: a gradient that is tiny, but not 0."""
    example = documents.examples()[SATURATED]
    (quantity,), scores = example.expected, numbers(example.inputs["scores"])
    tensors = {"query": np.ones((1, 1)), "key": scores[:, None], "value": np.eye(len(scores))[:, :1]}
    case = attention.with_inputs(*example.named(quantity), tensors)
    return KeyGradient(case, example.gives(quantity), lambda gradient: gradient.reshape(-1)[1])


def _unseeded(example: Excerpt) -> DocumentedShape:
    def draw(random: Generator) -> Inputs:
        drawn = {name: random.random(example.inputs[f"{name}_shape"]) for name in INPUTS}
        if lengths := example.inputs.get("valid_lens"):
            drawn["attn_mask"] = valid(lengths, drawn["key"].shape[-2])
        return drawn

    return DocumentedShape(FormulaCase(*example.named(), attention, draw), example.at(), example.output_shape)


def arrays(example: Excerpt) -> dict[str, Array]:
    """The example's inputs as query, key, value and mask; projections are applied in float64."""
    inputs, parameters = example.inputs, example.parameters
    if parameters.get("stage") == POOLING:
        return pooling(inputs)
    if "x" in inputs:
        tensors = {name: numbers(inputs["x"]) @ numbers(inputs[f"w_{name}"]) for name in INPUTS}
    else:
        tensors = {name: numbers(inputs[name]) for name in INPUTS if name in inputs}
    if "m" in inputs:
        tensors["query"] = tensors["query"] @ numbers(inputs["m"])
    if parameters.get("score") == "-||q-k||^2/2":
        tensors["attn_mask"] = -(tensors["key"] ** 2).sum(-1)[None] / 2  # the query's norm drops out of the softmax
    if parameters.get("additive_mask") is not None:
        tensors["attn_mask"] = numbers(parameters["additive_mask"])
    if "keep_mask" in inputs:
        tensors["attn_mask"] = np.asarray(inputs["keep_mask"], dtype=bool)
    if "valid_lens" in inputs:
        tensors["attn_mask"] = valid(inputs["valid_lens"], tensors["key"].shape[-2])
    return tensors


def pooling(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Scores, or the logarithms of weights, as a float mask; the query is zero, so that the mask alone decides."""
    value, source = numbers(inputs["value"]), next(iter({"scores", "weights", "unnormalised"} & set(inputs)))
    mask = numbers(inputs[source])
    if source != "scores":
        with np.errstate(divide="ignore"):  # a weight of zero is a score of −∞
            mask = np.log(mask)
    return {"query": np.zeros((1, value.shape[1])), "key": np.zeros_like(value), "value": value, "attn_mask": mask}


def options(example: Excerpt) -> dict[str, Any]:
    """The example's parameters as arguments; a scale of 1/√d is left to the default."""
    parameters = example.parameters
    chosen: dict[str, float | bool] = {}
    if parameters.get("stage") == POOLING:
        return chosen
    width = arrays(example)["query"].shape[-1]
    scale = parameters.get("scale", 1.0)
    if abs(scale - width**-0.5) > 1e-9:
        chosen["scale"] = scale
    return chosen | feature.draw_arguments({"causal": parameters.get("causal")}, DrawContext(None, None, torch.float64))
