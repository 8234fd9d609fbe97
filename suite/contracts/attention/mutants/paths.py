"""Mutants that are wrong on one path of a kernel alone: whole tiles, long axes, some groups, widths, layouts and counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Condition, Dense, Whole, at, correct, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients, Saved
from attnsuite.contracts.attention.features.mask import is_bool
from attnsuite.contracts.attention.mutants.inputs import misread
from attnsuite.contracts.attention.mutants.rounding import beyond_half
from attnsuite.contracts.attention.mutants.sizes import with_first_keys, with_zero_columns

Change = Callable[[AttentionCall], AttentionCall]


def _only(change: Change) -> Callable[[Condition], StepChange]:
    """The mistake of a path that changes the call."""
    return lambda here: with_arguments(call=lambda call: change(call) if here(call) else call)


def _without(option: str, default: Any = None) -> Callable[[Condition], StepChange]:
    return _only(lambda call: call.but(**{option: default}))


def _of_kind(boolean: bool) -> Callable[[Condition], StepChange]:
    """A mask of this kind is ignored."""

    def change(call: AttentionCall) -> AttentionCall:
        mask = call["attn_mask"]
        return call if mask is None or is_bool(mask) != boolean else call.but(attn_mask=None)

    return _only(change)


def tiled_heads(call: AttentionCall) -> AttentionCall:
    """Query head i reads key head i mod g."""
    if not call.grouped:
        return call
    which = [head % call.key_heads for head in range(call.heads)]
    return call.changed(lambda tensor: tensor[..., which, :, :], "key", "value")


def _first_row_of_mask(call: AttentionCall) -> AttentionCall:
    mask = call["attn_mask"]
    return call if mask is None or mask.dim() < 2 else call.but(attn_mask=mask[..., :1, :].expand_as(mask))


def _refused(call: AttentionCall) -> AttentionCall:
    raise RuntimeError("this call is not supported")


TILES = "at_whole_tiles"
TALL = ("beyond_4096_queries", "beyond_32768_queries")
WIDE = ("beyond_4096_keys", "beyond_8192_keys", "beyond_32768_keys")
THREADS = ("on_4_threads", "on_6_threads", "on_8_threads")
MET = ("in_groups_of_3_over_16_keys", "in_groups_of_7_over_16_keys")


def _in_tiles(call: AttentionCall) -> bool:
    return call.queries > 64 and call.keys > 64


def _crops_width(width: int) -> StepChange:
    """The last eight components of query and key are not read."""

    def change(call: AttentionCall) -> AttentionCall:
        if call.width != width or not _in_tiles(call):
            return call
        return replace(call, query=with_zero_columns(call.query, width - 8)).but(
            scale=width**-0.5 if call["scale"] is None else call["scale"]
        )

    return with_arguments(call=change)


def _loses_pair(width: int, value_width: int) -> StepChange:
    """The last column of the output is 0 for one pair of widths."""
    return with_result(
        lambda output, call: (
            with_zero_columns(output, value_width - 1)
            if (call.width, call.value_width) == (width, value_width) and _in_tiles(call)
            else output
        )
    )


PAIRS = ((192, 128), (576, 512), (64, 32), (128, 64))


def _half_of_value_gradient(gradient: Tensor, saved: Saved) -> Tensor:
    width, value_width = saved.call.width, saved.call.value_width
    if width < 128 or value_width % 64 == 0:
        return gradient
    lost = torch.arange(value_width) // 32 == value_width // 2 // 32
    return gradient.masked_fill(lost & (torch.arange(value_width) < value_width // 2), 0.0)


def _lost_together(lost: str, *wanted: str) -> StepChange:
    """The gradient of an input is 0 where exactly these are wanted."""

    def change(gradients: Gradients, saved: Saved) -> Gradients:
        gradient = gradients.get(lost)
        if saved.wanted != frozenset(wanted) or gradient is None:
            return gradients
        return {**gradients, lost: torch.zeros_like(gradient)}

    return with_result(change)


def _without_last_key(here: Callable[[AttentionCall], Any]) -> StepChange:
    """The gradient of the last key is 0."""

    def lost(gradient: Tensor) -> Tensor:
        return torch.cat([gradient[..., :-1, :], torch.zeros_like(gradient[..., -1:, :])], -2)

    return with_result(lambda gradient, saved: lost(gradient) if here(saved.call) else gradient)


def _in_largest(gradient: Tensor, saved: Saved, count: int) -> Tensor:
    """The gradient of the keys beyond some is 0."""
    beyond = torch.arange(gradient.shape[-2]).unsqueeze(-1) >= count
    return gradient.masked_fill(beyond, 0.0)


def _mask_gradient(here: Callable[[Tensor, Tensor], Any]) -> Any:
    """The last column of the mask's gradient is 0."""

    def step(d_scores: Tensor, mask: Tensor) -> Tensor:
        gradient = d_scores.sum_to_size(mask.shape)
        return with_zero_columns(gradient, gradient.shape[-1] - 1) if here(d_scores, mask) else gradient

    return step


