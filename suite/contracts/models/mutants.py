"""Mutants and correct variants that models share: of weights, attention, layers and translators."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Mutant, Variant
from attnsuite.cases.changes import as_it_lies, filled_beyond, swapped_where_equal, turned
from attnsuite.cases.computations import Steps, bias_first, linear
from attnsuite.cases.mutants import Mutation, StepChange, mutants, unless_none, with_arguments, with_result
from attnsuite.contracts.models import eager
from attnsuite.contracts.models.eager import Blocks, Config, Part, Storage
from attnsuite.contracts.shared import CALLS_OF_BACKEND, OF_WEIGHTS, READING, Weights

CHECK_WEIGHTS = {
    "accepts_extra_weights": Mutation("unexpected weights are accepted", with_arguments(
        weights=lambda weights, expected: {name: weights[name] for name in weights if name in expected})),
    "accepts_any_shapes": Mutation("the weights' shapes are not checked", with_arguments(weights=lambda weights, expected:
        {name: tensor.new_zeros(expected.get(name, ())) for name, tensor in weights.items()})),
    "accepts_mixed_dtypes": Mutation("weights of several floating dtypes are accepted", with_arguments(
        weights=lambda weights: {name: w.float() if w.is_floating_point() else w for name, w in weights.items()})),
}  # fmt: skip
"""Mutants of the step `check_weights`."""


def _clamped(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> tuple[Tensor | None, ...]:
    source = source.clamp(0, config["source_vocab"] - 1)
    target = None if target is None else target.clamp(0, config["target_vocab"] - 1)
    return eager.check_sentences(config, source, lengths.clamp(1, source.shape[1]), target)


def _for_all(rows: Tensor, source: Tensor, target: Tensor | None) -> Tensor:
    """A single row serves all items of the batch."""
    batch = max(len(source), 0 if target is None else len(target))
    return rows.expand(batch, *rows.shape[1:]) if len(rows) == 1 else rows


CHECK_SENTENCES = {
    "clamps_inputs": Mutation("tokens and lengths are clamped, not checked", _clamped),
    "counts_tokens_from_the_end": Mutation("negative tokens count from the vocabulary's end",
        with_arguments(target=unless_none(lambda target, config: target % config["target_vocab"]))),
    "broadcasts_rows": Mutation("one source, length or target serves the batch",
        with_arguments(source=lambda source, target: _for_all(source, source, target), lengths=_for_all,
        target=unless_none(lambda target, source: _for_all(target, source, target)))),
    "accepts_int32_lengths": Mutation("lengths of all integer dtypes are accepted",
        with_arguments(lengths=lambda lengths: lengths if lengths.is_floating_point() else lengths.long())),
    "inputs_as_they_lie": Mutation("tokens and lengths are read in memory order",
        with_arguments(source=as_it_lies, lengths=as_it_lies, target=unless_none(as_it_lies))),
}  # fmt: skip
"""Mutants of the step `check_inputs` of translators."""


def shared(first: str, second: str) -> Callable[[Part], dict[str, Tensor]]:
    """The tensors whose names end with `second` are replaced by those with `first`, or their transposes, if these fit."""

    def change(weights: Part) -> dict[str, Tensor]:
        changed = dict(weights)
        for name in (name for name in weights if name.endswith(second)):
            other = weights[name.removesuffix(second) + first]
            fitting = (tensor for tensor in (other, other.mT) if tensor.shape == weights[name].shape)
            changed[name] = next(fitting, weights[name])
        return changed

    return change


def _of_first_model() -> Callable[[Part, Config], Part]:
    """The weights of the first model of a config."""
    stored: dict[str, Part] = {}
    return lambda weights, config: stored.setdefault(
        str(sorted(config.items())), {name: tensor.clone() for name, tensor in weights.items()}
    )


def first_of_shape(storage: Storage, states: Tensor) -> Tensor:
    """The states of the first call of this shape."""
    first: Tensor = storage.setdefault(str(tuple(states.shape)), states)
    return first


def _rotated(weights: Weights) -> Weights:
    """Each attention gets the weights of the next one of its shape."""
    names = list(weights)

    def following(name: str, place: int) -> Tensor:
        others = (weights[other] for other in names[place + 1 :] + names[:place])
        return next((other for other in others if other.shape == weights[name].shape), weights[name])

    return {name: following(name, place) for place, name in enumerate(names)}


def _swapped(first: str, second: str, part: str = "") -> StepChange:
    """Weights whose names have `first` are swapped with those that have `second`, in a part of the model."""
    swap = partial(re.sub, f"{first}|{second}", lambda match: first if match[0] == second else second)
    return with_arguments(weights=lambda weights:
        {name: weights.get(swap(name), own) if name.startswith(part) else own for name, own in weights.items()})  # fmt: skip


RECALLED_WEIGHTS = {
    "shows_first_call": Mutation("later calls return the attention weights of the first call of a shape",
        lambda weights, storage: storage.setdefault(str({name: w.shape for name, w in weights.items()}), weights))
}  # fmt: skip
"""A mutant of the step `recalled`."""
HALVES = ("encoder", "decoder")
ATTENTION_MAPS = ("w_query", "w_key", "w_value", "w_output")


def mutants_of_blocks(computation: type[Blocks]) -> list[Mutant]:
    """The mutants of any model that consists of these blocks."""
    widened = {
        "transposed_weights": Mutation("attention's weights are transposed, as torch.nn.Linear stores them",
            with_arguments(weights=lambda weights:
            {name: turned(w) if name.endswith(ATTENTION_MAPS) else w for name, w in weights.items()})),
        "first_weights": Mutation("a model has the weights of the first one of its config",
            with_result(_of_first_model())),
        "swapped_query_and_key_weights": Mutation("the weights of queries and of keys are swapped",
            _swapped("w_query", "w_key"), others=tuple(_swapped("w_query", "w_key", part) for part in HALVES)),
        "swapped_norms": Mutation("two normalisations of a block are swapped", _swapped("norm1", "norm2"),
            others=tuple(_swapped(*pair, part) for part in HALVES for pair in combinations(("norm1", "norm2", "norm3"), 2))),
    }  # fmt: skip
    return mutants(computation, widened=widened, **HEADS, **LAYERS, **OF_BACKEND)


OF_BACKEND = {
    "call_backend": CALLS_OF_BACKEND,
    "returned": OF_WEIGHTS,
    "read": READING,
    "named": {
        "shows_next_layer": Mutation("each attention returns the weights of the next one of its shape", _rotated)
    },
    "recalled": RECALLED_WEIGHTS,
}
HEADS = {
    "factor": {
        "full_width_scale": Mutation("the scores are divided by the root of the full width, not of the head's",
            lambda head_width, heads: 1 / math.sqrt(head_width * heads), "documents, E3"),
        "unscaled": Mutation("the scores are not scaled", lambda head_width, heads: 1.0),
    },
    "split": {"swapped_items_and_heads": Mutation("items and heads are swapped where the two axes have one size",
        with_result(swapped_where_equal(rank=4)))},
    "merge": {"heads_not_moved_back": Mutation("heads are merged without moving their axis back",
        lambda mixed: mixed.reshape(len(mixed), mixed.shape[2], -1), "documents, E30")},
    "choose": {"ignores_the_plug": Mutation("the backend is not called", lambda own, backend: own)},
    "softmax": {
        "softmax_over_queries": Mutation("the softmax runs over the queries",
            lambda scores: scores.clamp_min(-1e9).softmax(-2)),
        "softmax_over_dimension_1": Mutation("the softmax runs over dimension 1, the heads",
            lambda scores: scores.clamp_min(-1e9).softmax(1), others=(lambda scores: scores.softmax(1),)),
        "drops_keys_beyond_128": Mutation("keys beyond the 128th are left out",
            with_arguments(scores=filled_beyond(128, -math.inf))),
    },
}  # fmt: skip
LAYERS = {
    "add": {"no_residual": Mutation("there are no residual connections", lambda x, y: y)},
    "norm": {
        "rms_norm": Mutation("normalisation does not subtract the mean: RMSNorm",
            lambda x, weights: x / (eager.mean_square(x) + 1e-5).sqrt() * weights["weight"] + weights["bias"]),
        "plain_norm": Mutation("normalisation leaves out its weight and bias",
            lambda x, weights: Blocks.norm(x, {"weight": x.new_ones(()), "bias": x.new_zeros(())})),
        "eps_of_a_millionth": Mutation("ε is 10⁻⁶",
            lambda x, weights: eager.normalised(x, weights, lambda c: (eager.mean_square(c) + 1e-6).sqrt())),
    },
}  # fmt: skip
"""Mutants by step."""
TRANSLATING: dict[str, Mapping[str, Mutation]] = {
    "check_inputs": CHECK_SENTENCES,
    "count": {"one_step_less": Mutation("a translation lacks its last step", lambda steps: max(1, steps - 1))},
    "read_tokens": {"reads_latest_token_alone": Mutation("each step reads only the token before it",
        lambda tokens: tokens[:, -1:])},
    "enough": {"stops_with_first_item": Mutation("all translations stop at the end of the first item's",
        lambda ended: bool(ended[0]))},
    "behind": {"shows_steps_behind_the_end": Mutation(
        "the attention weights of steps behind a translation's end are returned", lambda rows, over: rows)},
    "cut": {
        "fills_with_zeros": Mutation("zeros follow the end token",
            with_result(lambda cut, end: cut.masked_fill((cut == end).cumsum(1) > 1, 0))),
        "as_long_as_needed": Mutation("there are as many columns as the longest translation has tokens",
            lambda tokens, end, steps: eager.Translating.cut(tokens, end, steps)[:, : tokens.shape[1]]),
    },
    "check_greedy": {"clamps_greedy": Mutation(
        "begin and end tokens outside the vocabulary, and less than one step, are clamped",
        lambda greedy, vocabulary: {"begin": min(max(greedy["begin"], 0), vocabulary - 1),
        "end": min(max(greedy["end"], 0), vocabulary - 1), "steps": max(greedy["steps"], 1)})},
}  # fmt: skip
"""Mutants of translators, by step."""


Replaced = Mapping[str, Callable[..., Any]]
"""Steps by name."""


def _slope_and_offset(x: Tensor, weights: Part) -> Tensor:
    """x times a slope, plus an offset that contains the mean."""
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    slope = weights["weight"] * torch.rsqrt(variance + 1e-5)
    return x * slope + (weights["bias"] - mean * slope)


LIBRARY: Replaced = {
    "affine": linear,
    "softmax": lambda scores: scores.softmax(-1),
    "norm": lambda x, weights: functional.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"]),
}
"""PyTorch's own functions."""
REORDERED: Replaced = {
    "wide": Steps.wide,
    "affine": bias_first,
    "softmax": lambda scores: scores.mT.softmax(-2).mT,
    "norm": _slope_and_offset,
}
"""Other orders of summation; half types widen to float32."""


def variants_of(model: type[Blocks], library: Replaced, reordered: Replaced) -> list[Variant]:
    """A model by PyTorch's own functions, in other orders, and in float64; both also replace steps of the model."""
    own = {**LIBRARY, **library}
    in_float64 = model(**own, wide=lambda numbers: torch.float64)
    return [
        Variant("library", "PyTorch's own functions in the dtype itself", model(**own)),
        Variant("reordered", "biases first, keys as rows", _without_backend(model(**REORDERED, **reordered))),
        Variant("float64", "PyTorch's own functions in float64", _without_backend(in_float64)),
    ]


def _without_backend(model: Blocks) -> Callable[..., Any]:
    """The factory without its parameter for a backend, which would get another dtype than that of the weights."""

    def factory(*arguments: Any, **options: Any) -> Any:
        return model(*arguments, **options)

    parameters = inspect.signature(model).parameters.values()
    own = [parameter for parameter in parameters if parameter.name not in ("attention", "backend")]
    factory.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return factory
