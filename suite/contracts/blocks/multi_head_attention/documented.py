"""The documents' examples: outputs, heads before they are mapped, weights read through identity values, and shapes.

An example of self-attention has a single head. If an example divides by another number than √p, its queries are scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnsuite.cases import Calls, Case, ChangedCase, Conventions, Replies
from attnsuite.cases.backends import BackendCall, BackendCase
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import Arrange, DocumentedNumbers, DocumentedShape, example
from attnsuite.cases.expected import AttentionWeights, Expected
from attnsuite.cases.formula import FormulaCase
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import PRECISE, Array, Inputs, identity_values, numbers, valid
from attnsuite.contracts.blocks.multi_head_attention import computation
from attnsuite.contracts.blocks.multi_head_attention.computation import case, heads_of, scripts
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Example, Source, Status

OF_V1, OF_V2 = "doc-003/3.4.2-self-attention-v1", "doc-003/3.4.2-self-attention-v2"
SEEDS = {
    OF_V1: 123, OF_V2: 789, "doc-003/3.5.3-causal-attention-class": 123, "doc-003/3.6.1-head-wrapper": 123,
    "doc-003/3.6.2-multi-head-split": 123,
}  # fmt: skip
"""The seeds under which the documents' modules draw their weights."""
STEPS = (
    *(f"{kind}_{role}" for kind in ("mapped", "split") for role in ("query", "key", "value")),
    *("scores", "weights", "heads", "heads_back", "merged"),
)
"""What doc-001's module returns next to its output."""
AFTER_MAPS = {
    "doc-003/3.4.1-stepwise-query-2": (OF_V1, slice(1, 2), False),
    "doc-003/3.5.1-causal-attention-pure": (OF_V2, slice(None), True),
}
"""Examples without weights: the example that has them, the queries, and is_causal."""
SPLIT = "doc-003/3.6.2-multi-head-split"
"""The example whose `forward` prints the shape of each step."""
MAP, ORDER = "doc-003/3.4.1-query-2", "doc-004/11.5.2-split-order"
"""Examples of a map alone, and of splitting and merging alone."""
MAPS = ("w_query", "w_key", "w_value")
BLOCK = "doc-004/11.7.4-encoder-block-literal"
"""A block of a Transformer, whose weights are those of its attention."""
SHAPES_OF_MAPS = {
    "queries_shape": "query", "keys_shape": "key", "values_shape": "value", "key_shape_before_split": "key"
}  # fmt: skip
"""Printed shapes of mapped inputs, and their maps."""


def documented() -> list[Case]:
    """Every quantity of an example that an output can show."""
    return [*_values(), *_drawn(), *_after_maps(), *_maps_alone(), *_heads_alone(), *_shapes(), *_refused()]


def _values() -> Iterator[DocumentedNumbers]:
    for excerpt in documents.examples_of("attention", "multi_head_attention", kind="values"):
        if "w_query" in excerpt.inputs and "stage" not in excerpt.parameters:
            heads, causal = excerpt.parameters.get("num_heads", 1), bool(excerpt.parameters["causal"])
            yield from _quantities(excerpt, _inputs(excerpt), heads, causal)
    block = documents.examples()[BLOCK]
    heads = block.parameters["num_heads"]
    yield _printed(block, "weights", _showing(_inputs(block), "weights", heads), heads)


class Drawn(ChangedCase):
    """A case whose implementation draws its own weights under a seed."""

    def __init__(self, base: Case, seed: int) -> None:
        super().__init__(base)
        self.seed, self.dtypes = seed, ("float32",)

    def calls(self, dtype: str) -> Calls:
        return tuple(replace(call, seed=self.seed) for call in self.base.calls(dtype))


def _drawn() -> Iterator[Drawn]:
    for id, seed in SEEDS.items():
        excerpt = documents.examples()[id]
        heads, causal = excerpt.parameters.get("num_heads", 1), bool(excerpt.parameters["causal"])
        yield Drawn(_printed(excerpt, "output", _inputs(excerpt), heads, causal, name="drawn", drawn=True), seed)


