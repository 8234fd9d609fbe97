"""doc-004's functions and classes with the names and arguments that it prints: kernels, attentions, and their blocks.

attnsuite check examples/documents/doc_004.py:MultiHeadAttention
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

# 11.2


def gaussian(x: Tensor) -> Tensor:
    return torch.exp(-(x**2) / 2)


def boxcar(x: Tensor) -> Tensor:
    return torch.abs(x) < 1.0


def constant(x: Tensor) -> Tensor:
    return 1.0 + 0 * x


def epanechikov(x: Tensor) -> Tensor:
    return torch.max(1 - torch.abs(x), torch.zeros_like(x))


def gaussian_with_width(sigma: float) -> Any:
    return lambda x: torch.exp(-(x**2) / (2 * sigma**2))


def nadaraya_watson(x_train: Tensor, y_train: Tensor, x_val: Tensor, kernel: Any) -> tuple[Tensor, Tensor]:
    dists = x_train.reshape((-1, 1)) - x_val.reshape((1, -1))
    k = kernel(dists).type(x_val.dtype)
    attention_w = k / k.sum(0)
    return y_train @ attention_w, attention_w


# 11.3


def masked_softmax(X: Tensor, valid_lens: Tensor | None) -> Tensor:
    def _sequence_mask(X: Tensor, valid_len: Tensor, value: float = 0) -> Tensor:
        maxlen = X.size(1)
        mask = torch.arange(maxlen, dtype=torch.float32, device=X.device)[None, :] < valid_len[:, None]
        X[~mask] = value
        return X

    if valid_lens is None:
        return nn.functional.softmax(X, dim=-1)
    shape = X.shape
    if valid_lens.dim() == 1:  # noqa: SIM108  as the document has it
        valid_lens = torch.repeat_interleave(valid_lens, shape[1])
    else:
        valid_lens = valid_lens.reshape(-1)
    X = _sequence_mask(X.reshape(-1, shape[-1]), valid_lens, value=-1e6)
    return nn.functional.softmax(X.reshape(shape), dim=-1)


class DotProductAttention(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        d = queries.shape[-1]
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


class AdditiveAttention(nn.Module):
    def __init__(self, num_hiddens: int, dropout: float) -> None:
        super().__init__()
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.LazyLinear(1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None) -> Tensor:
        queries, keys = self.W_q(queries), self.W_k(keys)
        features = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))
        scores = self.w_v(features).squeeze(-1)
        self.attention_weights = masked_softmax(scores, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


# 11.5


class MultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, bias: bool = False) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout)
        self.W_q = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_k = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_v = nn.LazyLinear(num_hiddens, bias=bias)
        self.W_o = nn.LazyLinear(num_hiddens, bias=bias)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None) -> Tensor:
        queries = self.transpose_qkv(self.W_q(queries))
        keys = self.transpose_qkv(self.W_k(keys))
        values = self.transpose_qkv(self.W_v(values))
        if valid_lens is not None:
            valid_lens = torch.repeat_interleave(valid_lens, repeats=self.num_heads, dim=0)
        output = self.attention(queries, keys, values, valid_lens)
        return self.W_o(self.transpose_output(output))

    def transpose_qkv(self, X: Tensor) -> Tensor:
        X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1)
        X = X.permute(0, 2, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])

    def transpose_output(self, X: Tensor) -> Tensor:
        X = X.reshape(-1, self.num_heads, X.shape[1], X.shape[2])
        X = X.permute(0, 2, 1, 3)
        return X.reshape(X.shape[0], X.shape[1], -1)


# 11.6


class PositionalEncoding(nn.Module):
    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.P = torch.zeros((1, max_len, num_hiddens))
        X = torch.arange(max_len, dtype=torch.float32).reshape(-1, 1) / torch.pow(
            10000, torch.arange(0, num_hiddens, 2, dtype=torch.float32) / num_hiddens
        )
        self.P[:, :, 0::2] = torch.sin(X)
        self.P[:, :, 1::2] = torch.cos(X)

    def forward(self, X: Tensor) -> Tensor:
        X = X + self.P[:, : X.shape[1], :].to(X.device)
        return self.dropout(X)


# 11.7


class PositionWiseFFN(nn.Module):
    def __init__(self, ffn_num_hiddens: int, ffn_num_outputs: int) -> None:
        super().__init__()
        self.dense1 = nn.LazyLinear(ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.LazyLinear(ffn_num_outputs)

    def forward(self, X: Tensor) -> Tensor:
        return self.dense2(self.relu(self.dense1(X)))


class AddNorm(nn.Module):
    def __init__(self, norm_shape: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(norm_shape)

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        return self.ln(self.dropout(Y) + X)


# 11.8


class PatchEmbedding(nn.Module):
    def __init__(self, img_size: Any = 96, patch_size: Any = 16, num_hiddens: int = 512) -> None:
        super().__init__()

        def _make_tuple(x: Any) -> Any:
            return x if isinstance(x, list | tuple) else (x, x)

        img_size, patch_size = _make_tuple(img_size), _make_tuple(patch_size)
        self.num_patches = (img_size[0] // patch_size[0]) * (img_size[1] // patch_size[1])
        self.conv = nn.LazyConv2d(num_hiddens, kernel_size=patch_size, stride=patch_size)

    def forward(self, X: Tensor) -> Tensor:
        return self.conv(X).flatten(2).transpose(1, 2)


# What a reader adds

dot_product = DotProductAttention(dropout=0.5)


def attention(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The class on all heads of all items at once, for it multiplies batches of matrices alone."""
    module = DotProductAttention(dropout=0.0)
    flat = [x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]) for x in (query, key, value)]
    output = module(*flat).reshape(*query.shape[:-1], value.shape[-1])
    return output, module.attention_weights.reshape(*query.shape[:-1], key.shape[-2])


