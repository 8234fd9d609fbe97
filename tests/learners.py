"""Modules with weights of their own, without a mistake, and the mistakes of learners as changed methods."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Right(nn.Module):
    """Queries, keys and values of three inputs, a mask whose ones are visible, and an output map."""

    def __init__(self, width: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.lin_Q, self.lin_K, self.lin_V = (nn.Linear(width, width) for _ in range(3))
        self.fc_o = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        scores = q @ k.mT / self.root(q)
        if mask is not None:
            scores = self.hide(scores, mask)
        return self.finish(self.merge(self.dropped(self.softmax(scores).nan_to_num(0.0)) @ v))

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.lin_Q(query), self.lin_K(key), self.lin_V(value)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def root(self, q: Tensor) -> float:
        return float(q.shape[-1] ** 0.5)

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask == 0, -torch.inf)

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def dropped(self, weights: Tensor) -> Tensor:
        return self.drop(weights)

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def finish(self, merged: Tensor) -> Tensor:
        return self.fc_o(merged)


class SelfAttention(Right):
    """One sequence, with a causal mask of its own."""

    diagonal = 1

    def __init__(self, embed_dim: int, num_heads: int, block_size: int, dropout: float = 0.1) -> None:
        super().__init__(embed_dim, num_heads, dropout)
        self.register_buffer("hidden", torch.ones(block_size, block_size).triu(self.diagonal) > 0)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, ~self.hidden[: x.shape[1], : x.shape[1]])


class Grouped(Right):
    """As many heads of keys and values as queries have, or fewer."""

    def __init__(self, dim: int, n_heads: int, n_kv_heads: int) -> None:
        super().__init__(dim, n_heads)
        self.group, width = n_heads // n_kv_heads, dim // n_heads * n_kv_heads
        self.lin_K, self.lin_V = nn.Linear(dim, width), nn.Linear(dim, width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (x.unflatten(-1, (-1, self.fc_o.in_features // self.heads)) for x in self.project(query, key, value))
        q, k, v = q.transpose(1, 2), self.repeated(k.transpose(1, 2)), self.repeated(v.transpose(1, 2))
        scores = q @ k.mT / self.root(q)
        if mask is not None:
            scores = self.hide(scores, mask)
        return self.finish(self.merge(self.dropped(self.softmax(scores).nan_to_num(0.0)) @ v))

    def repeated(self, heads: Tensor) -> Tensor:
        return heads.repeat_interleave(self.group, 1)


class Head(nn.Module):
    """One causal head of a size of its own, without an output map."""

    def __init__(self, n_embd: int, head_size: int, block_size: int = 256, dropout: float = 0.0) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.ones(block_size, block_size).tril())
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        scores = self.query(x) @ self.key(x).mT * self.width(x) ** -0.5
        weights = scores.masked_fill(self.tril[:length, :length] == 0, -torch.inf).softmax(-1)
        output: Tensor = self.drop(weights) @ self.value(x)
        return output

    def width(self, x: Tensor) -> int:
        return int(self.key.out_features)


class EncoderBlock(nn.Module):
    """A block of a Transformer's encoder, with normalisations after its layers."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.attention = Right(width, heads, 0.0)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.attention(x, x, x, mask))
        return self.norm2(x + self.network(x))  # type: ignore[no-any-return]

    def network(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).relu())  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """The blocks, after embeddings with sinusoids."""

    begin = 0

    def __init__(self, vocab: int, width: int, heads: int, ffn: int, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(EncoderBlock(width, heads, ffn) for _ in range(blocks))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = self.embedding(x) * self.embedding.embedding_dim**0.5
        rates = 1e4 ** -(torch.arange(0, rows.shape[-1], 2).double() / rows.shape[-1])
        angles = torch.arange(self.begin, self.begin + x.shape[1])[:, None] * rates
        states: Tensor = rows + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2).to(rows)
        for block in self.blocks:
            states = block(states, mask)
        return states


Methods = dict[str, Any]


def filled(number: float) -> Methods:
    """Hidden scores are a number."""
    return {"hide": lambda self, scores, mask: scores.masked_fill(mask == 0, number)}


def softmax_over(axis: int) -> Methods:
    return {"softmax": lambda self, scores: scores.softmax(axis)}


