"""The cases of the contract `multi_head_attention`, and its workloads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Case, ChangedCase, Conventions, tensors
from attnsuite.cases.backends import BackendCase
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import Arrange, DocumentedNumbers, DocumentedShape
from attnsuite.cases.expected import AttentionWeights, Expected, Form, WithinBounds
from attnsuite.cases.formula import FormulaCase, repeated
from attnsuite.cases.layouts import INPUTS, LayoutCase, as_one_tensor, out_of_order
from attnsuite.cases.random_cases import SEED, CountedCase, DropoutCase, DropoutReader
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, dtype_of, numbers, valid
from attnsuite.cases.training import repetition_loss
from attnsuite.contracts.blocks.multi_head_attention import computation
from attnsuite.contracts.blocks.multi_head_attention.computation import case, scripts, visible
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES, INPUT_BIASES, POSITIONAL
from attnsuite.contracts.models.workloads import STEP_BYTES, STEP_FLOPS, TRAINED, TrainedWorkload
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.additive_attention import random_mask
from attnsuite.judging.patterns import Judge, Seeds, kept_share, neighbours
from attnsuite.judging.patterns import repeated as repeated_draws
from attnsuite.judging.precision import Bounded
from attnsuite.model import STEP, Source

SELF: dict[str, Any] = {"queries": 5, "keys": 5, "one_sequence": True}
"""Self-attention of a sequence."""


def with_empty_rows(random: Generator) -> Array:
    """A mask b h l s in which some queries have no visible keys."""
    mask: Array = random.random((2, 2, 5, 7)) < 0.6
    mask[0, 1, 2] = mask[1, :, 4] = False
    return mask


def cases() -> list[Case]:
    """All cases, the plainest first."""
    mapped = {"out_width": 5, "biases": BIASES, "mask": random_mask(2, 2, 5, 7)}
    return [
        case("plain/usual", "two heads of queries and keys"),
        case("plain/square", "equal sizes: swapped axes still fit", batch=4, queries=4, keys=4, num_heads=4),
        case("plain/one_sequence", "self-attention", **SELF),
        case("plain/long_sequence", "self-attention of 129 positions", **SELF | {"queries": 129, "keys": 129}),
        case("plain/no_keys", "no keys: zeros", keys=0),
        case("plain/no_queries", "no queries", queries=0),
        case("plain/no_items", "an empty batch", batch=0),
        *documented(),
        *sizes(),
        *masks(),
        *one_sequence(),
        *dropout(),
        *weights(),
        *backend(),
        *case.layouts(("mapped", "with an output map and a mask", mapped)),
        *case.repeated(("mapped", "biases, a mask and an output map", mapped)),
        *bad_input(),
    ]


def sizes() -> Iterator[Case]:
    """Heads, widths, biases and output maps."""
    everything: dict[str, Any] = {"batch": 1, "num_heads": 12, "head_width": 2, "value_head_width": 3, "key_width": 5}
    everything |= {"queries": 66, "keys": 67, "out_width": 5, "biases": BIASES}
    self_attention = case("maps/one_input", "self-attention of one tensor", keys=5, biases=INPUT_BIASES)
    says, mask = "all options and sizes beyond tiles", random_mask(1, 12, 66, 67)
    yield case("heads/many", "more heads than a head has columns", num_heads=12, head_width=2)
    yield case("heads/many_masked", f"{says}, under a mask", PRECISE, mask=mask, **everything)
    yield case("heads/many_causal", f"{says}, causal", PRECISE, is_causal=True, **everything)
    yield case("heads/wide_queries", "queries wider than all heads together", query_width=18)
    yield case("heads/three_widths", "three different widths", query_width=6, key_width=5, value_width=3)
    yield LayoutCase(self_attention, as_one_tensor)
    yield case("maps/all", "all four biases", out_width=5, biases=BIASES)
    yield case("maps/square_biased", "a square map with a bias", out_width=8, biases=("b_output",))


def one_sequence() -> list[Case]:
    """Self-attention with the options of other cases: modules with one input have these alone."""
    mapped: dict[str, Any] = {"out_width": 8, "biases": BIASES, **SELF}
    one_head = dict.fromkeys(("query_width", "key_width", "value_width"), 9) | SELF | {"num_heads": 1}
    grouped: dict[str, Any] = {"num_heads": 4, "key_heads": 2, **SELF}
    square = {"batch": 4, "num_heads": 4, "queries": 4, "keys": 4}
    long = {"queries": 70, "keys": 70, "num_heads": 3}
    return [
        case("heads/one_sequence", "self-attention, 12 heads", **SELF | {"num_heads": 12, "head_width": 2}),
        case("heads/one_item", "self-attention of one item with one head", **SELF | {"batch": 1, "num_heads": 1}),
        case("maps/grouped", "two heads of keys for four of queries, a map", out_width=16, **grouped),
        case("heads/one_key_head", "one head of keys for six of queries", **SELF | {"num_heads": 6, "key_heads": 1}),
        case("maps/biased_grouped", "two heads of keys for four, all biases and a map", out_width=16, biases=BIASES, **grouped),
        case("causal/grouped", "two heads of keys for four, causal", is_causal=True, **grouped),
        case("heads/narrow", "a head narrower than the sequence", **one_head),
        case("heads/narrow_causal", "the same, causal", is_causal=True, **one_head),
        case("heads/narrow_long", "70 positions", is_causal=True, **one_head | {"queries": 70, "keys": 70}),
        case("heads/square_sequence", "as many items as heads and positions", **SELF | square),
        case("maps/biased_sequence", "self-attention, all biases and a square map", **mapped),
        case("maps/one_sequence", "self-attention, a square map", **SELF, out_width=8),
        case("mask/one_sequence", "self-attention, lengths", mask=lambda _: valid([3, 4], 5)[:, None], **SELF),
        case("mask/of_sequence", "self-attention, two axes: the same for all items", mask=random_mask(5, 5), **SELF),
        case("causal/one_sequence", "self-attention", is_causal=True, **SELF),
        case("maps/causal_sequence", "self-attention, biases and a map", is_causal=True, **mapped),
        case("causal/long_sequence", "self-attention of 70 positions", is_causal=True, **SELF | long),
        case("numerics/one_sequence", "large scores", PRECISE, is_causal=True, peak=400.0, **SELF),
        case("weights/causal_sequence", "the same, causal", need_weights=True, is_causal=True, **SELF),
        repeated(case("again/one_sequence", "self-attention three times", PRECISE, is_causal=True, **SELF)),
    ]  # fmt: skip


def masks() -> list[Case]:
    """Boolean masks, is_causal, and large scores."""
    low = {"peak": 3e10, "size": np.array([3e-3, 1.0])[:, None, None]}
    single = {"queries": 1, "num_heads": 1, "head_width": 8}
    low_scores = "visible scores below −10⁴ in one item, below −10⁹ in the other"
    return [
        case("mask/whole", "a mask for each query of each head of each item", mask=random_mask(2, 2, 5, 7)),
        case("mask/by_item", "lengths: the same for all heads and queries", mask=lambda _: valid([3, 6], 7)[:, None]),
        case("mask/by_query", "two axes: the same for all items and heads", mask=random_mask(5, 7)),
        case("mask/as_many_items", "two axes belong to queries and keys, not to items", queries=2,
            mask=random_mask(2, 7)),
        case("mask/square", "a square mask", queries=7, mask=random_mask(2, 1, 7, 7)),
        case("mask/one_query", "a single query and head", PRECISE, batch=3, mask=random_mask(3, 1, 1, 7), **single),
        case("mask/empty_rows", "queries without visible keys give zeros", mask=with_empty_rows),
        case("causal/square", "as many keys as queries", queries=6, keys=6, is_causal=True),
        case("causal/one_query", "a single query sees the first key only", PRECISE, is_causal=True, **single),
        case("causal/low_scores", low_scores, PRECISE, queries=3, is_causal=True, **low),
        case("numerics/low_scores", low_scores, PRECISE, mask=lambda _: valid([1, 2], 7)[:, None], **low),
        case("numerics/large_scores", "scores whose exponentials overflow", PRECISE, peak=400.0),
    ]  # fmt: skip


def dropout() -> list[Case]:
    """p = 0 and p = 1 exactly, masks read back exactly, and the statistics of many draws."""
    return [
        case("dropout/zero", "p = 0 is exact", dropout_p=0.0),
        case("dropout/one", "p = 1 gives zeros in every head", dropout_p=1.0),
        case("dropout/one_mapped", "p = 1 leaves the output's bias", dropout_p=1.0, out_width=5, biases=BIASES),
        _kept("kept", "kept weights are multiplied by 1/(1 − p)"),
        _kept("kept_rarely_dropped", "1/(1 − p) far from 1/p", p=0.1),
        _kept("kept_masked", "with a mask", mask=lambda random: random.random((2, 1, 8, 8)) < 0.7),
        _kept("kept_one_query", "a single query and head", batch=6, queries=1, num_heads=1),
        _kept("kept_mapped", "other values, their bias and an output map", mapped=True),
        _counted("share", "the share of kept weights", kept_share, p=0.1, items=16, num_heads=8, size=26),
        _counted("independent", "heads, items, queries and keys have their own draws", neighbours),
        _counted("seeds", "torch.manual_seed determines the draw", repeated_draws, seeds=(3, 3, 4)),
        _counted("successive_calls", "the generator advances", repeated_draws, seeds=(3, None)),
    ]


def weights() -> list[Case]:
    """Returned attention weights, also with dropout, which does not change them."""
    alike: dict[str, Any] = {"batch": 3, "queries": 3, "keys": 3, "num_heads": 3, "head_width": 3}
    shown: dict[str, Any] = {"need_weights": True}
    kept: dict[str, Any] = {"dropout_p": 0.4, "is_causal": True, **EIGHT, **shown}
    dropped = case("weights/dropped", "the weights before dropout", PRECISE, **kept)
    return [
        case("weights/usual", "every head", **shown),
        case("weights/masked", "hidden keys and empty rows have 0", mask=with_empty_rows, out_width=5, biases=BIASES,
            **shown),
        case("weights/square", "as many heads as items, queries and keys", PRECISE, **alike, **shown),
        case("weights/no_keys", "no keys: no weights", PRECISE, keys=0, **shown),
        repeated(case("again/weights", "three calls", PRECISE, **shown)),
        case("weights/all_dropped", "the weights before dropout with p = 1", PRECISE, dropout_p=1.0, **shown),
        DropoutCase(ShowingWeights(dropped), DroppedInHeads()),
    ]  # fmt: skip


EIGHT: dict[str, Any] = {"queries": 8, "keys": 8, "head_width": 8, "peak": 1.0}
"""Value heads as wide as the number of keys: calls that show their weights have the same sizes as others."""


def showing_weights(call: Call) -> Call:
    """The same call with identity values in every head: the output is the weights, b l (h s)."""
    items, keys = call.tensors["key"].shape[:2]
    replaced = ("value", "w_value", "b_value", "w_output", "b_output")
    shown = {name: tensor for name, tensor in call.tensors.items() if name not in replaced}
    shown["value"] = tensors.as_tensor(tensors.identity_values(items, keys), dtype_of(call))
    shown["w_value"] = tensors.as_tensor(
        np.concatenate([np.eye(keys)] * computation.heads_in(call), -1), dtype_of(call)
    )
    return replace(call, tensors=shown)


class ShowingWeights(ChangedCase):
    """Another case with a seed, whose call shows its weights; if it is `mapped`, its own call follows."""

    def __init__(self, base: Case, mapped: bool = False) -> None:
        super().__init__(base)
        self.mapped = mapped

    def calls(self, dtype: str) -> Calls:
        call = replace(self.base.calls(dtype)[0], seed=1)
        return (showing_weights(call), call) if self.mapped else (showing_weights(call),)


@dataclass(frozen=True)
class DroppedInHeads(DropoutReader):
    """Reads the kept weights off the heads side by side."""

    def form(self, call: Call) -> Form:
        shape = (*call.tensors["query"].shape[:2], call.tensors["w_value"].shape[1])
        return Form(shape, getattr(torch, dtype_of(call)), pair=True)

    def kept(self, call: Call, output: Array) -> Array:
        kept: Array = computation.heads_of(output, computation.heads_in(call)) != 0
        return kept

    def possible(self, call: Call, kept: Array) -> Array:
        return visible(call, kept.shape)

    def expected(self, call: Call, kept: Array, conventions: Conventions) -> Expected:
        (expected,) = case.expected_results((call,), conventions, keep_mask=kept)
        return expected


def _kept(name: str, why: str, p: float = 0.4, mapped: bool = False, **unusual: Any) -> DropoutCase:
    unusual |= {"out_width": 5, "biases": ("b_value", "b_output")} if mapped else {}
    of = case(f"dropout/{name}", why, dropout_p=p, **(EIGHT | unusual))
    return DropoutCase(ShowingWeights(of, mapped), DroppedInHeads())


def _counted(
    name: str, why: str, judge: Judge, seeds: Seeds = (SEED,), *, p: float = 0.3, items: int = 4, num_heads: int = 4,
    size: int = 14,
) -> CountedCase:  # fmt: skip
    """Many draws at once, with equal scores."""
    of = case(
        f"dropout/{name}", why, ("float32",), batch=items, queries=size, keys=size, num_heads=num_heads,
        head_width=size, size=0.0, dropout_p=p,
    )  # fmt: skip
    return CountedCase(ShowingWeights(of), DroppedInHeads().form, DroppedInHeads().count(judge, p, seeds), seeds)


def backend() -> Iterator[BackendCase]:
    """A backend that records how it is called."""
    cross: dict[str, Any] = {"queries": 4, "key_width": 5, "value_width": 3, "value_head_width": 3, "num_heads": 3}
    mask, shown = random_mask(2, 1, 5, 7), {"need_weights": True}
    dropped = case("dropout/plugged", "dropout of 0.4", ("float32",), dropout_p=0.4, **EIGHT)
    cases: list[Case] = [
        case("plug/called", "called once, for all heads of all items, in the query's dtype"),
        case("plug/masked", "a mask, biases and an output map", mask=random_mask(2, 2, 5, 7), out_width=5,
            biases=BIASES),
        case("causal/plugged", "is_causal, more heads than items", PRECISE, batch=1, num_heads=3, is_causal=True),
        case("plug/by_query", "a mask of two axes, other widths", PRECISE, mask=random_mask(4, 7), out_width=5,
            **cross),
        out_of_order(case("layout/plugged", "tensors with reversed axes and gaps", PRECISE, mask=mask)),
        case("dropout/plugged_certain", "dropout with p = 1", PRECISE, dropout_p=1.0, out_width=5, biases=BIASES),
        case("plug/weights", "the backend's weights are read off it", PRECISE, mask=mask, **shown),
        case("plug/weights_dropped", "its weights are read without dropout", PRECISE, is_causal=True, dropout_p=1.0,
            **shown),
        DropoutCase(ShowingWeights(dropped), DroppedInHeads()),
    ]  # fmt: skip
    return (BackendCase(case, scripts) for case in cases)


def bad_input() -> Iterator[BadInputCase]:
    """Heads, shapes, biases, masks and probabilities that do not fit."""
    return case.bad_input(
        ("heads", "3 heads for 8 columns", {"num_heads": 3, "width": 8}),
        ("no_heads", "0 heads", {"num_heads": 0, "width": 8}),
        ("negative_heads", "−2 heads", {"num_heads": -2, "width": 8}),
        ("value_heads", "2 heads for 5 columns of values", {"w_value": (8, 5)}),
        ("rank", "queries without a batch axis", {"query": (5, 8)}),
        ("query_width", "queries of width 7 with weights for 8", {"query": (2, 5, 7)}),
        ("key_width", "keys of width 6 with weights for 8", {"key": (2, 7, 6)}),
        ("value_width", "values of width 9 with weights for 8", {"value": (2, 7, 9)}),
        ("columns", "8 columns for queries and 6 for keys", {"w_key": (8, 6)}),
        ("output_map", "an output map for 6 of 8 columns", {"w_output": (6, 5)}),
        ("query_bias", "a bias of 1 for queries, which would broadcast", {"b_query": (1,)}),
        ("key_bias", "a bias of 9 for 8 columns of keys", {"b_key": (9,)}),
        ("value_bias", "a bias of 7 for 8 columns of values", {"b_value": (7,)}),
        ("output_bias", "a bias of 8 for an output of width 5", {"out_width": 5, "b_output": (8,)}),
        ("lone_output_bias", "an output bias without an output map", {"b_output": (8,)}),
        ("lengths", "7 keys with 8 values", {"value": (2, 8, 8)}),
        ("batches", "2 items of queries and 3 of keys", {"key": (3, 7, 8), "value": (3, 7, 8)}),
        ("one_item", "keys of 1 item, which would broadcast", {"key": (1, 7, 8), "value": (1, 7, 8)}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": random_mask(5, 6)}),
        ("mask_queries", "a mask for 4 of 5 queries", {"mask": random_mask(2, 2, 4, 7)}),
        ("mask_heads", "a mask for 3 of 2 heads", {"mask": random_mask(2, 3, 5, 7)}),
        ("mask_items", "a mask for 3 items, expected 1", {"batch": 1, "mask": random_mask(3, 1, 5, 7)}),
        ("mask_rank", "an ambiguous mask of 3 axes", {"mask": random_mask(2, 5, 7)}),
        ("float_mask", "a mask of numbers", {"attn_mask": (2, 2, 5, 7)}),
        ("dropout_above_1", "dropout with probability 1.5", {"dropout_p": 1.5}),
        ("dropout_below_0", "dropout with probability −0.1", {"dropout_p": -0.1}),
    )


WEIGHTS = ("w_query", "w_key", "w_value", "w_output")


def workloads() -> list[Workload]:
    """The documents' translator: attention of sentences to themselves."""
    ten, long = "ten words a sentence, as the documents train their translator", "longer sentences"
    return [
        Workload(name="translation/10", why=ten, batch=128, length=10, profiles=TRAINED),
        Workload(name="translation/128", why=long, batch=8, length=128, profiles={"full": TRAINED["full"]}),
    ]