TOGETHER = {
    "query_beside_value": ("query", "query", "value"),
    "value_beside_query": ("value", "query", "value"),
    "key_beside_value": ("key", "key", "value"),
    "query_beside_key": ("query", "query", "key"),
    "value_beside_mask": ("value", "value", "attn_mask"),
    "mask_beside_value": ("attn_mask", "value", "attn_mask"),
    "mask_beside_query": ("attn_mask", "query", "attn_mask"),
}


@Backward.instead("weights_gradient", "with one query, the gradient of dropped weights reaches the mask",
    source="bias kernels that forget the dropout mask")  # fmt: skip
def forgets_dropout_in_gradient_of_one_query(d_output: Tensor, value: Tensor, keep: Tensor | float) -> Tensor:
    products = d_output @ value.transpose(-1, -2)
    return products * keep if isinstance(keep, float) or products.shape[-2] > 1 else products / (1 - 0.4)


def shared(tensor: Tensor, axis: int) -> bool:
    return tensor.dim() == 4 and tensor.shape[axis] > 1 and tensor.stride(axis) == 0


def _expanded_on_one(tensor: Tensor) -> Tensor:
    """A stride of 0 along items or heads is taken for one along both."""
    alone = tensor.dim() == 4 and (shared(tensor, 0) != shared(tensor, 1))
    return misread(tensor, (0, 0, *tensor.stride()[2:]), int(tensor.storage_offset())) if alone else tensor


def _as_projected(tensor: Tensor) -> Tensor:
    """Memory in which queries come before items is read as if items were stored first."""
    if tensor.dim() != 4 or tensor.is_contiguous() or 0 in tensor.stride() or tensor.stride(-1) != 1:
        return tensor
    items, heads, rows, width = tensor.shape
    if items == 1 or tensor.stride(2) <= tensor.stride(0):
        return tensor
    return misread(tensor, (rows * heads * width, width, heads * width, 1), int(tensor.storage_offset()))


def _dense_axis(axis: int) -> Callable[[Any, AttentionCall], Any]:
    """A mask's stride of 0 along an axis is read as the stride of dense memory."""

    def change(mask: Any, call: AttentionCall) -> Any:
        if mask is None or mask.dim() < -axis or mask.stride(axis) or mask.shape[axis] < 2:
            return mask
        strides = list(mask.stride())
        strides[axis] = math.prod(mask.shape[axis:][1:])
        return misread(mask, strides, int(mask.storage_offset()))

    return change


def _as_dense_beyond_a_tile(gradient: Tensor) -> Tensor:
    """The rows of a slice are read as if they followed each other, beyond 64."""
    if gradient.shape[-2] <= 64 or gradient.stride(-1) != 1 or gradient.stride(-2) <= gradient.shape[-1]:
        return gradient
    strides = (*gradient.stride()[:-2], gradient.shape[-1], 1)
    return misread(gradient, strides, int(gradient.storage_offset()))


