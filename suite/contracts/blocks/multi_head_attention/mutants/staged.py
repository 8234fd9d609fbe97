"""The correct computation, in small steps that deviations replace."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, broadcasts
from attnsuite.cases.mutants import formula
from attnsuite.contracts.asking_plugs import Heads
from attnsuite.contracts.attention.features.dropout import dropout
from attnsuite.contracts.shown import through_identity
from attnsuite.contracts.softmax import masked, softmax


def mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """A linear map, with a bias where there is one."""
    return x @ weights if bias is None else x @ weights + bias


class MultiHead(Steps):
    """The formula, step by step."""

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
        scores = queries @ keys.mT * self.factor(queries, values, query)  # b h l s
        if attention := self.plug(attention):
            given = self.needed({"attn_mask": attn_mask, "is_causal": is_causal, "dropout_p": dropout_p})
            heads = self.to_plug((queries, keys, values if bias is None else values + bias), dtype)
            mixed, shown = self._plugged(attention, heads, given, lambda: self._masked(scores, attn_mask, is_causal))
        else:
            mixed, shown = self._mixed(scores, self._masked(scores, attn_mask, is_causal), values, bias, dropout_p)
        output = self.merge(mixed.to(wide))  # b l c
        if w_output is not None:
            output = self.to_output(output, w_output, b_output)
        output = self.finish(output, dropout_p).to(dtype)
        return (output, self.recalled(shown().to(dtype))) if need_weights else output

    def _mixed(
        self, scores: Tensor, masked: Tensor, values: Tensor, bias: Tensor | None, p: float
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        """The heads, b h l v, and what shows their weights."""
        weights = self.softmax(masked)
        dropped = self.drop(weights, p) if p else weights
        mixed = self.mix(dropped, values, bias)
        return mixed, lambda: self.shown(self.before_dropout(weights, dropped), masked, scores)

    def _plugged(
        self, attention: Callable[..., Tensor], heads: Heads, given: Arguments, masked: Callable[[], Tensor]
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        """The same by an attention that is plugged in."""
        read = partial(self.read, partial(self._reply, attention, heads, given), heads[2])
        return self.ask(attention, heads, given), lambda: self.of_plug(read(), lambda: self.softmax(masked()))

    def _reply(self, attention: Callable[..., Tensor], heads: Heads, given: Arguments, values: Tensor) -> Tensor:
        """What the attention that is plugged in answers for other values."""
        return self.ask(attention, (*heads[:2], values), self.given_to_read(given))

    def _masked(self, scores: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
        if attn_mask is not None:
            scores = self.mask(scores, attn_mask)
        return self.past(scores) if is_causal else scores

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        heads, mask = given["num_heads"], given["attn_mask"]
        if given["w_output"] is None and given["b_output"] is not None:
            raise ValueError("an output bias without a map")
        if heads < 1 or sizes["d"] % heads or sizes["c"] % heads:
            raise ValueError("the heads do not divide the columns")
        if not 0 <= given["dropout_p"] <= 1:
            raise ValueError("no probability")
        if mask is None:
            return
        due = (sizes["b"], heads, sizes["l"], sizes["s"])
        if mask.dtype != torch.bool or mask.dim() not in (2, 4) or not broadcasts(mask, *due):
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

    plug = staticmethod(lambda attention: attention)  # what computes the heads in place of what follows
    # the arguments that the plug needs: a probability of 0 and False need nothing
    needed = staticmethod(
        lambda given: {name: each for name, each in given.items() if isinstance(each, Tensor) or each}
    )
    ask = formula(lambda attention, heads, given: attention(*heads, **given))
    # queries, keys and values in the dtype that they came in
    to_plug = staticmethod(lambda heads, dtype: tuple(each.to(dtype) for each in heads))
    # what the products b h l s are multiplied by
    factor = staticmethod(lambda queries, values, query: 1 / math.sqrt(queries.shape[-1]))

    mask = staticmethod(masked)
    past = formula(lambda scores: masked(scores, torch.ones(scores.shape[-2:], dtype=torch.bool).tril()))

    softmax = staticmethod(softmax)
    before_dropout = formula(lambda weights, dropped: weights)  # what is shown where dropout has taken some
    # what is shown of the weights, b h l s; of scores that are masked, and before they are
    shown = formula(lambda weights, masked, scores: weights)
    recalled = formula(lambda shown: shown)
    read = staticmethod(through_identity)
    of_plug = formula(lambda shown, own: shown)  # what is shown of a plug
    # what a plug is given beside the identity
    given_to_read = staticmethod(lambda given: {name: each for name, each in given.items() if name != "dropout_p"})
    drop = staticmethod(dropout)
    mix = formula(lambda weights, values, bias: weights @ (values if bias is None else values + bias))
    merge = formula(lambda heads: heads.transpose(1, 2).flatten(2))  # b h l v → b l (h v)
    to_output = formula(mapped)
    finish = formula(lambda output, p: output)
