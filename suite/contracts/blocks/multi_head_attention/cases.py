"""The cases of the contract `multi_head_attention`, and its workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Case, ChangedCase, Conventions
from attnsuite.cases.backends import BackendCase
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.expected import Expected, Form, WithinBounds
from attnsuite.cases.formula import repeated
from attnsuite.cases.layouts import LayoutCase, as_one_tensor, out_of_order
from attnsuite.cases.random_cases import SEED, CountedCase, DropoutCase, DropoutReader
from attnsuite.cases.tensors import PRECISE, Array, Generator, as_tensor, dtype_of, grown, identity_values, moved, valid
from attnsuite.cases.training import repetition_loss
from attnsuite.contracts.blocks.multi_head_attention.computation import (
    MultiHead,
    case,
    heads_in,
    heads_of,
    random_mask,
    scripts,
    visible,
)
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES, INPUT_BIASES, POSITIONAL
from attnsuite.contracts.blocks.multi_head_attention.documented import documented
from attnsuite.contracts.models.workloads import STEP_BYTES, STEP_FLOPS, TRAINED, TrainedWorkload
from attnsuite.judging.patterns import Judge, Seeds, kept_share, neighbours
from attnsuite.judging.patterns import repeated as repeated_draws
from attnsuite.judging.precision import Bounded
from attnsuite.model import STEP

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
        case("plain/many_keys", "129 keys, one more than a tile of 128", queries=2, keys=129),
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
        *case.layouts(
            ("mapped", "with an output map", {"out_width": 5}), ("masked", "with a mask", {"mask": mapped["mask"]})
        ),
        *case.repeated(("mapped", "biases, a mask and an output map", mapped)),
        *bad_input(),
    ]


def sizes() -> Iterator[Case]:
    """Heads, widths, biases and output maps."""
    everything: dict[str, Any] = {"batch": 1, "num_heads": 12, "head_width": 2, "value_head_width": 3, "key_width": 5}
    everything |= {"queries": 66, "keys": 67, "out_width": 5, "biases": BIASES}
    self_attention = case("bias/one_input", "self-attention of one tensor", keys=5, biases=INPUT_BIASES)
    yield case("heads/many", "more heads than a head has columns", num_heads=12, head_width=2)
    yield case(
        "heads/many_masked",
        "all options and sizes beyond tiles, under a mask",
        PRECISE,
        mask=random_mask(1, 12, 66, 67),
        **everything,
    )
    yield case("heads/many_causal", "all options and sizes beyond tiles, causal", PRECISE, is_causal=True, **everything)
    yield case("widths/query", "queries wider than all heads together", query_width=18)
    yield case("widths/all", "three different widths", query_width=6, key_width=5, value_width=3)
    yield case("widths/wide_values", "value heads wider than those of queries and keys", value_head_width=9)
    yield LayoutCase(self_attention, as_one_tensor)
    yield case("bias/all", "all four biases", out_width=5, biases=BIASES)
    yield case("output_map/square", "a square map", out_width=8)
    yield case("output_map/square_biased", "a square map with a bias", out_width=8, biases=("b_output",))


def one_sequence() -> list[Case]:
    """Self-attention with the options of other cases: modules with one input have these alone."""
    mapped: dict[str, Any] = {"out_width": 8, "biases": BIASES, **SELF}
    square = {"batch": 4, "num_heads": 4, "queries": 4, "keys": 4}
    long = {"queries": 70, "keys": 70, "num_heads": 3}
    return [
        case("heads/one_sequence", "self-attention, 12 heads", **SELF | {"num_heads": 12, "head_width": 2}),
        case("heads/one_item", "self-attention of one item with one head", **SELF | {"batch": 1, "num_heads": 1}),
        case("heads/square_sequence", "as many items as heads and positions", **SELF | square),
        case("output_map/biased_sequence", "self-attention, all biases and a square map", **mapped),
        case("output_map/one_sequence", "self-attention, a square map", **SELF, out_width=8),
        case("mask/one_sequence", "self-attention, lengths", mask=lambda _: valid([3, 4], 5)[:, None], **SELF),
        case("mask/of_sequence", "self-attention, two axes: the same for all items", mask=random_mask(5, 5), **SELF),
        case("causal/one_sequence", "self-attention", is_causal=True, **SELF),
        case("output_map/causal_sequence", "self-attention, biases and a map", is_causal=True, **mapped),
        case("causal/long_sequence", "self-attention of 70 positions", is_causal=True, **SELF | long),
        case(
            "numerics/one_sequence", "scores whose exponentials overflow", PRECISE, is_causal=True, peak=400.0, **SELF
        ),
        case("weights/one_sequence", "the weights of self-attention", need_weights=True, **SELF),
        case("weights/causal_sequence", "the same, causal", need_weights=True, is_causal=True, **SELF),
        repeated(case("again/one_sequence", "self-attention three times", PRECISE, is_causal=True, **SELF)),
    ]


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
        case("causal/long", "67 queries and 70 keys", batch=1, queries=67, keys=70, is_causal=True),
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
        _kept("kept_causal", "with is_causal", is_causal=True),
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
    dropped = case(
        "weights/dropped", "the weights before dropout", PRECISE, dropout_p=0.4, is_causal=True, **EIGHT, **shown
    )
    return [
        case("weights/usual", "every head", **shown),
        case("weights/masked", "hidden keys and empty rows have 0", mask=with_empty_rows, out_width=5, biases=BIASES,
            **shown),
        case("weights/causal", "later keys have 0", queries=7, is_causal=True, **shown),
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
    tensors = {name: tensor for name, tensor in call.tensors.items() if name not in replaced}
    tensors["value"] = as_tensor(identity_values(items, keys), dtype_of(call))
    tensors["w_value"] = as_tensor(np.concatenate([np.eye(keys)] * heads_in(call), -1), dtype_of(call))
    return replace(call, tensors=tensors)


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
        kept: Array = heads_of(output, heads_in(call)) != 0
        return kept

    def possible(self, call: Call, kept: Array) -> Array:
        return visible(call, kept.shape)

    def expected(self, call: Call, kept: Array, conventions: Conventions) -> Expected:
        (expected,) = case.expected_results((call,), conventions, keep_mask=kept)
        return expected


def _kept(name: str, why: str, p: float = 0.4, mapped: bool = False, **unusual: Any) -> DropoutCase:
    if mapped:
        unusual |= {"out_width": 5, "biases": ("b_value", "b_output")}
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
        changed = {name: moved(call.tensors[name], number, place) for place, name in enumerate(POSITIONAL[:3])}
        return {**changed, "query": grown(changed["query"], number)}

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
        output: torch.Tensor = MultiHead(wide=lambda numbers: numbers.dtype)(**call.tensors, **call.options)
        return output
