"""doc-001 as its reader types it: two classes, and functions that hand them what the contracts give."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class ScaledDotProductAttention(nn.Module):
    """Returns the attention value and the attention weights."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        score = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(key.size(-1))
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        attention = torch.softmax(score, dim=-1)
        return torch.matmul(attention, value), attention


class MultiHeadAttention(nn.Module):
    """Returns a dictionary of everything on the way."""

    def __init__(
        self,
        d_model: int = 128,
        n_head: int = 5,
        activation: Any = nn.ReLU(),  # noqa: B008  as the document has it
        bias: bool = True,
        dropout: float = 0.1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        if d_model % n_head != 0:
            raise ValueError(f"d_model ({d_model}) should be divisible by b_head ({n_head})")
        self.n_head, self.d_head = n_head, d_model // n_head
        self.activation, self.device = activation, device
        self.fc_q = nn.Linear(d_model, d_model, bias=bias)
        self.fc_k = nn.Linear(d_model, d_model, bias=bias)
        self.fc_v = nn.Linear(d_model, d_model, bias=bias)
        self.fc_o = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.n_head, self.d_head).permute(0, 2, 1, 3)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        q, k, v = self.fc_q(query), self.fc_k(key), self.fc_v(value)
        q_split, k_split, v_split = self.split(q), self.split(k), self.split(v)
        score = torch.matmul(q_split, k_split.permute(0, 1, 3, 2)) / math.sqrt(key.size(-1))
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        attention = torch.softmax(score, dim=-1)
        x_raw = torch.matmul(self.dropout(attention), v_split)
        x_rsh1 = x_raw.permute(0, 2, 1, 3).contiguous()
        x_rsh2 = x_rsh1.view(query.size(0), -1, self.n_head * self.d_head)
        return {"q": q, "k": k, "v": v, "score": score, "attention": attention, "x_raw": x_raw, "x": self.fc_o(x_rsh2)}


# What a reader adds


def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The class under the contract's name of its mask."""
    return ScaledDotProductAttention()(query, key, value, attn_mask)


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    w_value: Tensor,
    *,
    num_heads: int,
    w_output: Tensor | None = None,
    attn_mask: Tensor | None = None,
) -> Tensor:
    """The class with these weights in its linear layers, which store them the other way round."""
    width = w_query.size(-1)
    if w_output is None or {*w_query.shape, *w_key.shape, *w_value.shape, *w_output.shape} != {width}:
        raise NotImplementedError("all four maps are of the full feature size to itself")
    module = MultiHeadAttention(width, num_heads, bias=False).eval()
    for layer, weight in zip(
        (module.fc_q, module.fc_k, module.fc_v, module.fc_o), (w_query, w_key, w_value, w_output), strict=True
    ):
        layer.weight = nn.Parameter(weight.T)
    return module(query, key, value, attn_mask)["x"]