class StepCase(ChangedCase):
    """A case with a request for the numbers of a step."""

    def __init__(self, base: FormulaCase, source: Source, step: str) -> None:
        super().__init__(base)
        self.source, self.step, self.dtypes = source, step, PRECISE

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        plain = [replace(call, options={"num_heads": call.options["num_heads"]}) for call in calls]
        formula = replace(case, oracle=partial(computation.numbers_of, self.step))
        numbers = [formula.expected_output(call, conventions) for call in plain]
        outputs = [case.expected_output(call, conventions) for call in plain]
        steps = [{self.step: AttentionWeights(each, None)} for each in numbers]
        return tuple(replace(output, attentions=named) for output, named in zip(outputs, steps, strict=True))


def _after_maps() -> Iterator[DocumentedNumbers]:
    examples = documents.examples()
    for id, (with_weights, queries, causal) in AFTER_MAPS.items():
        inputs = _inputs(examples[with_weights])
        yield from _quantities(examples[id], inputs | {"query": inputs["query"][:, queries]}, 1, causal)


def _maps_alone() -> Iterator[Case]:
    """The visible key of a query is its own position, with the weight 1: the output is the map of the values."""
    excerpt = documents.examples()[MAP]
    second = {name: array[:, 1:2] if array.ndim == 3 else array for name, array in _mapped(excerpt, "query").items()}
    yield _printed(excerpt, "query_2", {name: second[name] for name in (*INPUTS, *MAPS)}, 1)
    for excerpt in documents.examples_of("attention", "multi_head_attention", kind="values"):
        if "x" in excerpt.inputs:
            heads = excerpt.parameters.get("num_heads", 1)
            for role in sorted({*INPUTS} & excerpt.derived.keys()):
                yield _printed(excerpt, role, _mapped(excerpt, role), heads)
            for quantity in SHAPES_OF_MAPS.keys() & excerpt.expected.keys():
                inputs, shape = _mapped(excerpt, SHAPES_OF_MAPS[quantity]), excerpt.expected[quantity]
                mapped = case.with_inputs(*excerpt.named(quantity), inputs, num_heads=heads)
                yield DocumentedShape(mapped, excerpt.at(quantity), (1, *shape)[-3:])


def _mapped(excerpt: Excerpt, role: str) -> dict[str, Array]:
    """Inputs for which the output is this map of the example's input."""
    x, weights = numbers(excerpt.inputs["x"]), numbers(excerpt.inputs[f"w_{role}"])
    x = x.reshape(-1, *x.shape[-2:])
    return dict.fromkeys(INPUTS, x) | dict.fromkeys(MAPS, weights) | {"attn_mask": np.eye(x.shape[1], dtype=bool)}


def _heads_alone() -> Iterator[DocumentedNumbers]:
    """A query that attends to its own position only, in all heads or in one of them, returns that head's values."""
    excerpt = documents.examples()[ORDER]
    x, heads = numbers(excerpt.inputs["x"]), excerpt.parameters["num_heads"]
    width = x.shape[-1] // heads
    identity, own = np.eye(x.shape[-1]), np.eye(x.shape[1], dtype=bool)
    inputs = dict.fromkeys(INPUTS, x) | dict.fromkeys(MAPS, identity)
    yield _printed(excerpt, "merged", inputs | {"attn_mask": own}, heads)
    for head in range(heads):
        alone = (np.arange(heads) == head)[None, :, None, None] & own
        values = numbers(excerpt.expected["split"])[head::heads]
        columns = slice(head * width, (head + 1) * width)
        masked = inputs | {"attn_mask": alone}
        yield _printed(excerpt, "split", masked, heads, values=values, name=f"split_{head}", columns=columns)


def _refused() -> Iterator[BadInputCase]:
    for excerpt in documents.examples_of("multi_head_attention", kind="property"):
        width, heads = excerpt.inputs["d_feat"], excerpt.inputs["num_heads"]
        name, _ = excerpt.named()
        why = f"{heads} heads for {width} columns, the defaults in {excerpt.document}, section {excerpt.section}"
        refused = case(name, why, num_heads=heads, batch=1, queries=2, keys=2, width=width)
        yield BadInputCase(refused, excerpt.at("error"))


