"""doc-001's two classes with the names, arguments and keys that it prints: attention, and multi-head attention.

attnsuite check examples/documents/doc_001.py:ScaledDotProductAttention
attnsuite check "examples/documents/doc_001.py:MultiHeadAttention(128, 4)"
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class ScaledDotProductAttention(nn.Module):
    """Returns the attention value and the attention weights."""

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(K.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        attention = torch.softmax(scores, dim=-1)
        return torch.matmul(attention, V), attention


class MultiHeadAttention(nn.Module):
    """Returns a dictionary of everything on the way."""

    def __init__(
        self,
        d_feat: int = 128,
        n_head: int = 5,
        actv: Any = nn.ReLU(),  # noqa: B008  as the document has it
        USE_BIAS: bool = True,
        dropout_p: float = 0.1,
        device: Any = None,
    ) -> None:
        super().__init__()
        if d_feat % n_head != 0:
            raise ValueError(f"d_feat({d_feat}) should be divisible by b_head({n_head})")
        self.d_feat, self.n_head, self.d_head = d_feat, n_head, d_feat // n_head
        self.actv, self.device = actv, device
        self.lin_Q = nn.Linear(d_feat, d_feat, bias=USE_BIAS)
        self.lin_K = nn.Linear(d_feat, d_feat, bias=USE_BIAS)
        self.lin_V = nn.Linear(d_feat, d_feat, bias=USE_BIAS)
        self.lin_O = nn.Linear(d_feat, d_feat, bias=USE_BIAS)
        self.dropout = nn.Dropout(p=dropout_p)

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        n_batch = Q.shape[0]
        Q_feat, K_feat, V_feat = self.lin_Q(Q), self.lin_K(K), self.lin_V(V)
        Q_split, K_split, V_split = (
            feat.view(n_batch, -1, self.n_head, self.d_head).permute(0, 2, 1, 3) for feat in (Q_feat, K_feat, V_feat)
        )
        scores = torch.matmul(Q_split, K_split.permute(0, 1, 3, 2)) / math.sqrt(K.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        attention = torch.softmax(scores, dim=-1)
        x_raw = torch.matmul(self.dropout(attention), V_split)
        x_rsh1 = x_raw.permute(0, 2, 1, 3).contiguous()
        x_rsh2 = x_rsh1.view(n_batch, -1, self.d_feat)
        return {
            "Q_feat": Q_feat, "K_feat": K_feat, "V_feat": V_feat, "Q_split": Q_split, "K_split": K_split,
            "V_split": V_split, "scores": scores, "attention": attention, "x_raw": x_raw, "x_rsh1": x_rsh1,
            "x_rsh2": x_rsh2, "x": self.lin_O(x_rsh2),
        }  # fmt: skip


# What a reader adds


def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The class under the contract's name of its mask."""
    return ScaledDotProductAttention()(query, key, value, attn_mask)
