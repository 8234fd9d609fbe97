"""`jax.nn.dot_product_attention`, compiled by XLA, with its gradient from `jax.vjp`.

Tensors cross by DLPack. XLA compiles once per shape and set of features: a call on a new shape takes 0.2 s with
`jax.jit`, and 1.0 s with eager JAX, operator by operator (0.4 and 1.7 s with a gradient; two busy cores). Small calls
are many and quick, so they are compiled with fewer optimisations: 0.05 s, or on an H100 0.4 s instead of 1.6 s, most
of it for autotuning. Large ones get XLA's defaults. The scale is an
argument of the compiled program, so a new value compiles nothing. On a CPU only eager JAX finds a float16 product;
compiled, it has none, and the call is unsupported, in XLA's words. The same holds on a GPU with one query or one key.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import jax
import torch
from jax import Array
from jax.nn import dot_product_attention
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite import implementation

_shapes: set[Any] = set()  # compiled since XLA's programs were last cleared
_SMALL = 2**16  # scores
_PROGRAMS = 96  # in memory, a few MiB each
_IN_HASTE: dict[str, dict[str, int | bool]] = {
    "cpu": {
        "xla_backend_optimization_level": 0,
        "xla_cpu_use_fusion_emitters": False,
        "xla_cpu_parallel_codegen_split_count": 1,
    },
    "cuda": {"xla_gpu_autotune_level": 0},
}
_UNSUPPORTED = ("not supported", "Unsupported dot")  # in XLA's errors for a missing matrix product


@implementation(
    requires=["jax"],
    compiles="a program for each shape, with XLA",
    lacks={
        "value_width": "jax.nn.dot_product_attention: value should have the same shape as key",
        "float64": "jax.nn.dot_product_attention always carries out the softmax in float32",
        "lse_gradient": "jax.nn.dot_product_attention stops the gradient of its residual",
    },
    conventions={"empty_row": {"bool_mask": "mean", "float_mask": "nan", "window": "mean"}},
)
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s e
    *,
    attn_mask: Tensor | None = None,  # broadcastable to ... h l s
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
    return_lse: bool = False,
) -> Any:  # ... h l e, and ... h l
    """Grouped heads need no flag: JAX compares head counts. A float mask is its `bias`, a boolean one its `mask`."""
    if not enable_gqa and query.shape[:-2] != key.shape[:-2]:
        raise ValueError(f"leading axes {tuple(query.shape[:-2])} of query and {tuple(key.shape[:-2])} of key differ")
    if window is not None and (len(window) != 2 or any(width is not None and width < 0 for width in window)):
        raise ValueError(f"window must be a pair of widths, each None or at least 0, not {window}")
    if query.is_cuda and not _has_cuda():
        raise NotImplementedError("this installation of JAX has no CUDA backend")
    is_boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    bias, mask = (None, attn_mask) if is_boolean else (attn_mask, None)
    most = query.shape[-2] + key.shape[-2]  # JAX has no word for an unbounded side
    sides = None if window is None else tuple(most if width is None else width for width in window)
    return _Attention.apply(query, key, value, bias, mask, scale, is_causal, sides, return_lse)


class _Attention(torch.autograd.Function):
    """Torch's autograd around JAX's: the forward pass keeps what `jax.vjp` returns, the backward pass calls it."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        query, key, value, bias, mask, scale, is_causal, window, return_lse = inputs
        ctx.shapes = [None if tensor is None else tensor.shape for tensor in (query, key, value, bias)]
        ctx.in_haste = query.device.type if query.shape[:-1].numel() * key.shape[-2] <= _SMALL else ""
        with jax.enable_x64(query.dtype == torch.float64):
            if reason := _no_product(query.dtype, query.device.type):
                raise NotImplementedError(reason)
            arrays = [*map(_heads_last, (query, key, value)), *map(_mask, (bias, mask)), scale]
            static = {"is_causal": is_causal, "window": window}
            if return_lse:
                if any(ctx.needs_input_grad):
                    raise NotImplementedError("jax.nn.dot_product_attention stops the gradient of its residual")
                output, lse = map(_to_torch, _run(_attend, ctx.in_haste, *arrays, **static, return_residual=True))
                return output.transpose(1, 2).reshape(query.shape), lse.transpose(1, 2).reshape(query.shape[:-1])
            if any(ctx.needs_input_grad):
                output, ctx.pull_back = _run(_attend_for_gradient, ctx.in_haste, *arrays, **static)
            else:
                output = _run(_attend, ctx.in_haste, *arrays, **static)
            return _to_torch(output).transpose(1, 2).reshape(query.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        with jax.enable_x64(output_gradient.dtype == torch.float64):
            arrays = _run(_pull, ctx.in_haste, ctx.pull_back, _heads_last(output_gradient))
            *operands, bias = [None if array is None else _to_torch(array) for array in arrays]
        gradients = [*(operand.transpose(1, 2) for operand in operands), bias]
        pairs = zip(gradients, ctx.shapes, strict=True)
        return (
            *(gradient if gradient is None else gradient.reshape(shape) for gradient, shape in pairs),
            *(None,) * 5,
        )


def _attend(
    query: Array,  # b l h e
    key: Array,  # b s g e
    value: Array,  # b s g e
    bias: Array | None,  # b h l s, or 1 for any of them
    mask: Array | None,
    scale: float | None,
    is_causal: bool,
    window: tuple[int, int] | None,
    return_residual: bool = False,
) -> Any:  # b l h e, and b l h
    options = {"scale": scale, "is_causal": is_causal, "local_window_size": window, "return_residual": return_residual}
    with jax.default_matmul_precision("highest"):  # while it is traced: on a GPU XLA rounds float32 to TF32 by default
        return dot_product_attention(query, key, value, bias, mask, **options)


def _attend_for_gradient(
    query: Array, key: Array, value: Array, bias: Array | None, *others: Any, is_causal: bool, window: Any
) -> tuple[Array, Callable[..., Any]]:
    return jax.vjp(lambda *inputs: _attend(*inputs, *others, is_causal, window), query, key, value, bias)


def _pull(pull_back: Callable[..., Any], output_gradient: Array) -> Any:
    return pull_back(output_gradient)


def _run(function: Callable[..., Any], in_haste: str, *arguments: Any, **static: Any) -> Any:
    """Call the function compiled, in haste for a kind of device where one is named. Raises NotImplementedError if XLA
    does not support it.
    """
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(arguments) if isinstance(leaf, Array))
    _shapes.add((function, shapes, tuple(static.values())))
    if len(_shapes) > _PROGRAMS:
        _shapes.clear()
        jax.clear_caches()
    with _unsupported():
        return _compiled(function, in_haste)(*arguments, **static)


