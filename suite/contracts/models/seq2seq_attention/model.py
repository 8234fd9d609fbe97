"""The oracle of the contract `seq2seq_attention`, and the eager model in steps that mutants replace."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.computations import Steps
from attnsuite.cases.mutants import formula
from attnsuite.contracts.models import eager
from attnsuite.contracts.models import oracle as blocks
from attnsuite.contracts.models.eager import Part, Storage, part
from attnsuite.contracts.models.greedy import Translating
from attnsuite.contracts.models.seq2seq_attention.contract import GATES, SCORES, shapes
from attnsuite.contracts.shared import Weights
from attnsuite.contracts.softmax import masked, softmax
from attnsuite.judging.running_error import WithError, concatenated

Array = np.ndarray[Any, Any]
Config = Mapping[str, Any]
State = list[WithError]
"""The state of one layer: s, and for an LSTM m, b d each."""


def oracle(
    config: Config, weights: blocks.Part, source: Array, lengths: Array, target: Array
) -> tuple[WithError, blocks.Attentions]:
    """The logits, b t v, and the weights of every step, b t s."""
    (batch, length), like = source.shape, weights["w_logits"]
    zeros = WithError.exact(np.zeros((batch, config["hidden"])), like.precision, like.value.dtype.type)
    states, top = [[zeros] * (2 if config["cell"] == "lstm" else 1)] * config["layers"], []
    for j in range(length):
        states = _stacked(config, blocks.part(weights, "encoder"), weights["source_embedding"][source[:, j]], states)
        top.append(states[-1][0][:, None])
    memory, positions, logits, steps = concatenated(top, 1), np.arange(length), [], []  # b s d
    for t in range(target.shape[1]):
        allowed = positions < lengths[:, None]  # b s
        if config["window"] is not None:
            allowed = allowed & (abs(positions - t) <= config["window"])
        scores = _scores(config["score"], states[-1][0], memory, blocks.part(weights, "attention"))  # b s
        steps.append((scores.softmax(allowed)[:, None], allowed[:, None]))
        context = scores[:, None].attend(memory, allowed[:, None])[:, 0]
        x = concatenated([context, weights["target_embedding"][target[:, t]]])
        states = _stacked(config, blocks.part(weights, "decoder"), x, states)
        logits.append(states[-1][0].affine(weights["w_logits"], weights["b_logits"])[:, None])
    attention = concatenated([row for row, _ in steps], 1), np.concatenate([allowed for _, allowed in steps], 1)
    return concatenated(logits, 1), {"attention": attention}


def _scores(score: str, query: WithError, memory: WithError, weights: blocks.Part) -> WithError:
    """The scores of a query, b d, and the memory, b s d, as b s."""
    if score == "additive":
        features = ((query @ weights["w_query"])[:, None] + memory @ weights["w_key"]).tanh()
        return (features @ weights["w_score"][:, None])[..., 0]
    products = (memory @ query[..., None])[..., 0]
    return products / blocks.root(query.shape[-1], query) if score == "scaled_dot" else products


def _stacked(config: Config, weights: blocks.Part, x: WithError, before: list[State]) -> list[State]:
    """The states of all layers after one step; each layer reads the one below."""
    cell, after = _gru if config["cell"] == "gru" else _lstm, []
    for layer, state in enumerate(before):
        after.append(cell(x, state, blocks.part(weights, str(layer))))
        x = after[-1][0]
    return after


def _gru(x: WithError, before: State, weights: blocks.Part) -> State:
    (s,) = before
    inputs, hidden = _gates(x, s, weights, 3)
    reset, update = _sigmoid(inputs[0] + hidden[0]), _sigmoid(inputs[1] + hidden[1])
    new = (inputs[2] + reset * hidden[2]).tanh()
    return [(-update + 1.0) * new + update * s]


def _lstm(x: WithError, before: State, weights: blocks.Part) -> State:
    s, m = before
    entering, forgetting, new, leaving = (a + b for a, b in zip(*_gates(x, s, weights, 4), strict=True))
    m = _sigmoid(forgetting) * m + _sigmoid(entering) * new.tanh()
    return [_sigmoid(leaving) * m.tanh(), m]


def _gates(x: WithError, s: WithError, weights: blocks.Part, count: int) -> tuple[list[WithError], list[WithError]]:
    """The terms of the input and of the state for each gate, b d each."""
    inputs = x.affine(weights["w_input"], weights["b_input"])
    hidden = s.affine(weights["w_hidden"], weights["b_hidden"])
    columns = [slice(gate * s.shape[-1], (gate + 1) * s.shape[-1]) for gate in range(count)]
    return [inputs[:, gate] for gate in columns], [hidden[:, gate] for gate in columns]


def _sigmoid(x: WithError) -> WithError:
    """1 / (1 + exp(−x))."""
    return type(x)(np.ones_like(x.value), 0.0, x.precision) / ((-x).exp() + 1.0)


Step = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""The states after one step, its context and its returned weights, as a function of the step's query."""


