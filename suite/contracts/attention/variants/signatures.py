"""Strangers whose signature is unusual, or that compute half types in their own dtype."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.attention.computation.call import Asked, as_attention, check
from attnsuite.contracts.attention.feature import arguments
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.variants.question import Question, attention, bias_of, kept, spread


def _core(asked: Question) -> Tensor:
    products = torch.matmul(asked.query, asked.key.mT)
    scores = torch.add(asked.bias, products, alpha=asked.factor)
    return (torch.softmax(scores, -1) * asked.keep) @ asked.value


_plain = attention(_core)


def _positional_only(q: Tensor, k: Tensor, v: Tensor, /, *, attn_mask: Tensor | None = None, **others: Any) -> Any:
    return _plain(q, k, v, attn_mask=attn_mask, **others)


def _any_keywords(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    return _plain(query, key, value, **options)


def _any_arguments(*tensors: Tensor, **options: Any) -> Any:
    return _plain(*tensors, **options)


class _WithoutSignature:
    """Like a builtin: nobody can read what it takes."""

    __name__ = "attention"

    @property
    def __signature__(self) -> Any:
        raise ValueError("no signature found for builtin")

    def __call__(self, *tensors: Tensor, **options: Any) -> Any:
        return _plain(*tensors, **options)


class _Module(torch.nn.Module):
    """A module without parameters, called like a function."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *options: Any, **named: Any) -> Any:
        by_place = [each.name for each in arguments() if each.place is not None]
        return _plain(query, key, value, **dict(zip(by_place, options, strict=False)), **named)


def _no_options(query: Tensor, key: Tensor, value: Tensor) -> Any:
    return _plain(query, key, value)


def _in_its_own_dtype(asked: Asked) -> Tensor:
    """Products in the half type itself, the softmax in float32."""
    check(asked)
    dtype = asked.query.dtype
    query, key, value = spread(asked, dtype)
    products = query @ key.mT
    if not products.isfinite().all():
        raise NotImplementedError(f"the products of query and key exceed {dtype}")
    if 0 in asked.scores_shape:
        return products @ value
    wide = torch.promote_types(dtype, torch.float32)
    bias, empty = bias_of(asked, wide)
    weights = torch.softmax((products.to(wide) * factor(asked)) + bias, dim=-1) * kept(asked, wide)
    low = weights.to(dtype)
    if low.requires_grad:
        low.register_hook(_declined_overflow)
    return (low @ value).masked_fill(empty, 0.0)


def _declined_overflow(gradient: Tensor) -> None:
    if not gradient.isfinite().all():
        raise NotImplementedError(f"the products of output gradient and values exceed {gradient.dtype}")


def variants() -> list[Variant]:
    """One formula, many signatures."""
    return [
        Variant("positional_only", "query, key and value by position only, under other names", _positional_only),
        Variant("any_keywords", "its options are **options", _any_keywords),
        Variant("any_arguments", "a signature that says nothing: *tensors, **options", _any_arguments),
        Variant("no_signature", "callable, but its signature cannot be read, as a builtin's", _WithoutSignature()),
        Variant("module", "a torch.nn.Module that takes its options by position too", _Module()),
        Variant("no_options", "takes query, key and value and declines the rest", _no_options),
        Variant("in_its_own_dtype", "multiplies half types in their own dtype", as_attention(_in_its_own_dtype)),
    ]
