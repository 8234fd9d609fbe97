"""Recurrent encoder–decoders with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from suite.contracts import eager
from suite.contracts.base import Deviation
from suite.contracts.eager import Part, part
from suite.contracts.seq2seq_attention.contract import GATES, SCORES, shapes
from suite.contracts.staged import Staged, collected, imprecise, instead_of

Config = Mapping[str, Any]
Kept = dict[Any, Tensor]
Step = Callable[[Tensor], tuple[Tensor, Tensor]]
"""The states and the context after one step, by the query of that step."""


class Recurrent(Staged):
    """The model, step by step, in the dtype of its weights. States are `layers parts b d`: s, and for an LSTM m."""

    def __call__(self, config: Config, weights: Part) -> Callable[..., Tensor]:
        self.check_weights(config, weights)
        widened = {name: tensor.to(self.wide(tensor)) for name, tensor in weights.items()}
        return partial(self.run, config, widened, {}, next(iter(weights.values())).dtype)

    def run(
        self,
        config: Config,
        weights: Part,
        kept: Kept,
        dtype: torch.dtype,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
    ) -> Tensor:
        source, lengths, target = self.check_inputs(config, source, lengths, target)
        lengths = self.recall_lengths(lengths, source.shape, kept)
        history = self.recall(self.encode(config, weights, source), kept)  # s layers parts b d
        memory = self.memory(history)  # b s d
        states, found = self.begin(self.hand_on(history, lengths), kept), []
        for number, embedding in enumerate(weights["target_embedding"][self.read(target)].unbind(1)):
            allowed = self.within(lengths, memory.shape[1])  # b s
            if config["window"] is not None:
                positions = torch.arange(memory.shape[1], device=lengths.device)
                allowed = allowed & self.around(number, positions, config["window"])
            step = partial(self.step, config, weights, memory, allowed, embedding, states)
            states, context = step(self.query(states, step))
            found.append(self.logits(states[-1, 0], context, weights))
        kept["states"] = states
        return self.finish(torch.stack(found, 1)).to(dtype)

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
    ) -> tuple[Tensor, Tensor]:
        scores = self.score(config["score"], query, memory, part(weights, "attention"))
        context = self.mix(self.softmax(scores, allowed), memory)  # b d
        return self.stack(config, part(weights, "decoder"), self.join(context, embedding), states), context

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

    @staticmethod
    def check_weights(config: Config, weights: Part) -> None:
        if config["score"] not in SCORES or config["cell"] not in GATES or config["layers"] < 1:
            raise ValueError("the config asks for what there is not")
        if config["window"] is not None and config["window"] < 0:
            raise ValueError("the window is negative")
        eager.check(weights, shapes(config))

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

    @staticmethod
    def order(length: int) -> Sequence[int]:
        """The order in which the encoder reads."""
        return range(length)

    @staticmethod
    def recall(history: Tensor, kept: Kept) -> Tensor:
        """The encoder's states; `kept` is what the model could keep between calls."""
        return history

    @staticmethod
    def recall_lengths(lengths: Tensor, shape: Sequence[int], kept: Kept) -> Tensor:
        return lengths

    @staticmethod
    def memory(history: Tensor) -> Tensor:
        """The top layer's states, b s d."""
        return history[:, -1, 0].movedim(0, 1)

    @staticmethod
    def hand_on(history: Tensor, lengths: Tensor) -> Tensor:
        """The decoder's first states."""
        return history[-1]

    @staticmethod
    def begin(states: Tensor, kept: Kept) -> Tensor:
        return states

    @staticmethod
    def read(target: Tensor) -> Tensor:
        return target

    @staticmethod
    def within(lengths: Tensor, positions: int) -> Tensor:
        return torch.arange(positions, device=lengths.device) < lengths[:, None]

    @staticmethod
    def around(step: int, positions: Tensor, window: int) -> Tensor:
        return (positions - step).abs() <= window

    @staticmethod
    def query(states: Tensor, step: Step) -> Tensor:
        return states[-1, 0]

    @staticmethod
    def activate(features: Tensor) -> Tensor:
        return features.tanh()

    @staticmethod
    def weigh(features: Tensor, w_score: Tensor) -> Tensor:
        return features @ w_score

    @staticmethod
    def factor(score: str, width: int) -> float:
        return 1 / math.sqrt(width) if score == "scaled_dot" else 1.0

    @staticmethod
    def softmax(scores: Tensor, allowed: Tensor) -> Tensor:
        scores = scores.masked_fill(~allowed, -math.inf)
        powers = (scores - scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / total.masked_fill(total == 0, 1.0)

    @staticmethod
    def mix(weights: Tensor, memory: Tensor) -> Tensor:
        return (weights[:, None] @ memory)[:, 0]

    @staticmethod
    def join(context: Tensor, embedding: Tensor) -> Tensor:
        return torch.cat([context, embedding], -1)

    @staticmethod
    def inputs(x: Tensor, weights: Part) -> Tensor:
        return x @ weights["w_input"] + weights["b_input"]

    @staticmethod
    def hidden(s: Tensor, weights: Part) -> Tensor:
        return s @ weights["w_hidden"] + weights["b_hidden"]

    @staticmethod
    def gates(columns: Tensor, count: int) -> tuple[Tensor, ...]:
        return columns.chunk(count, -1)

    @staticmethod
    def sigmoid(x: Tensor) -> Tensor:
        return x.sigmoid()

    @staticmethod
    def candidate(inputs: Tensor, hidden: Tensor, reset: Tensor, s: Tensor, weights: Part) -> Tensor:
        return inputs + reset * hidden

    @staticmethod
    def renew(new: Tensor, s: Tensor, update: Tensor) -> Tensor:
        return (1 - update) * new + update * s

    @staticmethod
    def show(leaving: Tensor, m: Tensor) -> Tensor:
        return leaving * m.tanh()

    @staticmethod
    def logits(s: Tensor, context: Tensor, weights: Part) -> Tensor:
        return s @ weights["w_logits"] + weights["b_logits"]

    @staticmethod
    def finish(logits: Tensor) -> Tensor:
        return logits


@instead_of(
    Recurrent.query, "the query is the decoder's state of the current step", source="documents, E28; doc-002's table"
)
def current_query(states: Tensor, step: Step) -> Tensor:
    return step(states[-1, 0])[0][-1, 0]


@instead_of(Recurrent.query, "the query is the bottom layer's state")
def bottom_layer_query(states: Tensor, step: Step) -> Tensor:
    return states[0, 0]


@instead_of(Recurrent.query, "the query is the second layer's state, whether or not that is the top")
def second_layer_query(states: Tensor, step: Step) -> Tensor:
    return states[min(1, len(states) - 1), 0]


@instead_of(Recurrent.query, "an LSTM's memory cell is the query, not its output")
def memory_cell_query(states: Tensor, step: Step) -> Tensor:
    return states[-1, -1]


@instead_of(Recurrent.memory, "the bottom layer's states are attended to")
def bottom_layer_memory(history: Tensor) -> Tensor:
    return history[:, 0, 0].movedim(0, 1)


@instead_of(Recurrent.order, "the encoder reads from the end")
def reads_backwards(length: int) -> Sequence[int]:
    return range(length)[::-1]


@instead_of(Recurrent.hand_on, "the decoder begins with zeros, not with the encoder's final states")
def begins_with_zeros(history: Tensor, lengths: Tensor) -> Tensor:
    return torch.zeros_like(history[-1])


@instead_of(Recurrent.hand_on, "every layer of the decoder begins with the top layer's state of the encoder")
def top_state_for_all_layers(history: Tensor, lengths: Tensor) -> Tensor:
    return history[-1, -1:].expand_as(history[-1])


@instead_of(Recurrent.hand_on, "the top layer's state is handed on alone: the layers below begin with zeros")
def top_state_alone(history: Tensor, lengths: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(history[-1, :-1]), history[-1, -1:]])


