"""Strangers that leave the work to a library: SciPy, JAX, onnxruntime, PyTorch's own attentions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.attention.computation.call import Asked, as_attention, check
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.variants.question import accumulator, bias_of, kept, spread

NO_GRADIENT = {
    "gradient": "the library does not know PyTorch's tensors",
    "mask_gradient": "the library does not know PyTorch's tensors",
}
SDPA = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
"""The options of torch's own function."""
JAX_LACKS = {
    "float64": "its softmax is always computed in float32",
    "float16": "compiled for a CPU, it knows no product of float16 that sums in float32",
    "value_width": "its keys and values have one shape",
}


def _scipy(asked: Asked) -> Tensor:
    """Numpy arrays, `scipy.special.softmax`, einsum."""
    import numpy as np
    from scipy.special import softmax

    check(asked)
    _decline_gradient(asked)
    dtype = accumulator(asked.query.dtype)
    query, key, value = (tensor.detach().numpy() for tensor in spread(asked, dtype))
    bias, empty = bias_of(asked, dtype)
    if 0 in asked.scores_shape:
        return torch.zeros(asked.output_shape, dtype=asked.query.dtype)
    scores = np.einsum("...le,...se->...ls", query, key) * factor(asked) + bias.detach().numpy()
    output = np.einsum("...ls,...sv->...lv", softmax(scores, axis=-1) * kept(asked, dtype).numpy(), value)
    return torch.from_numpy(np.where(empty.numpy(), 0.0, output)).to(asked.query.dtype)


def _decline_gradient(asked: Asked) -> None:
    if asked.wants_gradient:
        raise NotImplementedError("the library does not know PyTorch's gradients")


def _jax(asked: Asked) -> Tensor:
    """`jax.nn.dot_product_attention`, its axes b l h e; it has no dropout."""
    import numpy as np

    check(asked)
    _decline_gradient(asked)
    if asked.value_width != asked.width:
        raise NotImplementedError(JAX_LACKS["value_width"])
    if reason := JAX_LACKS.get(str(asked.query.dtype).removeprefix("torch.")):
        raise NotImplementedError(reason)
    mask = asked["attn_mask"]
    masks = {} if mask is None else {"mask" if mask.dtype == torch.bool else "bias": _jax_array(mask)}
    heads_inner = (_jax_array(tensor).swapaxes(1, 2) for tensor in (asked.query, asked.key, asked.value))
    output = _compiled(asked["is_causal"])(*heads_inner, **masks, scale=factor(asked))
    wide = np.array(output).astype(np.float32).swapaxes(1, 2)
    return torch.from_numpy(wide).reshape(asked.output_shape).to(asked.query.dtype)


def _jax_array(tensor: Tensor) -> Any:
    """With four axes. PyTorch gives numpy no bfloat16; float32 holds its numbers exactly."""
    import jax.numpy as jnp

    four_axes = tensor.detach()[(None,) * (4 - tensor.dim())]
    return four_axes.float().numpy().astype(jnp.bfloat16) if tensor.dtype == torch.bfloat16 else four_axes.numpy()


@functools.cache
def _compiled(is_causal: bool) -> Callable[..., Any]:
    import jax

    attention = functools.partial(jax.nn.dot_product_attention, is_causal=is_causal)
    # Every shape is compiled anew and then runs once.
    compiled: Callable[..., Any] = jax.jit(attention, compiler_options={"xla_backend_optimization_level": 0})
    return compiled


def _onnx(asked: Asked) -> Tensor:
    """A graph of MatMul, Add, Softmax, MatMul."""
    check(asked)
    _decline_gradient(asked)
    if asked["dropout_p"] > 0:
        raise NotImplementedError("the graph has no dropout")
    if 0 in asked.scores_shape:  # onnxruntime's Softmax fails without keys
        return torch.zeros(asked.output_shape, dtype=asked.query.dtype)
    dtype = accumulator(asked.query.dtype)
    query, key, value = spread(asked, dtype)
    bias, empty = bias_of(asked, dtype)
    feeds = {"query": query * factor(asked), "key": key, "value": value, "bias": bias}
    arrays = {name: each.detach()[(None,) * (4 - asked.rank)].contiguous().numpy() for name, each in feeds.items()}
    output = torch.from_numpy(_session(dtype).run(None, arrays)[0]).reshape(asked.output_shape)
    return output.masked_fill(empty, 0.0).to(asked.query.dtype)


@functools.cache
def _session(dtype: torch.dtype) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(_graph(dtype), options, providers=["CPUExecutionProvider"])


