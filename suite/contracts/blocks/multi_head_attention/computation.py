"""The oracle of the contract `multi_head_attention`, and the computation in steps that mutants replace."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, broadcasts
from attnsuite.cases.mutants import formula
from attnsuite.contracts.attention.features.dropout import dropout
from attnsuite.contracts.shared import Heads, through_identity
from attnsuite.contracts.softmax import masked, softmax
from attnsuite.contracts.steps.attention_scores import scaled_dot
from attnsuite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def oracle(
    query: Rounded,
    key: Rounded,
    value: Rounded,
    w_query: Rounded,
    w_key: Rounded,
    w_value: Rounded,
    *,
    num_heads: int,
    w_output: Rounded | None = None,
    b_value: Rounded | None = None,
    b_output: Rounded | None = None,
    dropout_p: float = 0.0,
    kept: Array | None = None,
    **options: Any,
) -> Rounded:
    """The heads side by side, b l c, or mapped, b l o. `kept` are the weights that dropout kept, b h l s."""
    values = _split(_mapped(value, w_value, b_value), num_heads)  # b h s v
    scores, allowed = _scores(query, key, w_query, w_key, num_heads, **options)
    dropped = _dropped(scores.softmax(allowed), dropout_p, kept) if dropout_p else None
    heads = scores.attend(values, allowed) if dropped is None else dropped @ values  # b h l v
    merged = heads.each(lambda array: np.concatenate(list(array.swapaxes(0, 1)), -1))  # b l c
    return merged if w_output is None else _mapped(merged, w_output, b_output)


def attention_weights(
    query: Rounded,
    key: Rounded,
    value: Rounded,
    w_query: Rounded,
    w_key: Rounded,
    w_value: Rounded,
    *,
    num_heads: int,
    **options: Any,
) -> Rounded:
    """The weights of every head before dropout, b h l s."""
    unused = ("w_output", "b_value", "b_output", "dropout_p", "kept")
    options = {name: option for name, option in options.items() if name not in unused}
    scores, allowed = _scores(query, key, w_query, w_key, num_heads, **options)
    return scores.softmax(allowed)


def visible(shape: tuple[int, ...], attn_mask: Array | None, is_causal: bool) -> Array:
    """The visible keys, b h l s."""
    allowed = np.broadcast_to(True if attn_mask is None else attn_mask, shape)
    return np.tril(allowed) if is_causal else allowed


def _scores(
    query: Rounded,
    key: Rounded,
    w_query: Rounded,
    w_key: Rounded,
    heads: int,
    *,
    b_query: Rounded | None = None,
    b_key: Rounded | None = None,
    attn_mask: Array | None = None,
    is_causal: bool = False,
) -> tuple[Rounded, Array]:
    """The scores and the visible keys, b h l s."""
    queries, keys = (_split(_mapped(*given), heads) for given in ((query, w_query, b_query), (key, w_key, b_key)))
    scores = scaled_dot(queries, keys)
    return scores, visible(scores.shape, attn_mask, is_causal)


def _mapped(x: Rounded, weights: Rounded, bias: Rounded | None) -> Rounded:
    return x @ weights if bias is None else x.affine(weights, bias)


def _split(x: Rounded, heads: int) -> Rounded:
    """b l (h p) → b h l p."""
    return x.each(lambda array: np.stack(np.split(array, heads, axis=-1), axis=1))


def _dropped(weights: Rounded, p: float, kept: Array | None) -> Rounded:
    """The weights after dropout; p = 1 keeps none."""
    if p == 1:
        return weights.each(np.zeros_like)
    assert kept is not None
    return weights.each(lambda array: np.where(kept, array, 0)) * (1 / (1 - p))


def mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """A linear map with an optional bias."""
    return x @ weights if bias is None else x @ weights + bias


class MultiHead(Steps):
    """The formula in steps that a mutant may replace."""

    axes = Axes(
        query="b l q",
        key="b s k",
        value="b s v",
        w_query="q d",
        w_key="k d",
        w_value="v c",
        w_output="c o",
        b_query="d",
        b_key="d",
        b_value="c",
        b_output="o",
    )

    def compute(
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
        need_weights: bool = False,
    ) -> Any:
        dtype, wide = query.dtype, self.wide(query)
        query, key, value = self.roles(query.to(wide), key.to(wide), value.to(wide))
        w_query, w_key, w_value = w_query.to(wide), w_key.to(wide), w_value.to(wide)
        b_query, b_key, b_value, w_output, b_output = (
            tensor if tensor is None else tensor.to(wide) for tensor in (b_query, b_key, b_value, w_output, b_output)
        )
        queries = self.split(self.to_queries(query, w_query, b_query), num_heads)  # b h l p
        keys = self.split(self.to_keys(key, w_key, b_key), num_heads)  # b h s p
        values = self.split(self.to_values(value, w_value), num_heads)  # b h s v
        bias = None if b_value is None else self.split(b_value[None, None], num_heads)  # 1 h 1 v
        if attention := self.plug(attention):
            options = self.needed({"attn_mask": attn_mask, "is_causal": is_causal, "dropout_p": dropout_p})
            heads = self.to_plug((queries, keys, values if bias is None else values + bias), dtype)
            mixed = self.ask(attention, heads, options)
            shown: Callable[[], Tensor] = partial(self.read, partial(self._reply, attention, heads, options), heads[2])
        else:
            scores = queries @ keys.mT * self.factor(queries, values, query)  # b h l s
            mixed, shown = self._mixed(scores, self._masked(scores, attn_mask, is_causal), values, bias, dropout_p)
        output = self.merge(mixed.to(wide))  # b l c
        if w_output is not None:
            output = self.to_output(output, w_output, b_output)
        output = self.finish(output, dropout_p).to(dtype)
        return (output, self.recalled(shown().to(dtype))) if need_weights else output

    def _mixed(
        self, scores: Tensor, masked: Tensor, values: Tensor, bias: Tensor | None, p: float
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        """The heads, b h l v, and a function that returns their weights."""
        weights = self.softmax(masked)
        dropped = self.drop(weights, p) if p else weights
        mixed = self.mix(dropped, values, bias)
        return mixed, lambda: self.shown(self.before_dropout(weights, dropped), masked, scores)

    def _reply(self, attention: Callable[..., Tensor], heads: Heads, options: Arguments, values: Tensor) -> Tensor:
        """The backend's output for other values."""
        return self.ask(attention, (*heads[:2], values), self.options_to_read(options))

    def _masked(self, scores: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
        if attn_mask is not None:
            scores = self.mask(scores, attn_mask)
        return self.causal(scores) if is_causal else scores

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        heads, mask = given["num_heads"], given["attn_mask"]
        if given["w_output"] is None and given["b_output"] is not None:
            raise ValueError("an output bias without an output map")
        if heads < 1 or sizes["d"] % heads or sizes["c"] % heads:
            raise ValueError("the heads do not divide the columns")
        if not 0 <= given["dropout_p"] <= 1:
            raise ValueError("dropout_p is not a probability")
        if mask is None:
            return
        expected = (sizes["b"], heads, sizes["l"], sizes["s"])
        if mask.dtype != torch.bool or mask.dim() not in (2, 4) or not broadcasts(mask, *expected):
            raise ValueError("the mask does not fit")

    roles = staticmethod(lambda query, key, value: (query, key, value))
    to_queries = formula(mapped)
    to_keys = formula(mapped)
    to_values = formula(lambda x, weights: x @ weights)

    @staticmethod
    def split(x: Tensor, heads: int) -> Tensor:
        """b n (h p) → b h n p."""
        parts: Tensor = x.unflatten(-1, (heads, -1))
        return parts.transpose(1, 2)

    plug = staticmethod(lambda attention: attention)
    # the backend's arguments: a probability of 0 and False are left out
    needed = staticmethod(lambda options: {name: o for name, o in options.items() if isinstance(o, Tensor) or o})
    ask = formula(lambda attention, heads, options: attention(*heads, **options))
    to_plug = staticmethod(lambda heads, dtype: tuple(tensor.to(dtype) for tensor in heads))  # in the inputs' dtype
    factor = staticmethod(lambda queries, values, query: 1 / math.sqrt(queries.shape[-1]))
    mask = staticmethod(masked)
    causal = formula(lambda scores: masked(scores, torch.ones(scores.shape[-2:], dtype=torch.bool).tril()))
    softmax = staticmethod(softmax)
    before_dropout = formula(lambda weights, dropped: weights)
    # the returned weights, b h l s, from weights, masked scores and scores
    shown = formula(lambda weights, masked, scores: weights)
    recalled = formula(lambda shown: shown)
    read = staticmethod(through_identity)
    # the backend's arguments when its weights are read
    options_to_read = staticmethod(lambda options: {name: o for name, o in options.items() if name != "dropout_p"})
    drop = staticmethod(dropout)
    mix = formula(lambda weights, values, bias: weights @ (values if bias is None else values + bias))
    merge = formula(lambda heads: heads.transpose(1, 2).flatten(2))  # b h l v → b l (h v)
    to_output = formula(mapped)
    finish = formula(lambda output, p: output)
