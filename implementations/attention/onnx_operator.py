"""The ONNX operator `Attention` (opset 23), run by an onnxruntime session on the device of its inputs.

The operator broadcasts a mask over batch and heads; onnxruntime refuses one that still has to be broadcast over queries
or keys, so the adapter expands those two axes. The scale and the soft cap are attributes of the operator, so each pair
needs a session of its own: building one takes about 4 ms, and the 64 last used are kept.
"""

from functools import lru_cache

import torch
from onnx import helper
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._sessions import ELEMENTS, Session
from attnsuite.implementations.attention._checks import check_softcap


@implementation(
    requires=["onnx", "onnxruntime"],
    lacks={
        "gradient": "onnxruntime sessions compute no gradients",
        "mask_gradient": "onnxruntime sessions compute no gradients",
        "no_keys": "onnxruntime: kv_sequence_length must be greater than 0",
        "bfloat16": "onnxruntime has no bfloat16 kernel for a CPU, and numpy no such type",
        "float64": "onnxruntime has no float64 kernel: it expands ONNX's definition, which rounds the scale to float32",
    },
)
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,  # broadcastable to ... h l s
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
) -> Tensor:  # ... h l v
    """Grouped heads need no flag: the operator compares the head counts. It aligns causal masks at the upper left."""
    check_softcap(softcap)  # onnxruntime takes 0 and negative numbers for none
    if query.dtype not in ELEMENTS or query.dtype == torch.bfloat16:
        raise NotImplementedError(f"no numpy type for {query.dtype}")
    if not enable_gqa and query.shape[:-2] != key.shape[:-2]:
        raise ValueError(f"leading axes {tuple(query.shape[:-2])} of query and {tuple(key.shape[:-2])} of key differ")
    tensors = {"query": _four_axes(query), "key": _four_axes(key), "value": _four_axes(value)}
    if attn_mask is not None:
        tensors["mask"] = attn_mask.expand(*attn_mask.shape[:-2], query.shape[-2], key.shape[-2])
    kinds = tuple((name, ELEMENTS[tensor.dtype], tensor.dim()) for name, tensor in tensors.items())
    session = _session(kinds, is_causal, scale, softcap, torch.get_num_threads(), query.device)
    try:
        (output,) = session(**tensors)
    except Exception as error:
        if query.numel() and key.numel():
            raise
        raise NotImplementedError(_reason(error)) from error  # onnxruntime takes no empty axes
    return output.reshape(*query.shape[:-1], value.shape[-1])


@lru_cache(maxsize=64)
def _session(
    kinds: tuple[tuple[str, int, int], ...],
    is_causal: bool,
    scale: float | None,
    softcap: float | None,
    threads: int,
    device: torch.device,
) -> Session:
    """A session of a model with one node, for any sizes. NotImplementedError if onnxruntime refuses the scale."""
    inputs = [helper.make_tensor_value_info(name, element, [None] * rank) for name, element, rank in kinds]
    output = helper.make_tensor_value_info("output", kinds[0][1], [None] * 4)
    numbers = {"scale": scale, "softcap": softcap}
    attributes = {"is_causal": int(is_causal)} | {name: float(x) for name, x in numbers.items() if x is not None}
    node = helper.make_node("Attention", [name for name, *_ in kinds], ["output"], **attributes)
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    try:
        return Session(model.SerializeToString(), device)
    except Exception as error:  # onnxruntime's exception types have no public home
        if isinstance(error, NotImplementedError) or scale is None or scale > 0:
            raise
        raise NotImplementedError(_reason(error)) from error


def _four_axes(tensor: Tensor) -> Tensor:
    """The tensor with the axes of batch and heads that the operator expects: missing ones are added with size 1."""
    return tensor[(None,) * (4 - tensor.dim())]


def _reason(error: Exception) -> str:
    """The message of onnxruntime without its source line, its signature and the condition that failed."""
    return "onnxruntime: " + str(error).strip().rpartition("was false. ")[2]
