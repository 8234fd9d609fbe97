"""Attentions with one mistake each, in the style of submissions, with the mutants that explain them.

They share no code with the mutants, so that a diagnosis proves more than that a mutant equals itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softmax

Attention = Callable[..., Tensor]
MISTAKEN: dict[str, tuple[Attention, frozenset[str]]] = {}
"""By description: the attention, and the mutants that may explain it."""


class Textbook:
    """The formula in a few methods; a mistake overrides one."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        window: tuple[int | None, int | None] | None = None,
    ) -> Tensor:
        self.refuse(query, key, dropout_p, window)
        dtype = query.dtype
        if dtype.itemsize < 4:
            query, key, value = query.float(), key.float(), value.float()
        if enable_gqa:
            key, value = self.grouped(query, key), self.grouped(query, value)
        scores = self.scores(query, key) * self.factor(query, key, value, scale)
        scores = self.biased(scores, attn_mask)
        if is_causal:
            scores = scores.masked_fill(self.future(*scores.shape[-2:]), self.hidden)
        if window is not None:
            scores = scores.masked_fill(self.outside(*scores.shape[-2:], *window), self.hidden)
        weights = self.dropped(self.weights(scores), dropout_p)
        return self.output(weights, value).to(dtype)

    def refuse(self, query: Tensor, key: Tensor, p: float, window: Any) -> None:
        if not 0 <= p <= 1 or (query.dim() > 2 and query.shape[-3] % key.shape[-3]):
            raise ValueError("bad input")
        if window is not None and (not isinstance(window, tuple) or any((width or 0) < 0 for width in window)):
            raise ValueError("bad input")

    hidden = -math.inf

    def grouped(self, query: Tensor, key: Tensor) -> Tensor:
        return key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    def factor(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Any:
        return query.shape[-1] ** -0.5 if scale is None else scale

    def biased(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return scores
        return scores.masked_fill(~mask, self.hidden) if mask.dtype == torch.bool else scores + mask

    def future(self, rows: int, columns: int) -> Tensor:
        return torch.ones(rows, columns, dtype=torch.bool).triu(1)

    def outside(self, rows: int, columns: int, left: int | None, right: int | None) -> Tensor:
        offset = torch.arange(columns) - torch.arange(rows)[:, None]
        below = offset < -left if left is not None else torch.zeros_like(offset, dtype=torch.bool)
        return below | (offset > right) if right is not None else below

    def weights(self, scores: Tensor) -> Tensor:
        if scores.shape[-1] == 0:
            return scores
        empty = (scores == -math.inf).all(-1, keepdim=True)
        return softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)

    def dropped(self, weights: Tensor, p: float) -> Tensor:
        return torch.nn.functional.dropout(weights, p) if p else weights

    def output(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


def mistaken(says: str, *names: str, **methods: Any) -> None:
    """Register an attention with these wrong methods; a method gets the correct `Textbook` first."""
    own = Textbook()

    def wrong(method: Callable[..., Any]) -> Any:
        return method if not callable(method) else lambda self, *given: method(own, *given)

    kind = type("Mistaken", (Textbook,), {name: wrong(method) for name, method in methods.items()})
    MISTAKEN[says] = kind(), frozenset(names)


def backwards(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A tensor whose gradient is changed on the way back."""

    def hooked(tensor: Tensor) -> Tensor:
        if tensor.requires_grad:
            tensor = tensor * 1
            tensor.register_hook(change)
        return tensor

    return hooked


def default_factor(change: Callable[[int], float]) -> Callable[..., Any]:
    return lambda own, q, k, v, scale: change(q.shape[-1]) if scale is None else scale


# The scale

mistaken("no scale", "unscaled", factor=default_factor(lambda e: 1.0))
mistaken("divided by e", "divides_by_width", factor=default_factor(lambda e: 1 / e))
mistaken("multiplied by √e", "multiplies_by_root", factor=default_factor(lambda e: e**0.5))
mistaken("the scale twice", "applies_scale_twice", factor=lambda own, *of: own.factor(*of) ** 2)
mistaken("the root of the scale", "applies_root_of_scale", factor=lambda own, *of: abs(own.factor(*of)) ** 0.5)
mistaken("e to the fourth root", "divides_by_fourth_root", factor=default_factor(lambda e: e**-0.25))
mistaken("1/√v", "scales_by_value_width", factor=lambda own, q, k, v, s: v.shape[-1] ** -0.5 if s is None else s)
mistaken(
    "1/√s", "scales_by_number_of_keys", factor=lambda own, q, k, v, s: max(k.shape[-2], 1) ** -0.5 if s is None else s
)
mistaken(
    "1/√l",
    "scales_by_number_of_queries",
    factor=lambda own, q, k, v, s: max(q.shape[-2], 1) ** -0.5 if s is None else s,
)
mistaken("1/√64 always", "scales_as_if_width_were_64", factor=default_factor(lambda e: 0.125))
mistaken("a given scale ignored", "ignores_scale", factor=lambda own, q, k, v, s: own.factor(q, k, v, None))
mistaken("scale or default", "reads_zero_scale_as_none", factor=lambda own, q, k, v, s: own.factor(q, k, v, s or None))
mistaken(
    "divided by the scale",
    "divides_by_given_scale",
    factor=lambda own, q, k, v, s: own.factor(q, k, v, None) if s is None else 1 / s if s else 1.0,
)
mistaken(
    "the scale added",
    "adds_scale_to_default",
    factor=lambda own, q, k, v, s: own.factor(q, k, v, None) if s is None else s + own.factor(q, k, v, None),
)
mistaken(
    "the width of the padded head", "scales_by_padded_width", factor=default_factor(lambda e: (-(-e // 8) * 8) ** -0.5)
)

# Scores

mistaken("scores squared distances", "takes_negative_distances", scores=lambda own, q, k: -(torch.cdist(q, k) ** 2))
mistaken(
    "cosine",
    "takes_cosines",
    scores=lambda own, q, k: own.scores(
        torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    ),
)
mistaken("the sign", "negates_scores", scores=lambda own, q, k: -own.scores(q, k))
mistaken("absolute scores", "takes_absolute_scores", scores=lambda own, q, k: own.scores(q, k).abs())
mistaken("rectified scores", "rectifies_scores", scores=lambda own, q, k: own.scores(q, k).relu())
mistaken(
    "query in half",
    "rounds_queries_and_keys_to_half",
    "multiplies_scores_in_ten_bits",
    scores=lambda own, q, k: own.scores(q.half().to(q), k.half().to(q)),
)
mistaken("the largest subtracted over all", "subtracts_largest_of_each_matrix", weights=lambda own, s: _whole(s))
mistaken("no largest subtracted", "does_not_subtract_largest", weights=lambda own, s: _plain_exp(s))


def _whole(scores: Tensor) -> Tensor:
    if scores.numel() == 0:
        return scores
    powers = (scores - scores.amax((-1, -2), keepdim=True).clamp_min(-1e30).detach()).exp()
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-38)


def _plain_exp(scores: Tensor) -> Tensor:
    powers = scores.exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


# Softmax

mistaken("softmax over queries", "normalises_over_queries", weights=lambda own, s: _over(s, -2))
mistaken(
    "softmax over heads",
    "takes_softmax_along_heads",
    weights=lambda own, s: _over(s, -3) if s.dim() > 2 else own.weights(s),
)
mistaken(
    "softmax over items",
    "takes_softmax_along_items",
    weights=lambda own, s: _over(s, -4) if s.dim() > 3 else own.weights(s),
)
mistaken("softmax over everything", "normalises_over_whole_matrix", weights=lambda own, s: _flat(s))
mistaken("sigmoid", "takes_sigmoid", weights=lambda own, s: s.sigmoid())
mistaken("log softmax", "takes_log_of_weights", weights=lambda own, s: own.weights(s).log())
mistaken("softmax twice", "takes_softmax_twice", weights=lambda own, s: own.weights(own.weights(s)))
mistaken(
    "unnormalised",
    "does_not_normalise",
    weights=lambda own, s: (s - s.amax(-1, keepdim=True).clamp_min(-1e30)).exp() if s.shape[-1] else s,
)
mistaken("off by one", "adds_one_to_shifted_sum", weights=lambda own, s: _with_sink(s))
mistaken("base two", "takes_powers_of_two", weights=lambda own, s: own.weights(s * math.log(2)))
mistaken("ε in the sum", "adds_epsilon_to_sum", weights=lambda own, s: _with_epsilon(s, 1e-5))
mistaken(
    "hardmax",
    "takes_value_of_best_key",
    weights=lambda own, s: torch.nn.functional.one_hot(s.argmax(-1), s.shape[-1]).to(s) if s.shape[-1] else s,
)
mistaken(
    "normalised by the count",
    "divides_by_number_of_keys",
    weights=lambda own, s: s.masked_fill(s == -math.inf, 0) / max(s.shape[-1], 1),
)
mistaken(
    "linear scores",
    "normalises_linear_scores",
    weights=lambda own, s: s.masked_fill(s == -math.inf, 0) / s.masked_fill(s == -math.inf, 0).sum(-1, keepdim=True),
)


def _over(scores: Tensor, axis: int) -> Tensor:
    if scores.numel() == 0:
        return scores
    empty = (scores == -math.inf).all(axis, keepdim=True)
    return softmax(scores.masked_fill(empty, 0.0), axis).masked_fill(empty, 0.0)


def _flat(scores: Tensor) -> Tensor:
    return _over(scores.flatten(-2), -1).view(scores.shape) if scores.numel() else scores


def _with_sink(scores: Tensor) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    largest = scores.amax(-1, keepdim=True).clamp_min(-1e30)
    powers = (scores - largest).exp()
    return powers / (1 + powers.sum(-1, keepdim=True))


def _with_epsilon(scores: Tensor, epsilon: float) -> Tensor:
    if scores.shape[-1] == 0:
        return scores
    powers = (scores - scores.amax(-1, keepdim=True).clamp_min(-1e30)).exp()
    return powers / (powers.sum(-1, keepdim=True) + epsilon)


# Values and heads

mistaken(
    "the values of the next head",
    "rolls_heads_of_values",
    output=lambda own, w, v: w @ (v.roll(1, -3) if v.dim() > 2 else v),
)
mistaken(
    "output in (b, l, h, e)",
    "returns_heads_last",
    output=lambda own, w, v: (w @ v).transpose(-2, -3) if v.dim() > 2 else w @ v,
)
mistaken(
    "reshaped instead of transposed",
    "reshapes_output_instead_of_transposing",
    output=lambda own, w, v: (lambda o: o.transpose(-2, -3).reshape(o.shape) if o.dim() > 2 else o)(w @ v),
)
mistaken(
    "the first value added",
    "adds_first_value",
    output=lambda own, w, v: w @ v + v[..., :1, :] if v.shape[-2] else w @ v,
)
mistaken(
    "weights transposed", "transposes_weights", output=lambda own, w, v: (w.mT if w.shape[-1] == w.shape[-2] else w) @ v
)
mistaken(
    "heads tiled",
    "tiles_key_heads",
    grouped=lambda own, q, k: k.repeat(*[1] * (k.dim() - 3), q.shape[-3] // k.shape[-3], 1, 1),
)
mistaken(
    "the first key head",
    "reads_first_key_head",
    grouped=lambda own, q, k: k[..., :1, :, :].expand(*k.shape[:-3], q.shape[-3], -1, -1),
)
mistaken(
    "values of the mean", "returns_mean_of_values", weights=lambda own, s: torch.full_like(s, 1 / max(s.shape[-1], 1))
)
mistaken("values in bfloat16", "rounds_values_to_half", output=lambda own, w, v: w @ v.bfloat16().to(v))
mistaken(
    "weights in half",
    "rounds_weights_to_half",
    "rounds_weights_to_float16",
    output=lambda own, w, v: w.half().to(w) @ v,
)

# Masks

mistaken(
    "polarity",
    "inverts_bool_mask",
    biased=lambda own, s, m: own.biased(s, ~m if m is not None and m.dtype == torch.bool else m),
)
mistaken("the mask as a number", "adds_bool_mask_as_number", biased=lambda own, s, m: s if m is None else s + m)
mistaken("−1e9", "fills_with_minus_1e9", hidden=-1e9)
mistaken("−1e4", "fills_with_minus_10000", hidden=-1e4)
mistaken("−100", "fills_with_minus_100", hidden=-100.0)
mistaken("zero instead of −∞", "zeroes_future_scores", hidden=0.0)
mistaken(
    "the lowest number",
    "fills_with_lowest_number",
    "adds_most_negative_number",
    "gives_mean_for_empty_row",
    hidden=torch.finfo(torch.float32).min,
)
mistaken("1e-9 where −1e9 was meant", "zeroes_future_scores", hidden=1e-9)
mistaken(
    "the float mask before scaling",
    "adds_mask_before_scaling",
    biased=lambda own, s, m: own.biased(s, m) if m is None or m.dtype == torch.bool else s + m * 8**-0.5,
)
mistaken(
    "the float mask times scores",
    "multiplies_by_float_mask",
    biased=lambda own, s, m: own.biased(s, m) if m is None or m.dtype == torch.bool else s * m,
)
mistaken(
    "a float mask subtracted",
    "subtracts_float_mask",
    biased=lambda own, s, m: own.biased(s, m) if m is None or m.dtype == torch.bool else s - m,
)
mistaken(
    "a float mask read as boolean",
    "reads_nonzero_as_may_attend",
    biased=lambda own, s, m: own.biased(s, m if m is None else m.bool()),
)
mistaken("all masks ignored", "ignores_all_masks", "ignores_bool_mask", biased=lambda own, s, m: s)
mistaken(
    "a mask of keys for all queries",
    "uses_first_querys_mask",
    biased=lambda own, s, m: own.biased(s, m if m is None or m.dim() < 2 else m[..., :1, :]),
)
mistaken(
    "the first head's mask",
    "uses_first_heads_mask",
    biased=lambda own, s, m: own.biased(s, m if m is None or m.dim() < 3 else m[..., :1, :, :]),
)
mistaken(
    "NaN for an empty row",
    "takes_softmax_of_empty_row",
    "gives_nan_for_empty_row",
    weights=lambda own, s: softmax(s, -1),
)
mistaken(
    "the mask added twice",
    "adds_float_mask_twice",
    biased=lambda own, s, m: own.biased(s, m if m is None or m.dtype == torch.bool else 2 * m),
)

# Causal and window

mistaken(
    "the triangle at the end",
    "aligns_causal_at_the_end",
    future=lambda own, l, s: torch.ones(l, s).triu(1 + s - l).bool(),
)
mistaken("own position hidden", "excludes_the_diagonal", future=lambda own, l, s: torch.ones(l, s).triu(0).bool())
mistaken("one of the future", "allows_one_future_key", future=lambda own, l, s: torch.ones(l, s).triu(2).bool())
mistaken("the future instead of the past", "looks_ahead", future=lambda own, l, s: torch.ones(l, s).tril(-1).bool())
mistaken("no causal mask", "ignores_causal", future=lambda own, l, s: torch.zeros(l, s).bool())
mistaken("causal unless one query", "ignores_causal_for_one_query", future=lambda own, l, s: own.future(l, s) & (l > 1))
mistaken("the triangle transposed", "looks_ahead", future=lambda own, l, s: own.future(s, l).mT)
mistaken(
    "causal by blocks of 16",
    "masks_causal_by_sixteen_queries",
    future=lambda own, l, s: torch.arange(s) > torch.arange(l)[:, None] // 16 * 16 + 15,
)
mistaken(
    "causal before blocks of 16",
    "masks_own_block_of_sixteen",
    future=lambda own, l, s: torch.arange(s) > torch.arange(l)[:, None] // 16 * 16,
)
mistaken(
    "a window one short",
    "counts_window_with_own_position",
    outside=lambda own, l, s, a, b: own.outside(l, s, a if a is None else a - 1, b),
)
mistaken(
    "a window one wide",
    "sees_one_key_left_of_window",
    outside=lambda own, l, s, a, b: own.outside(l, s, a if a is None else a + 1, b),
)
mistaken("sides exchanged", "swaps_sides_of_window", outside=lambda own, l, s, a, b: own.outside(l, s, b, a))
mistaken(
    "a window at the end",
    "aligns_window_at_the_end",
    outside=lambda own, l, s, a, b: own.outside(l, s, a if a is None else a - s + l, b if b is None else b + s - l),
)

# Dropout

mistaken(
    "no rescaling",
    "does_not_rescale_kept_weights",
    dropped=lambda own, w, p: w * (torch.rand(w.shape) >= p) if p else w,
)
mistaken(
    "rescaled by 1/p",
    "rescales_kept_weights_by_p",
    dropped=lambda own, w, p: w * (torch.rand(w.shape) >= p) / p if p else w,
)
mistaken("no dropout", "ignores_dropout", dropped=lambda own, w, p: w)
mistaken(
    "p of keeping",
    "drops_with_probability_of_keeping",
    dropped=lambda own, w, p: w * (torch.rand(w.shape) < p) / p if p else w,
)

# Gradients

mistaken(
    "the gradient 2 times",
    "doubles_query_gradient",
    scores=lambda own, q, k: own.scores(backwards(lambda g: 2 * g)(q), k),
)
mistaken(
    "the query's gradient without scale",
    "query_gradient_lacks_scale",
    scores=lambda own, q, k: own.scores(backwards(lambda g: g * q.shape[-1] ** 0.5)(q), k),
)
mistaken(
    "the key's gradient without scale",
    "key_gradient_lacks_scale",
    scores=lambda own, q, k: own.scores(q, backwards(lambda g: g * q.shape[-1] ** 0.5)(k)),
)
mistaken(
    "no gradient through the weights",
    "stops_gradient_at_weights",
    output=lambda own, w, v: own.output(w.detach() + 0 * w, v),
)
mistaken(
    "the sign of the key's gradient",
    "negates_key_gradient",
    scores=lambda own, q, k: own.scores(q, backwards(lambda g: -g)(k)),
)
mistaken(
    "gradients clipped to 1",
    "clips_gradients",
    scores=lambda own, q, k: own.scores(backwards(lambda g: g.clamp(-1, 1))(q), backwards(lambda g: g.clamp(-1, 1))(k)),
)
mistaken(
    "the value's gradient of unweighted queries",
    "value_gradient_lacks_weights",
    output=lambda own, w, v: own.output(w, backwards(lambda g: g.mean(-2, keepdim=True).expand_as(g))(v)),
)
mistaken(
    "scores' gradient without mean", "gradient_lacks_mean", weights=lambda own, s: _without_mean(own.weights(s), s)
)


def _without_mean(weights: Tensor, scores: Tensor) -> Tensor:
    """The same weights, whose gradient reaches the scores as p · dP alone."""
    if not scores.requires_grad or scores.shape[-1] == 0:
        return weights
    fixed = weights.detach()
    return fixed + fixed * (
        scores.masked_fill(scores == -math.inf, 0.0) - scores.detach().masked_fill(scores == -math.inf, 0.0)
    )
