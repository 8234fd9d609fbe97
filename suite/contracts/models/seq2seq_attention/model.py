"""The oracle of the contract `seq2seq_attention`, and the eager model in steps, its mutants and correct variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.changes import as_they_lie, first_for_all, repeated_beyond, turned
from attnsuite.cases.computations import Steps, backwards, bias_first, imprecise_mutants
from attnsuite.cases.mutants import Mutation, formula, mutants, with_arguments, with_result
from attnsuite.contracts.models import eager
from attnsuite.contracts.models import oracle as blocks
from attnsuite.contracts.models.eager import Part, Storage, Translating, part
from attnsuite.contracts.models.mutants import CHECK_WEIGHTS, RECALLED_WEIGHTS, TRANSLATING, shared
from attnsuite.contracts.models.seq2seq_attention.contract import GATES, SCORES, shapes
from attnsuite.contracts.shared import Weights, fill, masked, overflowing, softmax
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


def _states_before(states: Tensor, storage: Storage) -> Tensor:
    before: Tensor = storage.get("states", states)
    return before if before.shape == states.shape else states


CONTROLS = {"correct": Recurrent()}
IMPRECISE = imprecise_mutants(Recurrent)
MUTANTS = mutants(
    Recurrent,
    **TRANSLATING,
    check_weights=CHECK_WEIGHTS,
    take={
        "weights_as_they_lie": Mutation("weights are read in memory order", as_they_lie),
        "one_embedding": Mutation("the target's tokens have the source's embedding where the shapes allow it",
            with_arguments(weights=shared("source_embedding", "target_embedding"))),
        "inputs_for_states": Mutation("the state has the input's weights where the shapes allow it",
            with_arguments(weights=shared("w_input", "w_hidden"))),
        "tied_logits": Mutation("the logits' weights are the target's embedding, transposed, where the shapes allow it",
            with_arguments(weights=shared("target_embedding", "w_logits"))),
    },
    order={"reads_backwards": Mutation("the encoder reads from the end", with_result(lambda order: order[::-1]))},
    recall={"remembers_source": Mutation("the states of an earlier source of the same shape are used",
        lambda history, storage: storage.setdefault(history.shape, history))},
    recall_lengths={"remembers_lengths": Mutation("the lengths of an earlier source of the same shape are used",
        lambda lengths, shape, storage: storage.setdefault(("lengths", *shape), lengths))},
    memory={"bottom_layer_memory": Mutation("the bottom layer's states are attended to",
        lambda history: history[:, 0, 0].movedim(0, 1))},
    hand_on={
        "begins_with_zeros": Mutation("the decoder begins with zeros", with_result(torch.zeros_like)),
        "top_memory_cell_for_all_layers": Mutation("every layer of an LSTM begins with the top layer's memory cell",
            with_result(lambda states: torch.cat([states[:, :1], states[-1:, 1:].expand_as(states[:, 1:])], 1))),
        "stops_at_lengths": Mutation("the final states are those at the lengths, as of packed sequences",
            lambda history, lengths: history[lengths - 1, :, :, torch.arange(len(lengths))].movedim(0, 2)),
    },
    begin={"begins_where_it_ended": Mutation("the decoder begins with the last states of the call before",
        _states_before)},
    query={
        "current_query": Mutation("the query is the decoder's state of the current step",
            with_result(lambda query, step: step(query)[0][-1, 0]), "documents, E28; doc-002's table"),
        "bottom_layer_query": Mutation("the query is the bottom layer's state", lambda states, step: states[0, 0]),
        "second_layer_query": Mutation("the query is the second layer's state",
            lambda states, step: states[min(1, len(states) - 1), 0]),
        "memory_cell_query": Mutation("the query is an LSTM's memory cell", lambda states, step: states[-1, -1]),
    },
    within={
        "ignored_lengths": Mutation("the lengths are ignored", with_result(torch.ones_like)),
        "one_position_more": Mutation("one position beyond the length is visible",
            with_arguments(lengths=lambda lengths: lengths + 1)),
        "first_length_for_all": Mutation("the first item's length serves all", with_arguments(lengths=first_for_all())),
        "drops_positions_beyond_32": Mutation("positions beyond the 32nd are hidden",
            with_arguments(lengths=lambda lengths: lengths.clamp_max(32))),
    },
    around={
        "ignored_window": Mutation("the window is ignored", with_result(torch.ones_like)),
        "window_of_d": Mutation("both sides of the window have D positions together",
            lambda step, positions, window: 2 * (positions - step).abs() <= window, "documents, E12"),
    },
    weigh={"scaled_additive_scores": Mutation("additive scores are divided by √d",
        with_result(lambda scores, w_score: scores / math.sqrt(len(w_score))), "documents, 11.3.4: no scaling")},
    factor={
        "scaled_dot_products": Mutation("all dot products are divided by √d",
            lambda score, width: 1 / math.sqrt(width)),
        "unscaled_dot_products": Mutation("no dot product is divided by √d", lambda score, width: 1.0),
    },
    softmax={
        "zero_fill": Mutation("hidden scores are 0 and get a weight",
            lambda scores, allowed: fill(0.0)(scores, allowed).softmax(-1)),
        "finite_fill": Mutation("hidden scores are −10⁶: a step without visible positions gets the mean",
            lambda scores, allowed: fill(-1e6)(scores, allowed).softmax(-1), "documents, E21"),
        "nan_for_empty_rows": Mutation("a step without visible positions gives NaN",
            lambda scores, allowed: masked(scores, allowed).softmax(-1)),
        "fills_with_minus_10000": Mutation("hidden scores are −10,000, above some visible ones",
            lambda scores, allowed: fill(-1e4)(scores, allowed).softmax(-1) * allowed.any(-1, keepdim=True)),
        "overflowing_softmax": Mutation("exponentials overflow: the largest score is not subtracted",
            lambda scores, allowed: overflowing(masked(scores, allowed))),
    },
    mix={"last_state_alone": Mutation("the context is the encoder's last state: no attention",
        lambda weights, memory: memory[:, -1], "documents, doc-002: bottleneck")},
    read={"late_target": Mutation("the target is read one step late",
        lambda target: torch.cat([target[:, :1], target[:, :-1]], 1))},
    join={"embedding_first": Mutation("the embedding comes first, then the context",
        lambda context, embedding: torch.cat([embedding, context], -1))},
    hidden={"no_hidden_bias": Mutation("the state's bias is left out", lambda s, weights: s @ weights["w_hidden"])},
    gates={"output_gate_third": Mutation("an LSTM's output gate has the third columns, the new content the last",
        with_result(lambda parts, count: (*parts[:2], parts[3], parts[2]) if count == 4 else parts), "ONNX: i o f c")},
    sigmoid={
        "overflowing_sigmoid": Mutation("the sigmoid eˣ / (1 + eˣ) overflows", lambda x: x.exp() / (1 + x.exp())),
        "hard_sigmoid": Mutation("the gates have hard sigmoids", lambda x: (x / 6 + 0.5).clamp(0, 1)),
    },
    candidate={"reset_before_product": Mutation("the reset gate is applied to the state before the product",
        lambda inputs, hidden, reset, s, weights: inputs + Recurrent.hidden(reset * s, weights).chunk(3, -1)[2],
        "arXiv 1409.0473, appendix A")},
    renew={"inverted_update": Mutation("the update gate lets the new state in",
        lambda new, s, update: update * new + (1 - update) * s, "arXiv 1409.0473, appendix A")},
    logits={
        "logits_of_context": Mutation("the logits are computed from the context, not the state",
            with_arguments(s=lambda s, context: context)),
        "context_added": Mutation("the context is added to the state before the logits",
            with_arguments(s=lambda s, context: s + context), "documents, E11"),
        "probabilities": Mutation("softmax is applied to the logits", with_result(lambda logits: logits.softmax(-1))),
    },
    finish={
        "squeezed_batch": Mutation("a batch of one loses its axis", lambda logits: logits.squeeze(0)),
        "repeats_step_beyond_16": Mutation("steps beyond the 16th repeat the 16th", repeated_beyond(16, 1)),
    },
    returned={
        "shows_faint_weights_of_hidden_keys": Mutation("hidden positions have a returned weight of 10⁻⁹",
            with_result(lambda weights: weights.clamp_min(1e-9))),
        "shows_equal_weights_of_empty_rows": Mutation("steps without visible positions return equal weights",
            with_result(lambda weights, allowed: weights.masked_fill(~allowed.any(-1, keepdim=True),
            1 / weights.shape[-1])), "documents, E21"),
        "shows_first_item": Mutation("the returned attention weights are the first item's",
            with_result(first_for_all())),
    },
    in_rows={
        "shows_steps_first": Mutation("the attention weights are t b s", torch.stack),
        "shows_turned_weights": Mutation(
            "steps and positions are swapped in the returned weights where the two axes have one size",
            with_result(turned)),
    },
    recalled=RECALLED_WEIGHTS,
)  # fmt: skip


def _in_branch(wrong: Any, key: str, value: str, config: Config, weights: Part, **making: Any) -> Callable[..., Any]:
    """The model of a mutant where the config has this value, else the correct one."""
    model: Callable[..., Any] = (wrong if config[key] == value else Recurrent())(config, weights, **making)
    return model


BRANCHES = [
    replace(mutant, name=f"{mutant.name}_of_{value}", says=f"{mutant.says} if the {key} is {value}",
        function=partial(_in_branch, mutant.function, key, value))
    for key, value in (("cell", "lstm"), ("score", "dot"), ("score", "scaled_dot"))
    for mutant in MUTANTS
    if mutant.name in ("ignored_lengths", "ignored_window")
]  # fmt: skip


def _transposed(weights: Part) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weights in the layout of torch's cells."""
    return weights["w_input"].mT, weights["w_hidden"].mT, weights["b_input"], weights["b_hidden"]