@instead_of(Recurrent.hand_on, "an LSTM's memory cells are not handed on")
def memory_cells_begin_with_zeros(history: Tensor, lengths: Tensor) -> Tensor:
    return torch.cat([history[-1, :, :1], torch.zeros_like(history[-1, :, 1:])], 1)


@instead_of(Recurrent.hand_on, "every layer of an LSTM begins with the top layer's memory cell")
def top_memory_cell_for_all_layers(history: Tensor, lengths: Tensor) -> Tensor:
    return torch.cat([history[-1, :, :1], history[-1, -1:, 1:].expand_as(history[-1, :, 1:])], 1)


@instead_of(Recurrent.hand_on, "the final states are those at the lengths, as of packed sequences")
def stops_at_lengths(history: Tensor, lengths: Tensor) -> Tensor:
    return history[lengths - 1, :, :, torch.arange(len(lengths), device=lengths.device)].movedim(0, 2)


@instead_of(Recurrent.recall, "the states of an earlier source of the same shape are taken once more")
def remembers_source(history: Tensor, kept: Kept) -> Tensor:
    return kept.setdefault(history.shape, history)


@instead_of(Recurrent.recall_lengths, "the lengths of an earlier source of the same shape are taken once more")
def remembers_lengths(lengths: Tensor, shape: Sequence[int], kept: Kept) -> Tensor:
    return kept.setdefault(("lengths", *shape), lengths)


