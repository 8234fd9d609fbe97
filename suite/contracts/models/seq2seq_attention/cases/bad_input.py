"""Configs, weights and inputs that must be refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.model import instead, token_among, without
from attnsuite.cases.tensors import Generator, Inputs
from attnsuite.contracts.models.seq2seq_attention.cases.draws import drawn, model
from attnsuite.contracts.models.translations import GREEDY

HALF = torch.zeros(13, dtype=torch.float16)
WEIGHTS: list[Row] = [
    ("missing", "weights without decoder.0.b_hidden", {"bad_weights": without("decoder.0.b_hidden")}),
    ("extra", "weights with encoder.1.w_input, where there is one layer", {"bad_weights": instead("encoder.1.w_input", np.zeros((8, 24)))}),
    ("transposed", "w_logits of shape 13 × 8, which is transposed", {"bad_weights": instead("w_logits", np.zeros((13, 8)))}),
    ("gates", "weights for four gates where there are three", {"bad_weights": instead("encoder.0.w_hidden", np.zeros((8, 32)))}),
    ("narrow_input", "a decoder that reads 8 numbers, where context and embedding have 14",
     {"bad_weights": instead("decoder.0.w_input", np.zeros((8, 24)))}),
    ("one_bias", "one bias, which would serve all of 13 logits", {"bad_weights": instead("b_logits", np.zeros(1))}),
    ("more_rows", "12 embeddings where the vocabulary has 11", {"bad_weights": instead("source_embedding", np.zeros((12, 6)))}),
    ("dtypes", "a bias of integers among weights of numbers", {"bad_weights": instead("b_logits", np.zeros(13, np.int64))}),
    ("half_bias", "a bias in float16 among weights in float32", {"bad_weights": instead("b_logits", HALF)}),
]  # fmt: skip
CONFIGS: list[Row] = [
    ("score", "the score “cosine”, which there is not", {"bad_config": {"score": "cosine"}}),
    ("cell", "the cell “rnn”, which there is not", {"bad_config": {"cell": "rnn"}}),
    ("layers", "a model of 0 layers", {"bad_config": {"layers": 0}}),
    ("window", "a window of −1", {"bad_config": {"window": -1}}),
]
INPUTS: list[Row] = [
    ("source_token", "the token 11 where the vocabulary has 11", {"inputs": {"source": token_among(7, 11)}}),
    ("negative_token", "the token −1", {"inputs": {"source": token_among(7, -1)}}),
    ("target_token", "the token 13 where the vocabulary has 13", {"inputs": {"target": token_among(5, 13)}}),
    ("negative_target", "the target −1", {"inputs": {"target": token_among(5, -1)}}),
    ("length_zero", "a length of 0", {"inputs": {"lengths": np.array([7, 0, 1])}}),
    ("length_beyond", "a length of 8 in a source of 7", {"inputs": {"lengths": np.array([7, 8, 1])}}),
    ("lengths", "2 lengths for 3 sources", {"inputs": {"lengths": np.array([7, 4])}}),
    ("one_length", "1 length, which would serve 3 sources", {"inputs": {"lengths": np.array([7])}}),
    ("one_source", "1 source, which would serve 3 targets", {"inputs": {"source": np.zeros((1, 7), np.int64)}}),
    ("batches", "2 targets for 3 sources", {"inputs": {"target": np.zeros((2, 5), np.int64)}}),
    ("fractions", "lengths that are no integers", {"inputs": {"lengths": np.array([7.0, 4.0, 2.0])}}),
    ("int32_lengths", "lengths that are int32, not int64", {"inputs": {"lengths": np.array([7, 4, 2], np.int32)}}),
]


GREEDILY: list[Row] = [
    ("greedy_begin", "the begin token 13 where the vocabulary has 13", {"bad_making": {"greedy": {**GREEDY, "begin": 13}}}),
    ("greedy_end", "the end token −1", {"bad_making": {"greedy": {**GREEDY, "end": -1}}}),
    ("greedy_steps", "a translation of 0 steps", {"bad_making": {"greedy": {**GREEDY, "steps": 0}}}),
]  # fmt: skip


def bad_input() -> Iterator[BadInputCase]:
    """Weights, configs and inputs that do not go together."""

    def untold(random: Generator) -> Sequence[Inputs]:
        return [{name: each for name, each in drawn(random).items() if name != "target"}]

    yield from model.refused(*WEIGHTS, *CONFIGS, *INPUTS)
    yield from model.refused(*GREEDILY, calls=untold)
