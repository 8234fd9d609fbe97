"""Correct recurrent encoder–decoders in foreign styles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import Steps, backwards, linear
from attnsuite.contracts.models.eager import part
from attnsuite.contracts.models.foreign import source_by_source
from attnsuite.contracts.models.seq2seq_attention.contract import GATES, shapes
from attnsuite.contracts.models.seq2seq_attention.mutants.staged import Recurrent

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
States = list[tuple[Tensor, ...]]
"""Of each layer s, and for an LSTM m, b d each."""
Cell = Callable[[Tensor, tuple[Tensor, ...], Weights], tuple[Tensor, ...]]
Stack = Callable[[Tensor, States, Weights], States]
Affine = Callable[[Tensor, Tensor, Tensor], Tensor]


def _factory(cells: Mapping[str, Cell], affine: Affine, *, widens: bool) -> Callable[..., Callable[..., Any]]:
    """Models that score all positions, and give those that may not be seen no weight."""

    def factory(
        config: Config, given: Weights, *, need_weights: bool = False, greedy: Mapping[str, int] | None = None
    ) -> Callable[..., Any]:
        Recurrent.check_config(config)
        Recurrent.check_weights(given, shapes(config))
        weights = {name: tensor.to(Steps.wide(tensor)) if widens else tensor for name, tensor in given.items()}
        step, dtype = _stacked(cells[config["cell"]]), given["w_logits"].dtype
        model = partial(_model, config, weights, dtype, step, affine)
        if greedy is not None:
            known = Recurrent.check_greedy(greedy, config["target_vocab"])
            return source_by_source(lambda *inputs: model(*inputs)[0], known, model if need_weights else None)
        return model if need_weights else lambda *inputs: model(*inputs)[0]

    return factory


def _model(
    config: Config, weights: Weights, dtype: torch.dtype, step: Stack, affine: Affine, *inputs: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """The logits of source, lengths and target, and the attention's weights."""
    source, lengths, target = Recurrent.check_inputs(config, *inputs)
    tops, shares = zip(*_run(config, weights, step, source, lengths, target), strict=True)
    logits = torch.stack([affine(top, weights["w_logits"], weights["b_logits"]) for top in tops], 1)
    return logits.to(dtype), {"attention": torch.stack(shares, 1).to(dtype)}


