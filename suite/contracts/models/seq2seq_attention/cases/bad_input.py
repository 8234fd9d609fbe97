"""Configs, weights and inputs that must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from suite.asking.model import Refused, changed, instead, tokens_with, without
from suite.contracts.models.seq2seq_attention.cases.draws import KIND, USUAL, drawn


def bad_input() -> Iterator[Refused]:
    """Configs, weights and inputs that do not go together."""
    for name, why, unusual in (
        ("missing", "weights without decoder.0.b_hidden", without("decoder.0.b_hidden")),
        ("extra", "weights with encoder.1.w_input, where there is one layer", instead("encoder.1.w_input", np.zeros((8, 24)))),
        ("transposed", "w_logits of shape 13 × 8, which is transposed", instead("w_logits", np.zeros((13, 8)))),
        ("gates", "weights for four gates where there are three", instead("encoder.0.w_hidden", np.zeros((8, 32)))),
        ("narrow_input", "a decoder that reads 8 numbers, where context and embedding have 14",
         instead("decoder.0.w_input", np.zeros((8, 24)))),
        ("one_bias", "one bias, which would serve all of 13 logits", instead("b_logits", np.zeros(1))),
        ("more_rows", "12 embeddings where the vocabulary has 11", instead("source_embedding", np.zeros((12, 6)))),
        ("dtypes", "a bias of integers among weights of numbers", instead("b_logits", np.zeros(13, np.int64))),
        ("half_bias", "a bias in float16 among weights in float32",
         instead("b_logits", torch.zeros(13, dtype=torch.float16))),
    ):  # fmt: skip
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, drawn, unusual)
    for name, why, config in (
        ("score", "the score “cosine”, which there is not", {"score": "cosine"}),
        ("cell", "the cell “rnn”, which there is not", {"cell": "rnn"}),
        ("layers", "a model of 0 layers", {"layers": 0}),
        ("window", "a window of −1", {"window": -1}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, drawn, unusual_config=config)
    for name, why, tensors in (
        ("source_token", "the token 11 where the vocabulary has 11", {"source": tokens_with(7, 11)}),
        ("negative_token", "the token −1", {"source": tokens_with(7, -1)}),
        ("target_token", "the token 13 where the vocabulary has 13", {"target": tokens_with(5, 13)}),
        ("negative_target", "the target −1", {"target": tokens_with(5, -1)}),
        ("length_zero", "a length of 0", {"lengths": np.array([7, 0, 1])}),
        ("length_beyond", "a length of 8 in a source of 7", {"lengths": np.array([7, 8, 1])}),
        ("lengths", "2 lengths for 3 sources", {"lengths": np.array([7, 4])}),
        ("one_length", "1 length, which would serve 3 sources", {"lengths": np.array([7])}),
        ("one_source", "1 source, which would serve 3 targets", {"source": np.zeros((1, 7), np.int64)}),
        ("batches", "2 targets for 3 sources", {"target": np.zeros((2, 5), np.int64)}),
        ("fractions", "lengths that are no integers", {"lengths": np.array([7.0, 4.0, 2.0])}),
        ("int32_lengths", "lengths that are int32, not int64", {"lengths": np.array([7, 4, 2], np.int32)}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, partial(changed, drawn, tensors))
