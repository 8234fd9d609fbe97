"""Checks of the implementations of `multi_head_attention`."""

import torch
from torch import Tensor


def check_tensors(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: dict[str, Tensor],
    w_output: Tensor | None,
    biases: dict[str, Tensor | None],
    num_heads: int,
) -> None:
    """Raise ValueError for shapes and dtypes that do not fit together."""
    inputs = {"query": query, "key": key, "value": value}
    maps = weights | ({} if w_output is None else {"w_output": w_output})
    added = {name: bias for name, bias in biases.items() if bias is not None}
    for rank, tensors in ((3, inputs), (2, maps), (1, added)):
        for name, tensor in tensors.items():
            if tensor.dim() != rank:
                raise ValueError(f"{name} should have {rank} axes, not {tensor.dim()}")
            if tensor.dtype != query.dtype:
                raise ValueError(f"{name} should be {query.dtype} as query is, not {tensor.dtype}")
    if w_output is None and "b_output" in added:
        raise ValueError(f"b_output, {tuple(added['b_output'].shape)}, needs w_output, which was not given")
    columns, value_columns = weights["w_query"].shape[1], weights["w_value"].shape[1]
    expected = {
        "key": (len(query), *key.shape[1:]),
        "value": (len(query), key.shape[1], value.shape[2]),
        "w_query": (query.shape[2], columns),
        "w_key": (key.shape[2], columns),
        "w_value": (value.shape[2], value_columns),
        "b_query": (columns,),
        "b_key": (columns,),
        "b_value": (value_columns,),
    }
    if w_output is not None:
        expected |= {"w_output": (value_columns, w_output.shape[1]), "b_output": (w_output.shape[1],)}
    for name, tensor in (inputs | maps | added).items():
        if tuple(tensor.shape) != expected.get(name, tuple(tensor.shape)):
            raise ValueError(f"{name} should have shape {expected[name]}, not {tuple(tensor.shape)}")
    for name, width in (("w_query", columns), ("w_value", value_columns)):
        if num_heads < 1 or width % num_heads:
            raise ValueError(f"{name} has {width} columns, which {num_heads} heads cannot share")


def check_options(mask: Tensor | None, is_causal: bool, dropout_p: float, expected: tuple[int, ...]) -> None:
    """Raise ValueError for a mask that does not fit scores of this shape, b h l s, and for an invalid probability."""
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p should lie in [0, 1], not be {dropout_p}")
    if mask is None:
        return
    if is_causal:
        raise ValueError("attn_mask and is_causal are undefined together: give 1 of the 2")
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {mask.dtype}")
    fits = all(size in (1, wanted) for size, wanted in zip(reversed(mask.shape), reversed(expected), strict=False))
    if mask.dim() not in (2, 4) or not fits:
        raise ValueError(
            f"attn_mask should broadcast to {expected[2:]} or {expected}, not have shape {tuple(mask.shape)}"
        )
