"""Common mistakes in the other contracts, written by others than the deviations' authors, get their right names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

import attnsuite

Function = Callable[..., Tensor]


ASKED = {"token_masking": ("plain", "independence", "share", "special")}
"""The families that are asked, where not all are: those of many draws take a second each."""


def masking(
    select: float | None = None,
    fates: tuple[float, float, float] = (0.8, 0.1, 0.1),
    one_fate: bool = False,
    alike_items: bool = False,
    special_alone: bool = False,
) -> Function:
    """A masking with other shares, or with fewer draws."""

    def token_masking(
        tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select_: float = 0.15, **options: Any
    ) -> Tensor:
        share = options.get("select", select_)
        share = select if select is not None and share == 0.15 else share
        uniform = torch.rand(tokens.shape[1:] if alike_items else tokens.shape)
        chosen = (uniform < share).expand(tokens.shape) & (special if special_alone else ~special)
        kinds = torch.multinomial(torch.tensor(fates), 1 if one_fate else max(1, tokens.numel()), replacement=True)
        kind = kinds.expand(tokens.shape) if one_fate else kinds[: tokens.numel()].reshape(tokens.shape)
        noise = torch.randint_like(tokens, vocab_size)
        changed = torch.where(kind == 0, mask_token, torch.where(kind == 1, noise, tokens))
        return torch.stack([torch.where(chosen, changed, tokens), torch.where(chosen, tokens, -100)])

    def named(tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select: float = 0.15) -> Tensor:
        return token_masking(tokens, special, vocab_size=vocab_size, mask_token=mask_token, select=select)

    return named


def weights(see: int = 0, fill: float = -math.inf) -> Function:
    """Weights of which queries see so many keys ahead, or whose hidden scores are another number."""

    def attention_weights(scores: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        allowed = torch.ones_like(scores, dtype=torch.bool)
        if attn_mask is not None:
            allowed = allowed & attn_mask
        if is_causal:
            rows, columns = torch.arange(scores.shape[-2])[:, None], torch.arange(scores.shape[-1])
            allowed = allowed & (columns <= rows + see)
        shown = torch.where(allowed, scores, fill)
        return torch.where(allowed.any(-1, keepdim=True), shown.softmax(-1), 0.0).nan_to_num(0.0)

    return attention_weights


def additive(query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    queries, keys = torch.tanh(query @ w_query), torch.tanh(key @ w_key)
    scores = torch.einsum("ble,e->bl", queries, w_score)[..., None] + torch.einsum("bse,e->bs", keys, w_score)[:, None]
    return scores.softmax(-1) @ value


def scores(query: Tensor, key: Tensor, *, score: str, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    queries, keys = torch.tanh(query @ w_query) @ w_score, torch.tanh(key @ w_key) @ w_score
    return queries[..., :, None] + keys[..., None, :]


def positions(x: Tensor, *, offset: int = 0) -> Tensor:
    """The pair j has the exponent j/e."""
    _, length, width = x.shape
    rates = torch.exp(-math.log(10000.0) * (torch.arange(width) // 2).double() / width)
    angles = torch.arange(offset, offset + length).double()[:, None] * rates
    return x + torch.where(torch.arange(width) % 2 == 0, torch.sin(angles), torch.cos(angles)).to(x.dtype)


def table_of_singles(x: Tensor, *, offset: int = 0) -> Tensor:
    """A table in float32, as a textbook makes it, for even widths."""
    end, width = offset + x.shape[1], x.shape[2]
    table = torch.zeros(end, width + width % 2)
    powers = torch.pow(10000, torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.arange(end, dtype=torch.float32).reshape(-1, 1) / powers
    table[:, 0::2], table[:, 1::2] = torch.sin(angles), torch.cos(angles)
    return x + table[offset:, :width].to(x.dtype)


def written_base(x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
    """Its base is 1,000 whatever is passed, and the cosine has an exponent of its own."""
    columns = torch.arange(x.shape[2], dtype=torch.float64)
    angles = torch.arange(offset, offset + x.shape[1], dtype=torch.float64)[:, None] / 1000 ** (columns / x.shape[2])
    return x + torch.where(columns % 2 == 0, angles.sin(), angles.cos()).to(x.dtype)


def same_position(x: Tensor, *, offset: int = 0) -> Tensor:
    """Every vector gets the encoding of the first."""
    return x + (positional_encoding(x[:, :1], offset) - x[:, :1])


def positional_encoding(x: Tensor, offset: int) -> Tensor:
    columns = torch.arange(x.shape[2], dtype=torch.float64)
    angles = offset / 10000 ** (columns // 2 * 2 / x.shape[2])
    return x + torch.where(columns % 2 == 0, angles.sin(), angles.cos()).to(x.dtype)


def network(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: str = "relu") -> Tensor:
    hidden = x @ w1 + b1
    hidden = hidden.relu() if activation == "relu" else 0.5 * hidden * (1 + torch.special.erf(hidden))
    return hidden @ w2 + b2


def fine_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return layer_norm(x + y, x.shape[-1:], weight, bias, eps=1e-6)


def root_mean_square(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    both = x + y
    return both * torch.rsqrt(both.pow(2).mean(-1, keepdim=True) + 1e-5) * weight + bias


def names(function: Function, contract: str, dtype: str) -> Counter[str]:
    """How many wrong answers get each name."""
    cases = ASKED.get(contract)
    outcomes = attnsuite.check(function, contract=contract, dtypes=dtype, **({"cases": cases} if cases else {}))
    return Counter(name for outcome in outcomes for name in outcome.diagnosis)


@pytest.mark.parametrize(
    ("contract", "function", "name", "dtype"),
    [
        ("token_masking", masking(select=0.1), "selects_ten_percent", "float32"),
        ("token_masking", masking(fates=(0.9, 0.05, 0.05)), "ninety_masked", "float32"),
        ("token_masking", masking(fates=(0.9, 0.1, 0.0)), "none_kept", "float32"),
        ("token_masking", masking(fates=(0.8, 0.0, 0.2)), "none_random", "float32"),
        pytest.param("token_masking", masking(one_fate=True), "one_fate_for_a_call", "float32", marks=pytest.mark.slow),
        ("token_masking", masking(alike_items=True), "same_for_all_items", "float32"),
        ("token_masking", masking(special_alone=True), "selects_special_alone", "float32"),
        ("attention_weights", weights(see=1), "sees_one_ahead", "float32"),
        ("attention_weights", weights(see=-1), "strictly_past", "float32"),
        ("attention_weights", weights(fill=0.0), "zero_fill", "float32"),
        ("attention_weights", weights(fill=-1e4), "fills_with_minus_10000", "float32"),
        ("additive_attention", additive, "tanh_of_each_term", "float32"),
        ("attention_scores", scores, "tanh_of_each_term", "float32"),
        ("positional_encoding", positions, "half_exponents", "float32"),
        ("positional_encoding", table_of_singles, "float32_angles", "float64"),
        ("positional_encoding", written_base, "own_exponents_of_cosines + fixed_base_1000", "float32"),
        ("positional_encoding", same_position, "one_position_for_all", "float32"),
        ("positionwise_ffn", network, "gelu_without_root", "float32"),
        ("add_norm", fine_norm, "eps_of_a_millionth", "float64"),
        ("add_norm", fine_norm, "eps_of_a_millionth", "float32"),
        ("add_norm", root_mean_square, "rms_norm", "float32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_common_mistake_gets_its_name_and_no_other(contract: str, function: Function, name: str, dtype: str) -> None:
    found = names(function, contract, dtype)

    assert found.most_common(1)[0][0] == name, found
    assert found[name] >= 0.75 * found.total(), found
