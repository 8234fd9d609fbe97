"""Mistakes inside a GRU or an LSTM, and in what it reads."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.models.eager import Part
from suite.contracts.models.seq2seq_attention.deviations.staged import Recurrent


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