def _graph(dtype: torch.dtype) -> bytes:
    import onnx
    from onnx import TensorProto, helper

    number = TensorProto.DOUBLE if dtype == torch.float64 else TensorProto.FLOAT
    axes = {"query": "bhle", "key": "bhse", "value": "bhsv", "bias": "bhls", "output": "bhlv"}
    infos = {name: helper.make_tensor_value_info(name, number, list(letters)) for name, letters in axes.items()}
    nodes = [
        helper.make_node("Transpose", ["key"], ["columns"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["query", "columns"], ["products"]),
        helper.make_node("Add", ["products", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "value"], ["output"]),
    ]
    *inputs, output = infos.values()
    graph = helper.make_graph(nodes, "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString()
    return serialised


def _multi_head(asked: Asked) -> Tensor:
    """`multi_head_attention_forward` with identities as its projections: l b h·e in, l b h·e out."""
    query, key, value = asked.query, asked.key, asked.value
    check(asked)
    if asked.value_width != asked.width:
        raise NotImplementedError("its heads have one width")
    if 0 in query.shape or 0 in key.shape:
        raise NotImplementedError("it takes nothing that is empty")
    batch, heads, width = query.shape[:-3].numel(), asked.heads, asked.width
    identity = torch.eye(heads * width, dtype=query.dtype, device=query.device)

    def flat(tensor: Tensor) -> Tensor:  # l b (h e)
        return tensor.reshape(batch, heads, -1, width).permute(2, 0, 1, 3).flatten(2)

    output, _ = torch.nn.functional.multi_head_attention_forward(
        flat(query), flat(key), flat(value), heads * width, heads,
        in_proj_weight=None, in_proj_bias=None, bias_k=None, bias_v=None, add_zero_attn=False,
        dropout_p=asked["dropout_p"], out_proj_weight=identity, out_proj_bias=None,
        attn_mask=_blocked(asked), need_weights=False, use_separate_proj_weight=True,
        q_proj_weight=identity, k_proj_weight=identity, v_proj_weight=identity,
    )  # fmt: skip
    return output.reshape(-1, batch, heads, width).permute(1, 2, 0, 3).reshape(asked.output_shape)


def _blocked(asked: Asked) -> Tensor | None:
    """The mask as it wants it: True where a query may not attend, and batch and heads as one axis."""
    mask = asked["attn_mask"]
    if mask is None or mask.dtype == torch.bool:
        mask = asked.visible()
    if mask is None:
        return None
    full: Tensor = mask.expand(asked.scores_shape).reshape(-1, asked.queries, asked.keys)
    return ~full if full.dtype == torch.bool else full


def _sdpa(asked: Asked) -> Tensor:
    """PyTorch's own function behind the contract's checks, led around its NaN for is_causal with a scale ≤ 0."""
    check(asked)
    if asked["is_causal"] and factor(asked) <= 0:
        asked = asked.but(is_causal=False, attn_mask=asked.visible())
    mask = asked["attn_mask"]
    if mask is not None:
        asked = asked.but(attn_mask=torch.atleast_2d(mask))  # it takes no masks of lower rank
    options = {name: asked[name] for name in SDPA}
    return torch.nn.functional.scaled_dot_product_attention(asked.query, asked.key, asked.value, **options)


def variants() -> list[Variant]:
    """Libraries in the contract's clothes."""
    return [
        Variant("scipy", "numpy arrays and scipy.special.softmax", as_attention(_scipy), ("scipy",), NO_GRADIENT),
        Variant(
            "jax",
            "jax.nn.dot_product_attention as it is",
            as_attention(_jax, ("attn_mask", "is_causal", "scale", "enable_gqa")),
            ("jax",),
            {**NO_GRADIENT, **JAX_LACKS},
            {"empty_row": {"bool_mask": "mean", "float_mask": "nan"}},
        ),
        Variant(
            "onnx_graph",
            "an ONNX graph of MatMul, Add and Softmax in onnxruntime",
            as_attention(_onnx),
            ("onnx", "onnxruntime"),
            {**NO_GRADIENT, "dropout": "the graph has no dropout"},
        ),
        Variant(
            "multi_head",
            "torch's multi_head_attention_forward with identities as projections",
            as_attention(_multi_head, ("attn_mask", "dropout_p", "is_causal")),
            lacks={"value_width": "its heads have one width", "no_keys": "it takes nothing that is empty"},
        ),
        Variant("sdpa", "PyTorch's scaled_dot_product_attention behind checks", as_attention(_sdpa, SDPA)),
    ]
