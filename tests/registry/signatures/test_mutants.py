"""Mistakes with the order of axes are said in the axes of the signature, and in no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attnsuite
from attnsuite.contracts import contract
from attnsuite.registry.signatures import in_signature


def _heads_first(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None) -> Tensor:
    query, key, value = (each.transpose(1, 2) for each in (q, k, v))
    return scaled_dot_product_attention(query, key, value, scale=softmax_scale, enable_gqa=True)


def reshaped(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None) -> Tensor:
    return _heads_first(q, k, v, softmax_scale).reshape(*q.shape[:3], v.shape[-1])


def over_heads(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None) -> Tensor:
    return scaled_dot_product_attention(q, k, v, scale=softmax_scale)


@pytest.mark.parametrize(
    ("attention", "cases", "says"),
    [
        (
            reshaped,
            ("plain/small", "heads/two_groups"),
            'equals "reshapes_output_instead_of_transposing": the output (b, h, s, d) is reshaped to (b, s, h, d)',
        ),
        (
            over_heads,
            ("plain/self_attention", "documents"),
            'equals "reads_positions_as_heads": the axes (b, s, h, d) are read with heads before positions',
        ),
    ],
)
def test_a_mistake_with_axes_is_described_in_the_signature_s_words(
    attention: Callable[..., Tensor], cases: tuple[str, ...], says: str
) -> None:
    outcomes = attnsuite.check(attention, cases=cases, dtypes="float32", signature="flash_attn")
    named = [outcome.detail for outcome in outcomes if outcome.diagnosis]

    assert named
    assert all(detail.startswith(says) and '" or equals' not in detail for detail in named)


def test_no_mistake_speaks_of_the_contract_s_axes_where_the_signature_has_others() -> None:
    attention = contract("attention")

    own = [each.says for each in in_signature(attention, "flash_attn").mutants()]

    assert not [says for says in own if "... h l" in says]
    assert "the output has the axes (b, h, s, d) instead of (b, s, h, d)" in own
    assert in_signature(attention, "mlx").mutants() == attention.mutants()