@lru_cache
def _no_product(dtype: torch.dtype, device: str) -> str:
    """Why XLA has no product in this dtype for this kind of device; empty if it has one. Found out once."""
    one = _heads_last(torch.ones(1, 1, dtype=dtype, device=device))
    try:
        with _unsupported():
            jax.jit(dot_product_attention).lower(one, one, one)
    except NotImplementedError as error:
        return str(error)
    return ""


@contextmanager
def _unsupported() -> Iterator[None]:
    """Turn XLA's "not supported" and the like into NotImplementedError; its other errors pass through."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if not any(words in str(error) for words in _UNSUPPORTED):
            raise
        raise NotImplementedError(str(error)) from error


@lru_cache
def _compiled(function: Callable[..., Any], in_haste: str) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    static = [name for name in ("is_causal", "window", "return_residual") if name in parameters]
    return jax.jit(function, static_argnames=static, compiler_options=_IN_HASTE.get(in_haste))


def _four_axes(tensor: Tensor) -> Tensor:
    """The tensor with the axes of batch and heads that JAX expects: missing ones are added with size 1."""
    return tensor[(None,) * (4 - tensor.dim())]


def _heads_last(tensor: Tensor) -> Array:
    """... h l e  to  b l h e."""
    return _to_jax(_four_axes(tensor).transpose(1, 2))


def _mask(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else _to_jax(_four_axes(tensor))


def _to_jax(tensor: Tensor) -> Array:
    return jax.dlpack.from_dlpack(tensor.detach().contiguous())


def _to_torch(array: Array) -> Tensor:
    return torch.from_dlpack(jax.block_until_ready(array))


@lru_cache
def _has_cuda() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False
