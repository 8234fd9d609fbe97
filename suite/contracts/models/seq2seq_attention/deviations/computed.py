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
from attnsuite.cases.mutants import Wrong, first_for_all, given, mutants, repeated_beyond, rows, then
from attnsuite.contracts.models import greedy
from attnsuite.contracts.models.eager import Part
from attnsuite.contracts.models.seq2seq_attention.deviations.staged import Config, Kept, Recurrent
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
OTHERS = imprecise_mutants(Recurrent)
STATES = mutants(
    Recurrent,
    order=rows(reads_backwards=Wrong("the encoder reads from the end", then(lambda order: order[::-1]))),
    recall=rows(
        remembers_source=Wrong(
            "the states of an earlier source of the same shape are taken once more",
            lambda history, kept: kept.setdefault(history.shape, history),
        )
    ),
    recall_lengths=rows(
        remembers_lengths=Wrong(
            "the lengths of an earlier source of the same shape are taken once more",
            lambda lengths, shape, kept: kept.setdefault(("lengths", *shape), lengths),
        )
    ),
    memory=rows(
        bottom_layer_memory=Wrong(
            "the bottom layer's states are attended to", lambda history: history[:, 0, 0].movedim(0, 1)
        )
    ),
    hand_on=rows(
        begins_with_zeros=Wrong(
            "the decoder begins with zeros, not with the encoder's final states", then(torch.zeros_like)
        ),
        top_state_for_all_layers=Wrong(
            "every layer of the decoder begins with the top layer's state of the encoder",
            then(lambda states: states[-1:].expand_as(states)),
        ),
        top_state_alone=Wrong(
            "the top layer's state is handed on alone: the layers below begin with zeros",
            then(lambda states: torch.cat([torch.zeros_like(states[:-1]), states[-1:]])),
        ),
        memory_cells_begin_with_zeros=Wrong(
            "an LSTM's memory cells are not handed on",
            then(lambda states: torch.cat([states[:, :1], torch.zeros_like(states[:, 1:])], 1)),
        ),
        top_memory_cell_for_all_layers=Wrong(
            "every layer of an LSTM begins with the top layer's memory cell",
            then(lambda states: torch.cat([states[:, :1], states[-1:, 1:].expand_as(states[:, 1:])], 1)),
        ),
        stops_at_lengths=Wrong("the final states are those at the lengths, as of packed sequences", states_at_lengths),
    ),
    begin=rows(begins_where_it_ended=Wrong("the decoder begins where the call before ended", states_before)),
    query=rows(
        current_query=Wrong(
            "the query is the decoder's state of the current step",
            then(lambda query, step: step(query)[0][-1, 0]),
            "documents, E28; doc-002's table",
        ),
        bottom_layer_query=Wrong("the query is the bottom layer's state", lambda states, step: states[0, 0]),
        second_layer_query=Wrong(
            "the query is the second layer's state, whether or not that is the top",
            lambda states, step: states[min(1, len(states) - 1), 0],
        ),
        memory_cell_query=Wrong(
            "an LSTM's memory cell is the query, not its output", lambda states, step: states[-1, -1]
        ),
    ),
)
ATTENDING = mutants(
    Recurrent,
    within=rows(
        ignored_lengths=Wrong("the lengths are ignored", then(torch.ones_like)),
        inverted_lengths=Wrong(
            "the positions beyond the lengths are attended to, and no others", then(torch.logical_not)
        ),
        one_position_more=Wrong(
            "one position beyond the length is attended to", given(lengths=lambda lengths: lengths + 1)
        ),
        one_position_less=Wrong(
            "the last position within the length is left out", given(lengths=lambda lengths: lengths - 1)
        ),
        first_length_for_all=Wrong("the first item's length serves all", given(lengths=first_for_all())),
        drops_positions_beyond_32=Wrong(
            "positions beyond the 32nd are not attended to", given(lengths=lambda lengths: lengths.clamp_max(32))
        ),
    ),
    around=rows(
        ignored_window=Wrong("the window is ignored", then(torch.ones_like)),
        window_of_d=Wrong(
            "the window has D positions on its sides together, not on each",
            lambda step, positions, window: 2 * (positions - step).abs() <= window,
            "documents, E12",
        ),
        window_of_2d=Wrong(
            "the window has 2D positions: the last one is left out",
            lambda step, positions, window: (positions >= step - window) & (positions < step + max(window, 1)),
        ),
        window_before_the_step=Wrong(
            "the window ends at the step, 2D + 1 positions long",
            lambda step, positions, window: (positions >= step - 2 * window) & (positions <= step),
        ),
        late_window=Wrong(
            "the window is centred one position late: steps are counted from 1", given(step=lambda step: step + 1)
        ),
        window_kept_inside=Wrong(
            "the window is moved into the source, so that it always has 2D + 1 positions", given(step=kept_inside)
        ),
    ),
    activate=rows(linear_features=Wrong("the features are not squashed by tanh", torch.clone)),
    weigh=rows(
        scaled_additive_scores=Wrong(
            "additive scores are divided by √d",
            then(lambda scores, w_score: scores / math.sqrt(len(w_score))),
            "documents, 11.3.4: no scaling",
        )
    ),
    factor=rows(
        scaled_dot_products=Wrong("all dot products are divided by √d", lambda score, width: 1 / math.sqrt(width)),
        unscaled_dot_products=Wrong("no dot product is divided by √d", lambda score, width: 1.0),
    ),
    softmax=rows(
        zero_fill=Wrong(
            "scores that are masked are zeros, which weigh too",
            lambda scores, seen: fill(0.0)(scores, seen).softmax(-1),
        ),
        finite_fill=Wrong(
            "masked scores are −10⁶: a step that may attend to nothing gets the mean",
            lambda scores, seen: fill(-1e6)(scores, seen).softmax(-1),
            "documents, E21",
        ),
        nan_for_empty_rows=Wrong(
            "a step that may attend to nothing gives NaN", lambda scores, seen: masked(scores, seen).softmax(-1)
        ),
        uniform_weights=Wrong("all positions weigh alike", given(scores=torch.zeros_like)),
        fills_with_minus_million=Wrong(
            "masked scores are −10⁶, above some that are not masked",
            lambda scores, seen: fill(-1e6)(scores, seen).softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0.0),
        ),
        fills_with_minus_10000=Wrong(
            "masked scores are −10,000, above some that are not masked",
            lambda scores, seen: fill(-1e4)(scores, seen).softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0.0),
        ),
        overflowing_softmax=Wrong(
            "exponentials are taken without subtracting the largest score: they overflow",
            lambda scores, seen: overflowing(masked(scores, seen)),
        ),
    ),
    mix=rows(
        last_state_alone=Wrong(
            "the context is the encoder's last state: no attention",
            lambda weights, memory: memory[:, -1],
            "documents, doc-002: bottleneck",
        ),
        memory_of_first_item=Wrong("the first item's states serve all", lambda weights, memory: weights @ memory[0]),
    ),
)
STEPS = mutants(
    Recurrent,
    read=rows(
        late_target=Wrong(
            "the target is read one step late", lambda target: torch.cat([target[:, :1], target[:, :-1]], 1)
        ),
        early_target=Wrong(
            "the target is read one step early", lambda target: torch.cat([target[:, 1:], target[:, -1:]], 1)
        ),
    ),
    join=rows(
        embedding_first=Wrong(
            "the embedding comes first, then the context",
            lambda context, embedding: torch.cat([embedding, context], -1),
        )
    ),
    hidden=rows(
        no_hidden_bias=Wrong(
            "the bias beside the state's weights is left out", lambda s, weights: s @ weights["w_hidden"]
        )
    ),
    gates=rows(
        update_gate_first=Wrong(
            "the update gate has the first columns, the reset gate the second", then(reordered(3, 1, 0, 2))
        ),
        forget_gate_first=Wrong(
            "an LSTM's forget gate has the first columns, the input gate the second", then(reordered(4, 1, 0, 2, 3))
        ),
        output_gate_third=Wrong(
            "an LSTM's output gate has the third columns, the new content the last",
            then(reordered(4, 0, 1, 3, 2)),
            "ONNX: i o f c",
        ),
    ),
    sigmoid=rows(
        overflowing_sigmoid=Wrong("the sigmoid is eˣ / (1 + eˣ), which overflows", lambda x: x.exp() / (1 + x.exp())),
        hard_sigmoid=Wrong("the gates are sigmoids of straight lines", lambda x: (x / 6 + 0.5).clamp(0, 1)),
    ),
    candidate=rows(
        reset_before_product=Wrong(
            "the reset gate is applied before the product, to the state",
            reset_before_product,
            "arXiv 1409.0473, appendix A",
        ),
        reset_spares_bias=Wrong("the reset gate is applied to the product, but not to its bias", reset_spares_bias),
    ),
    renew=rows(
        inverted_update=Wrong(
            "the update gate is inverted: it lets the new state in",
            lambda new, s, update: update * new + (1 - update) * s,
            "arXiv 1409.0473, appendix A",
        )
    ),
    show=rows(
        linear_memory_cell=Wrong(
            "an LSTM's memory cell is shown as it is, not through tanh", lambda leaving, m: leaving * m
        )
    ),
    logits=rows(
        logits_of_context=Wrong(
            "the logits are made of the context, not of the state", given(s=lambda s, context: context)
        ),
        context_added=Wrong(
            "the context is added to the state before the logits are made",
            given(s=lambda s, context: s + context),
            "documents, E11",
        ),
        probabilities=Wrong("softmax is applied to the logits", then(lambda logits: logits.softmax(-1))),
    ),
    finish=rows(
        squeezed_batch=Wrong("a batch of one loses its axis", lambda logits: logits.squeeze(0)),
        repeats_step_beyond_16=Wrong("steps beyond the 16th are answered like the 16th", repeated_beyond(16, 1)),
    ),
)
GREEDY = mutants(Recurrent, **greedy.MISTAKES)
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
