"""`torch.nn.functional.scaled_dot_product_attention`: PyTorch's own choice of backend, and each backend by force.

With one backend enabled, PyTorch runs that backend or raises. The profiler agrees: over every dtype, mask, shape and
gradient that a backend accepts, these are the only operators seen (torch 2.13 on a CPU; the CUDA names are PyTorch's):

    math        aten::_scaled_dot_product_attention_math
    flash       aten::_scaled_dot_product_flash_attention_for_cpu    CUDA: aten::_scaled_dot_product_flash_attention
    efficient   CUDA: aten::_scaled_dot_product_efficient_attention
    cudnn       CUDA: aten::_scaled_dot_product_cudnn_attention

A backend that does not support a call gives the reasons in warnings and then raises "No available kernel"; that becomes
one NotImplementedError with these reasons. Every other error of PyTorch passes through. Nothing is checked and nothing
is repaired here. If an input is empty, PyTorch returns zeros before it chooses a backend. Dropout draws
from PyTorch's generator, which `torch.manual_seed` seeds. Forcing a backend costs some 12 µs a call.
"""

import re
import threading
import warnings
from typing import Any

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attnsuite import implementation

_switches = threading.RLock()  # the enabled backends and the warning filters belong to the whole process


@implementation(variant="automatic")
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,  # broadcastable to ... h l s
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # ... h l v
    """The backend that PyTorch chooses: a fused kernel if one takes the call, else math."""
    return scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@implementation(variant="math", conventions={"repeated_calls": "equal_bits"})
def math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The scores as a matrix, in separate operators; the only backend that takes every call."""
    return _forced(SDPBackend.MATH, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


@implementation(
    variant="flash",
    lacks={
        "rank2": "fused kernels take four axes only",
        "rank3": "fused kernels take four axes only",
        "value_width": "flash attention requires q, k and v to have the same last dimension",
        "mask_gradient": "no flash kernel returns the gradient of its mask",
    },
)
def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """FlashAttention: on a CPU PyTorch's own (masks, no dropout), on CUDA FlashAttention-2 (dropout, no masks)."""
    return _forced(SDPBackend.FLASH_ATTENTION, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


@implementation(
    variant="efficient",
    lacks={
        "cpu": "PyTorch has no memory-efficient kernel for a CPU",
        "rank2": "fused kernels take four axes only",
        "rank3": "fused kernels take four axes only",
    },
)
def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Memory-efficient attention, from CUTLASS by way of xformers."""
    backend = SDPBackend.EFFICIENT_ATTENTION
    return _forced(backend, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


@implementation(
    variant="cudnn",
    lacks={
        "cpu": "cuDNN has no kernel for a CPU",
        "rank2": "fused kernels take four axes only",
        "rank3": "fused kernels take four axes only",
    },
)
def cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """cuDNN's fused attention, through its graph interface."""
    return _forced(SDPBackend.CUDNN_ATTENTION, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _forced(backend: SDPBackend, *inputs: Any) -> Tensor:
    """Call with only this backend enabled. NotImplementedError with PyTorch's reasons if it has no kernel."""
    with _switches, warnings.catch_warnings(record=True) as caught, sdpa_kernel(backend):
        warnings.simplefilter("always")
        try:
            *inputs, scale, grouped = inputs
            return scaled_dot_product_attention(*inputs, scale=scale, enable_gqa=grouped)
        except RuntimeError as error:
            if not str(error).startswith(("No available kernel", "No viable backend")):
                raise
            complaint = " ".join(str(error).split("\n")[0].split())
            raise NotImplementedError(" ".join([complaint, *_reasons(caught)])) from error


def _reasons(caught: list[warnings.WarningMessage]) -> list[str]:
    """The warnings of PyTorch, without source lines and without those about the backends that are disabled here."""
    sections: list[list[str]] = []
    for warning in caught:
        text = re.sub(r"\s*\(Triggered internally at .*", "", str(warning.message), flags=re.DOTALL)
        if text.endswith("because:") or not sections:
            sections.append([])
        sections[-1].append(" ".join(text.split()))
    return [text for section in sections if "runtime disabled" not in " ".join(section) for text in section]
