"""What models show of their attention: the weights of each call are kept beside its answer.

Those of a function are read off it: they are its answer where the values are the identity. A module of torch.nn is
asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Watching:
    """Answers as the attention does. `seen` has the weights of each call so far, b h l s."""

    def __init__(self, attention: Callable[..., Tensor]) -> None:
        self.attention = attention
        self.seen: list[Tensor] = []

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        mixed = self.attention(query, key, value, **options)
        self.seen.append(weights_of(self.attention, query, key, value, **options))
        return mixed


def weights_of(
    attention: Callable[..., Tensor],
    query: Tensor,  # b h l p
    key: Tensor,  # b h s p
    value: Tensor,  # b h s c
    **options: Any,
) -> Tensor:
    """The weights of an attention, b h l s.

    It is given the identity in place of the values, as many columns at a time as those have: some attentions take no
    values of another width. The last columns are filled up with zeros.
    """
    keys, columns = value.shape[-2:]
    if not keys:
        return query.new_empty(*query.shape[:-1], 0)
    identity = torch.eye(keys, -(-keys // columns) * columns, dtype=value.dtype, device=value.device)
    parts = [attention(query, key, part.expand_as(value), **options) for part in identity.split(columns, -1)]
    return torch.cat(parts, -1)[..., :keys]


def watched(
    model: Callable[..., Tensor], attentions: Mapping[str, nn.Module]
) -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
    """The model with the weights of these attentions of it, b h l s, beside its output; each is called once."""
    seen: dict[str, Tensor] = {}

    def asked(
        module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return given, {**named, "need_weights": True, "average_attn_weights": False}

    def kept(name: str, module: nn.Module, given: Any, answer: tuple[Tensor, Tensor]) -> None:
        seen[name] = answer[1]

    for name, module in attentions.items():
        module.register_forward_pre_hook(asked, with_kwargs=True)
        module.register_forward_hook(partial(kept, name))
    return lambda *inputs: (model(*inputs), {name: seen[name] for name in attentions})
