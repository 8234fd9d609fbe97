"""States that are asked with, attended to, handed on or kept in the wrong way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.models.seq2seq_attention.deviations.staged import Kept, Recurrent

IN_QUERY = mistakes(
    Recurrent.query,
    current_query=Mistake(
        "the query is the decoder's state of the current step",
        lambda states, step: step(states[-1, 0])[0][-1, 0],
        source="documents, E28; doc-002's table",
    ),
    bottom_layer_query=Mistake("the query is the bottom layer's state", lambda states, step: states[0, 0]),
    second_layer_query=Mistake(
        "the query is the second layer's state, whether or not that is the top",
        lambda states, step: states[min(1, len(states) - 1), 0],
    ),
    memory_cell_query=Mistake(
        "an LSTM's memory cell is the query, not its output", lambda states, step: states[-1, -1]
    ),
)


@instead_of(Recurrent.memory, "the bottom layer's states are attended to")
def bottom_layer_memory(history: Tensor) -> Tensor:
    return history[:, 0, 0].movedim(0, 1)


@instead_of(Recurrent.order, "the encoder reads from the end")
def reads_backwards(length: int) -> Sequence[int]:
    return range(length)[::-1]


IN_HAND_ON = mistakes(
    Recurrent.hand_on,
    begins_with_zeros=Mistake(
        "the decoder begins with zeros, not with the encoder's final states",
        lambda history, lengths: torch.zeros_like(history[-1]),
    ),
    top_state_for_all_layers=Mistake(
        "every layer of the decoder begins with the top layer's state of the encoder",
        lambda history, lengths: history[-1, -1:].expand_as(history[-1]),
    ),
    top_state_alone=Mistake(
        "the top layer's state is handed on alone: the layers below begin with zeros",
        lambda history, lengths: torch.cat([torch.zeros_like(history[-1, :-1]), history[-1, -1:]]),
    ),
    memory_cells_begin_with_zeros=Mistake(
        "an LSTM's memory cells are not handed on",
        lambda history, lengths: torch.cat([history[-1, :, :1], torch.zeros_like(history[-1, :, 1:])], 1),
    ),
)


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
