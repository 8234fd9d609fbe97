"""Mistakes in which head, which axis and which place of the storage is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_arguments
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct
from attnsuite.contracts.attention.mutants.batches import fitted
from attnsuite.contracts.attention.mutants.memory import as_contiguous, misread
from attnsuite.contracts.attention.mutants.sizes import with_zero_columns


def over_heads(asked: Asked) -> Any:
    square = asked.rank > 2 and asked.queries == asked.keys and not asked.grouped and asked["attn_mask"] is None
    if not square:
        return correct(asked)
    return correct(asked.changed(lambda tensor: tensor.transpose(-2, -3))).transpose(-2, -3)


def heads_last(output: Tensor) -> Tensor:
    return output.transpose(-2, -3) if output.dim() > 2 else output


def refuses_narrow_values(value: Tensor) -> Tensor:
    if value.shape[-1] < 4:
        raise RuntimeError("value: last dimension must be at least 4")
    return value


def inputs(read: Any, *names: str) -> StepChange:
    """Query, key and value, or those that are named, are read otherwise."""
    return with_arguments(asked=lambda asked: asked.changed(read, *names))


def from_the_start(tensor: Tensor) -> Tensor:
    return misread(tensor, tensor.stride(), 0) if tensor.storage_offset() else tensor


def with_dense_last_axis(tensor: Tensor) -> Tensor:
    dense = tensor.stride(-1) == 1 or tensor.shape[-1] < 2
    return tensor if dense else misread(tensor, (*tensor.stride()[:-1], 1), int(tensor.storage_offset()))


def walked(tensor: Tensor) -> Tensor:
    expanded = any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return as_contiguous(tensor) if expanded else tensor


def with_strides_of_query(asked: Asked) -> Asked:
    query, key = asked.query, asked.key
    if query.shape != key.shape or query.stride() == key.stride():
        return asked
    return replace(asked, key=misread(key, query.stride(), int(key.storage_offset())))


STRIDES = "pytorch issues 112577, 181133; flash-attention issue 2665"
MUTANTS = mutants(
    Dense,
    receive={
        "reads_query_as_contiguous": Mutation(
            "the query's strides are ignored", inputs(as_contiguous, "query"), STRIDES
        ),
        "reads_key_as_contiguous": Mutation("the key's strides are ignored", inputs(as_contiguous, "key"), STRIDES),
        "reads_value_as_contiguous": Mutation(
            "the value's strides are ignored", inputs(as_contiguous, "value"), STRIDES
        ),
        "ignores_storage_offset": Mutation(
            "query, key and value are read from the start of their storage",
            inputs(from_the_start),
            "views into a fused projection",
        ),
        "assumes_dense_last_axis": Mutation(
            "the last axis of query, key and value is taken to have stride 1",
            inputs(with_dense_last_axis),
            "flash-attention issue 2665",
        ),
        "walks_expanded_axes": Mutation(
            "expanded axes of query, key and value, with stride 0, are walked as if they were stored",
            inputs(walked),
            "flash-attention issue 2189",
        ),
        "reads_key_with_strides_of_query": Mutation(
            "the key is read with the query's strides",
            with_arguments(asked=with_strides_of_query),
            "flash-attention issue 818 (sibling's layout)",
        ),
    },
    combine={
        "refuses_narrow_values": Mutation(
            "values narrower than the query raise an error",
            with_arguments(value=refuses_narrow_values),
            "pytorch issue 176767",
        )
    },
    finish={
        "reshapes_output_instead_of_transposing": Mutation(
            "the output ... l h v is reshaped to ... h l v instead of transposed",
            with_arguments(output=lambda output: heads_last(output).reshape(output.shape)),
            "onnx issue 7118",
        ),
        "returns_heads_last": Mutation(
            "the output has the axes ... l h v instead of ... h l v", with_arguments(output=heads_last)
        ),
        "returns_query_width": Mutation(
            "the output has the query's width instead of the value's",
            with_arguments(output=lambda output, asked: fitted(output, asked.width)),
            "pytorch issue 176767",
        ),
        "forgets_columns_beyond_query_width": Mutation(
            "columns of the values beyond the query's width give 0",
            with_arguments(output=lambda output, asked: with_zero_columns(output, asked.width)),
            "pytorch issue 176767",
        ),
    },
)
HEADS = mutants(
    Whole,
    answer={
        "attends_over_heads": Mutation(
            "... h l e is read as ... l h e, where the sizes allow it: heads attend to heads",
            over_heads,
            "onnx issue 7118",
        )
    },
)
