"""Mistakes in the encoder and its states, in attention, in the cells and in the logits; and some in one branch alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.computations import imprecise_mutants
from attnsuite.cases.mutants import Mutation, first_for_all, mutants, repeated_beyond, with_arguments, with_result
from attnsuite.contracts.models import greedy
from attnsuite.contracts.models.eager import Part
from attnsuite.contracts.models.seq2seq_attention.mutants.staged import Config, Kept, Recurrent
from attnsuite.contracts.softmax import fill, masked, overflowing


def reordered(gates: int, *order: int) -> Callable[..., Any]:
    """The gates' columns in another order, in the cell that has this number of gates."""

    def change(parts: tuple[Tensor, ...], count: int) -> tuple[Tensor, ...]:
        return tuple(parts[place] for place in order) if count == gates else parts

    return change


def reset_before_product(inputs: Tensor, hidden: Tensor, reset: Tensor, s: Tensor, weights: Part) -> Tensor:
    return inputs + Recurrent.hidden(reset * s, weights).chunk(3, -1)[2]


def reset_spares_bias(inputs: Tensor, hidden: Tensor, reset: Tensor, s: Tensor, weights: Part) -> Tensor:
    bias = weights["b_hidden"].chunk(3, -1)[2]
    return inputs + bias + reset * (hidden - bias)


def states_at_lengths(history: Tensor, lengths: Tensor) -> Tensor:
    return history[lengths - 1, :, :, torch.arange(len(lengths), device=lengths.device)].movedim(0, 2)


def states_before(states: Tensor, kept: Kept) -> Tensor:
    before = kept.get("states", states)
    return before if before.shape == states.shape else states


def kept_inside(step: int, positions: Tensor, window: int) -> int:
    return max(window, min(step, len(positions) - 1 - window))