def _quantities(excerpt: Excerpt, inputs: Inputs, heads: int, causal: bool) -> Iterator[DocumentedNumbers]:
    for quantity in ("output", "concatenated", "weights"):
        if quantity in excerpt.quantities:
            yield _printed(excerpt, quantity, _showing(inputs, quantity, heads), heads, causal)


def _printed(
    excerpt: Excerpt, quantity: str, inputs: Inputs, heads: int, causal: bool = False, values: Array | None = None,
    name: str = "", columns: slice | None = None, **more: Any,
) -> DocumentedNumbers:  # fmt: skip
    figures, factor = excerpt.gives(quantity, values), _factor(excerpt)
    remark = "" if factor == 1 else f", with queries {factor:.4f} as large"

    def select(output: Array) -> Array:
        by_head = quantity in ("weights", *INPUTS)
        arranged = heads_of(output, heads) if by_head else output[..., columns or slice(None)]
        return arranged.reshape(numbers(figures.values).shape)

    options: dict[str, Any] = {"num_heads": heads} | ({"is_causal": True} if causal else {}) | more
    printed = case.with_inputs(*excerpt.named(quantity, remark, name), inputs, **options)
    return DocumentedNumbers(printed, figures, select, remark=remark)


def _inputs(excerpt: Excerpt) -> dict[str, Array]:
    """An example's inputs by the contract's names."""
    named = excerpt.inputs
    inputs = {role: numbers(named.get(f"x_{role}", named.get("x"))) for role in INPUTS}
    inputs = {role: x.reshape(-1, *x.shape[-2:]) for role, x in inputs.items()}
    inputs |= {name: numbers(array) for name, array in named.items() if name.startswith(("w_", "b_"))}
    if "valid_lens" in named:
        inputs["attn_mask"] = valid(named["valid_lens"], inputs["key"].shape[1])[:, None]
    scaled = ("w_query", "b_query")
    return inputs | {name: _factor(excerpt) * inputs[name] for name in scaled if name in inputs}


def _factor(excerpt: Excerpt) -> float:
    """The factor of the queries that turns a division by √p into the document's own; 1 where they are equal."""
    if "scale" not in excerpt.parameters or excerpt.kind != "values" or "w_query" not in excerpt.inputs:
        return 1.0
    width = len(excerpt.inputs["w_query"][0]) // excerpt.parameters.get("num_heads", 1)
    factor = float(excerpt.parameters["scale"]) * math.sqrt(width)
    return 1.0 if math.isclose(factor, 1) else factor


def _showing(inputs: Inputs, quantity: str, heads: int) -> Inputs:
    """The inputs for which the output is this quantity."""
    unused = {"output": (), "concatenated": ("w_output", "b_output"), "weights": ("w_output", "b_output", "b_value")}
    used = {name: array for name, array in inputs.items() if name not in unused[quantity]}
    if quantity == "weights":
        items, keys = inputs["key"].shape[:2]
        used |= {"value": identity_values(items, keys), "w_value": np.concatenate([np.eye(keys)] * heads, -1)}
    return used


Shapes = Mapping[str, Sequence[int]]
OF_BACKEND: dict[str, Callable[[Shapes], Sequence[int]]] = {
    "query_split_shape": lambda shapes: shapes["query"],
    "key_split_shape": lambda shapes: shapes["key"],
    "value_split_shape": lambda shapes: shapes["value"],
    "x_raw_shape": lambda shapes: (*shapes["query"][:3], shapes["value"][3]),
}
"""Shapes that a backend sees: its inputs and its output."""


