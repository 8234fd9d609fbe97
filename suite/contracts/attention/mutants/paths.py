"""Mutants that are wrong on one path of a kernel alone: whole tiles, long axes, some groups, widths, layouts and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import INPUTS, AttentionCall
from attnsuite.contracts.attention.computation.forward import Condition, Dense, Whole, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.features.mask import is_bool
from attnsuite.contracts.attention.mutants.inputs import misread
from attnsuite.contracts.attention.mutants.rounding import beyond_half
from attnsuite.contracts.attention.mutants.sizes import with_first_keys, with_zero_columns

TILES = "at_whole_tiles"
TALL = ("beyond_4096_queries", "beyond_32768_queries")
WIDE = ("beyond_4096_keys", "beyond_8192_keys", "beyond_32768_keys")
THREADS = ("on_4_threads", "on_6_threads", "on_8_threads")
MET = ("in_groups_of_3_over_16_keys", "in_groups_of_7_over_16_keys")


def _only(change: Callable[[AttentionCall], AttentionCall]) -> Callable[[Condition], StepChange]:
    """The mistake of a path that changes the call."""
    return lambda here: with_arguments(call=lambda call: change(call) if here(call) else call)


def _without_mask(boolean: bool) -> Callable[[Condition], StepChange]:
    """A mask of this kind is ignored."""

    def change(call: AttentionCall) -> AttentionCall:
        mask = call["attn_mask"]
        return call if mask is None or is_bool(mask) != boolean else call.but(attn_mask=None)

    return _only(change)


def tiled_heads(call: AttentionCall) -> AttentionCall:
    """Query head i reads key head i mod g."""
    which = [head % call.key_heads for head in range(call.heads)]
    return call.changed(lambda tensor: tensor[..., which, :, :], "key", "value") if call.grouped else call


def _first_row_of_mask(call: AttentionCall) -> AttentionCall:
    mask = call["attn_mask"]
    return call if mask is None or mask.dim() < 2 else call.but(attn_mask=mask[..., :1, :].expand_as(mask))


def _refused(call: AttentionCall) -> AttentionCall:
    raise RuntimeError("this call is not supported")


def _loses_column(width: int, value_width: int) -> StepChange:
    """The last column of the output is 0 for one pair of widths, beyond a tile."""

    def change(output: Tensor, call: AttentionCall) -> Tensor:
        here = (call.width, call.value_width) == (width, value_width) and min(call.queries, call.keys) > 64
        return with_zero_columns(output, value_width - 1) if here else output

    return with_result(change)


EQUAL = (40, 48, 80, 96, 112, 160, 224, 320)
PAIRS = (*((width, width) for width in EQUAL), (192, 128), (576, 512), (64, 32), (128, 64))


def _half_of_value_gradient(gradient: Tensor, saved: Saved) -> Tensor:
    width, value_width = saved.call.width, saved.call.value_width
    if width < 128 or value_width % 64 == 0:
        return gradient
    lost = torch.arange(value_width) // 32 == value_width // 2 // 32
    return gradient.masked_fill(lost & (torch.arange(value_width) < value_width // 2), 0.0)


def _without_last(here: Condition) -> StepChange:
    """The gradient of the last row is 0."""

    def lost(gradient: Tensor) -> Tensor:
        return torch.cat([gradient[..., :-1, :], torch.zeros_like(gradient[..., -1:, :])], -2)

    return with_result(lambda gradient, saved: lost(gradient) if here(saved.call) else gradient)


def whole_vectors(tensor: Tensor) -> Tensor:
    """The tensor as a kernel reads it that loads one column too many and multiplies it by 0."""
    if tensor.is_contiguous() or 0 in (*tensor.stride(), tensor.numel()):
        return tensor
    behind = misread(tensor.detach(), tensor.stride(), int(tensor.storage_offset()) + tensor.stride(-1))[..., -1:]
    return tensor + 0 * behind.where(behind.isnan(), torch.zeros_like(behind))


CALLS = mutants(
    Whole,
    attention={
        **in_places("ignores_bool_mask", "a boolean mask is ignored", _without_mask(True), TILES, *WIDE, *TALL, *MET,
            *THREADS, "beyond_32_items", "beyond_the_grid", "for_one_query"),
        **in_places("ignores_float_mask", "a float mask is ignored", _without_mask(False), TILES, *WIDE, *TALL,
            "beyond_64_heads", "for_one_query", "that_is_a_parameter"),
        **in_places("uses_first_querys_mask", "the mask's first row is used for all queries", _only(_first_row_of_mask),
            *TALL),
        **in_places("ignores_causal", "is_causal is ignored", _only(lambda call: call.but(is_causal=False)), TILES,
            *TALL, *THREADS, "without_grad_mode"),
        **in_places("ignores_window", "the window is ignored", _only(lambda call: call.but(window=None)), TILES, *TALL,
            *MET),
        **in_places("ignores_scale", "a given scale is ignored", _only(lambda call: call.but(scale=None)), TILES, *WIDE,
            *TALL, "of_numpy", "without_grad_mode"),
        **in_places("ignores_dropout", "dropout is ignored", _only(lambda call: call.but(dropout_p=0.0)), TILES,
            "for_one_query", "without_gradient", "without_grad_mode", "when_causal"),
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
            "without_keys", "without_queries", "with_mask_and_without_items", "with_dropout_and_without_keys",
            "in_window_and_without_keys", "without_queries_and_without_keys", "when_causal_and_without_keys",
            "when_grouped_and_without_queries"),
        **{f"loses_column_at_widths_{e}_{v}": Mutation(
            f"at width {e} and value width {v}, beyond a tile, the last column is 0", _loses_column(e, v))
            for e, v in PAIRS},
    },
)  # fmt: skip
STEPS = mutants(
    Dense,
    receive={f"multiplies_columns_behind_{name}_by_zero": Mutation(
        f"a vector of the {name} is loaded whole and its last part multiplied by 0: what lies behind may be NaN",
        with_arguments(call=lambda call, name=name: call.changed(whole_vectors, name))) for name in INPUTS},
    float_mask={"adds_bias_in_float16": Mutation("score and bias are added in float16, whose range ends at 65,504",
        lambda scores, mask, call: beyond_half(scores + mask), dtypes=("float16",))},
)  # fmt: skip
BACKWARD = mutants(
    Backward,
    value_gradient={
        "loses_value_gradient_beside_wide_keys": Mutation(
            "at widths from 128 on, columns of the value's gradient are lost where no 64 divide its width",
            with_result(_half_of_value_gradient), "flash-attention issue 2552"),
        **in_places("loses_value_gradient", "the last value has no gradient", _without_last, TILES),
    },
    key_gradient={
        **in_places("loses_key_gradient", "the last key has no gradient", _without_last, WIDE[0], WIDE[2],
            "beyond_the_grid", "in_groups_of_5", "in_groups_of_6", "in_groups_of_7"),
    },
    query_gradient=in_places("loses_query_gradient", "the last query has no gradient", _without_last, *TALL),
)  # fmt: skip