CONTROLS = {"correct": Recurrent()}
GENERAL_MUTANTS = imprecise_mutants(Recurrent)
STATES = mutants(
    Recurrent,
    order={"reads_backwards": Mutation("the encoder reads from the end", with_result(lambda order: order[::-1]))},
    recall={
        "remembers_source": Mutation(
            "the states of an earlier source of the same shape are taken once more",
            lambda history, kept: kept.setdefault(history.shape, history),
        )
    },
    recall_lengths={
        "remembers_lengths": Mutation(
            "the lengths of an earlier source of the same shape are taken once more",
            lambda lengths, shape, kept: kept.setdefault(("lengths", *shape), lengths),
        )
    },
    memory={
        "bottom_layer_memory": Mutation(
            "the bottom layer's states are attended to", lambda history: history[:, 0, 0].movedim(0, 1)
        )
    },
    hand_on={
        "begins_with_zeros": Mutation(
            "the decoder begins with zeros, not with the encoder's final states", with_result(torch.zeros_like)
        ),
        "top_state_for_all_layers": Mutation(
            "every layer of the decoder begins with the top layer's state of the encoder",
            with_result(lambda states: states[-1:].expand_as(states)),
        ),
        "top_state_alone": Mutation(
            "the top layer's state is handed on alone: the layers below begin with zeros",
            with_result(lambda states: torch.cat([torch.zeros_like(states[:-1]), states[-1:]])),
        ),
        "memory_cells_begin_with_zeros": Mutation(
            "an LSTM's memory cells are not handed on",
            with_result(lambda states: torch.cat([states[:, :1], torch.zeros_like(states[:, 1:])], 1)),
        ),
        "top_memory_cell_for_all_layers": Mutation(
            "every layer of an LSTM begins with the top layer's memory cell",
            with_result(lambda states: torch.cat([states[:, :1], states[-1:, 1:].expand_as(states[:, 1:])], 1)),
        ),
        "stops_at_lengths": Mutation(
            "the final states are those at the lengths, as of packed sequences", states_at_lengths
        ),
    },
    begin={"begins_where_it_ended": Mutation("the decoder begins where the call before ended", states_before)},
    query={
        "current_query": Mutation(
            "the query is the decoder's state of the current step",
            with_result(lambda query, step: step(query)[0][-1, 0]),
            "documents, E28; doc-002's table",
        ),
        "bottom_layer_query": Mutation("the query is the bottom layer's state", lambda states, step: states[0, 0]),
        "second_layer_query": Mutation(
            "the query is the second layer's state, whether or not that is the top",
            lambda states, step: states[min(1, len(states) - 1), 0],
        ),
        "memory_cell_query": Mutation(
            "an LSTM's memory cell is the query, not its output", lambda states, step: states[-1, -1]
        ),
    },
)
ATTENDING = mutants(
    Recurrent,
    within={
        "ignored_lengths": Mutation("the lengths are ignored", with_result(torch.ones_like)),
        "inverted_lengths": Mutation(
            "the positions beyond the lengths are attended to, and no others", with_result(torch.logical_not)
        ),
        "one_position_more": Mutation(
            "one position beyond the length is attended to", with_arguments(lengths=lambda lengths: lengths + 1)
        ),
        "one_position_less": Mutation(
            "the last position within the length is left out", with_arguments(lengths=lambda lengths: lengths - 1)
        ),
        "first_length_for_all": Mutation("the first item's length serves all", with_arguments(lengths=first_for_all())),
        "drops_positions_beyond_32": Mutation(
            "positions beyond the 32nd are not attended to",
            with_arguments(lengths=lambda lengths: lengths.clamp_max(32)),
        ),
    },
    around={
        "ignored_window": Mutation("the window is ignored", with_result(torch.ones_like)),
        "window_of_d": Mutation(
            "the window has D positions on its sides together, not on each",
            lambda step, positions, window: 2 * (positions - step).abs() <= window,
            "documents, E12",
        ),
        "window_of_2d": Mutation(
            "the window has 2D positions: the last one is left out",
            lambda step, positions, window: (positions >= step - window) & (positions < step + max(window, 1)),
        ),
        "window_before_the_step": Mutation(
            "the window ends at the step, 2D + 1 positions long",
            lambda step, positions, window: (positions >= step - 2 * window) & (positions <= step),
        ),
        "late_window": Mutation(
            "the window is centred one position late: steps are counted from 1",
            with_arguments(step=lambda step: step + 1),
        ),
        "window_kept_inside": Mutation(
            "the window is moved into the source, so that it always has 2D + 1 positions",
            with_arguments(step=kept_inside),
        ),
    },
    activate={"linear_features": Mutation("the features are not squashed by tanh", torch.clone)},
    weigh={
        "scaled_additive_scores": Mutation(
            "additive scores are divided by √d",
            with_result(lambda scores, w_score: scores / math.sqrt(len(w_score))),
            "documents, 11.3.4: no scaling",
        )
    },
    factor={
        "scaled_dot_products": Mutation(
            "all dot products are divided by √d", lambda score, width: 1 / math.sqrt(width)
        ),
        "unscaled_dot_products": Mutation("no dot product is divided by √d", lambda score, width: 1.0),
    },
    softmax={
        "zero_fill": Mutation(
            "scores that are masked are zeros, which weigh too",
            lambda scores, seen: fill(0.0)(scores, seen).softmax(-1),
        ),
        "finite_fill": Mutation(
            "masked scores are −10⁶: a step that may attend to nothing gets the mean",
            lambda scores, seen: fill(-1e6)(scores, seen).softmax(-1),
            "documents, E21",
        ),
        "nan_for_empty_rows": Mutation(
            "a step that may attend to nothing gives NaN", lambda scores, seen: masked(scores, seen).softmax(-1)
        ),
        "uniform_weights": Mutation("all positions weigh alike", with_arguments(scores=torch.zeros_like)),
        "fills_with_minus_million": Mutation(
            "masked scores are −10⁶, above some that are not masked",
            lambda scores, seen: fill(-1e6)(scores, seen).softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0.0),
        ),
        "fills_with_minus_10000": Mutation(
            "masked scores are −10,000, above some that are not masked",
            lambda scores, seen: fill(-1e4)(scores, seen).softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0.0),
        ),
        "overflowing_softmax": Mutation(
            "exponentials are taken without subtracting the largest score: they overflow",
            lambda scores, seen: overflowing(masked(scores, seen)),
        ),
    },
    mix={
        "last_state_alone": Mutation(
            "the context is the encoder's last state: no attention",
            lambda weights, memory: memory[:, -1],
            "documents, doc-002: bottleneck",
        ),
        "memory_of_first_item": Mutation(
            "the first item's states serve all", lambda weights, memory: weights @ memory[0]
        ),
    },
)
STEPS = mutants(
    Recurrent,
    read={
        "late_target": Mutation(
            "the target is read one step late", lambda target: torch.cat([target[:, :1], target[:, :-1]], 1)
        ),
        "early_target": Mutation(
            "the target is read one step early", lambda target: torch.cat([target[:, 1:], target[:, -1:]], 1)
        ),
    },
    join={
        "embedding_first": Mutation(
            "the embedding comes first, then the context",
            lambda context, embedding: torch.cat([embedding, context], -1),
        )
    },
    hidden={
        "no_hidden_bias": Mutation(
            "the bias beside the state's weights is left out", lambda s, weights: s @ weights["w_hidden"]
        )
    },
    gates={
        "update_gate_first": Mutation(
            "the update gate has the first columns, the reset gate the second", with_result(reordered(3, 1, 0, 2))
        ),
        "forget_gate_first": Mutation(
            "an LSTM's forget gate has the first columns, the input gate the second",
            with_result(reordered(4, 1, 0, 2, 3)),
        ),
        "output_gate_third": Mutation(
            "an LSTM's output gate has the third columns, the new content the last",
            with_result(reordered(4, 0, 1, 3, 2)),
            "ONNX: i o f c",
        ),
    },
    sigmoid={
        "overflowing_sigmoid": Mutation(
            "the sigmoid is eˣ / (1 + eˣ), which overflows", lambda x: x.exp() / (1 + x.exp())
        ),
        "hard_sigmoid": Mutation("the gates are sigmoids of straight lines", lambda x: (x / 6 + 0.5).clamp(0, 1)),
    },
    candidate={
        "reset_before_product": Mutation(
            "the reset gate is applied before the product, to the state",
            reset_before_product,
            "arXiv 1409.0473, appendix A",
        ),
        "reset_spares_bias": Mutation(
            "the reset gate is applied to the product, but not to its bias", reset_spares_bias
        ),
    },
    renew={
        "inverted_update": Mutation(
            "the update gate is inverted: it lets the new state in",
            lambda new, s, update: update * new + (1 - update) * s,
            "arXiv 1409.0473, appendix A",
        )
    },
    show={
        "linear_memory_cell": Mutation(
            "an LSTM's memory cell is shown as it is, not through tanh", lambda leaving, m: leaving * m
        )
    },
    logits={
        "logits_of_context": Mutation(
            "the logits are made of the context, not of the state", with_arguments(s=lambda s, context: context)
        ),
        "context_added": Mutation(
            "the context is added to the state before the logits are made",
            with_arguments(s=lambda s, context: s + context),
            "documents, E11",
        ),
        "probabilities": Mutation("softmax is applied to the logits", with_result(lambda logits: logits.softmax(-1))),
    },
    finish={
        "squeezed_batch": Mutation("a batch of one loses its axis", lambda logits: logits.squeeze(0)),
        "repeats_step_beyond_16": Mutation("steps beyond the 16th are answered like the 16th", repeated_beyond(16, 1)),
    },
)
GREEDY = mutants(Recurrent, **greedy.MUTATIONS)
MADE_IN = {
    ("cell", "lstm"): ("ignored_lengths", "ignored_window", "stops_at_lengths", "squeezed_batch"),
    ("score", "dot"): ("ignored_lengths", "ignored_window", "nan_for_empty_rows", "squeezed_batch"),
    ("score", "scaled_dot"): ("ignored_lengths", "ignored_window", "nan_for_empty_rows", "stops_at_lengths"),
}
"""Mistakes by name that are made in one branch as well."""


def _in_branch(mistake: Mutant, key: str, value: str) -> Mutant:
    def factory(config: Config, weights: Part, **making: Any) -> Callable[..., Any]:
        made: Callable[..., Any] = mistake.function if config[key] == value else Recurrent()
        model: Callable[..., Any] = made(config, weights, **making)
        return model

    says = f"{mistake.says}, where {value} is the {key}"
    return replace(mistake, name=f"{mistake.name}_of_{value}", says=says, function=factory)


BRANCHES = [
    _in_branch(mistake, *branch)
    for branch, names in MADE_IN.items()
    for mistake in (*STATES, *ATTENDING, *STEPS)
    if mistake.name in names
]