def _run(
    config: Config, weights: Weights, step: Stack, source: Tensor, lengths: Tensor, target: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """The decoder's top state in each step, and the weights with which it attended, b s."""
    states, top, found = _first(config, weights, len(source)), [], []
    for x in functional.embedding(source, weights["source_embedding"]).unbind(1):
        states = step(x, states, part(weights, "encoder"))
        top.append(states[-1][0])
    memory = torch.stack(top, 1)
    for number, x in enumerate(functional.embedding(target, weights["target_embedding"]).unbind(1)):
        shares = _shares(config, weights, states[-1][0], memory, _seen(config, lengths, number, len(top)))
        context = torch.einsum("bs,bsd->bd", shares, memory)
        states = step(torch.cat([context, x], 1), states, part(weights, "decoder"))
        found.append((states[-1][0], shares))
    return found


def _first(config: Config, weights: Weights, batch: int) -> States:
    zeros = weights["w_logits"].new_zeros(batch, config["hidden"])
    return [(zeros,) * (2 if config["cell"] == "lstm" else 1)] * config["layers"]


def _stacked(cell: Cell) -> Stack:
    def step(x: Tensor, states: States, weights: Weights) -> States:
        after: States = []
        for layer, state in enumerate(states):
            after.append(cell(x, state, part(weights, str(layer))))
            x = after[-1][0]
        return after

    return step


def _seen(config: Config, lengths: Tensor, step: int, length: int) -> Tensor:
    """Which positions step t attends to, b s."""
    positions, window = torch.arange(length), config["window"]
    reach = length + step if window is None else window
    return (positions < lengths[:, None]) & (positions >= step - reach) & (positions <= step + reach)


def _shares(config: Config, weights: Weights, query: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
    if config["score"] == "additive":
        both = torch.cat([query[:, None].expand_as(memory), memory], -1)
        maps = torch.cat([weights["attention.w_query"], weights["attention.w_key"]])
        scores = torch.einsum("bse,e->bs", torch.tanh(both @ maps), weights["attention.w_score"])
    else:
        scale = math.sqrt(query.shape[1]) if config["score"] == "scaled_dot" else 1.0
        scores = torch.einsum("bd,bsd->bs", query / scale, memory)
    return scores.masked_fill(~seen, -math.inf).softmax(-1).nan_to_num(0.0)


def _gru_library(x: Tensor, state: tuple[Tensor, ...], weights: Weights) -> tuple[Tensor, ...]:
    return (torch.gru_cell(x, state[0], *_transposed(weights)),)


def _lstm_library(x: Tensor, state: tuple[Tensor, ...], weights: Weights) -> tuple[Tensor, ...]:
    return torch.lstm_cell(x, list(state), *_transposed(weights))


def _transposed(weights: Weights) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As torch's cells want them."""
    return weights["w_input"].mT, weights["w_hidden"].mT, weights["b_input"], weights["b_hidden"]


def _module(kind: type[nn.GRU] | type[nn.LSTM]) -> Cell:
    """Torch's recurrent module, run for one step."""

    def cell(x: Tensor, state: tuple[Tensor, ...], weights: Weights) -> tuple[Tensor, ...]:
        module = kind(x.shape[1], state[0].shape[1], dtype=x.dtype)
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        module.load_state_dict(dict(zip(names, _transposed(weights), strict=True)))
        before = tuple(each[None].contiguous() for each in state)
        with torch.no_grad():
            _, after = module(x[None], before if kind is nn.LSTM else before[0])
        return tuple(each[0] for each in after) if kind is nn.LSTM else (after[0],)

    return cell


def _gru_fused(x: Tensor, state: tuple[Tensor, ...], weights: Weights) -> tuple[Tensor, ...]:
    """Reset and update are one product of input and state side by side; s moves towards the new state."""
    (s,), width = state, GATES["gru"] - 1
    columns = width * state[0].shape[1]
    both = _both(x, s, {name: tensor[..., :columns] for name, tensor in weights.items()})
    reset, update = torch.sigmoid(both).chunk(2, -1)
    inner = backwards(s, weights["w_hidden"][:, columns:], weights["b_hidden"][columns:])
    new = torch.tanh(
        torch.addcmul(backwards(x, weights["w_input"][:, columns:], weights["b_input"][columns:]), reset, inner)
    )
    return (torch.lerp(new, s, update),)


def _lstm_fused(x: Tensor, state: tuple[Tensor, ...], weights: Weights) -> tuple[Tensor, ...]:
    """All gates are one product; their sigmoid is half a tanh of half."""
    entering, forgetting, new, leaving = _both(x, state[0], weights).chunk(4, -1)
    entering, forgetting, leaving = (0.5 * torch.tanh(0.5 * gate) + 0.5 for gate in (entering, forgetting, leaving))
    m = torch.addcmul(forgetting * state[1], entering, torch.tanh(new))
    return leaving * torch.tanh(m), m


def _both(x: Tensor, s: Tensor, weights: Weights) -> Tensor:
    """The state first, then the input, then both biases as one."""
    rows = torch.cat([weights["w_hidden"], weights["w_input"]])
    return torch.cat([s, x], -1) @ rows + (weights["b_hidden"] + weights["b_input"])


def variants() -> list[Variant]:
    """One model, many cells."""
    library, fused = {"gru": _gru_library, "lstm": _lstm_library}, {"gru": _gru_fused, "lstm": _lstm_fused}
    modules = {"gru": _module(nn.GRU), "lstm": _module(nn.LSTM)}
    return [
        Variant("cells", "torch's gru_cell and lstm_cell", _factory(library, linear, widens=False)),
        Variant("modules", "torch's GRU and LSTM, one step at a time", _factory(modules, linear, widens=True)),
        Variant("fused", "one product for state and input, einsum backwards", _factory(fused, backwards, widens=True)),
    ]