class Recurrent(Translating, Steps):
    """The model, step by step, in the dtype of its weights. States are `layers parts b d`: s, and for an LSTM m."""

    shapes = staticmethod(shapes)

    def models(self, config: Config, weights: Part) -> tuple[Callable[..., Tensor], Callable[..., Any]]:
        """The model, and the same with the weights of its attention."""
        self.check_config(config)
        self.check_weights(weights, self.shapes(config))
        taken = {name: tensor.to(self.wide(tensor)) for name, tensor in self.take(weights).items()}
        with_weights = partial(self.run, config, taken, {}, next(iter(weights.values())).dtype)
        return lambda *inputs: with_weights(*inputs)[0], with_weights

    def run(
        self, config: Config, weights: Part, storage: Storage, dtype: torch.dtype, source: Tensor, lengths: Tensor,
        target: Tensor,
    ) -> tuple[Tensor, Weights]:  # fmt: skip
        source, lengths, target = self.check_inputs(config, source, lengths, target)
        lengths = self.recall_lengths(lengths, source.shape, storage)
        history = self.recall(self.encode(config, weights, source), storage)  # s layers parts b d
        memory = self.memory(history)  # b s d
        states, logits, rows = self.begin(self.hand_on(history, lengths), storage), [], []
        for number, embedding in enumerate(weights["target_embedding"][self.read(target)].unbind(1)):
            allowed = self.allowed(config, lengths, memory.shape[1], number)  # b s
            step = partial(self.step, config, weights, memory, allowed, embedding, states)
            states, context, row = step(self.query(states, step))
            logits.append(self.logits(states[-1, 0], context, weights))
            rows.append(row)
        storage["states"] = states
        weights_by_name = self.recalled({"attention": self.in_rows(rows).to(dtype)}, storage)
        return self.finish(torch.stack(logits, 1)).to(dtype), weights_by_name

    def allowed(self, config: Config, lengths: Tensor, length: int, number: int) -> Tensor:
        """The positions of the memory that a step may attend to."""
        within = self.within(lengths, length)
        if config["window"] is None:
            return within
        return within & self.around(number, torch.arange(length, device=lengths.device), config["window"])

    def encode(self, config: Config, weights: Part, source: Tensor) -> Tensor:
        rows = weights["source_embedding"][source]  # b s e
        parts = 2 if config["cell"] == "lstm" else 1
        states = rows.new_zeros(config["layers"], parts, len(rows), config["hidden"])
        history = []
        for position in self.order(source.shape[1]):
            states = self.stack(config, part(weights, "encoder"), rows[:, position], states)
            history.append(states)
        return torch.stack(history)

    def step(
        self, config: Config, weights: Part, memory: Tensor, allowed: Tensor, embedding: Tensor, states: Tensor,
        query: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        scores = self.score(config["score"], query, memory, part(weights, "attention"))
        row = self.softmax(scores, allowed)
        context = self.mix(row, memory)  # b d
        after = self.stack(config, part(weights, "decoder"), self.join(context, embedding), states)
        return after, context, self.returned(row, scores, allowed)

    def score(self, score: str, query: Tensor, memory: Tensor, weights: Part) -> Tensor:
        """The scores of a query, b s."""
        if score == "additive":
            features = ((query @ weights["w_query"])[:, None] + memory @ weights["w_key"]).tanh()
            return self.weigh(features, weights["w_score"])
        return (memory @ query[..., None])[..., 0] * self.factor(score, query.shape[-1])

    def stack(self, config: Config, weights: Part, x: Tensor, states: Tensor) -> Tensor:
        cell, after = self.gru if config["cell"] == "gru" else self.lstm, []
        for layer, state in enumerate(states):
            after.append(cell(x, state, part(weights, str(layer))))
            x = after[-1][0]
        return torch.stack(after)

    def gru(self, x: Tensor, state: Tensor, weights: Part) -> Tensor:
        s = state[0]
        inputs, hidden = self.gates(self.inputs(x, weights), 3), self.gates(self.hidden(s, weights), 3)
        reset, update = self.sigmoid(inputs[0] + hidden[0]), self.sigmoid(inputs[1] + hidden[1])
        new = self.candidate(inputs[2], hidden[2], reset, s, weights).tanh()
        return self.renew(new, s, update)[None]

    def lstm(self, x: Tensor, state: Tensor, weights: Part) -> Tensor:
        s, m = state
        entering, forgetting, new, leaving = self.gates(self.inputs(x, weights) + self.hidden(s, weights), 4)
        m = self.sigmoid(forgetting) * m + self.sigmoid(entering) * new.tanh()
        return torch.stack([self.sigmoid(leaving) * m.tanh(), m])

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        return numbers.dtype

    take = staticmethod(lambda weights: weights)

    @staticmethod
    def check_config(config: Config) -> None:
        if config["score"] not in SCORES or config["cell"] not in GATES or config["layers"] < 1:
            raise ValueError("an unknown score or cell, or no layers")
        if config["window"] is not None and config["window"] < 0:
            raise ValueError("a negative window")

    check_weights = staticmethod(eager.check)

    @staticmethod
    def check_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raise for inputs that do not fit; return the inputs."""
        eager.check_sentences(config, source, lengths, target)
        return source, lengths, target

    order = staticmethod(lambda length: range(length))  # the order in which the encoder reads
    recall = formula(lambda history, storage: history)  # the encoder's states
    recall_lengths = formula(lambda lengths, shape, storage: lengths)
    memory = formula(lambda history: history[:, -1, 0].movedim(0, 1))  # the top layer's states, b s d
    hand_on = formula(lambda history, lengths: history[-1])  # the decoder's first states
    begin = formula(lambda states, storage: states)
    read = formula(lambda target: target)
    within = formula(lambda lengths, positions: torch.arange(positions, device=lengths.device) < lengths[:, None])
    around = formula(lambda step, positions, window: (positions - step).abs() <= window)
    query = formula(lambda states, step: states[-1, 0])
    weigh = formula(lambda features, w_score: features @ w_score)
    factor = staticmethod(lambda score, width: 1 / math.sqrt(width) if score == "scaled_dot" else 1.0)
    softmax = formula(lambda scores, allowed: softmax(masked(scores, allowed)))
    returned = formula(lambda weights, scores, allowed: weights)  # the returned weights of a step, b s
    in_rows = staticmethod(lambda steps: torch.stack(steps, 1))
    recalled = staticmethod(lambda weights, storage: weights)
    mix = formula(lambda weights, memory: (weights[:, None] @ memory)[:, 0])
    join = formula(lambda context, embedding: torch.cat([context, embedding], -1))
    inputs = formula(lambda x, weights: x @ weights["w_input"] + weights["b_input"])
    hidden = formula(lambda s, weights: s @ weights["w_hidden"] + weights["b_hidden"])
    gates = staticmethod(lambda columns, count: columns.chunk(count, -1))
    sigmoid = formula(lambda x: x.sigmoid())
    candidate = formula(lambda inputs, hidden, reset, s, weights: inputs + reset * hidden)
    renew = formula(lambda new, s, update: (1 - update) * new + update * s)
    logits = formula(lambda s, context, weights: s @ weights["w_logits"] + weights["b_logits"])
    finish = formula(lambda logits: logits)