def _shapes() -> Iterator[Case]:
    """The shape of every example's output, and for one of them those of the steps."""
    for excerpt in documents.examples_of("multi_head_attention", kind="shape"):
        yield DocumentedShape(_shaped(excerpt), excerpt.at(), excerpt.output_shape)
        if "scores_shape" in excerpt.expected:
            yield from _steps(excerpt)
    split = documents.examples()[SPLIT]
    inputs, options = _inputs(split), {"num_heads": split.parameters["num_heads"], "is_causal": True}
    quantity, read = "key_shape_transposed", OF_BACKEND["key_split_shape"]
    seen = case.with_inputs(*split.named(quantity), inputs, **options)
    yield ShapeInBackend(seen, split.at(quantity), split.expected[quantity], read)
    quantity = "context_shape_merged"
    merged = case.with_inputs(*split.named(quantity), _showing(inputs, "concatenated", 2), **options)
    yield DocumentedShape(merged, split.at(quantity), split.expected[quantity])


class ShapeInBackend(ChangedCase):
    """A case with a backend, for which a document gives the shape of an input or of the output."""

    def __init__(
        self, base: FormulaCase, source: Source, shape: Sequence[int], read: Callable[[Shapes], Sequence[int]]
    ):
        super().__init__(BackendCase(base, scripts))
        self.source, self.shape, self.read, self.dtypes = source, tuple(shape), read, PRECISE

    def verdict(self, calls: Calls, replies: Replies, expected: Any) -> Verdict:
        verdict = self.base.verdict(calls, replies, expected)
        if verdict.status != Status.PASSED:
            return verdict
        actual = tuple(self.read(BackendCall.read(replies[0].attended[0]).shapes))
        if actual != self.shape:
            return Verdict(Status.FAILED, f"the heads have shape {actual}, the document gives {self.shape}")
        return verdict

    def example(self) -> Example:
        calls = self.calls("float64")
        expected = scripts(calls[0], calls[0])[0][0]
        computed = tuple(self.read({"query": expected.query, "key": expected.key, "value": expected.value}))
        assert self.source is not None
        return example(self.name, self.source, str(self.shape), str(computed), "unseeded draws")


def _steps(excerpt: Excerpt) -> Iterator[Case]:
    """The heads' inputs and outputs, their weights, and the heads side by side: arrays that the implementation makes.

    Scores are those of the contract `attention_scores`.
    """
    arranged: dict[str, tuple[Arrange, dict[str, Any]]] = {
        "attention_shape": (lambda output, weights: weights[""], {"need_weights": True}),
        "x_rsh2_shape": (lambda output, weights: output, {"out_width": 0}),
    }
    for quantity, (arrange, unusual) in arranged.items():
        shaped, shape = _shaped(excerpt, quantity, **unusual), excerpt.expected[quantity]
        yield DocumentedShape(shaped, excerpt.at(quantity), shape, arrange)
    for step in STEPS:
        name, why = excerpt.named(f"step_{step}")
        yield StepCase(replace(_shaped(excerpt, step=step), name=name, why=why), excerpt.at(f"step_{step}"), step)
    for quantity, read in OF_BACKEND.items():
        yield ShapeInBackend(_shaped(excerpt, quantity), excerpt.at(quantity), excerpt.expected[quantity], read)


def _shaped(excerpt: Excerpt, quantity: str = "", **unusual: Any) -> FormulaCase:
    """An example's shapes with unseeded numbers; an `out_width` of 0 leaves out the output map."""
    inputs, parameters = excerpt.inputs, excerpt.parameters
    batch, queries, query_width = inputs["query_shape"]
    _, keys, key_width = inputs["key_shape"]
    width, heads = parameters.get("num_hiddens") or parameters["d_feat"], parameters["num_heads"]
    biases = BIASES if parameters.get("bias", True) else ()
    usual: dict[str, Any] = {
        "out_width": width,
        "biases": tuple(bias for bias in biases if bias != "b_output" or "out_width" not in unusual),
        "query_width": query_width,
        "key_width": key_width,
        "value_width": inputs["value_shape"][2],
    }
    if "valid_lens" in inputs:
        usual["mask"] = lambda random: valid(inputs["valid_lens"], keys)[:, None]
    sizes = {"batch": batch, "queries": queries, "keys": keys, "num_heads": heads, "head_width": width // heads}
    name, why = excerpt.named(quantity)
    return case(name, why, **sizes, **{**usual, **unusual})
