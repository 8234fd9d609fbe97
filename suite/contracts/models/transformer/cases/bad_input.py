"""What must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from suite.asking.model import Refused, changed, instead, tokens_with, without
from suite.contracts.models.transformer.cases.draws import CACHED, ENCODER, KIND, USUAL, drawn


def bad_input() -> Iterator[Refused]:
    """Configs, weights and inputs that do not go together."""
    usual = partial(drawn, lengths=(7, 4, 1))
    for name, why, unusual in (
        ("missing", "weights without encoder.1.ffn.w2", without("encoder.1.ffn.w2")),
        ("extra", "weights with encoder.2.ffn.w2, which is not due", instead("encoder.2.ffn.w2", np.zeros((24, 16)))),
        ("misshapen", "w_logits of shape 13 × 16, which is transposed", instead("w_logits", np.zeros((13, 16)))),
        ("narrow", "an embedding of width 15", instead("source_embedding", np.zeros((11, 15)))),
        ("one_bias", "a bias of 1 number, which would serve all 13 columns", instead("b_logits", np.zeros(1))),
        ("rows", "an embedding of 22 rows for 11 tokens", instead("source_embedding", np.zeros((22, 16)))),
        ("integers", "a bias of integers among weights of numbers", instead("b_logits", np.zeros(13, np.int64))),
        ("dtypes", "a bias of float64 among weights of float32", instead("b_logits", torch.zeros(13).double())),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, usual, unusual)
    for name, why, config in (
        ("heads", "3 heads, which do not divide the width of 16", {"heads": 3}),
        ("odd_width", "an odd width of 15", {"width": 15, "heads": 5}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, {**USUAL, **config}, usual)
    for name, why, tensors in (
        ("source_token", "the token 11 where the vocabulary has 11", {"source": tokens_with(7, 11)}),
        ("negative_token", "the token −1", {"source": tokens_with(7, -1)}),
        ("target_token", "the token 13 where the vocabulary has 13", {"target": tokens_with(5, 13)}),
        ("negative_target", "the token −1 in a target", {"target": tokens_with(5, -1)}),
        ("length_zero", "a length of 0", {"lengths": np.array([7, 0, 1])}),
        ("length_beyond", "a length of 8 in a source of 7", {"lengths": np.array([7, 8, 1])}),
        ("lengths", "2 lengths for 3 sources", {"lengths": np.array([7, 4])}),
        ("one_length", "1 length for 3 sources", {"lengths": np.array([7])}),
        ("batches", "2 targets for 3 sources", {"target": np.zeros((2, 5), np.int64)}),
        ("one_target", "1 target for 3 sources", {"target": np.zeros((1, 5), np.int64)}),
        ("fractions", "lengths that are no integers", {"lengths": np.array([7.0, 4.5, 1.0])}),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, partial(changed, usual, tensors))
    negative = {"target": tokens_with(5, -1)}
    yield Refused("bad_input/cached_target", "the token −1, which is decoded with a cache", KIND, CACHED,
                  partial(changed, usual, negative))  # fmt: skip
    yield Refused("bad_input/no_decoder", "a decoder's weights where there is none", KIND, USUAL,
                  partial(drawn, config=ENCODER), unusual_config={"decoder_blocks": 0})  # fmt: skip
    target = {"target": np.zeros((3, 5), np.int64)}
    yield Refused("bad_input/no_target", "no target for a decoder", KIND, USUAL, partial(drawn, config=ENCODER))
    yield Refused(
        "bad_input/target", "a target where there is no decoder", KIND, ENCODER, partial(changed, usual, target)
    )