@instead_of(Recurrent.begin, "the decoder begins where the call before ended")
def begins_where_it_ended(states: Tensor, kept: Kept) -> Tensor:
    before = kept.get("states", states)
    return before if before.shape == states.shape else states


@instead_of(Recurrent.read, "the target is read one step late")
def late_target(target: Tensor) -> Tensor:
    return torch.cat([target[:, :1], target[:, :-1]], 1)


@instead_of(Recurrent.read, "the target is read one step early")
def early_target(target: Tensor) -> Tensor:
    return torch.cat([target[:, 1:], target[:, -1:]], 1)


@instead_of(Recurrent.within, "the lengths are ignored")
def ignored_lengths(lengths: Tensor, positions: int) -> Tensor:
    return torch.ones(len(lengths), positions, dtype=torch.bool, device=lengths.device)


@instead_of(Recurrent.within, "the positions beyond the lengths are attended to, and no others")
def inverted_lengths(lengths: Tensor, positions: int) -> Tensor:
    return ~Recurrent.within(lengths, positions)


@instead_of(Recurrent.within, "one position beyond the length is attended to")
def one_position_more(lengths: Tensor, positions: int) -> Tensor:
    return Recurrent.within(lengths + 1, positions)


@instead_of(Recurrent.within, "the last position within the length is left out")
def one_position_less(lengths: Tensor, positions: int) -> Tensor:
    return Recurrent.within(lengths - 1, positions)


@instead_of(Recurrent.within, "the first item's length serves all")
def first_length_for_all(lengths: Tensor, positions: int) -> Tensor:
    return Recurrent.within(lengths[:1].expand_as(lengths), positions)


@instead_of(Recurrent.within, "positions beyond the 32nd are not attended to")
def drops_positions_beyond_32(lengths: Tensor, positions: int) -> Tensor:
    return Recurrent.within(lengths.clamp_max(32), positions)


@instead_of(Recurrent.around, "the window is ignored")
def ignored_window(step: int, positions: Tensor, window: int) -> Tensor:
    return torch.ones_like(positions, dtype=torch.bool)


@instead_of(Recurrent.around, "the window has D positions on its sides together, not on each", source="documents, E12")
def window_of_d(step: int, positions: Tensor, window: int) -> Tensor:
    return 2 * (positions - step).abs() <= window


@instead_of(Recurrent.around, "the window has 2D positions: the last one is left out")
def window_of_2d(step: int, positions: Tensor, window: int) -> Tensor:
    return (positions >= step - window) & (positions < step + max(window, 1))


