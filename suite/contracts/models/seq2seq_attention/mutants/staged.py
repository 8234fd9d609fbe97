"""The correct model in small steps, each of which a deviation may replace."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.computations import Steps
from attnsuite.cases.mutants import formula
from attnsuite.contracts.models import eager
from attnsuite.contracts.models.eager import Part, part
from attnsuite.contracts.models.greedy import Greedy, Translating
from attnsuite.contracts.models.seq2seq_attention.contract import GATES, SCORES, shapes
from attnsuite.contracts.shown import Found
from attnsuite.contracts.softmax import masked, softmax

Config = Mapping[str, Any]
Kept = dict[Any, Tensor]
Step = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""The states after one step, its context and what it shows of its weights, by the query of that step."""


class Recurrent(Translating, Steps):
    """The model, step by step, in the dtype of its weights. States are `layers parts b d`: s, and for an LSTM m."""

    def compute(
        self, config: Config, weights: Part, *, need_weights: bool = False, greedy: Greedy | None = None
    ) -> Callable[..., Any]:
        self.check_config(config)
        self.check_weights(weights, shapes(config))
        widened = {name: tensor.to(self.wide(tensor)) for name, tensor in self.take(weights).items()}
        run: Callable[..., tuple[Tensor, Found]] = partial(
            self.run, config, widened, {}, next(iter(weights.values())).dtype
        )
        if greedy is None:
            return run if need_weights else lambda *inputs: run(*inputs)[0]
        known, said = self.check_greedy(greedy, config["target_vocab"]), lambda *inputs: run(*inputs)[0]
        return (
            partial(self.translated_and_shown, said, run, known)
            if need_weights
            else partial(self.translated, said, known)
        )

    def run(
        self,
        config: Config,
        weights: Part,
        kept: Kept,
        dtype: torch.dtype,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
    ) -> tuple[Tensor, Found]:
        source, lengths, target = self.check_inputs(config, source, lengths, target)
        lengths = self.recall_lengths(lengths, source.shape, kept)
        history = self.recall(self.encode(config, weights, source), kept)  # s layers parts b d
        memory = self.memory(history)  # b s d
        states, found, rows = self.begin(self.hand_on(history, lengths), kept), [], []
        for number, embedding in enumerate(weights["target_embedding"][self.read(target)].unbind(1)):
            allowed = self.allowed(config, lengths, memory.shape[1], number)  # b s
            step = partial(self.step, config, weights, memory, allowed, embedding, states)
            states, context, row = step(self.query(states, step))
            found.append(self.logits(states[-1, 0], context, weights))
            rows.append(row)
        kept["states"] = states
        shown = self.recalled(self.named({"attention": self.in_rows(rows).to(dtype)}), kept)
        return self.finish(torch.stack(found, 1)).to(dtype), shown

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
        found = []
        for position in self.order(source.shape[1]):
            states = self.stack(config, part(weights, "encoder"), rows[:, position], states)
            found.append(states)
        return torch.stack(found)

    def step(
        self,
        config: Config,
        weights: Part,
        memory: Tensor,
        allowed: Tensor,
        embedding: Tensor,
        states: Tensor,
        query: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.score(config["score"], query, memory, part(weights, "attention"))
        shares = self.softmax(scores, allowed)
        context = self.mix(shares, memory)  # b d
        after = self.stack(config, part(weights, "decoder"), self.join(context, embedding), states)
        return after, context, self.shown(shares, scores, allowed)

    def score(self, score: str, query: Tensor, memory: Tensor, weights: Part) -> Tensor:
        """b s."""
        if score == "additive":
            features = self.activate((query @ weights["w_query"])[:, None] + memory @ weights["w_key"])
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
        return torch.stack([self.show(self.sigmoid(leaving), m), m])

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        return numbers.dtype

    take = staticmethod(lambda weights: weights)  # the weights, as they are read

    @staticmethod
    def check_config(config: Config) -> None:
        if config["score"] not in SCORES or config["cell"] not in GATES or config["layers"] < 1:
            raise ValueError("the config asks for what there is not")
        if config["window"] is not None and config["window"] < 0:
            raise ValueError("the window is negative")

    check_weights = staticmethod(eager.check)

    @staticmethod
    def check_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raise for what does not fit; return the inputs."""
        if not len(source) == len(target) == len(lengths) or (source.dim(), lengths.dim(), target.dim()) != (2, 1, 2):
            raise ValueError("the batches differ")
        if any(tensor.dtype != torch.int64 for tensor in (source, lengths, target)):
            raise ValueError("tokens and lengths are whole numbers")
        for tokens, vocab in ((source, config["source_vocab"]), (target, config["target_vocab"])):
            if (tokens < 0).any() or (tokens >= vocab).any():
                raise ValueError("a token is not in its vocabulary")
        if (lengths < 1).any() or (lengths > source.shape[1]).any():
            raise ValueError("a length is none that the source has")
        return source, lengths, target

    order = staticmethod(lambda length: range(length))  # the order in which the encoder reads

    # the encoder's states; `kept` is what the model could keep between calls
    recall = formula(lambda history, kept: history)
    recall_lengths = formula(lambda lengths, shape, kept: lengths)
    memory = formula(lambda history: history[:, -1, 0].movedim(0, 1))  # the top layer's states, b s d
    hand_on = formula(lambda history, lengths: history[-1])  # the decoder's first states
    begin = formula(lambda states, kept: states)
    read = formula(lambda target: target)
    within = formula(lambda lengths, positions: torch.arange(positions, device=lengths.device) < lengths[:, None])
    around = formula(lambda step, positions, window: (positions - step).abs() <= window)
    query = formula(lambda states, step: states[-1, 0])
    activate = formula(lambda features: features.tanh())
    weigh = formula(lambda features, w_score: features @ w_score)
    factor = staticmethod(lambda score, width: 1 / math.sqrt(width) if score == "scaled_dot" else 1.0)

    softmax = formula(lambda scores, allowed: softmax(masked(scores, allowed)))
    # what is shown of the weights of a step, b s, and of scores that are not masked
    shown = formula(lambda shares, scores, allowed: shares)
    in_rows = staticmethod(lambda steps: torch.stack(steps, 1))
    named = staticmethod(lambda found: found)  # the weights by name
    recalled = staticmethod(lambda found, kept: found)
    mix = formula(lambda weights, memory: (weights[:, None] @ memory)[:, 0])
    join = formula(lambda context, embedding: torch.cat([context, embedding], -1))
    inputs = formula(lambda x, weights: x @ weights["w_input"] + weights["b_input"])
    hidden = formula(lambda s, weights: s @ weights["w_hidden"] + weights["b_hidden"])
    gates = staticmethod(lambda columns, count: columns.chunk(count, -1))

    sigmoid = formula(lambda x: x.sigmoid())
    candidate = formula(lambda inputs, hidden, reset, s, weights: inputs + reset * hidden)
    renew = formula(lambda new, s, update: (1 - update) * new + update * s)
    show = formula(lambda leaving, m: leaving * m.tanh())
    logits = formula(lambda s, context, weights: s @ weights["w_logits"] + weights["b_logits"])
    finish = formula(lambda logits: logits)
