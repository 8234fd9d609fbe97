"""Attention weights of models, read off a function through identity values, or returned by a module of torch.nn."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Recorder:
    """An attention that records its weights: `weights` has those of each call so far, b h l s."""

    def __init__(self, attention: Callable[..., Tensor]) -> None:
        self.attention = attention
        self.weights: list[Tensor] = []

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        mixed = self.attention(query, key, value, **options)
        self.weights.append(attention_weights(self.attention, query, key, value, **options))
        return mixed


def attention_weights(
    attention: Callable[..., Tensor],
    query: Tensor,  # b h l p
    key: Tensor,  # b h s p
    value: Tensor,  # b h s c
    **options: Any,
) -> Tensor:
    """The weights of an attention, b h l s: its output for columns of the identity as values.

    A call has as many columns as the values: some attentions take no other width. The last call is filled up with
    zeros.
    """
    keys, columns = value.shape[-2:]
    if not keys:
        return query.new_empty(*query.shape[:-1], 0)
    identity = torch.eye(keys, -(-keys // columns) * columns, dtype=value.dtype, device=value.device)
    parts = [attention(query, key, part.expand_as(value), **options) for part in identity.split(columns, -1)]
    return torch.cat(parts, -1)[..., :keys]


def with_attention_weights(
    model: Callable[..., Tensor], attentions: Mapping[str, nn.Module]
) -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
    """The model that also returns the weights of these attentions, b h l s; each is called once."""
    weights: dict[str, Tensor] = {}

    def request(
        module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return inputs, {**options, "need_weights": True, "average_attn_weights": False}

    def record(name: str, module: nn.Module, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        weights[name] = output[1]

    for name, module in attentions.items():
        module.register_forward_pre_hook(request, with_kwargs=True)
        module.register_forward_hook(partial(record, name))
    return lambda *inputs: (model(*inputs), {name: weights[name] for name in attentions})