@instead_of(Recurrent.around, "the window ends at the step, 2D + 1 positions long")
def window_before_the_step(step: int, positions: Tensor, window: int) -> Tensor:
    return (positions >= step - 2 * window) & (positions <= step)


@instead_of(Recurrent.around, "the window is centred one position late: steps are counted from 1")
def late_window(step: int, positions: Tensor, window: int) -> Tensor:
    return Recurrent.around(step + 1, positions, window)


@instead_of(Recurrent.around, "the window is moved into the source, so that it always has 2D + 1 positions")
def window_kept_inside(step: int, positions: Tensor, window: int) -> Tensor:
    return Recurrent.around(max(window, min(step, len(positions) - 1 - window)), positions, window)


@instead_of(Recurrent.activate, "the features are not squashed by tanh")
def linear_features(features: Tensor) -> Tensor:
    return features.clone()


@instead_of(Recurrent.weigh, "additive scores are divided by √d", source="documents, 11.3.4: no scaling")
def scaled_additive_scores(features: Tensor, w_score: Tensor) -> Tensor:
    return features @ w_score / math.sqrt(len(w_score))


@instead_of(Recurrent.factor, "all dot products are divided by √d")
def scaled_dot_products(score: str, width: int) -> float:
    return 1 / math.sqrt(width)


@instead_of(Recurrent.factor, "no dot product is divided by √d")
def unscaled_dot_products(score: str, width: int) -> float:
    return 1.0


@instead_of(Recurrent.softmax, "scores that are masked are zeros, which weigh too")
def zero_fill(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, 0.0).softmax(-1)