def whole_vectors(tensor: Tensor) -> Tensor:
    """The tensor as a kernel reads it that loads one column too many and multiplies it by 0."""
    if tensor.dtype == torch.bool or tensor.is_contiguous() or 0 in (*tensor.stride(), tensor.numel()):
        return tensor
    behind = misread(tensor.detach(), tensor.stride(), int(tensor.storage_offset()) + tensor.stride(-1))[..., -1:]
    return tensor + 0 * behind.where(behind.isnan(), torch.zeros_like(behind))


def _mask_with(change: Callable[[Any, AttentionCall], Any]) -> Any:
    return lambda call: change(call["attn_mask"], call)


def _floor(start: float) -> Callable[[Tensor, AttentionCall], Tensor]:
    """The running maximum starts at a finite number, so that rows below it vanish."""

    def softmax(scores: Tensor, call: AttentionCall) -> Tensor:
        if not scores.shape[-1]:
            return Dense.softmax(scores, call)
        largest = scores.detach().amax(-1, keepdim=True).clamp(min=start)
        exponentials = (scores - largest).exp()
        total = exponentials.sum(-1, keepdim=True)
        return exponentials / total.masked_fill(total == 0, 1.0)

    return softmax


def _shifting(count: int) -> Callable[[Tensor, float], Tensor]:
    """Each seed has a stream; each call reads it from `count` places later on."""
    left: dict[int, int] = {}

    def step(weights: Tensor, p: float) -> Tensor:
        seed = torch.initial_seed()
        fresh = bool((torch.get_rng_state() == torch.Generator().manual_seed(seed).get_state()).all())
        calls = left[seed] = 0 if fresh else left.get(seed, 0) + 1
        torch.rand(1)
        stream = torch.rand(weights.numel() + calls * count, generator=torch.Generator().manual_seed(seed))
        drawn = stream[calls * count :].reshape(weights.shape) >= p
        return weights * drawn / (1 - p if p < 1 else 1.0)

    return step


_FIRST: dict[Any, bool] = {}
"""Whether the first call of a dtype and width was aligned, by mutant."""


