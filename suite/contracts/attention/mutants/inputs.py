"""Mutants that read another head, axis or place of the storage, accept bad input, or err on one path of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import INPUTS, AttentionCall
from attnsuite.contracts.attention.computation.forward import Condition, Dense, Whole, correct, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.features.mask import is_bool
from attnsuite.contracts.attention.mutants.formula import beyond_half
from attnsuite.contracts.attention.mutants.sizes import with_first_keys, with_zero_columns


def misread(tensor: Tensor, strides: Sequence[int], offset: int) -> Tensor:
    """The numbers that other strides read from the storage, wrapping around its end; the gradient is the tensor's own."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    if count == 0 or tensor.numel() == 0:
        return tensor
    place = torch.zeros((), dtype=torch.long, device=tensor.device) + offset
    for size, stride in zip(tensor.shape, strides, strict=True):
        place = place.unsqueeze(-1) + torch.arange(size, device=tensor.device) * stride
    numbers = torch.as_strided(tensor.detach(), (count,), (1,), 0)[place % count]
    if not tensor.requires_grad:
        return numbers
    finite = tensor.nan_to_num(neginf=0.0)
    return numbers + (finite - finite.detach())


def as_contiguous(tensor: Tensor) -> Tensor:
    """The tensor as a kernel reads it that assumes contiguous memory."""
    if tensor.is_contiguous():
        return tensor
    return misread(tensor, torch.empty(tensor.shape, device="meta").stride(), int(tensor.storage_offset()))


def _of_items(call: AttentionCall) -> bool:
    return call.rank == 4 and call.query.shape[0] > 1


def _into_the_next(axis: int, call: AttentionCall) -> AttentionCall:
    """The last key and value are the first of the next along an axis."""
    if call.rank < -axis or call.key.shape[axis] < 2 or not call.keys:
        return call
    return call.changed(lambda t: torch.cat([t[..., :-1, :], t.roll(-1, axis)[..., :1, :]], dim=-2), "key", "value")


def fitted(tensor: Tensor, width: int) -> Tensor:
    """Cut, or padded with zeros, to a width."""
    return torch.nn.functional.pad(tensor, (0, width - tensor.shape[-1]))


def _last_query_only(output: Tensor) -> Tensor:
    first = torch.arange(output.shape[-2], device=output.device).unsqueeze(-1) < output.shape[-2] - 1
    return output.masked_fill(first, 0.0)


def over_heads(call: AttentionCall) -> Any:
    square = call.rank > 2 and call.queries == call.keys and not call.grouped and call["attn_mask"] is None
    if not square:
        return correct(call)
    return correct(call.changed(lambda tensor: tensor.transpose(-2, -3))).transpose(-2, -3)


def heads_last(output: Tensor) -> Tensor:
    return output.transpose(-2, -3) if output.dim() > 2 else output


def refuses_narrow_values(value: Tensor) -> Tensor:
    if value.shape[-1] < 4:
        raise RuntimeError("value: last dimension must be at least 4")
    return value


def inputs(read: Any, *names: str) -> StepChange:
    """Query, key and value, or those that are named, are read otherwise."""
    return with_arguments(call=lambda call: call.changed(read, *names))


def with_dense_last_axis(tensor: Tensor) -> Tensor:
    dense = tensor.stride(-1) == 1 or tensor.shape[-1] < 2
    return tensor if dense else misread(tensor, (*tensor.stride()[:-1], 1), int(tensor.storage_offset()))


def walked(tensor: Tensor) -> Tensor:
    expanded = any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return as_contiguous(tensor) if expanded else tensor


def with_strides_of_query(call: AttentionCall) -> AttentionCall:
    query, key = call.query, call.key
    if query.shape != key.shape or query.stride() == key.stride():
        return call
    return replace(call, key=misread(key, query.stride(), int(key.storage_offset())))


STRIDES = "pytorch issues 112577, 181133; flash-attention issue 2665"
HEADS = mutants(
    Whole,
    attention={"attends_over_heads": Mutation(
        "... h l e is read as ... l h e, where the sizes allow it: heads attend to heads", over_heads,
        "onnx issue 7118")},
)  # fmt: skip


def with_one_width(call: AttentionCall) -> AttentionCall:
    width = min(call.query.shape[-1], call.key.shape[-1])
    return call.changed(lambda tensor: tensor[..., :width], "query", "key")


def with_one_length(call: AttentionCall) -> AttentionCall:
    lengths = call.keys, call.value.shape[-2]
    return call if lengths[0] == lengths[1] else with_first_keys(call, min(lengths))