@instead_of(Recurrent.softmax, "masked scores are −10,000, above some that are not masked")
def fills_with_minus_10000(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = scores.masked_fill(~allowed, -1e4).softmax(-1)
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


@instead_of(
    Recurrent.softmax,
    "masked scores are −10⁶: a step that may attend to nothing gets the mean",
    source="documents, E21",
)
def finite_fill(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -1e6).softmax(-1)


@instead_of(Recurrent.softmax, "a step that may attend to nothing gives NaN")
def nan_for_empty_rows(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -math.inf).softmax(-1)


@instead_of(Recurrent.softmax, "exponentials are taken without subtracting the largest score: they overflow")
def overflowing_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    powers = scores.masked_fill(~allowed, -math.inf).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@instead_of(Recurrent.softmax, "all positions weigh alike")
def uniform_weights(scores: Tensor, allowed: Tensor) -> Tensor:
    return Recurrent.softmax(torch.zeros_like(scores), allowed)


@instead_of(
    Recurrent.mix, "the context is the encoder's last state: no attention", source="documents, doc-002: bottleneck"
)
def last_state_alone(weights: Tensor, memory: Tensor) -> Tensor:
    return memory[:, -1]


@instead_of(Recurrent.mix, "the first item's states serve all")
def memory_of_first_item(weights: Tensor, memory: Tensor) -> Tensor:
    return weights @ memory[0]


@instead_of(Recurrent.join, "the embedding comes first, then the context")
def embedding_first(context: Tensor, embedding: Tensor) -> Tensor:
    return torch.cat([embedding, context], -1)


@instead_of(Recurrent.hidden, "the bias beside the state's weights is left out")
def no_hidden_bias(s: Tensor, weights: Part) -> Tensor:
    return s @ weights["w_hidden"]


@instead_of(Recurrent.gates, "the update gate has the first columns, the reset gate the second")
def update_gate_first(columns: Tensor, count: int) -> tuple[Tensor, ...]:
    gates = columns.chunk(count, -1)
    return gates if count == 4 else (gates[1], gates[0], gates[2])


@instead_of(Recurrent.gates, "an LSTM's forget gate has the first columns, the input gate the second")
def forget_gate_first(columns: Tensor, count: int) -> tuple[Tensor, ...]:
    gates = columns.chunk(count, -1)
    return gates if count == 3 else (gates[1], gates[0], *gates[2:])


@instead_of(
    Recurrent.gates, "an LSTM's output gate has the third columns, the new content the last", source="ONNX: i o f c"
)
def output_gate_third(columns: Tensor, count: int) -> tuple[Tensor, ...]:
    gates = columns.chunk(count, -1)
    return gates if count == 3 else (gates[0], gates[1], gates[3], gates[2])


@instead_of(Recurrent.sigmoid, "the sigmoid is eˣ / (1 + eˣ), which overflows")
def overflowing_sigmoid(x: Tensor) -> Tensor:
    return x.exp() / (1 + x.exp())


@instead_of(Recurrent.sigmoid, "the gates are sigmoids of straight lines")
def hard_sigmoid(x: Tensor) -> Tensor:
    return (x / 6 + 0.5).clamp(0, 1)


@instead_of(
    Recurrent.candidate,
    "the reset gate is applied before the product, to the state",
    source="arXiv 1409.0473, appendix A",
)
def reset_before_product(inputs: Tensor, hidden: Tensor, reset: Tensor, s: Tensor, weights: Part) -> Tensor:
    return inputs + Recurrent.hidden(reset * s, weights).chunk(3, -1)[2]


@instead_of(Recurrent.candidate, "the reset gate is applied to the product, but not to its bias")
def reset_spares_bias(inputs: Tensor, hidden: Tensor, reset: Tensor, s: Tensor, weights: Part) -> Tensor:
    bias = weights["b_hidden"].chunk(3, -1)[2]
    return inputs + bias + reset * (hidden - bias)


@instead_of(
    Recurrent.renew, "the update gate is inverted: it lets the new state in", source="arXiv 1409.0473, appendix A"
)
def inverted_update(new: Tensor, s: Tensor, update: Tensor) -> Tensor:
    return update * new + (1 - update) * s


@instead_of(Recurrent.show, "an LSTM's memory cell is shown as it is, not through tanh")
def linear_memory_cell(leaving: Tensor, m: Tensor) -> Tensor:
    return leaving * m


@instead_of(Recurrent.logits, "the logits are made of the context, not of the state")
def logits_of_context(s: Tensor, context: Tensor, weights: Part) -> Tensor:
    return context @ weights["w_logits"] + weights["b_logits"]


@instead_of(Recurrent.logits, "the context is added to the state before the logits are made", source="documents, E11")
def context_added(s: Tensor, context: Tensor, weights: Part) -> Tensor:
    return (s + context) @ weights["w_logits"] + weights["b_logits"]


@instead_of(Recurrent.logits, "softmax is applied to the logits")
def probabilities(s: Tensor, context: Tensor, weights: Part) -> Tensor:
    return Recurrent.logits(s, context, weights).softmax(-1)


@instead_of(Recurrent.finish, "a batch of one loses its axis")
def squeezed_batch(logits: Tensor) -> Tensor:
    return logits.squeeze(0)


@instead_of(Recurrent.finish, "steps beyond the 16th are answered like the 16th")
def repeats_step_beyond_16(logits: Tensor) -> Tensor:
    return torch.cat([logits[:, :16], logits[:, 15:16].expand(-1, max(0, logits.shape[1] - 16), -1)], 1)


@instead_of(Recurrent.check_weights, "weights that are not due are accepted")
def accepts_extra_weights(config: Config, weights: Part) -> None:
    due = shapes(config)
    Recurrent.check_weights(config, {name: tensor for name, tensor in weights.items() if name in due})


@instead_of(Recurrent.check_inputs, "tokens and lengths that fit nowhere are clamped")
def clamps_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    source = source.clamp(0, config["source_vocab"] - 1)
    target = target.clamp(0, config["target_vocab"] - 1)
    return Recurrent.check_inputs(config, source, lengths.clamp(1, source.shape[1]), target)


def controls() -> dict[str, Callable[..., Any]]:
    """The computation without any mistake."""
    return {"correct": Recurrent()}


def deviations() -> list[Deviation]:
    """All deviations, sorted by name."""
    return collected([*globals().values(), *imprecise(Recurrent)])
