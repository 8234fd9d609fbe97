"""Mutants of the contract `seq2seq_attention`, and its correct variants."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.changes import as_they_lie, first_for_all, repeated_beyond, turned
from attnsuite.cases.computations import Steps, backwards, bias_first, imprecise_mutants
from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.contracts.models import greedy
from attnsuite.contracts.models.eager import Part, Storage
from attnsuite.contracts.models.mutants import CHECK_SENTENCES, CHECK_WEIGHTS, RECALLED_WEIGHTS, shared
from attnsuite.contracts.models.seq2seq_attention.model import Config, Recurrent
from attnsuite.contracts.softmax import fill, masked, overflowing


def _states_before(states: Tensor, storage: Storage) -> Tensor:
    before: Tensor = storage.get("states", states)
    return before if before.shape == states.shape else states


CONTROLS = {"correct": Recurrent()}
IMPRECISE = imprecise_mutants(Recurrent)
ACCEPTED = mutants(
    Recurrent,
    check_weights=CHECK_WEIGHTS,
    check_inputs=CHECK_SENTENCES,
    take={
        "weights_as_they_lie": Mutation("weights are read in memory order", as_they_lie),
        "one_embedding": Mutation("the target's tokens have the source's embedding where the shapes allow it",
            with_arguments(weights=shared("source_embedding", "target_embedding"))),
        "inputs_for_states": Mutation("the state has the input's weights where the shapes allow it",
            with_arguments(weights=shared("w_input", "w_hidden"))),
        "tied_logits": Mutation("the logits' weights are the target's embedding, transposed, where the shapes allow it",
            with_arguments(weights=shared("target_embedding", "w_logits"))),
    },
)  # fmt: skip
STATES = mutants(
    Recurrent,
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
        "memory_cell_query": Mutation("the query is an LSTM's memory cell", lambda states, step: states[-1, -1]),
    },
)  # fmt: skip
ATTENTION = mutants(
    Recurrent,
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
)  # fmt: skip
CELLS = mutants(
    Recurrent,
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
)  # fmt: skip
GREEDY = mutants(Recurrent, **greedy.MUTANTS)
RETURNED_WEIGHTS = mutants(
    Recurrent,
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
    for mutant in ATTENTION
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
