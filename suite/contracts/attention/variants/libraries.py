"""Correct variants that call a library, or have an unusual signature or dtype."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.attention.computation.call import AttentionCall, as_attention, check
from attnsuite.contracts.attention.feature import arguments
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.variants.styles import USUAL, Inputs, attention, bias_of, kept, spread

NO_GRADIENT = dict.fromkeys(("gradient", "mask_gradient"), "the library does not know PyTorch's tensors")
SDPA = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
"""The options of torch's own function."""
JAX_LACKS = {
    "float64": "its softmax is always computed in float32",
    "float16": "compiled for a CPU, it knows no product of float16 that sums in float32",
    "value_width": "its keys and values have one shape",
}


def _scipy(call: AttentionCall) -> Tensor:
    """Numpy arrays of float64, `scipy.special.softmax`, einsum."""
    import numpy as np
    from scipy.special import softmax

    _check_without_gradient(call)
    query, key, value = (tensor.detach().numpy() for tensor in spread(call, torch.float64))
    bias, empty = bias_of(call, torch.float64)
    if 0 in call.scores_shape:
        return torch.zeros(call.output_shape, dtype=call.query.dtype)
    scores = np.einsum("...le,...se->...ls", query, key) * factor(call) + bias.detach().numpy()
    weights = softmax(scores, axis=-1) * kept(call, torch.float64).numpy()
    output = np.einsum("...ls,...sv->...lv", weights, value)
    return torch.from_numpy(np.where(empty.numpy(), 0.0, output)).to(call.query.dtype)


def _check_without_gradient(call: AttentionCall) -> None:
    check(call)
    if call.wants_gradient:
        raise NotImplementedError("the library does not know PyTorch's gradients")


def _jax(call: AttentionCall) -> Tensor:
    """`jax.nn.dot_product_attention`, its axes b l h e; it has no dropout."""
    import numpy as np

    _check_without_gradient(call)
    if call.value_width != call.width:
        raise NotImplementedError(JAX_LACKS["value_width"])
    if reason := JAX_LACKS.get(str(call.query.dtype).removeprefix("torch.")):
        raise NotImplementedError(reason)
    mask = call["attn_mask"]
    masks = {} if mask is None else {"mask" if mask.dtype == torch.bool else "bias": _jax_array(mask)}
    heads_inner = (_jax_array(tensor).swapaxes(1, 2) for tensor in (call.query, call.key, call.value))
    output = _compiled(call["is_causal"])(*heads_inner, **masks, scale=factor(call))
    wide = np.array(output).astype(np.float32).swapaxes(1, 2)
    return torch.from_numpy(wide).reshape(call.output_shape).to(call.query.dtype)


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


def _sdpa(call: AttentionCall) -> Tensor:
    """PyTorch's own function behind the contract's checks, without is_causal where a mask or a scale ≤ 0 forbids it."""
    check(call)
    if call["is_causal"] and (factor(call) <= 0 or call["attn_mask"] is not None):
        mask, seen = call["attn_mask"], call.visible()
        added = mask is not None and mask.is_floating_point()
        call = call.but(is_causal=False, attn_mask=mask.where(seen, -torch.inf) if added else seen)
    if call["attn_mask"] is not None:
        call = call.but(attn_mask=torch.atleast_2d(call["attn_mask"]))  # it takes no masks of lower rank
    options = {name: call[name] for name in SDPA}
    return torch.nn.functional.scaled_dot_product_attention(call.query, call.key, call.value, **options)


# Signatures and dtypes


def _core(x: Inputs) -> Tensor:
    scores = torch.add(x.bias, torch.matmul(x.query, x.key.mT), alpha=x.factor)
    return (torch.softmax(scores, -1) * x.keep) @ x.value


_plain = attention(_core)


def _positional_only(q: Tensor, k: Tensor, v: Tensor, /, *, attn_mask: Tensor | None = None, **others: Any) -> Any:
    return _plain(q, k, v, attn_mask=attn_mask, **others)


class _WithoutSignature:
    """Like a builtin: inspect cannot read what it takes."""

    __name__ = "attention"

    @property
    def __signature__(self) -> Any:
        raise ValueError("no signature found for builtin")

    def __call__(self, *tensors: Tensor, **options: Any) -> Any:
        return _plain(*tensors, **options)


class _Module(torch.nn.Module):
    """A module without parameters, called like a function."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *options: Any, **named: Any) -> Any:
        by_place = [option.name for option in arguments() if option.place is not None]
        return _plain(query, key, value, **dict(zip(by_place, options, strict=False)), **named)


def _in_its_own_dtype(call: AttentionCall) -> Tensor:
    """Products in the half type itself, the softmax in float32."""
    check(call)
    dtype = call.query.dtype
    query, key, value = spread(call, dtype)
    products = query @ key.mT
    if not products.isfinite().all():
        raise NotImplementedError(f"the products of query and key exceed {dtype}")
    if 0 in call.scores_shape:
        return products @ value
    wide = torch.promote_types(dtype, torch.float32)
    bias, empty = bias_of(call, wide)
    weights = torch.softmax((products.to(wide) * factor(call)) + bias, dim=-1) * kept(call, wide)
    low = weights.to(dtype)
    if low.requires_grad:
        low.register_hook(_refuse_overflow)
    return (low @ value).masked_fill(empty, 0.0)


def _refuse_overflow(gradient: Tensor) -> None:
    if not gradient.isfinite().all():
        raise NotImplementedError(f"the products of output gradient and values exceed {gradient.dtype}")


def variants() -> list[Variant]:
    """Libraries behind the contract's signature, and other signatures."""
    jax = as_attention(_jax, ("attn_mask", "is_causal", "scale", "enable_gqa"))
    empty_rows = {"empty_row": {"bool_mask": "mean", "float_mask": "nan"}}
    lacks = {**NO_GRADIENT, **JAX_LACKS}
    scipy = as_attention(_scipy, USUAL)
    return [
        Variant("scipy", "numpy arrays of float64 and scipy.special.softmax", scipy, ("scipy",), NO_GRADIENT),
        Variant("jax", "jax.nn.dot_product_attention as it is", jax, ("jax",), lacks, empty_rows),
        Variant("sdpa", "PyTorch's scaled_dot_product_attention behind checks", as_attention(_sdpa, SDPA)),
        Variant("positional_only", "query, key and value by position only, under other names", _positional_only),
        Variant("no_signature", "callable, but its signature cannot be read, as a builtin's", _WithoutSignature()),
        Variant("module", "a torch.nn.Module that takes its options by position too", _Module()),
        Variant("no_options", "takes query, key and value alone", lambda query, key, value: _plain(query, key, value)),
        Variant("in_its_own_dtype", "multiplies half types in their own dtype", as_attention(_in_its_own_dtype, USUAL)),
    ]
