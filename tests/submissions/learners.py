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
