"""The contract `merge_states`: outputs and log-sum-exps of an attention over parts of the keys become those over all.

    merge_states(outputs, lses) -> (output, lse)

    lse[…, i]    = log Σ_n exp(lses[n, …, i])
    output[…, i] = Σ_n outputs[n, …, i] · exp(lses[n, …, i] − lse[…, i])

Axes: `n … l v` outputs, `n … l` lses (n parts, l queries, v width), `… l v` and `… l` both results, with any axes in
place of …, as of items and heads. Split keys, cascades and rings merge so, as in flashinfer's `merge_states`.

    lses             natural logarithms; flashinfer's are in base 2, which is a convention: {"base": "2"}
    empty part       (0, −∞) is neutral: a part in which a query saw no key. Its output counts for nothing, whatever
                     finite numbers it has next to another part; if all parts are empty, so is the result: (0, −∞)
    range            log-sum-exps may be any numbers of their dtype: the largest is subtracted before exponentials
    order            parts may be merged one after another, as a tree, or at once
    rounding         lses and exponentials at least in float32. Weights, products and partial results may be rounded to
                     the outputs' dtype, once for each part; two parts may merge as o + w · (o' − o)
    inputs           any strides, which may differ between the two; never modified; results share no memory with them
    output           (output, lse) on the inputs' device, in the dtypes of outputs and lses: float32 for half types
    gradients        of both results, to outputs and lses
    bad input        raises if lses have other parts or axes than outputs, and on outputs without a width

Not tested:

    no parts         n = 0
    other infinities lses of +∞, as FlashAttention 2 returns for empty rows, and NaN
    gradients        where a part is empty
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Case, Variant, declare
from attnsuite.cases.changes import first_for_all, repeated_beyond
from attnsuite.cases.computations import Arguments, Sizes, Steps, all_mutants
from attnsuite.cases.covering import Contradiction, Space, drawn
from attnsuite.cases.formula import Formula
from attnsuite.cases.layouts import LayoutCase, scattered
from attnsuite.cases.mutants import Mutation, StepChange, formula, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE, Generator, Inputs
from attnsuite.judging.running_error import LIBRARY, WithError

CONTRACT = declare(
    __name__,
    features={"gradient": "a backward pass through both results"},
    also={"gradient": lambda call: bool(call.gradient_of)},
    conventions={"base": ("e", "2")},
)
Pair = tuple[Tensor, Tensor]
"""An output and its log-sum-exp."""
CONVERSIONS = 4.0
"""Roundings of log-sum-exps that change their base and back, by a rounded factor."""


class Merged:
    """The exact log-sum-exp and weights, with the errors of correct ones, by first-order analysis.

    Each merge rounds a running log-sum-exp l, whose share of the result is w = exp(l − lse): w·|l| ≤ |lse| + 1/e. Its
    difference and exponential take LIBRARY + 1 more at most, its logarithm LIBRARY. The weights of a chain telescope:
    their errors are those of the last log-sum-exp, of the differences, and of an exponential for each part.
    """

    def __init__(self, lses: WithError, base: str) -> None:
        self.factor = math.log(2) if base == "2" else 1.0
        natural, unit, self.parts = lses.value * self.factor, lses.precision.unit, lses.shape[0]
        absent = np.asarray(natural == -np.inf, dtype=bool)
        empty, largest = absent.all(0), np.where(absent.all(0), 0, natural.max(0))
        powers = WithError(natural - largest, 0.0, lses.precision).exp().value
        total = np.where(empty, 1, powers.sum(0))
        value = np.where(empty, 0, WithError(total, 0.0, lses.precision).log().value + largest)
        size = abs(value).astype(np.float64) + math.log(self.parts) + 2 + 3 * LIBRARY
        error = (self.parts + CONVERSIONS) * unit * size
        lse, bound = np.where(empty, -np.inf, value / self.factor), np.where(empty, 0, error / self.factor)
        self.lse, self.weights = WithError(lse, bound, lses.precision), powers / total  # … l and n … l
        far = np.where(absent, 0.0, (value - np.where(absent, 0, natural)).astype(np.float64))
        self.relative = np.expm1(np.minimum(error + unit * (3 * far + self.parts * LIBRARY), 700.0))  # n … l


def oracle(outputs: WithError, lses: WithError, *, base: str = "e") -> WithError:
    """The merged output, … l v."""
    merged, precision = Merged(lses, base), outputs.precision
    terms = merged.weights[..., None] * outputs.value
    value, size = terms.sum(0), abs(terms).astype(np.float64)
    rounding = (merged.parts + 2) * precision.unit + merged.parts * precision.accumulator
    bound = (size * (merged.relative[..., None] + rounding)).sum(0) + (outputs.size + 1).sum(0) * precision.tiny
    by_difference = 3 * merged.parts * precision.accumulator * outputs.size.max(0)
    return WithError(value, bound + by_difference, precision).with_rounding_error()


def gradients(
    outputs: WithError, lses: WithError, *, base: str = "e", output_gradient: WithError, second_gradient: WithError
) -> Mapping[str, WithError]:
    """w · g for outputs, and w · (Σ_v g · (outputs − output) + g_lse) for lses, where w are the weights."""
    merged, precision, upstream = Merged(lses, base), outputs.precision, output_gradient.value
    weights, unit = merged.weights, outputs.precision.unit
    products = (upstream * outputs.value).sum(-1)  # n … l
    slopes = weights * ((products - (weights * products).sum(0)) * merged.factor + second_gradient.value)
    # each merge subtracts products no larger than `size`, and a part's weight may be 1 minus that of the others
    size = 2 * (output_gradient.size * outputs.size).sum(-1).max(0) + second_gradient.size
    share, upstream_size = weights.astype(np.float64), output_gradient.size
    rounding = 2 * (merged.relative + (share * merged.relative).sum(0)) + merged.parts * (outputs.shape[-1] + 8) * unit
    off = share[..., None] * merged.relative[..., None] * upstream_size + 3 * merged.parts * unit * upstream_size
    bound = size * (share * rounding + 2 * merged.parts * unit) + outputs.precision.tiny * (1 + size)
    passed_on = weights[..., None] * upstream
    return {"outputs": WithError(passed_on, off, precision), "lses": WithError(slopes, bound, precision)}


def draw(
    random: Generator, *, parts: int = 3, shape: tuple[int, ...] = (2, 5, 4), shift: float = 0.0, apart: float = 0.0,
    empty: Sequence[int] = (), empty_rows: Sequence[int] = (), ragged: bool = False, garbage: float = 0.0,
    gradient: bool = False, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Outputs with a mean of 0.5, and lses around `shift`, every second part's `apart` below.

    The parts `empty` have no keys, `empty_rows` none in any part, and `ragged` rows none in some.
    """
    sizes = {"outputs": (parts, *shape), "lses": (parts, *shape[:-1])} | shapes
    outputs, lses = random.normal(size=sizes["outputs"]) + 0.5, random.normal(size=sizes["lses"]) * 2 + shift
    lses[1::2] -= apart
    absent = np.zeros(lses.shape, dtype=bool)
    absent[list(empty)], absent[..., list(empty_rows)] = True, True
    absent[1:] |= ragged & (random.random(lses[1:].shape) < 0.5)
    lses[absent] = -np.inf
    if not shapes:
        outputs[absent] = garbage
    upstream = {"output_gradient": random.normal(size=shape), "second_gradient": random.normal(size=shape[:-1])}
    return {"outputs": outputs, "lses": lses} | (upstream if gradient else {})


