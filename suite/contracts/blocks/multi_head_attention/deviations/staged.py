"""The correct computation, in small steps that deviations replace."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from suite.asking.staged import Staged


class MultiHead(Staged):
    """The formula, step by step."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        w_query: Tensor,
        w_key: Tensor,
        w_value: Tensor,
        *,
        num_heads: int,
        w_output: Tensor | None = None,
        b_query: Tensor | None = None,
        b_key: Tensor | None = None,
        b_value: Tensor | None = None,
        b_output: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        dropout_p: float = 0.0,
        attention: Callable[..., Tensor] | None = None,
    ) -> Tensor:
        self.check_inputs(query, key, value, w_query, w_key, w_value)
        self.check_biases(w_query, w_value, b_query, b_key, b_value)
        w_output, b_output = self.check_output(w_value, w_output, b_output)
        heads, p = self.check_heads(num_heads, w_query, w_value), self.check_dropout(dropout_p)
        if attn_mask is not None:
            attn_mask = self.check_mask(attn_mask, (len(query), heads, query.shape[1], key.shape[1]))
        dtype, wide = query.dtype, self.wide(query)
        query, key, value = self.roles(query.to(wide), key.to(wide), value.to(wide))
        w_query, w_key, w_value = w_query.to(wide), w_key.to(wide), w_value.to(wide)
        b_query, b_key, b_value, w_output, b_output = (
            tensor if tensor is None else tensor.to(wide) for tensor in (b_query, b_key, b_value, w_output, b_output)
        )
        queries = self.split(self.to_queries(query, w_query, b_query), heads)  # b h l p
        keys = self.split(self.to_keys(key, w_key, b_key), heads)  # b h s p
        values = self.split(self.to_values(value, w_value), heads)  # b h s v
        bias = None if b_value is None else self.split(b_value[None, None], heads)  # 1 h 1 v
        if attention := self.plug(attention):
            given = {"attn_mask": attn_mask, "is_causal": is_causal, "dropout_p": dropout_p}
            biased = values if bias is None else values + bias
            mixed = attention(*self.to_plug((queries, keys, biased), dtype), **given)
            output = self.merge(mixed.to(wide))
            return (output if w_output is None else self.to_output(output, w_output, b_output)).to(dtype)
        scores = queries @ keys.mT * self.factor(queries, values, query)  # b h l s
        weights = self._weights(scores, attn_mask, is_causal, p)
        output = self.merge(self.mix(weights, values, bias))  # b l c
        if w_output is not None:
            output = self.to_output(output, w_output, b_output)
        return self.finish(output, p).to(dtype)

    def _weights(self, scores: Tensor, attn_mask: Tensor | None, is_causal: bool, p: float) -> Tensor:
        if attn_mask is not None:
            scores = self.mask(scores, attn_mask)
        if is_causal:
            scores = self.past(scores)
        weights = self.softmax(scores)
        return self.drop(weights, p) if p else weights

    @staticmethod
    def check_inputs(
        query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor
    ) -> None:
        for x, weights in ((query, w_query), (key, w_key), (value, w_value)):
            if x.dim() != 3 or len(x) != len(query) or x.shape[2] != weights.shape[0]:
                raise ValueError("ranks, batches or widths differ")
        if key.shape[1] != value.shape[1] or w_query.shape[1] != w_key.shape[1]:
            raise ValueError("lengths or columns differ")

    @staticmethod
    def check_biases(
        w_query: Tensor, w_value: Tensor, b_query: Tensor | None, b_key: Tensor | None, b_value: Tensor | None
    ) -> None:
        for bias, weights in ((b_query, w_query), (b_key, w_query), (b_value, w_value)):
            if bias is not None and bias.shape != weights.shape[1:]:
                raise ValueError("a bias has another width")

    @staticmethod
    def check_output(
        w_value: Tensor, w_output: Tensor | None, b_output: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        if w_output is None and b_output is not None:
            raise ValueError("an output bias without a map")
        if w_output is not None and w_output.shape[0] != w_value.shape[1]:
            raise ValueError("the output map does not chain")
        if w_output is not None and b_output is not None and b_output.shape != w_output.shape[1:]:
            raise ValueError("the output bias has another width")
        return w_output, b_output

    @staticmethod
    def check_heads(heads: int, w_query: Tensor, w_value: Tensor) -> int:
        if heads < 1 or w_query.shape[1] % heads or w_value.shape[1] % heads:
            raise ValueError("the heads do not divide the columns")
        return heads

    @staticmethod
    def check_dropout(p: float) -> float:
        if not 0 <= p <= 1:
            raise ValueError("no probability")
        return p

    @staticmethod
    def check_mask(mask: Tensor, due: tuple[int, ...]) -> Tensor:
        """Return the mask if it broadcasts to b h l s."""
        if mask.dtype != torch.bool or mask.dim() not in (2, 4) or torch.broadcast_shapes(mask.shape, due) != due:
            raise ValueError("the mask does not fit")
        return mask

    @staticmethod
    def roles(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return query, key, value

    @staticmethod
    def to_queries(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        return mapped(x, weights, bias)

    @staticmethod
    def to_keys(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        return mapped(x, weights, bias)

    @staticmethod
    def to_values(x: Tensor, weights: Tensor) -> Tensor:
        return x @ weights

    @staticmethod
    def split(x: Tensor, heads: int) -> Tensor:
        """b n (h p) → b h n p."""
        parts: Tensor = x.unflatten(-1, (heads, -1))
        return parts.transpose(1, 2)

    @staticmethod
    def plug(attention: Callable[..., Tensor] | None) -> Callable[..., Tensor] | None:
        """What computes the heads in place of what follows."""
        return attention

    @staticmethod
    def to_plug(heads: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Queries, keys and values in the dtype that they came in."""
        return tuple(each.to(dtype) for each in heads)

    @staticmethod
    def factor(queries: Tensor, values: Tensor, query: Tensor) -> float:
        """What the products b h l s are multiplied by."""
        return 1 / math.sqrt(queries.shape[-1])

    @staticmethod
    def mask(scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -math.inf)

    @staticmethod
    def past(scores: Tensor) -> Tensor:
        return scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)

    @staticmethod
    def softmax(scores: Tensor) -> Tensor:
        largest = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min) if scores.shape[-1] else scores
        powers = (scores - largest).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / total.masked_fill(total == 0, 1.0)

    @staticmethod
    def drop(weights: Tensor, p: float) -> Tensor:
        return weights * multiplier(weights, p)

    @staticmethod
    def mix(weights: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        return weights @ (values if bias is None else values + bias)

    @staticmethod
    def merge(heads: Tensor) -> Tensor:
        """b h l v → b l (h v)."""
        return heads.transpose(1, 2).flatten(2)

    @staticmethod
    def to_output(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        return mapped(x, weights, bias)

    @staticmethod
    def finish(output: Tensor, p: float) -> Tensor:
        return output


def mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """A linear map, with a bias where there is one."""
    return x @ weights if bias is None else x @ weights + bias


def multiplier(numbers: Tensor, p: float) -> Tensor:
    """Dropout's factor for each number: 0 with probability p, else 1/(1−p)."""
    kept = torch.rand(numbers.shape, device=numbers.device) >= p  # rand is below 1: p = 1 keeps none
    return kept.to(numbers.dtype) / (1 - p if p < 1 else 1.0)