@dataclass(frozen=True, kw_only=True)
class Workload(TrainedWorkload):
    """Attention of a sequence to itself, all maps without biases. Axes: query, key and value b l d, weights d d."""

    width: int = 256
    heads: int = 4

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def shape(self) -> str:
        return f"batch {self.batch}, {self.heads} heads, length {self.length}, width {self.width}"

    @property
    def rows_of_item(self) -> int:
        return self.length

    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        random, kind = self.generator(), getattr(torch, dtype)

        def drawn(name: str, *size: int) -> torch.Tensor:
            if device == "meta":
                return torch.empty(size, dtype=kind, device="meta")
            return (torch.randn(size, generator=random) * (self.width**-0.5 if name in WEIGHTS else 1.0)).to(kind)

        tensors = {name: drawn(name, self.batch, self.length, self.width) for name in POSITIONAL[:3]}
        tensors |= {name: drawn(name, self.width, self.width) for name in WEIGHTS}
        return Call(tensors, {"num_heads": self.heads}, POSITIONAL, gradient_of=WEIGHTS if direction == STEP else ())

    def loss(self, output: torch.Tensor, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return repetition_loss(output, inputs)

    def tensors_of_round(self, call: Call, number: int) -> Mapping[str, torch.Tensor]:
        """Queries, keys and values with moved numbers, queries that have grown."""
        changed = {name: tensors.moved(call.tensors[name], number, place) for place, name in enumerate(POSITIONAL[:3])}
        return {**changed, "query": tensors.grown(changed["query"], number)}

    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        """Of the tensors a step reads inputs, output and their gradients, of the weights what Adam reads as well."""
        tokens, size = self.batch * self.length, getattr(torch, dtype).itemsize
        flops = 2.0 * tokens * self.width * (4 * self.width + 2 * self.length)
        activations, weights = 4.0 * tokens * self.width * size, 4.0 * self.width**2 * size
        if direction == STEP:
            flops, activations, weights = STEP_FLOPS * flops, 2 * activations, STEP_BYTES * weights
        return {"attended": flops, "convention": flops, "bytes": activations + weights, "tokens": float(tokens)}

    def expected(self, dtype: str, number: int, item: int) -> WithinBounds:
        call = self.call_of_round(dtype, "forward", number)
        alone = {name: call.tensors[name][item : item + 1] for name in POSITIONAL[:3]}
        expected = case.expected_output(replace(call, tensors={**call.tensors, **alone}), {})
        value, bound = (array.reshape(-1, self.width) for array in (expected.output.value, expected.output.bound))
        return replace(expected, form=Form(value.shape, expected.form.dtype), output=Bounded(value, bound))

    def eager(self, call: Call) -> torch.Tensor:
        output: torch.Tensor = computation.MultiHead(wide=lambda numbers: numbers.dtype)(**call.tensors, **call.options)
        return output


OF_V1, OF_V2 = "doc-003/3.4.2-self-attention-v1", "doc-003/3.4.2-self-attention-v2"
OF_123 = (OF_V1, "doc-003/3.5.3-causal-attention-class", "doc-003/3.6.1-head-wrapper", "doc-003/3.6.2-multi-head-split")
SEEDS = dict.fromkeys(OF_123, 123) | {OF_V2: 789}
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
SHAPES = ("queries_shape", "keys_shape", "values_shape", "key_shape_before_split")
SHAPES_OF_MAPS = dict(zip(SHAPES, (*INPUTS, "key"), strict=True))
"""Printed shapes of mapped inputs, and their maps."""


def documented() -> list[Case]:
    """Every quantity of an example that an output can show."""
    parts = (_values(), _drawn(), _after_maps(), _maps_alone(), _heads_alone(), _combined(), _shapes(), _refused())
    return [case for part in parts for case in part]


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
        plain = replace(calls[0], options={"num_heads": calls[0].options["num_heads"]})
        shown = replace(case, oracle=partial(computation.numbers_of, self.step)).expected_output(plain, conventions)
        weights = {self.step: AttentionWeights(shown, None)}
        return (replace(case.expected_output(plain, conventions), attentions=weights),)


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
            for quantity in filter(excerpt.expected.__contains__, SHAPES_OF_MAPS):
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


def _combined() -> Iterator[DocumentedNumbers]:
    """A decoder's state next to its context, by one head without maps."""
    vector, step = (documents.examples()[f"doc-002/{name}"] for name in ("output-vector", "decoder-step"))
    arrays = {name: array[None] for name, array in step.numbers(INPUTS).items()} | dict.fromkeys(MAPS, np.eye(2))
    one_head = case.with_inputs(*vector.named("combined"), arrays | {"w_query": np.eye(2) * math.sqrt(2)}, num_heads=1)
    state = numbers(vector.inputs["decoder_state"])
    yield DocumentedNumbers(one_head, vector.gives("combined"), lambda x: np.concatenate([state, x.ravel()]))


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
        arranged = computation.heads_of(output, heads) if by_head else output[..., columns or slice(None)]
        return arranged.reshape(numbers(figures.values).shape)

    options: dict[str, Any] = {"num_heads": heads} | ({"is_causal": True} if causal else {}) | more
    printed = case.with_inputs(*excerpt.named(quantity, remark, name), inputs, **options)
    return DocumentedNumbers(printed, figures, select)


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
        used |= {"value": tensors.identity_values(items, keys), "w_value": np.concatenate([np.eye(keys)] * heads, -1)}
    return used


SPLIT_SHAPES = {f"{role}_split_shape": f"split_{role}" for role in INPUTS} | {"x_raw_shape": "heads"}
"""Shapes that a document gives of a step, and the step."""


def _shapes() -> Iterator[Case]:
    """The shape of every example's output, and for one of them those of the steps."""
    for excerpt in documents.examples_of("multi_head_attention", kind="shape"):
        yield DocumentedShape(_shaped(excerpt), excerpt.at(), excerpt.output_shape)
        if "scores_shape" in excerpt.expected:
            yield from _steps(excerpt)
    split = documents.examples()[SPLIT]
    inputs = _inputs(split)
    transposed = case.with_inputs(*split.named("key_shape_transposed"), inputs, num_heads=2, step="split_key")
    yield _shape_of_step(split, "key_shape_transposed", transposed, "split_key")
    quantity = "context_shape_merged"
    shown = _showing(inputs, "concatenated", 2)
    merged = case.with_inputs(*split.named(quantity), shown, num_heads=2, is_causal=True)
    yield DocumentedShape(merged, split.at(quantity), split.expected[quantity])


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
    for quantity, step in SPLIT_SHAPES.items():
        yield _shape_of_step(excerpt, quantity, _shaped(excerpt, quantity, step=step), step)


def _shape_of_step(excerpt: Excerpt, quantity: str, base: FormulaCase, step: str) -> DocumentedShape:
    shown = StepCase(base, excerpt.at(quantity), step)
    return DocumentedShape(
        shown, excerpt.at(quantity), excerpt.expected[quantity], lambda output, weights: weights[step]
    )


def _shaped(excerpt: Excerpt, quantity: str = "", **unusual: Any) -> FormulaCase:
    """An example's shapes with unseeded numbers; an `out_width` of 0 leaves out the output map."""
    inputs, parameters = excerpt.inputs, excerpt.parameters
    batch, queries, query_width = inputs["query_shape"]
    _, keys, key_width = inputs["key_shape"]
    width, heads = parameters.get("num_hiddens") or parameters["d_feat"], parameters["num_heads"]
    biases: tuple[str, ...] = BIASES if parameters.get("bias", True) else ()
    biases = tuple(bias for bias in biases if bias != "b_output" or "out_width" not in unusual)
    usual: dict[str, Any] = {"out_width": width, "biases": biases, "query_width": query_width, "key_width": key_width}
    usual["value_width"] = inputs["value_shape"][2]
    if "valid_lens" in inputs:
        usual["mask"] = lambda random: valid(inputs["valid_lens"], keys)[:, None]
    sizes = {"batch": batch, "queries": queries, "keys": keys, "num_heads": heads, "head_width": width // heads}
    name, why = excerpt.named(quantity)
    return case(name, why, **sizes, **{**usual, **unusual})
