"""Multi-head attentions with weights of their own, each with one mistake of learners; `Right` has none."""

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


class SplitByView(Right):
    def split(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.heads, x.shape[1], -1)


class ScaledByAllFeatures(Right):
    def root(self, q: Tensor) -> float:
        return float((q.shape[-1] * self.heads) ** 0.5)


class Unscaled(Right):
    def root(self, q: Tensor) -> float:
        return 1.0


class MergedWithoutPermute(Right):
    def merge(self, heads: Tensor) -> Tensor:
        return heads.reshape(len(heads), heads.shape[2], -1)


class SoftmaxOverDimension1(Right):
    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(1)


class SoftmaxOverQueries(Right):
    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(2)


class MaskHidesOnes(Right):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask != 0, -torch.inf)


class FiniteFill(Right):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask == 0, -1e4)


class IgnoresMask(Right):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores


class SharedProjection(Right):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.lin_Q(query), self.lin_Q(key), self.lin_V(value)


class KeysForValues(Right):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.lin_Q(query), self.lin_K(key), self.lin_V(key)


class WithoutOutputMap(Right):
    def finish(self, merged: Tensor) -> Tensor:
        return merged


class DropsInEvaluation(Right):
    def dropped(self, weights: Tensor) -> Tensor:
        return functional.dropout(weights, self.p)


class SelfAttention(Right):
    """One sequence, with a causal mask of its own."""

    diagonal = 1

    def __init__(self, embed_dim: int, num_heads: int, block_size: int, dropout: float = 0.1) -> None:
        super().__init__(embed_dim, num_heads, dropout)
        self.register_buffer("hidden", torch.ones(block_size, block_size).triu(self.diagonal) > 0)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, ~self.hidden[: x.shape[1], : x.shape[1]])


class SelfExcluded(SelfAttention):
    diagonal = 0


class SeesTheNext(SelfAttention):
    diagonal = 2


class SeesTheFuture(SelfAttention):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return super().hide(scores, mask.mT)


class SelfScaledByAllFeatures(ScaledByAllFeatures, SelfAttention):
    pass


class SelfSplitByView(SplitByView, SelfAttention):
    pass


class SelfMergedWithoutPermute(MergedWithoutPermute, SelfAttention):
    pass


class SelfShared(SharedProjection, SelfAttention):
    pass


class SwappedQueriesAndKeys(Right):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.lin_K(query), self.lin_Q(key), self.lin_V(value)


class FiniteFillAndDimension1(SoftmaxOverDimension1):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask == 0, -1e9)


class DropsOutput(Right):
    """Its own probability is 0."""

    def __init__(self, width: int, heads: int, resid_pdrop: float = 0.0) -> None:
        super().__init__(width, heads, resid_pdrop)

    def finish(self, merged: Tensor) -> Tensor:
        return functional.dropout(self.fc_o(merged), self.p)


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


class Tiled(Grouped):
    def repeated(self, heads: Tensor) -> Tensor:
        return heads.repeat(1, self.group, 1, 1)


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


class HeadScaledByInputs(Head):
    def width(self, x: Tensor) -> int:
        return x.shape[-1]


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


class PreNormEncoderBlock(EncoderBlock):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, mask)
        return x + self.network(self.norm2(x))


class SwappedNormsEncoderBlock(EncoderBlock):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.norm2(x + self.attention(x, x, x, mask))
        return self.norm1(x + self.network(x))  # type: ignore[no-any-return]


class SwappedQueriesAndKeysEncoderBlock(EncoderBlock):
    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__(width, heads, ffn)
        self.attention = SwappedQueriesAndKeys(width, heads, 0.0)


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


class EncoderFromOne(Encoder):
    begin = 1
