"""The slow, obvious answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnsuite.contracts.models.layers import Attentions, Part, part, root
from attnsuite.judging.rounded import Rounded, concatenated

Array = np.ndarray[Any, Any]
Config = Mapping[str, Any]
State = list[Rounded]
"""Of one layer: s, and for an LSTM m, b d each."""


def seq2seq_attention(
    config: Config, weights: Part, source: Array, lengths: Array, target: Array
) -> tuple[Rounded, Attentions]:
    """The logits, b t v, and the weights of every step, b t s."""
    (batch, length), like = source.shape, weights["w_logits"]
    zeros = Rounded.exact(np.zeros((batch, config["hidden"])), like.precision, like.value.dtype.type)
    states, top = [[zeros] * (2 if config["cell"] == "lstm" else 1)] * config["layers"], []
    for j in range(length):
        states = stacked(config, part(weights, "encoder"), weights["source_embedding"][source[:, j]], states)
        top.append(states[-1][0][:, None])
    memory, positions, logits, steps = concatenated(top, 1), np.arange(length), [], []  # b s d
    for t in range(target.shape[1]):
        allowed = positions < lengths[:, None]  # b s
        if config["window"] is not None:
            allowed = allowed & (abs(positions - t) <= config["window"])
        scores = compared(config["score"], states[-1][0], memory, part(weights, "attention"))  # b s
        steps.append((scores.softmax(allowed)[:, None], allowed[:, None]))
        context = scores[:, None].attend(memory, allowed[:, None])[:, 0]
        x = concatenated([context, weights["target_embedding"][target[:, t]]])
        states = stacked(config, part(weights, "decoder"), x, states)
        logits.append(states[-1][0].affine(weights["w_logits"], weights["b_logits"])[:, None])
    attention = concatenated([shares for shares, _ in steps], 1), np.concatenate([seen for _, seen in steps], 1)
    return concatenated(logits, 1), {"attention": attention}


def compared(score: str, query: Rounded, memory: Rounded, weights: Part) -> Rounded:
    """The scores of b d against b s d, b s."""
    if score == "additive":
        features = ((query @ weights["w_query"])[:, None] + memory @ weights["w_key"]).tanh()
        return (features @ weights["w_score"][:, None])[..., 0]
    products = (memory @ query[..., None])[..., 0]
    return products / root(query.shape[-1], query) if score == "scaled_dot" else products


def stacked(config: Config, weights: Part, x: Rounded, before: list[State]) -> list[State]:
    """The states of all layers after one step; each layer reads the one below."""
    cell, after = gru if config["cell"] == "gru" else lstm, []
    for layer, state in enumerate(before):
        after.append(cell(x, state, part(weights, str(layer))))
        x = after[-1][0]
    return after


def gru(x: Rounded, before: State, weights: Part) -> State:
    """s after one step."""
    (s,) = before
    inputs, hidden = gates(x, s, weights, 3)
    reset, update = sigmoid(inputs[0] + hidden[0]), sigmoid(inputs[1] + hidden[1])
    new = (inputs[2] + reset * hidden[2]).tanh()
    return [(-update + 1.0) * new + update * s]


def lstm(x: Rounded, before: State, weights: Part) -> State:
    """s and m after one step."""
    s, m = before
    entering, forgetting, new, leaving = (a + b for a, b in zip(*gates(x, s, weights, 4), strict=True))
    m = sigmoid(forgetting) * m + sigmoid(entering) * new.tanh()
    return [sigmoid(leaving) * m.tanh(), m]


def gates(x: Rounded, s: Rounded, weights: Part, count: int) -> tuple[list[Rounded], list[Rounded]]:
    """What the input and the state give to each gate, b d each."""
    inputs = x.affine(weights["w_input"], weights["b_input"])
    hidden = s.affine(weights["w_hidden"], weights["b_hidden"])
    columns = [slice(gate * s.shape[-1], (gate + 1) * s.shape[-1]) for gate in range(count)]
    return [inputs[:, those] for those in columns], [hidden[:, those] for those in columns]


def sigmoid(x: Rounded) -> Rounded:
    """1 / (1 + exp(−x))."""
    return type(x)(np.ones_like(x.value), 0.0, x.precision) / ((-x).exp() + 1.0)