def variants() -> list[Variant]:
    """The model with other cells, and in other precisions."""
    library: dict[str, Callable[..., Tensor]] = {
        "gru": lambda x, state, weights: torch.gru_cell(x, state[0], *_transposed(weights))[None],
        "lstm": lambda x, state, weights: torch.stack(torch.lstm_cell(x, list(state), *_transposed(weights))),
    }
    reordered = Recurrent(
        wide=Steps.wide,
        inputs=lambda x, weights: backwards(x, weights["w_input"], weights["b_input"]),
        hidden=lambda s, weights: bias_first(s, weights["w_hidden"], weights["b_hidden"]),
        weigh=lambda features, w_score: torch.einsum("bsd,d->bs", features.flip(-1), w_score.flip(0)),
        softmax=lambda scores, allowed: scores.masked_fill(~allowed, -math.inf).softmax(-1).nan_to_num(0.0),
        mix=lambda weights, memory: torch.einsum("bs,bsd->bd", weights, memory),
        sigmoid=lambda x: 0.5 * torch.tanh(0.5 * x) + 0.5,
        renew=lambda new, s, update: torch.lerp(new, s, update),
        logits=lambda s, context, weights: backwards(s, weights["w_logits"], weights["b_logits"]),
    )
    return [
        Variant("cells", "torch's gru_cell and lstm_cell in the dtype itself", Recurrent(**library)),
        Variant("float64", "the same in float64", Recurrent(**library, wide=lambda numbers: torch.float64)),
        Variant("reordered", "sums backwards, a sigmoid by tanh", reordered),
    ]