SECOND = ("lse", lambda outputs, lses, base="e": Merged(lses, base).lse)
case = Formula(*(oracle, ("outputs", "lses"), draw), second=SECOND, wide=("lses", "second_gradient"),
    gradients=gradients, conventions=("base",))  # fmt: skip
LEVELS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "parts": {"three": {}, "one": {"parts": 1}, "two": {"parts": 2}, "four": {"parts": 4}, "seventeen": {"parts": 17}},
    "range": {"near_0": {}, "high": {"shift": 1e4}, "low": {"shift": -1e4}, "apart": {"apart": 1e4}},
    "empty": {"full": {}, "first_empty": {"empty": (0,)}, "last_empty": {"empty": (-1,)}, "ragged": {"ragged": True},
              "all_empty": {"empty_rows": (0,)}},
    "axes": {"heads": {}, "no_axes": {"shape": (5, 4)}, "items": {"shape": (2, 3, 5, 4)},
             "one_query": {"shape": (2, 1, 4)}, "width_1": {"shape": (2, 5, 1)}, "width_129": {"shape": (3, 5, 129)}},
    "strides": {"in_order": {}, "outputs_scattered": {}, "lses_scattered": {}, "outputs_lses_scattered": {}},
    "backward": {"forward": {}, "backward": {"gradient": True}},
}  # fmt: skip
"""What the combined cases vary, and the unusual arguments of `draw` that each level means."""
CONTRADICTIONS = [
    Contradiction("no part is left", {"parts": ("one",), "empty": ("first_empty", "last_empty")}),
    Contradiction(
        "gradients of empty parts are not tested", {"backward": ("backward",), "empty": tuple(LEVELS["empty"])[1:]}
    ),
]
SPACE = Space({factor: tuple(levels) for factor, levels in LEVELS.items()}, CONTRADICTIONS)