def _specialised(name: str, aligned: bool, here: Condition = lambda call: True) -> Any:
    """Later calls are computed as the first one of their dtype and width: in whole vectors of keys, or one by one."""

    def attention(call: AttentionCall) -> Any:
        key = name, call.query.dtype, call.width
        first = _FIRST.setdefault(key, call.keys % 16 == 0)
        if first == aligned and (call.keys % 16 == 0) != aligned and call.keys > 16 and here(call):
            return correct(with_first_keys(call, call.keys // 16 * 16 if aligned else call.keys - 1))
        return correct(call)

    return attention


CALLS = mutants(
    Whole,
    attention={
        **in_places("ignores_bool_mask", "a boolean mask is ignored", _of_kind(True), TILES, *WIDE, *TALL, *MET,
            *THREADS, "beyond_32_items", "beyond_the_grid", "for_one_query"),
        **in_places("ignores_float_mask", "a float mask is ignored", _of_kind(False), TILES, *WIDE, *TALL,
            "beyond_64_heads", "for_one_query", "that_is_a_parameter"),
        **in_places("uses_first_querys_mask", "the mask's first row is used for all queries", _only(_first_row_of_mask),
            *TALL),
        **in_places("ignores_causal", "is_causal is ignored", _without("is_causal", False), TILES, *TALL, *THREADS,
            "without_grad_mode"),
        **in_places("ignores_window", "the window is ignored", _without("window"), TILES, *TALL, *MET),
        **in_places("ignores_scale", "a given scale is ignored", _without("scale"), TILES, *WIDE, *TALL, "of_numpy",
            "that_is_no_float", "without_grad_mode"),
        **in_places("ignores_dropout", "dropout is ignored", _without("dropout_p", 0.0), TILES,
            "for_one_query", "without_gradient", "without_grad_mode"),
        **in_places("reads_first_key_head", "with grouped heads, all query heads read the first key head",
            _only(lambda call: call.changed(lambda tensor: tensor[..., :1, :, :].expand_as(tensor), "key", "value")
            if call.grouped else call), "without_grad_mode", "for_one_query"),
        **in_places("tiles_key_heads", "query head i reads key head i mod g", _only(tiled_heads), TILES, *WIDE, *TALL,
            *(f"in_groups_of_{n}" for n in (3, 5, 6, 7, 12, 16)), "beyond_64_heads", "beyond_the_grid", *THREADS),
        **in_places("crops_values", "the last column of values of another width is 0",
            _only(lambda call: call if call.value_width == call.width or not call.value_width
            else call.changed(lambda value: with_zero_columns(value, call.value_width - 1), "value")), TILES, *WIDE),
        **in_places("aligns_causal_at_the_end", "causal is aligned at the lower right",
            _only(lambda call: replace(call, conventions={**call.conventions, "causal": "lower_right"})), TILES,
            "with_mask"),
        **in_places("drops_last_key", "the last key is not read",
            _only(lambda call: with_first_keys(call, call.keys - 1)), *THREADS),
        **in_places("refuses_call", "an error is raised", _only(_refused), "in_rank_2", "in_rank_3", "when_grouped",
            "without_keys", "without_queries", "with_mask_and_no_items", "with_dropout_and_no_keys",
            "in_a_window_without_keys", "for_gradients_of_groups_without_keys", "without_queries_and_keys",
            "when_causal_without_keys", "for_groups_without_queries"),
        **{f"crops_width_{n}_in_tiles": Mutation(
            f"at width {n} and more than 64 queries and keys, the last eight components are not read", _crops_width(n))
            for n in (40, 48, 80, 96, 112, 160, 192, 224, 320, 576)},
        **{f"loses_column_at_widths_{e}_{v}": Mutation(
            f"at width {e} and value width {v}, beyond a tile, the last column is 0", _loses_pair(e, v))
            for e, v in PAIRS},
        **{f"reads_whole_vectors{name}_after_aligned_call": Mutation(
            f"after a first call with a multiple of 16 keys, later calls{words} lose the remainder",
            _specialised(name, True, here)) for name, words, here in (("", "", lambda call: True),
            ("_of_causal", " under causal", lambda call: call["is_causal"]),
            ("_in_training", " with gradients", lambda call: call.wants_gradient))},
        "loses_key_after_ragged_call": Mutation(
            "after a first call with an odd number of keys, later calls with whole tiles lose the last key",
            _specialised("ragged", False)),
    },
)  # fmt: skip
STEPS = mutants(
    Dense,
    receive={
        "takes_one_expanded_axis_for_both": Mutation(
            "key and value expanded along items or heads alone are read as expanded along both",
            with_arguments(call=lambda call: call.changed(_expanded_on_one, "key", "value"))),
        "reads_time_major_as_projected": Mutation("memory with the axes l b h e is read as b l h e",
            with_arguments(call=lambda call: call.changed(_as_projected))),
        **{f"multiplies_columns_behind_{name}_by_zero": Mutation(
            f"a vector of the {name} is loaded whole and its last part multiplied by 0: what lies behind may be NaN",
            with_arguments(call=lambda call, name=name: call.changed(whole_vectors, name)))
            for name in ("query", "key", "value")},
    },
    mask={
        **{f"reads_expanded_{name}_of_mask": Mutation(f"a mask's {name} of stride 0 are read as dense memory",
            _mask_with(_dense_axis(axis))) for name, axis in (("columns", -1), ("rows", -2), ("items", -4))},
        "multiplies_columns_behind_mask_by_zero": Mutation(
            "a vector of the mask is loaded whole and its last part multiplied by 0",
            _mask_with(lambda mask, call: None if mask is None else whole_vectors(mask))),
    },
    softmax={f"starts_maximum_at_minus_{words}": Mutation(f"the running maximum starts at −{words}: lower rows vanish",
        _floor(-start)) for words, start in {"65504": 65504.0, "100000": 1e5}.items()},
    float_mask={"adds_bias_in_float16": Mutation("score and bias are added in float16, whose range ends at 65,504",
        lambda scores, mask, call: beyond_half(scores + mask), dtypes=("float16",))},
    dropout={**{f"moves_stream_on_by_{n}": Mutation(f"successive calls draw from one stream, {n} places later each",
        _shifting(n)) for n in (1, 4, 16)}},
)  # fmt: skip
BACKWARD = mutants(
    Backward,
    deliver={
        f"loses_gradient_of_{name}": Mutation(
            f"where gradients of {' and '.join(wanted)} alone are wanted, that of {lost} is 0",
            _lost_together(lost, *wanted))
        for name, (lost, *wanted) in TOGETHER.items()
    },
    value_gradient={
        "loses_value_gradient_beside_wide_keys": Mutation(
            "at widths from 128 on, columns of the value's gradient are lost where no 64 divide its width",
            with_result(_half_of_value_gradient), "flash-attention issue 2552"),
        "loses_value_gradient_at_whole_tiles": Mutation(
            "where queries and keys are multiples of 64, the last value has no gradient", _without_last_key(at(TILES))),
    },
    key_gradient={
        **{f"loses_key_gradient_beyond_{n}_keys": Mutation(f"beyond {n} keys there is no gradient of the key",
            with_result(lambda gradient, saved, n=n: _in_largest(gradient, saved, n) if saved.call.keys > n else
            gradient)) for n in (4096, 32768)},
        "loses_key_gradient_of_odd_groups": Mutation(
            "with 5, 6 or 7 query heads to a key head, the last key has no gradient",
            _without_last_key(lambda call: call.heads // call.key_heads in (5, 6, 7))),
        "loses_key_gradient_at_widths_between": Mutation(
            "at widths of 40, 112, 160 and 224 the last key has no gradient beyond a tile",
            _without_last_key(lambda call: call.width in (40, 112, 160, 224) and _in_tiles(call))),
        "loses_key_gradient_beyond_the_grid": Mutation("with more than 65,535 matrices the last key has no gradient",
            _without_last_key(at("beyond_the_grid"))),
    },
    query_gradient={**{f"loses_query_gradient_beyond_{n}_queries": Mutation(
        f"beyond {n} queries there is no gradient of the query",
        with_result(lambda gradient, saved, n=n: _in_largest(gradient, saved, n) if saved.call.queries > n
        else gradient)) for n in (4096, 32768)}},
    mask_gradient={
        "loses_mask_gradient_at_whole_tiles": Mutation(
            "where queries and keys are multiples of 64, the last column of the mask's gradient is 0",
            _mask_gradient(lambda d_scores, mask: d_scores.shape[-1] % 64 == 0 == d_scores.shape[-2] % 64)),
        "loses_mask_gradient_beyond_4096_keys": Mutation(
            "beyond 4,096 keys the last column of the mask's gradient is 0",
            _mask_gradient(lambda d_scores, mask: d_scores.shape[-1] > 4096)),
    },
    output_gradient={
        "reads_slices_of_output_gradient_as_dense": Mutation(
            "beyond 64 queries the rows of a sliced output gradient are read as dense memory",
            with_arguments(gradient=_as_dense_beyond_a_tile)),
        "multiplies_columns_behind_output_gradient_by_zero": Mutation(
            "a vector of the output gradient is loaded whole and its last part multiplied by 0",
            with_arguments(gradient=whole_vectors)),
    },
)  # fmt: skip
