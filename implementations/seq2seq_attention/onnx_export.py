"""One decoding step exported to ONNX, and run by onnxruntime on the CPU, step after step.

All sizes of the exported graph are dynamic and the weights are among its inputs, so one export serves all models with
the same cell, kind of score, number of layers and dtype; it takes seconds. The encoder is torch.nn's GRU or LSTM. Half
types are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from onnxruntime import InferenceSession, SessionOptions
from torch import Tensor

from implementations import _export
from implementations._greedy import by_whole_targets, check_greedy
from implementations.seq2seq_attention._checks import GATES, check_inputs, check_model
from suite import implementation

_SILENT = 4  # log fatal errors only: every other one is raised as well

Array = np.ndarray[Any, Any]


@implementation(
    requires=["onnx", "onnxruntime", "onnxscript"],
    lacks={"cuda": "the adapter runs onnxruntime's CPU provider"},
)
def seq2seq_attention(
    config: Mapping[str, Any], weights: Mapping[str, Tensor], *, greedy: Mapping[str, int] | None = None
) -> Callable[..., Tensor]:
    """Return the model of this config. Raises ValueError if the weights are not those of the config.

    With `greedy`, the tokens `begin` and `end` and a number of `steps`, it is model(source, lengths) → tokens, b steps.
    """
    dtype = check_model(config, weights)
    if weights["w_logits"].device.type != "cpu":
        raise NotImplementedError("the adapter runs onnxruntime's CPU provider")
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    model = _Model(config, {name: tensor.detach().to(wide) for name, tensor in weights.items()}, dtype)
    if greedy is None:
        return model
    check_greedy(greedy, config["target_vocab"])
    return by_whole_targets(model, greedy)


class _Model:
    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self.config, self.weights, self.dtype = config, weights, dtype
        self.encoder = _encoder(config, weights)
        self.bound = [tensor.contiguous().numpy() for tensor in self.step_weights()]
        kind = (config["cell"], config["score"] == "additive", config["layers"], weights["w_logits"].dtype)
        self.session = _session(*kind, torch.get_num_threads())
        self.names = [entry.name for entry in self.session.get_inputs()]

    def __call__(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return the logits, b t v, for source b s, lengths b and target b t. Raises ValueError for bad input."""
        check_inputs(self.config, source, lengths, target)
        with torch.no_grad():
            memory, last = self.encoder(self.weights["source_embedding"][source])
            keys = self.keys(memory)
        states = [part.numpy() for part in (last if isinstance(last, tuple) else (last,))]  # layers b d
        embedded = self.weights["target_embedding"][target].numpy()
        allowed = self.allowed(lengths, *source.shape, target.shape[1])
        logits = [memory.new_empty(len(source), 0, self.config["target_vocab"])]
        for step in range(target.shape[1]):
            given = [embedded[:, step], memory.numpy(), keys.numpy(), allowed[step], *states, *self.bound]
            contiguous = (np.ascontiguousarray(array) for array in given)
            found, *states = self.session.run(None, dict(zip(self.names, contiguous, strict=True)))
            logits.append(torch.from_numpy(found).unsqueeze(1))
        return torch.cat(logits, 1).to(self.dtype)

    def keys(self, memory: Tensor) -> Tensor:
        """The keys of the scores, b s d: projected, or scaled."""
        if self.config["score"] == "additive":
            return memory @ self.weights["attention.w_key"]
        return memory / math.sqrt(memory.shape[-1]) if self.config["score"] == "scaled_dot" else memory

    def allowed(self, lengths: Tensor, batch: int, positions: int, steps: int) -> Array:
        """True for the positions that each step may attend to, t b s."""
        position, step = torch.arange(positions), torch.arange(steps)[:, None, None]
        allowed = (position < lengths[:, None]).expand(steps, batch, positions)
        window = self.config["window"]
        return (allowed if window is None else allowed & ((position - step).abs() <= window)).numpy()

    def step_weights(self) -> list[Tensor]:
        """The weights of a step in the graph's order; those of each gate are a matrix or row of their own."""
        found = []
        if self.config["score"] == "additive":
            found += [self.weights["attention.w_query"], self.weights["attention.w_score"]]
        gates, hidden = GATES[self.config["cell"]], self.config["hidden"]
        for layer in range(self.config["layers"]):
            w_input, w_hidden, b_input, b_hidden = (
                self.weights[f"decoder.{layer}.{name}"] for name in ("w_input", "w_hidden", "b_input", "b_hidden")
            )
            matrices = [w_hidden, w_input] if layer else [w_hidden, w_input[:hidden], w_input[hidden:]]
            found += [matrix.unflatten(-1, (gates, hidden)).movedim(1, 0) for matrix in matrices]
            found += [bias.view(gates, 1, hidden) for bias in (b_input, b_hidden)]
        return [*found, self.weights["w_logits"], self.weights["b_logits"]]