def out_of_order(base: Case, *names: str) -> Case:
    """The case with these tensors from the last axis to the first in memory, with gaps."""

    def lay(call: Call) -> Call:
        return replace(call, tensors={**call.tensors, **{name: scattered(call.tensors[name]) for name in names}})

    return LayoutCase(base, lay) if names else base


def combined() -> Iterator[Case]:
    """Cases in which every pair of levels meets."""
    for row in drawn(SPACE, 0, fused=False):
        unusual = {name: value for factor, level in row.items() for name, value in LEVELS[factor][level].items()}
        dtypes = PRECISE if "gradient" in unusual else case.dtypes
        made = case(f"combined/{SPACE.write(row)}", "unusual inputs together", dtypes, **unusual)
        yield out_of_order(made, *(name for name in case.positional if name in row["strides"]))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/usual", "three parts of heads, queries and features"),
        case("parts/one", "a single part is the result", parts=1),
        case("parts/17", "one more than 16 parts", parts=17),
        case("empty/first", "no keys in the first part", empty=(0,)),
        case("empty/all", "queries that see no key in any part", empty_rows=(0, 3)),
        case("empty/ragged", "each part has other queries without a key", parts=5, ragged=True),
        case("empty/garbage", "the output of an empty part holds other numbers", empty=(1,), garbage=7.0),
        case("range/apart", "parts that differ by 10⁴", apart=1e4),
        case("range/large", "log-sum-exps of 10⁴, whose exponentials overflow", shift=1e4),
        case("range/below", "an empty part next to log-sum-exps of −60,000", empty=(1,), shift=-6e4),
        case("size/queries", "129 queries: one more than a tile of 128", shape=(129, 4)),
        case("size/nothing", "no queries", shape=(2, 0, 4)),
        case("gradient/usual", "of three parts", PRECISE, gradient=True),
        case("gradient/two", "of two parts", PRECISE, parts=2, gradient=True),
        *combined(),
        *case.layouts(),
        *(out_of_order(case(f"layout/{name}", f"{name} alone out of order"), name) for name in case.positional),
        *case.repeated(),
        *case.bad_input(
            ("queries", "lses of 4 queries for outputs of 5", {"lses": (3, 2, 4)}),
            ("parts", "2 lses for 3 outputs", {"lses": (2, 2, 5)}),
            ("axes", "lses with an axis of size 1 at the end", {"lses": (3, 2, 5, 1)}),
            ("rank", "outputs without a width", {"outputs": (3,), "lses": (3,)}),
        ),
    ]


