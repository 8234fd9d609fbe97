"""Checks of the implementations of `multi_head_attention`."""

from torch import Tensor

from attnsuite.implementations._checks import check_axes, check_mask


def check(
    inputs: dict[str, Tensor],  # query, key, value
    weights: dict[str, Tensor | None],  # of query, key, value and output
    biases: dict[str, Tensor | None],
    num_heads: int,
    mask: Tensor | None,
    is_causal: bool,
    dropout_p: float,
) -> tuple[int, int, int, int]:
    """Return the shape of the scores, b h l s. Raises ValueError for inputs and options that do not go together."""
    axes = {"query": "b l q", "key": "b s k", "value": "b s v"}
    axes |= {"w_query": "q d", "w_key": "k d", "w_value": "v c", "w_output": "c o"}
    axes |= {"b_query": "d", "b_key": "d", "b_value": "c", "b_output": "o"}
    tensors = inputs | weights | biases
    sizes = check_axes(**{name: (tensor, axes[name]) for name, tensor in tensors.items()})
    dtype = inputs["query"].dtype
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype != dtype:
            raise ValueError(f"{name} is {tensor.dtype}, expected {dtype} as query is")
    if weights["w_output"] is None and biases["b_output"] is not None:
        raise ValueError(f"b_output has shape {tuple(biases['b_output'].shape)}, expected none without w_output")
    for name, width in (("w_query", sizes["d"]), ("w_value", sizes["c"])):
        if num_heads < 1 or width % num_heads:
            raise ValueError(f"{name} has {width} columns, which {num_heads} heads cannot share")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p is {dropout_p}, expected 0 to 1")
    if mask is not None and is_causal:
        raise ValueError("attn_mask and is_causal are undefined together: give 1 of the 2")
    if mask is not None and mask.dim() not in (2, 4):
        raise ValueError(f"attn_mask has {mask.dim()} axes, expected 2 or 4")
    shape = sizes["b"], num_heads, sizes["l"], sizes["s"]
    check_mask(mask, shape)
    return shape
