"""onnxruntime's operator `GroupQueryAttention`, run by a session on the device of the inputs.

The operator has caches b g s e, appends always, and returns the caches as new outputs. So the adapter transposes and
copies them, pages too, and copies the new slots back. Without new tokens it takes the last cached ones for new.
"""

from functools import lru_cache

import torch
from onnx import TensorProto, helper
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._sessions import ELEMENTS, Session
from attnsuite.implementations.kv_cache_attention._caches import append, dense
from attnsuite.implementations.kv_cache_attention._checks import Window, check


@implementation(
    requires=["onnx", "onnxruntime"],
    lacks={
        "float64": "onnxruntime has GroupQueryAttention in float32 and half types",
        "bfloat16": "onnxruntime has no bfloat16 kernel for a CPU, and numpy no such type",
        "no_tokens": "GroupQueryAttention always appends: without tokens there is nothing to attend to",
    },
)
def kv_cache_attention(
    query: Tensor,  # b l h e
    key_cache: Tensor,  # b s g e
    value_cache: Tensor,
    cache_seqlens: Tensor,  # b
    *,
    key: Tensor | None = None,  # b l g e
    value: Tensor | None = None,
    block_table: Tensor | None = None,  # b m
    window: Window | None = None,
    scale: float | None = None,
) -> Tensor:
    """Append key and value to the caches, and return the attention of the queries, b l h e.

    Raises ValueError, before any work, for inputs that the contract does not define. Several new tokens go item by
    item: with a cache the operator takes one item then.
    """
    lengths = check(query, key_cache, value_cache, cache_seqlens, key, value, block_table, window)
    new = query.shape[1]
    if query.dtype not in (torch.float32, torch.float16):
        raise NotImplementedError(f"onnxruntime has no GroupQueryAttention of {query.dtype} on a CPU")
    if query.shape[3] % 8:
        raise NotImplementedError(f"GroupQueryAttention takes multiples of 8 for widths, not {query.shape[3]}")
    if scale == 0:
        raise NotImplementedError("GroupQueryAttention takes a scale of 0 for its default")
    if not query.numel():
        return torch.zeros_like(query, memory_format=torch.contiguous_format)
    capacity = key_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    caches = [dense(cache, capacity, block_table) for cache in (key_cache, value_cache)]
    if key is None or value is None:
        lengths = [length - new for length in lengths]
        if min(lengths) < 0:
            raise NotImplementedError("GroupQueryAttention always appends: an item has fewer keys than queries")
        tokens = [_tokens(cache, lengths, new) for cache in caches]
    else:
        tokens = [key, value]
    outputs, written = [], []
    for part in [slice(0, len(query))] if new == 1 else [slice(item, item + 1) for item in range(len(query))]:
        of_part = [[tensor[part] for tensor in pair] for pair in (caches, tokens)]
        output, *present = _run(query[part], *of_part, lengths[part], window, scale)
        outputs.append(output)
        written.append([_tokens(cache.transpose(1, 2), lengths[part], new) for cache in present])
    for cache, of_parts in zip((key_cache, value_cache), zip(*written, strict=True), strict=True):
        append(cache, torch.cat(of_parts), lengths, block_table)
    return torch.cat(outputs)


def _tokens(cache: Tensor, lengths: list[int], new: int) -> Tensor:
    """The tokens behind these lengths, b l g e."""
    return torch.stack([cache[item, length : length + new] for item, length in enumerate(lengths)])


def _run(
    query: Tensor,
    caches: list[Tensor],
    tokens: list[Tensor],
    lengths: list[int],
    window: Window | None,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The output b l h e, and the caches b g s e, of one call of the operator."""
    new, heads, width = query.shape[1:]
    left = None if window is None else window[0]  # causal attention sees nothing on the right
    session = _session(
        ELEMENTS[query.dtype],
        (heads, caches[0].shape[2]),
        -1 if left is None else left + 1,  # it counts the query's own key
        scale,
        torch.get_num_threads(),
        query.device,
    )
    totals = torch.tensor(lengths, dtype=torch.int32) + new
    inputs = {"query": query, "key": tokens[0], "value": tokens[1]}
    output, keys, values = session(
        **{name: tensor.flatten(2) for name, tensor in inputs.items()},
        past_key=caches[0].transpose(1, 2),
        past_value=caches[1].transpose(1, 2),
        seqlens_k=totals - 1,
        total_sequence_length=totals.max(),
    )
    return output.unflatten(2, (heads, width)), keys, values


@lru_cache(maxsize=64)
def _session(
    element: int, heads: tuple[int, int], window: int, scale: float | None, threads: int, device: torch.device
) -> Session:
    """A session of a model with one node, for any sizes."""
    names = {"query": 3, "key": 3, "value": 3, "past_key": 4, "past_value": 4}
    inputs = [helper.make_tensor_value_info(name, element, [None] * rank) for name, rank in names.items()]
    for name, shape in (("seqlens_k", [None]), ("total_sequence_length", [])):
        inputs.append(helper.make_tensor_value_info(name, TensorProto.INT32, shape))
    outputs = [
        helper.make_tensor_value_info(name, element, None) for name in ("output", "present_key", "present_value")
    ]
    attributes = {"num_heads": heads[0], "kv_num_heads": heads[1], "local_window_size": window}
    node = helper.make_node(
        "GroupQueryAttention",
        [value.name for value in inputs],
        [value.name for value in outputs],
        domain="com.microsoft",
        **attributes | ({} if scale is None else {"scale": float(scale)}),
    )
    graph = helper.make_graph([node], "attention", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return Session(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), device)