class Merge(Steps):
    """The formula in steps that a mutant may replace."""

    def compute(self, outputs: Tensor, lses: Tensor) -> Pair:
        wide = self.wide(outputs)
        numbers, logs = self.parts(outputs.to(wide), lses.to(wide), outputs)
        largest = self.largest(logs)  # … l
        powers = self.powers(logs, largest)  # n … l
        total = powers.sum(0)
        output = self.combined(self.weights(powers, total), numbers)
        return output.to(outputs.dtype), self.lse(total, largest, powers).to(lses.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        outputs, lses = arguments["outputs"], arguments["lses"]
        if outputs.dim() < 2 or lses.shape != outputs.shape[:-1]:
            raise ValueError(f"lses of {tuple(lses.shape)} for outputs of {tuple(outputs.shape)}")

    parts = staticmethod(lambda numbers, logs, outputs: (numbers, logs))

    @staticmethod
    def largest(logs: Tensor) -> Tensor:
        largest = logs.detach().amax(0)
        return largest.masked_fill(largest == -torch.inf, 0.0)

    powers = formula(lambda logs, largest: torch.exp(logs - largest))
    weights = formula(lambda powers, total: powers / torch.where(total == 0, 1.0, total))
    combined = formula(lambda weights, numbers: (weights[..., None] * numbers).sum(0))
    lse = formula(lambda total, largest, powers: total.log() + largest)


def _by_one_stride(logs: Tensor, outputs: Tensor) -> Tensor:
    """The log-sum-exps, read with the strides of the outputs; places beyond the end begin anew."""
    places = torch.zeros((), dtype=torch.int64)
    for axis, size in enumerate(logs.shape):
        places = places[..., None] + torch.arange(size) * (outputs.stride(axis) // max(outputs.shape[-1], 1))
    return logs.reshape(-1)[places % logs.numel()] if logs.numel() else logs


def lses_by(change: Callable[..., Tensor]) -> StepChange:
    """A change of the log-sum-exps alone."""
    return with_arguments(logs=change)


def some(rows: slice) -> StepChange:
    """Some of the parts, unless there is one."""
    return with_result(lambda parts: tuple(each[rows] for each in parts) if len(parts[0]) > 1 else parts)


CONTROLS = {"correct": Merge()}
MUTANTS = all_mutants(
    Merge,
    whole={"accepts_fewer_lses": Mutation("outputs without a log-sum-exp are left out",
        with_arguments(outputs=lambda outputs, lses: outputs[: len(lses)]))},
    parts={
        "drops_first_part": Mutation("the first part is left out", some(slice(1, None))),
        "drops_last_part": Mutation("the last part is left out", some(slice(-1))),
        "merges_two_parts": Mutation("parts beyond the second are left out", some(slice(2))),
        "merges_16_parts": Mutation("parts beyond the 16th are left out", some(slice(16))),
        "lses_of_first_head": Mutation("all heads have the log-sum-exps of the first",
            lses_by(first_for_all(1, from_rank=3))),
        "lses_beyond_128": Mutation("queries beyond the 128th have its log-sum-exps",
            lses_by(lambda logs: repeated_beyond(128, -2)(logs[..., None])[..., 0])),
        "one_stride_for_both": Mutation("log-sum-exps are read with the strides of the outputs",
            lses_by(_by_one_stride), "local-inference-lab/vllm pull 17"),
        "lses_in_half": Mutation("log-sum-exps are rounded to the outputs' dtype",
            lses_by(lambda logs, outputs: logs.to(outputs.dtype).to(logs.dtype)), dtypes=("bfloat16", "float16")),
        "counts_empty_part": Mutation("a part without keys counts, as if its log-sum-exp were 0",
            lses_by(lambda logs: logs.nan_to_num(neginf=0.0)), "sglang pull 22688"),
        "reads_empty_as_minus_50000": Mutation("−∞ is read as −50,000",
            lses_by(lambda logs: logs.nan_to_num(neginf=-5e4)), "flashinfer issue 4267"),
    },
    largest={
        "empty_gives_nan": Mutation("−∞ is subtracted from −∞ where all parts are empty: NaN",
            lambda logs: logs.detach().amax(0), "vllm pulls 28181 and 39148, flashinfer issue 4051"),
        "overflows": Mutation("the largest log-sum-exp is not subtracted before exponentials",
            with_result(torch.zeros_like)),
        "first_is_largest": Mutation("the first log-sum-exp is subtracted in place of the largest",
            lambda logs: logs[0].detach(), "vllm issue 48364"),
    },
    powers={"base_2": Mutation(
        'log-sum-exps are read in base 2; if that is meant, declare conventions={"base": "2"}',
        lambda logs, largest: torch.exp2(logs - largest), "flashinfer's base among natural ones")},
    weights={"not_normalised": Mutation("weights are not divided by their sum", lambda powers, total: powers)},
    lse={
        "lse_in_base_2": Mutation("the log-sum-exp is returned in base 2",
            with_result(lambda lse: lse / math.log(2)), "pytorch issue 181645"),
        "lse_of_mean": Mutation("the log-sum-exp is that of the mean",
            with_result(lambda lse, powers: lse - math.log(len(powers)))),
        **{
            f"{name}_lse_for_empty": Mutation(f"the log-sum-exp of empty parts is {says}",
                with_result(partial(lambda lse, number: lse.masked_fill(lse == -torch.inf, number), number=number)),
                source)
            for name, says, number, source in (
                ("infinite", "+∞", torch.inf, "flash-attention pull 978"),
                ("zero", "0", 0.0, "PyTorch's flash kernel on the CPU"),
                ("finite", "−10³⁰", -1e30, "flashinfer issue 4452"),
            )
        },
        "lse_without_gradient": Mutation("no gradient flows back from the log-sum-exp", with_result(Tensor.detach)),
    },
)  # fmt: skip


def _weight(lse: Tensor, merged: Tensor) -> Tensor:
    """exp(lse − merged), and 0 for an empty part."""
    empty = lse == -torch.inf
    return torch.where(empty, 0.0, torch.exp(torch.where(empty, 0.0, lse) - torch.where(empty, 0.0, merged)))


def _two(first: Pair, second: Pair) -> Pair:
    """Two parts merged by logaddexp; the partial output has the dtype of the outputs."""
    lse = torch.logaddexp(first[1], second[1])
    output = first[0] * _weight(first[1], lse)[..., None] + second[0] * _weight(second[1], lse)[..., None]
    return output.to(first[0].dtype), lse


def _chain(outputs: Tensor, lses: Tensor, dtype: torch.dtype) -> Pair:
    """One part after another; partial outputs have this dtype."""
    output, lse = reduce(_two, zip(outputs.to(dtype), lses, strict=True))
    return output.to(outputs.dtype, copy=True), lse.clone()


@Merge.validated
def _by_softmax(outputs: Tensor, lses: Tensor) -> Pair:
    """softmax and logsumexp over the parts; torch's softmax of −∞ alone is NaN."""
    weights = torch.softmax(lses, 0).masked_fill((lses == -torch.inf).all(0), 0.0).to(outputs.dtype)
    return torch.einsum("n...,n...v->...v", weights, outputs), torch.logsumexp(lses, 0)


def variants() -> list[Variant]:
    """Correct implementations in other orders, forms and precisions."""
    in_base_2 = Merge(
        powers=lambda logs, largest: torch.exp2(logs - largest),
        lse=lambda total, largest, powers: total.log2() + largest,
    )
    return [
        Variant("chain", "one part after another, by logaddexp",
            Merge.validated(lambda outputs, lses: _chain(outputs, lses, lses.dtype))),
        Variant("half_chain", "the same, partial outputs in the outputs' dtype",
            Merge.validated(lambda outputs, lses: _chain(outputs, lses, outputs.dtype))),
        Variant("softmax", "softmax and logsumexp, weights in the outputs' dtype", _by_softmax),
        Variant("float64", "everything in float64", Merge(wide=lambda outputs: torch.float64)),
        Variant("base_2", "log-sum-exps in base 2", in_base_2, conventions={"base": "2"}),
    ]  # fmt: skip