def attention_weights(scores: Tensor, *, lengths: Tensor | None = None) -> Tensor:
    return masked_softmax(scores, lengths)


def kernel_pooling(query: Tensor, key: Tensor, value: Tensor, *, kernel: str = "gaussian", width: float = 1.0) -> Any:
    """Each column of the values is a y_train; what the document calls Epanechikov is the triangle."""
    kernels = {"gaussian": gaussian, "boxcar": boxcar, "constant": constant, "triangular": epanechikov}
    if kernel not in kernels:
        raise NotImplementedError(f"the document has no kernel {kernel}")
    if width != 1.0 and kernel != "gaussian":
        raise NotImplementedError("the document's Gaussian alone has a width")
    chosen = gaussian_with_width(width) if kernel == "gaussian" else kernels[kernel]
    y_hat, attention_w = nadaraya_watson(key, value.T, query, chosen)
    return y_hat.T.contiguous(), attention_w.T


def additive_attention(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor
) -> tuple[Tensor, Tensor]:
    module = AdditiveAttention(w_query.size(1), 0.1).eval()
    module.W_q.weight, module.W_k.weight = nn.Parameter(w_query.T), nn.Parameter(w_key.T)
    module.w_v.weight = nn.Parameter(w_score[None])
    return module(query, key, value, None), module.attention_weights


def positional_encoding(x: Tensor) -> Tensor:
    return PositionalEncoding(x.size(-1), 0.5).eval()(x)


def positionwise_ffn(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    module = PositionWiseFFN(len(b1), len(b2)).eval()
    module.dense1.weight, module.dense1.bias = nn.Parameter(w1.T), nn.Parameter(b1)
    module.dense2.weight, module.dense2.bias = nn.Parameter(w2.T), nn.Parameter(b2)
    return module(x)


def add_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    module = AddNorm(x.size(-1), 0.5).eval()
    module.ln.weight, module.ln.bias = nn.Parameter(weight), nn.Parameter(bias)
    return module(x, y)


def patch_embedding(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    module = PatchEmbedding(tuple(image.shape[2:]), tuple(weight.shape[2:]), len(bias)).eval()
    module.conv.weight, module.conv.bias = nn.Parameter(weight), nn.Parameter(bias)
    return module(image)
