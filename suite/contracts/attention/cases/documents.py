"""The documents' numeric examples that this contract can answer, each printed quantity a case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.question import DERIVED, ROUNDED_INPUTS, first, generator, numbers, row, within
from suite.contracts.attention import feature
from suite.contracts.attention.cases.case import Judged, hold, judged, same_answer
from suite.contracts.attention.feature import Drawing
from suite.contracts.attention.judging import ACCEPT_OUTPUT
from suite.judging import compare
from suite.judging.verdicts import Verdict
from suite.records import Example, Status
from suite.sources import documents

Array = np.ndarray[Any, Any]

POOLING = "pooling"
"""The stage of examples that give weights or scores and values, and no query or key."""
EXPRESSIBLE = (
    "doc-003/3.3.1-softmax-naive",
    "doc-003/3.3.1-softmax",
    "doc-004/11.3.1-gaussian-equals-dot-minus-key-norm",
    "doc-004/11.3.3-bilinear",
)
"""Examples of another stage that the signature can express: softmax weights, and a matrix that the query is mapped by."""


@dataclass(frozen=True)
class Printed(asking.Case):
    """One quantity of one example: its output, or its weights read through identity values."""

    name: str
    why: str
    id: str
    quantity: str
    dtypes: tuple[str, ...] = ("float64", "float32")

    @property
    def example(self) -> dict[str, Any]:
        return documents.examples()[self.id]

    @property
    def printed(self) -> Array:
        """The expected numbers as the document gives them."""
        return numbers(self.example["expected"][self.quantity])

    @property
    def decimals(self) -> int | None:
        """How many decimals were printed; None for a derived quantity."""
        return self.example["printed_decimals"][self.quantity]  # type: ignore[no-any-return]

    def calls(self, dtype: str) -> tuple[Call, ...]:
        precision = getattr(torch, dtype)
        asked = arrays(self.example)
        if self.quantity == "weights":
            keys = asked["key"].shape[-2]
            asked["value"] = np.broadcast_to(np.eye(keys), (*asked["key"].shape[:-2], keys, keys)).copy()
        tensors = {name: torch.from_numpy(values) for name, values in asked.items()}
        tensors = {name: t if t.dtype == torch.bool else t.to(precision) for name, t in tensors.items()}
        return (Call(tensors, options(self.example)),)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Judged:
        return judged(calls[0], conventions, weights=True)

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Judged
    ) -> bool:
        return same_answer(calls[0], replies[0], theirs[0], truth)

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Judged) -> Verdict:
        verdict = hold(calls[0], replies[0], truth)
        if verdict.status != "passed" or replies[0].output is None:
            return verdict
        actual = compare.numbers(replies[0].output)
        printed = self.printed.reshape(actual.shape)
        tolerance = self.tolerance(calls[0], truth).reshape(actual.shape)
        # a row that may attend to nothing follows the contract, which the oracle knows, not the document's fill constant
        empty = (truth.truth.weights.astype(np.float64).sum(-1, keepdims=True) == 0).reshape(*actual.shape[:-1], 1)
        printed = np.where(empty, actual, printed)
        if complaint := compare.difference(actual, printed, tolerance):
            return Verdict(Status.WRONG, f"the document has another number: {complaint}", output_wrong=True)
        return verdict

    def tolerance(self, call: Call, truth: Judged) -> Array:
        """Half a unit of the last printed decimal, plus what the dtype may cost."""
        printed, bound = self.printed, truth.truth.output.bound.reshape(self.printed.shape)
        rounding = ROUNDED_INPUTS if call.tensors["query"].dtype == torch.float32 else 0.0
        unit = 0.5 * 10.0**-self.decimals if self.decimals is not None else DERIVED * abs(printed) + 1e-12
        return np.asarray(unit + rounding * abs(printed) + ACCEPT_OUTPUT * bound, dtype=np.float64)


@dataclass(frozen=True)
class Shaped(asking.Case):
    """An example whose numbers are unseeded draws: its shape, its zeros and the hull of its values remain."""

    name: str
    why: str
    id: str
    dtypes: tuple[str, ...] = ("float64", "float32")

    def calls(self, dtype: str) -> tuple[Call, ...]:
        example, random, precision = documents.examples()[self.id], generator(self.name), getattr(torch, dtype)
        tensors = {
            name: torch.from_numpy(random.random(example["inputs"][f"{name}_shape"])).to(precision)
            for name in ("query", "key", "value")
        }
        if lengths := example["inputs"].get("valid_lens"):
            tensors["attn_mask"] = torch.from_numpy(within(lengths, tensors["key"].shape[-2]))
        return (Call(tensors),)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Judged:
        return judged(calls[0], conventions)

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Judged) -> Verdict:
        verdict = hold(calls[0], replies[0], truth)
        due = tuple(documents.examples()[self.id]["expected"]["output_shape"])
        if verdict.status == "passed" and replies[0].output is not None and tuple(replies[0].output.shape) != due:
            return Verdict(
                Status.WRONG, f"output has shape {tuple(replies[0].output.shape)}, the document prints {due}"
            )
        return verdict

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Judged
    ) -> bool:
        return same_answer(calls[0], replies[0], theirs[0], truth)


def printed_examples() -> list[asking.Case]:
    """Every example of this contract that the signature can express, and weights read through identity values."""
    return [*_printed(), *_shaped()]


def _printed() -> Iterator[Printed]:
    for id, example in documents.examples().items():
        answerable = example["parameters"].get("stage", POOLING) == POOLING or id in EXPRESSIBLE
        if example["contract"] != "attention" or example["kind"] != "values" or not answerable:
            continue
        for quantity in ("output", "weights"):
            if quantity in example["expected"]:
                why = f"{example['document']}, section {example['section']}: {quantity}"
                yield Printed(f"documents/{id}/{quantity}", why, id, quantity)


def _shaped() -> Iterator[Shaped]:
    for id, example in documents.examples().items():
        if example["contract"] == "attention" and example["kind"] == "shape" and "query_shape" in example["inputs"]:
            yield Shaped(f"documents/{id}", f"{example['document']}, section {example['section']}: shape", id)


def table() -> list[Example]:
    """Each asked quantity, what the document gives and what the oracle computes in float64. No implementation is asked."""
    return [*map(_printed_row, _printed()), *map(_shape_row, _shaped())]


def _printed_row(case: Printed) -> Example:
    calls = case.calls("float64")
    computed = case.truth(calls, {}).truth.output.value.astype(np.float64)
    example, decimals = case.example, 6 if case.decimals is None else case.decimals
    given = first(case.printed.reshape(computed.shape), decimals)
    derived = case.decimals is None
    note = f"not printed; derived from the definition: {given}" if derived else ""
    if "mask_fill" in example["parameters"] and (computed == 0).all(-1).any():
        note += "; where the document's finite fill gives an empty row the mean, the contract gives zeros"
    return row(case, "" if derived else given, first(computed, decimals), note)


def _shape_row(case: Shaped) -> Example:
    shape = str(tuple(documents.examples()[case.id]["expected"]["output_shape"]))
    return row(case, shape, shape, "unseeded draws")


def arrays(example: dict[str, Any]) -> dict[str, Array]:
    """The example's inputs as query, key, value and mask; projections are applied in float64."""
    inputs, parameters = example["inputs"], example["parameters"]
    if parameters.get("stage") == POOLING:
        return pooling(inputs)
    if "x" in inputs:
        x = numbers(inputs["x"])
        asked = {name: x @ numbers(inputs[f"w_{name}"]) for name in ("query", "key", "value")}
    else:
        asked = {name: numbers(inputs[name]) for name in ("query", "key", "value") if name in inputs}
    if "m" in inputs:
        asked["query"] = asked["query"] @ numbers(inputs["m"])
    if parameters.get("score") == "-||q-k||^2/2":
        asked["attn_mask"] = -(asked["key"] ** 2).sum(-1)[None] / 2  # the query's norm drops out of the softmax
    if parameters.get("additive_mask") is not None:
        asked["attn_mask"] = numbers(parameters["additive_mask"])
    if "keep_mask" in inputs:
        asked["attn_mask"] = np.asarray(inputs["keep_mask"], dtype=bool)
    if "valid_lens" in inputs:
        asked["attn_mask"] = within(inputs["valid_lens"], asked["key"].shape[-2])
    return asked


def pooling(inputs: dict[str, Any]) -> dict[str, Array]:
    """Scores, or the logarithms of weights, as a float mask; the query is zero, so that the mask alone decides."""
    value, given = numbers(inputs["value"]), next(iter({"scores", "weights", "unnormalised"} & set(inputs)))
    mask = numbers(inputs[given])
    if given != "scores":
        with np.errstate(divide="ignore"):  # a weight of zero is a score of −∞
            mask = np.log(mask)
    return {"query": np.zeros((1, value.shape[1])), "key": np.zeros_like(value), "value": value, "attn_mask": mask}


def options(example: dict[str, Any]) -> dict[str, float | bool]:
    """The example's parameters as arguments; a scale of 1/√e is left to the default, as is one that nothing asks for."""
    parameters = example["parameters"]
    chosen: dict[str, float | bool] = {}
    if parameters.get("stage") == POOLING:
        return chosen
    width = arrays(example)["query"].shape[-1]
    scale = parameters.get("scale", 1.0)
    if abs(scale - width**-0.5) > 1e-9:
        chosen["scale"] = scale
    return chosen | feature.given({"causal": parameters.get("causal")}, Drawing(None, None, torch.float64))
