"""Common mistakes in the other contracts, written without the mutants' code, get their right names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import attnsuite

Function = Callable[..., Tensor]


FEW = {"token_masking": ("plain", "independence", "share", "special")}
"""The families that run, where not all do: those of many draws take a second each."""


def masking(
    usual: float = 0.15, fates: tuple[float, float, float] = (0.8, 0.1, 0.1), special_alone: bool = False
) -> Function:
    """A masking with another usual share, other shares of fates, or of the special tokens alone."""

    def token_masking(
        tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select: float = 0.15
    ) -> Tensor:
        share = usual if select == 0.15 else select
        chosen = (torch.rand(tokens.shape) < share) & (special if special_alone else ~special)
        kinds = torch.multinomial(torch.tensor(fates), max(1, tokens.numel()), replacement=True)
        kind = kinds[: tokens.numel()].reshape(tokens.shape)
        noise = torch.randint_like(tokens, vocab_size)
        changed = torch.where(kind == 0, mask_token, torch.where(kind == 1, noise, tokens))
        return torch.stack([torch.where(chosen, changed, tokens), torch.where(chosen, tokens, -100)])

    return token_masking


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


def written_base(x: Tensor, *, offset: int = 0, base: float = 10000.0) -> Tensor:
    """Its base is 1,000 whatever is passed, and the cosine has an exponent of its own."""
    columns = torch.arange(x.shape[2], dtype=torch.float64)
    angles = torch.arange(offset, offset + x.shape[1], dtype=torch.float64)[:, None] / 1000 ** (columns / x.shape[2])
    return x + torch.where(columns % 2 == 0, angles.sin(), angles.cos()).to(x.dtype)


def network(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: str = "relu") -> Tensor:
    hidden = x @ w1 + b1
    hidden = hidden.relu() if activation == "relu" else 0.5 * hidden * (1 + torch.special.erf(hidden))
    return hidden @ w2 + b2


def root_mean_square(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    both = x + y
    return both * torch.rsqrt(both.pow(2).mean(-1, keepdim=True) + 1e-5) * weight + bias


@pytest.mark.parametrize(
    ("contract", "function", "name"),
    [
        ("token_masking", masking(usual=0.1), "selects_ten_percent"),
        ("token_masking", masking(fates=(0.9, 0.05, 0.05)), "ninety_masked"),
        ("token_masking", masking(special_alone=True), "selects_special_alone"),
        ("attention_weights", weights(see=1), "sees_one_ahead"),
        ("attention_weights", weights(fill=-1e4), "fills_with_minus_10000"),
        ("positional_encoding", written_base, "own_exponents_of_cosines + fixed_base_1000"),
        ("positionwise_ffn", network, "gelu_without_root"),
        ("add_norm", root_mean_square, "rms_norm"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_common_mistake_gets_its_name_and_no_other(contract: str, function: Function, name: str) -> None:
    cases = {"cases": FEW[contract]} if contract in FEW else {}
    outcomes = attnsuite.check(function, contract=contract, dtypes="float32", **cases)
    found = Counter(name for outcome in outcomes for name in outcome.diagnosis)

    assert found.most_common(1)[0][0] == name, found
    assert found[name] >= 0.75 * found.total(), found