class _Step(torch.nn.Module):
    """One step of the decoder. `states` are `layers b d`: s, and for an LSTM its memory cell."""

    def __init__(self, cell: str, additive: bool, layers: int) -> None:
        super().__init__()
        self.cell, self.additive, self.layers = cell, additive, layers

    def forward(
        self,
        embedding: Tensor,
        memory: Tensor,
        keys: Tensor,
        allowed: Tensor,
        states: list[Tensor],
        weights: list[Tensor],
    ) -> tuple[Tensor, ...]:
        given, query = iter(weights), states[0][-1]
        if self.additive:
            scores = ((query @ next(given)).unsqueeze(1) + keys).tanh() @ next(given)
        else:
            scores = (keys @ query.unsqueeze(-1)).squeeze(-1)
        hidden_ones = ~allowed & allowed.any(-1, keepdim=True)  # none where all are: the product gives zeros there
        seen = scores.masked_fill(hidden_ones, -torch.inf).softmax(-1) * allowed
        x = (seen.unsqueeze(1) @ memory).squeeze(1)
        after = []
        for layer in range(self.layers):
            state = [part[layer] for part in states]
            hidden, product = state[0] @ next(given), x @ next(given)  # gates b d
            if layer == 0:
                product = product + embedding @ next(given)
            product, hidden = product + next(given), hidden + next(given)
            after.append((self.gru if self.cell == "gru" else self.lstm)(product, hidden, *state))
            x = after[-1][0]
        logits = x @ next(given) + next(given)
        return logits, *(torch.stack(part) for part in zip(*after, strict=True))

    @staticmethod
    def gru(product: Tensor, hidden: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        reset, update = (product[0] + hidden[0]).sigmoid(), (product[1] + hidden[1]).sigmoid()
        new = (product[2] + reset * hidden[2]).tanh()
        return ((1 - update) * new + update * s,)

    @staticmethod
    def lstm(product: Tensor, hidden: Tensor, s: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        gates = product + hidden
        memory = gates[1].sigmoid() * memory + gates[0].sigmoid() * gates[2].tanh()
        return gates[3].sigmoid() * memory.tanh(), memory


def _encoder(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> torch.nn.Module:
    """torch.nn's own stack of cells, whose matrices are transposed."""
    of = torch.nn.GRU if config["cell"] == "gru" else torch.nn.LSTM
    encoder = of(config["embedding"], config["hidden"], config["layers"], batch_first=True, device="meta")
    theirs = {"weight_ih": "w_input", "weight_hh": "w_hidden", "bias_ih": "b_input", "bias_hh": "b_hidden"}
    state = {
        f"{their}_l{layer}": weights[f"encoder.{layer}.{ours}"].t().contiguous()
        for layer in range(config["layers"])
        for their, ours in theirs.items()
    }
    encoder.load_state_dict(state, assign=True)
    return encoder


@lru_cache(maxsize=32)
def _session(cell: str, additive: bool, layers: int, dtype: torch.dtype, threads: int) -> InferenceSession:
    options = SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads
    graph = _exported(cell, additive, layers, dtype).model.SerializeToString()
    return InferenceSession(graph, options, providers=["CPUExecutionProvider"])


@_export.kept
def _exported(cell: str, additive: bool, layers: int, dtype: torch.dtype) -> _export.Graph:
    """The graph of a step. It is exported with different numbers for all sizes, and every size becomes dynamic."""
    gates = GATES[cell]
    batch, positions, embedding, hidden, vocab = (max(gates, layers) + number for number in range(1, 6))
    shapes = [(hidden, hidden), (hidden,)] if additive else []
    for layer in range(layers):
        shapes += [(gates, hidden, hidden)] * 2 + ([(gates, embedding, hidden)] if layer == 0 else [])
        shapes += [(gates, 1, hidden)] * 2
    shapes += [(hidden, vocab), (vocab,)]
    states = [torch.zeros(layers, batch, hidden, dtype=dtype) for _ in range(2 if cell == "lstm" else 1)]
    memory = torch.zeros(batch, positions, hidden, dtype=dtype)
    allowed = torch.ones(batch, positions, dtype=torch.bool)
    weights = [torch.zeros(shape, dtype=dtype) for shape in shapes]
    given = (torch.zeros(batch, embedding, dtype=dtype), memory, memory.clone(), allowed)

    def axes(tensor: Tensor) -> tuple[Any, ...]:
        return tuple(torch.export.Dim.DYNAMIC if size >= batch else torch.export.Dim.STATIC for size in tensor.shape)

    dynamic = (*map(axes, given), [*map(axes, states)], [*map(axes, weights)])
    return _export.graph(_Step(cell, additive, layers), (*given, states, weights), (), dynamic, 18)
