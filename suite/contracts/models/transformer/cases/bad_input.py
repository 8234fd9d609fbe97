"""Weights, configs and inputs that must be refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.model import instead, token_among, without
from attnsuite.contracts.models.transformer.cases.draws import CACHED, ENCODER, USUAL, drawn, model
from attnsuite.contracts.models.translations import GREEDY

WIDER = torch.zeros(13).double()
WEIGHTS: list[Row] = [
    ("missing", "weights without encoder.1.ffn.w2", {"bad_weights": without("encoder.1.ffn.w2")}),
    ("extra", "weights with encoder.2.ffn.w2, which is not due", {"bad_weights": instead("encoder.2.ffn.w2", np.zeros((24, 16)))}),
    ("misshapen", "w_logits of shape 13 × 16, which is transposed", {"bad_weights": instead("w_logits", np.zeros((13, 16)))}),
    ("narrow", "an embedding of width 15", {"bad_weights": instead("source_embedding", np.zeros((11, 15)))}),
    ("one_bias", "a bias of 1 number, which would serve all 13 columns", {"bad_weights": instead("b_logits", np.zeros(1))}),
    ("rows", "an embedding of 22 rows for 11 tokens", {"bad_weights": instead("source_embedding", np.zeros((22, 16)))}),
    ("integers", "a bias of integers among weights of numbers", {"bad_weights": instead("b_logits", np.zeros(13, np.int64))}),
    ("dtypes", "a bias of float64 among weights of float32", {"bad_weights": instead("b_logits", WIDER)}),
]  # fmt: skip
CONFIGS: list[Row] = [
    ("heads", "3 heads, which do not divide the width of 16", {"config": {**USUAL, "heads": 3}}),
    ("odd_width", "an odd width of 15", {"config": {**USUAL, "width": 15, "heads": 5}}),
]
INPUTS: list[Row] = [
    ("source_token", "the token 11 where the vocabulary has 11", {"inputs": {"source": token_among(7, 11)}}),
    ("negative_token", "the token −1", {"inputs": {"source": token_among(7, -1)}}),
    ("target_token", "the token 13 where the vocabulary has 13", {"inputs": {"target": token_among(5, 13)}}),
    ("negative_target", "the token −1 in a target", {"inputs": {"target": token_among(5, -1)}}),
    ("length_zero", "a length of 0", {"inputs": {"lengths": np.array([7, 0, 1])}}),
    ("length_beyond", "a length of 8 in a source of 7", {"inputs": {"lengths": np.array([7, 8, 1])}}),
    ("lengths", "2 lengths for 3 sources", {"inputs": {"lengths": np.array([7, 4])}}),
    ("one_length", "1 length for 3 sources", {"inputs": {"lengths": np.array([7])}}),
    ("batches", "2 targets for 3 sources", {"inputs": {"target": np.zeros((2, 5), np.int64)}}),
    ("one_target", "1 target for 3 sources", {"inputs": {"target": np.zeros((1, 5), np.int64)}}),
    ("fractions", "lengths that are no integers", {"inputs": {"lengths": np.array([7.0, 4.5, 1.0])}}),
    ("int32_lengths", "lengths that are int32, not int64", {"inputs": {"lengths": np.array([7, 4, 1], np.int32)}}),
    ("cached_target", "the token −1, which is decoded with a cache",
     {"config": CACHED, "inputs": {"target": token_among(5, -1)}}),
]  # fmt: skip


def bad_input() -> Iterator[BadInputCase]:
    """Weights, configs and inputs that do not go together."""
    target = {"target": np.zeros((3, 5), np.int64)}
    untold = {"calls": lambda random: [drawn(random, config=ENCODER)]}
    decoders: list[Row] = [
        ("no_decoder", "a decoder's weights where there is none", {**untold, "bad_config": {"decoder_blocks": 0}}),
        ("no_target", "no target for a decoder", untold),
        ("target", "a target where there is no decoder", {"config": ENCODER, "inputs": target}),
    ]
    greedy: list[Row] = [
        ("greedy_begin", "the begin token 13 where the vocabulary has 13", {"bad_making": {"greedy": {**GREEDY, "begin": 13}}}),
        ("greedy_end", "the end token −1", {"bad_making": {"greedy": {**GREEDY, "end": -1}}}),
        ("greedy_steps", "a translation of 0 steps", {"bad_making": {"greedy": {**GREEDY, "steps": 0}}}),
        ("greedy_encoder", "translations by an encoder alone", {"config": ENCODER, "bad_making": {"greedy": GREEDY}}),
    ]  # fmt: skip
    translated = {"calls": lambda random: [drawn(random, config=ENCODER)]}
    yield from model.refused(*greedy, **translated)
    yield from model.refused(*WEIGHTS, *CONFIGS, *INPUTS, *decoders, lengths=(7, 4, 1))