def pre_norm(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    y = self.norm1(x)
    x = x + self.attention(y, y, y, mask)
    return x + self.network(self.norm2(x))  # type: ignore[no-any-return]


def swapped_norms(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.norm2(x + self.attention(x, x, x, mask))
    return self.norm1(x + self.network(x))  # type: ignore[no-any-return]


def swapped_inputs(self: Any, width: int, heads: int, ffn: int) -> None:
    EncoderBlock.__init__(self, width, heads, ffn)
    self.attention = type("Swapped", (Right,), SWAPPED)(width, heads, 0.0)


def without_probability(self: Any, width: int, heads: int, resid_pdrop: float = 0.0) -> None:
    Right.__init__(self, width, heads, resid_pdrop)


SPLIT = {"split": lambda self, x: x.reshape(len(x), self.heads, x.shape[1], -1)}
SCALED = {"root": lambda self, q: float((q.shape[-1] * self.heads) ** 0.5)}
MERGED = {"merge": lambda self, heads: heads.reshape(len(heads), heads.shape[2], -1)}
SHARED = {"project": lambda self, query, key, value: (self.lin_Q(query), self.lin_Q(key), self.lin_V(value))}
SWAPPED = {"project": lambda self, query, key, value: (self.lin_K(query), self.lin_Q(key), self.lin_V(value))}
OF_KEYS = {"project": lambda self, query, key, value: (self.lin_Q(query), self.lin_K(key), self.lin_V(key))}
INVERTED = {"hide": lambda self, scores, mask: scores.masked_fill(mask != 0, -torch.inf)}
TRANSPOSED = {"hide": lambda self, scores, mask: scores.masked_fill(mask.mT == 0, -torch.inf)}
DROPS = {"dropped": lambda self, weights: functional.dropout(weights, self.p)}
DROPS_OUTPUT = {
    "__init__": without_probability,
    "finish": lambda self, merged: functional.dropout(self.fc_o(merged), self.p),
}
MISTAKES: dict[str, tuple[type[nn.Module], str, Methods]] = {
    "heads split by a view": (Right, "split_by_reshape", SPLIT),
    "the scale of all features": (Right, "full_width_scale", SCALED),
    "no scale": (Right, "unscaled", {"root": lambda self, q: 1.0}),
    "heads merged without a permutation": (Right, "merged_by_reshape", MERGED),
    "softmax over dimension 1": (Right, "softmax_over_dimension_1", softmax_over(1)),
    "softmax over queries": (Right, "softmax_over_queries", softmax_over(2)),
    "ones are hidden": (Right, "inverts_bool_mask", INVERTED),
    "a finite fill": (Right, "fills_with_minus_10000", filled(-1e4)),
    "no mask": (Right, "ignores_bool_mask", {"hide": lambda self, scores, mask: scores}),
    "one map of queries and keys": (Right, "key_weights_by_query_weights", SHARED),
    "keys for values": (Right, "keys_for_values", OF_KEYS),
    "no output map": (Right, "output_map_left_out", {"finish": lambda self, merged: merged}),
    "the diagonal is hidden": (SelfAttention, "excludes_the_diagonal", {"diagonal": 0}),
    "the next key is seen": (SelfAttention, "allows_one_future_key", {"diagonal": 2}),
    "the future is seen": (SelfAttention, "looks_ahead", TRANSPOSED),
    "the scale of all features, in one sequence": (SelfAttention, "full_width_scale", SCALED),
    "heads split by a view, in one sequence": (SelfAttention, "split_by_reshape", SPLIT),
    "heads merged without a permutation, in one sequence": (SelfAttention, "merged_by_reshape", MERGED),
    "one map of queries and keys, in one sequence": (SelfAttention, "key_weights_by_query_weights", SHARED),
    "swapped maps of queries and keys": (Right, "swapped_query_and_key_weights", SWAPPED),
    "two mistakes": (Right, "softmax_over_dimension_1", softmax_over(1) | filled(-1e9)),
    "dropout in evaluation": (Right, "dropout_in_evaluation", DROPS),
    "dropout of the output in evaluation": (Right, "output_dropout_in_evaluation", DROPS_OUTPUT),
    "tiled heads of keys": (
        Grouped, "tiled_key_heads", {"repeated": lambda self, heads: heads.repeat(1, self.group, 1, 1)},
    ),
    "a head's scale of its inputs": (Head, "scaled_by_query_width", {"width": lambda self, x: x.shape[-1]}),
    "normalisations before the layers": (EncoderBlock, "pre_norm", {"forward": pre_norm}),
    "swapped normalisations": (EncoderBlock, "swapped_norms", {"forward": swapped_norms}),
    "swapped maps in a block": (EncoderBlock, "swapped_query_and_key_weights", {"__init__": swapped_inputs}),
    "positions from one": (Encoder, "positions_from_one", {"begin": 1}),
}  # fmt: skip
"""By description: the class with a mistake, the mutant that it is named by, and its changed methods."""


def with_mistake(description: str) -> type[nn.Module]:
    """The class with one mistake."""
    base, _, methods = MISTAKES[description]
    return type(base.__name__, (base,), methods)