def expanded_by_mask(call: AttentionCall) -> AttentionCall:
    """The call with as many queries, keys, heads and items as the mask has."""
    mask = call["attn_mask"]
    if mask is None or mask.dim() > call.rank or call.grouped:
        return call
    try:
        # torch.broadcast_shapes takes two seconds to import sympy
        *lead, queries, keys = torch.broadcast_tensors(mask.new_empty(call.scores_shape), mask)[0].shape
    except RuntimeError:  # it fits no way
        return call
    query = call.query.expand(*lead, queries, -1)
    return replace(call, query=query, **{
        name: getattr(call, name).expand(*lead, keys, -1) for name in ("key", "value")
    })  # fmt: skip


def with_all_heads(call: AttentionCall) -> AttentionCall:
    """The call whose keys and values have the query's heads, each for themselves."""
    counts = [tensor.shape[-3] if call.rank > 2 else 1 for tensor in (call.key, call.value)]
    if counts[0] == counts[1] or any(not count or call.heads % count for count in counts):
        return call
    key, value = (
        tensor.repeat_interleave(call.heads // count, dim=-3)
        for tensor, count in zip((call.key, call.value), counts, strict=True)
    )
    return replace(call, key=key, value=value)


def only_there(change: Callable[[AttentionCall], AttentionCall]) -> Callable[[Condition], StepChange]:
    """A path of its own changes the call: that is its mistake, or bad input becomes valid."""
    return lambda here: with_arguments(call=lambda call: change(call) if here(call) else call)


CHECKED_PLACES = ("when_causal", "with_scale", "in_window", "with_mask", "in_groups", "for_one_query", "in_rank_3",
    "in_rank_2")  # fmt: skip
"""Places whose paths may lack the checks of the usual one."""
CHECKING = mutants(
    Dense,
    widen={
        "shares_first_items_keys": Mutation("all batch items read the first item's keys", with_arguments(
            call=lambda call: call.changed(lambda key: key[:1].expand_as(key), "key") if _of_items(call) else call)),
        "reads_into_next_head": Mutation("the last key and value of a head are the next head's first",
            with_arguments(call=lambda call: _into_the_next(-3, call)), "off-by-one strides"),
    },
    softmax={"returns_mean_of_values": Mutation("query and key are ignored: the output is the mean of the values",
        with_arguments(scores=lambda scores: scores.masked_fill(scores > -torch.inf, 0.0)),
        "passes many fixed tolerances")},
    finish={
        "repeats_first_items_answer": Mutation("all batch items get the first item's output",
            with_result(lambda output, call: output[:1].expand_as(output).clone() if _of_items(call) else output),
            "only one batch item compared"),
        "returns_first_item": Mutation("only the first batch item is returned",
            with_result(lambda output, call: output[:1] if _of_items(call) else output)),
        "answers_last_query_only": Mutation("only the last query has an output, the others get 0",
            with_result(_last_query_only), "reference-kernels 104 (last output checked)"),
        "returns_zeros": Mutation("the output is 0 everywhere", with_result(lambda output: output * 0),
            "KernelBench 165 (zeros pass)"),
        "reshapes_output_instead_of_transposing": Mutation(
            "the output ... l h v is reshaped to ... h l v instead of transposed",
            with_arguments(output=lambda output: heads_last(output).reshape(output.shape)), "onnx issue 7118"),
        "returns_heads_last": Mutation("the output has the axes ... l h v instead of ... h l v",
            with_arguments(output=heads_last)),
        "returns_query_width": Mutation("the output has the query's width instead of the value's",
            with_arguments(output=lambda output, call: fitted(output, call.width)), "pytorch issue 176767"),
        "forgets_columns_beyond_query_width": Mutation("columns of the values beyond the query's width give 0",
            with_arguments(output=lambda output, call: with_zero_columns(output, call.width)), "pytorch issue 176767"),
    },
    receive={
        **{f"reads_{name}_as_contiguous": Mutation(f"the {name}'s strides are ignored", inputs(as_contiguous, name),
            STRIDES) for name in INPUTS},
        "ignores_storage_offset": Mutation("query, key and value are read from the start of their storage",
            inputs(lambda tensor: misread(tensor, tensor.stride(), 0) if tensor.storage_offset() else tensor),
            "views into a fused projection"),
        "assumes_dense_last_axis": Mutation("the last axis of query, key and value is taken to have stride 1",
            inputs(with_dense_last_axis), "flash-attention issue 2665"),
        "walks_expanded_axes": Mutation(
            "expanded axes of query, key and value, with stride 0, are walked as if they were stored", inputs(walked),
            "flash-attention issue 2189"),
        "reads_key_with_strides_of_query": Mutation("the key is read with the query's strides",
            with_arguments(call=with_strides_of_query), "flash-attention issue 818 (sibling's layout)"),
        **in_places("accepts_mismatched_lengths", "keys and values of different lengths are accepted",
            only_there(with_one_length), *CHECKED_PLACES),
        **in_places("accepts_mismatched_widths", "a query and key of different widths are accepted",
            only_there(with_one_width), *CHECKED_PLACES),
        **in_places("accepts_negative_dropout", "a negative dropout_p is accepted as 0",
            only_there(lambda call: call.but(dropout_p=max(call["dropout_p"], 0.0))), "with_mask", "in_rank_3", "in_rank_2"),
        "accepts_masks_that_expand": Mutation(
            "a mask with more queries, keys, heads or items than there are expands the output",
            with_arguments(call=expanded_by_mask),
            "pytorch's math backend and jax.nn broadcast the scores to the mask"),
        "accepts_other_heads_of_values": Mutation(
            "keys and values of different numbers of heads are accepted with enable_gqa",
            with_arguments(call=with_all_heads), "pytorch, scaled_dot_product_attention"),
        "accepts_groups_without_asking": Mutation("grouped heads are accepted without enable_gqa",
            with_arguments(call=lambda call: call.but(enable_gqa=True))),
        "accepts_mismatched_widths": Mutation("a query and key of different widths are accepted: the wider is cut",
            with_arguments(call=with_one_width)),
        "accepts_mismatched_lengths": Mutation("keys and values of different lengths are accepted: the longer are cut",
            with_arguments(call=with_one_length), "pytorch, scaled_dot_product_attention on a CPU"),
    },
    combine={"refuses_narrow_values": Mutation("values narrower than the query raise an error",
        with_arguments(value=refuses_narrow_values), "pytorch issue 176767")},
)  # fmt: skip


TILES = "at_whole_tiles"
TALL = ("beyond_4096_queries", "beyond_32768_queries")
WIDE = ("beyond_4096_keys", "beyond_8192_keys", "beyond_32768_keys")
THREADS = ("on_4_threads", "on_6_threads", "on_8_threads")
MET = ("in_groups_of_3_over_16_keys", "in_groups_of_7_over_16_keys")


def _without_mask(boolean: bool) -> Callable[[Condition], StepChange]:
    """A mask of this kind is ignored."""

    def change(call: AttentionCall) -> AttentionCall:
        mask = call["attn_mask"]
        return call if mask is None or is_bool(mask) != boolean else call.but(attn_mask=None)

    return only_there(change)


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
        **in_places("uses_first_querys_mask", "the mask's first row is used for all queries", only_there(_first_row_of_mask),
            *TALL),
        **in_places("ignores_causal", "is_causal is ignored", only_there(lambda call: call.but(is_causal=False)), TILES,
            *TALL, *THREADS, "without_grad_mode"),
        **in_places("ignores_window", "the window is ignored", only_there(lambda call: call.but(window=None)), TILES, *TALL,
            *MET),
        **in_places("ignores_scale", "a given scale is ignored", only_there(lambda call: call.but(scale=None)), TILES, *WIDE,
            *TALL, "of_numpy", "without_grad_mode"),
        **in_places("ignores_dropout", "dropout is ignored", only_there(lambda call: call.but(dropout_p=0.0)), TILES,
            "for_one_query", "without_gradient", "without_grad_mode", "when_causal"),
        **in_places("reads_first_key_head", "with grouped heads, all query heads read the first key head",
            only_there(lambda call: call.changed(lambda tensor: tensor[..., :1, :, :].expand_as(tensor), "key", "value")
            if call.grouped else call), "without_grad_mode", "for_one_query"),
        **in_places("tiles_key_heads", "query head i reads key head i mod g", only_there(tiled_heads), TILES, *WIDE, *TALL,
            *(f"in_groups_of_{n}" for n in (3, 5, 6, 7, 12, 16)), "beyond_64_heads", "beyond_the_grid", *THREADS),
        **in_places("crops_values", "the last column of values of another width is 0",
            only_there(lambda call: call if call.value_width == call.width or not call.value_width
            else call.changed(lambda value: with_zero_columns(value, call.value_width - 1), "value")), TILES, *WIDE),
        **in_places("aligns_causal_at_the_end", "causal is aligned at the lower right",
            only_there(lambda call: replace(call, conventions={**call.conventions, "causal": "lower_right"})), TILES,
            "with_mask"),
        **in_places("drops_last_key", "the last key is not read",
            only_there(lambda call: with_first_keys(call, call.keys - 1)), *THREADS),
        **in_places("refuses_call", "an error is raised", only_there(_refused), "in_rank_2", "in_rank_3", "when_grouped",
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
