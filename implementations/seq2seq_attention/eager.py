"""The encoder–decoder as batched operations in PyTorch.

Everything that does not depend on the step before is computed for all positions at once: the encoder's input
products, layer by layer, and the keys of the scores. Half types are computed in float32.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._greedy import check_greedy, translation, with_weights
from attnsuite.implementations.seq2seq_attention._checks import check_inputs, check_model

State = tuple[Tensor, ...]  # s, and for an LSTM its memory cell, b d each


@implementation
def seq2seq_attention(
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    *,
    need_weights: bool = False,
    greedy: Mapping[str, int] | None = None,
) -> Callable[..., Any]:
    """Return the model of this config. Raises ValueError if the weights are not those of the config.

    With `need_weights` the model returns a pair: the logits, and the attention weights by their name, b t s. With
    `greedy`, the tokens `begin` and `end` and a number of `steps`, it is model(source, lengths) → tokens, b steps. With
    both it returns the tokens and the weights of every step, zeros behind the end.
    """
    dtype = check_model(config, weights)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    model = _Model(config, {name: tensor.to(wide) for name, tensor in weights.items()}, dtype)
    if greedy is not None:
        check_greedy(greedy, config["target_vocab"])
        translate = partial(model.translate, greedy)
        return with_weights(translate, model.run_with_weights, greedy) if need_weights else translate
    return model.run_with_weights if need_weights else model


class _Model:
    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self.config, self.weights, self.dtype = config, weights, dtype

    def __call__(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return the logits, b t v, for source b s, lengths b and target b t. Raises ValueError for bad input."""
        return self.run(source, lengths, target)[0].to(self.dtype)

    def run_with_weights(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the same, and the attention weights of all steps, b t s."""
        logits, shares = self.run(source, lengths, target)
        rows = torch.stack(shares, 1) if shares else logits.new_empty(len(source), 0, source.shape[1])
        return logits.to(self.dtype), {"attention": rows.to(self.dtype)}

    def translate(self, greedy: Mapping[str, int], source: Tensor, lengths: Tensor) -> Tensor:
        """Return the translations, b steps. Raises ValueError for bad input."""
        check_inputs(self.config, source, lengths, source[:, :0])
        decoder = _Decoder(self, source, lengths)

        def step(latest: Tensor) -> Tensor:
            top, _ = decoder(self.weights["target_embedding"][latest])
            return top @ self.weights["w_logits"] + self.weights["b_logits"]

        return translation(step, greedy, source)

    def run(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The logits, b t v, and the weights of every step, b s each."""
        check_inputs(self.config, source, lengths, target)
        decoder = _Decoder(self, source, lengths)
        tops, shares = [decoder.memory[:, :0]], []
        for embedding in self.weights["target_embedding"][target].unbind(1):
            top, weights = decoder(embedding)
            tops.append(top[:, None])
            shares.append(weights)
        return torch.cat(tops, 1) @ self.weights["w_logits"] + self.weights["b_logits"], shares

    def encode(self, source: Tensor) -> tuple[Tensor, list[State]]:
        """The top layer's states, b s d, and the last state of each layer."""
        x, last = self.weights["source_embedding"][source], []
        for layer in range(self.config["layers"]):
            zeros = x.new_zeros(len(x), self.config["hidden"])
            state: State = (zeros,) if self.config["cell"] == "gru" else (zeros, zeros)
            states = []
            for product in self.product(f"encoder.{layer}", x).unbind(1):
                state = self.cell(f"encoder.{layer}", product, state)
                states.append(state[0])
            x = torch.stack(states, 1)
            last.append(state)
        return x, last

    def weigh(self, query: Tensor, keys: Tensor, visible: Tensor) -> Tensor:
        """The weights of one step, b s; zeros for an item without visible positions."""
        if self.config["score"] == "additive":
            features = ((query @ self.weights["attention.w_query"]).unsqueeze(1) + keys).tanh()
            scores = features @ self.weights["attention.w_score"]
        else:
            scale = 1 / math.sqrt(query.shape[-1]) if self.config["score"] == "scaled_dot" else 1.0
            scores = torch.einsum("bd,bsd->bs", query * scale, keys)
        empty = ~visible.any(-1, keepdim=True)
        return scores.masked_fill(~visible & ~empty, -torch.inf).softmax(-1).masked_fill(empty, 0.0)

    def product(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[f"{name}.w_input"] + self.weights[f"{name}.b_input"]

    def cell(self, name: str, product: Tensor, state: State) -> State:
        hidden = state[0] @ self.weights[f"{name}.w_hidden"] + self.weights[f"{name}.b_hidden"]
        if self.config["cell"] == "lstm":
            entering, forgetting, new, leaving = (product + hidden).chunk(4, -1)
            memory = forgetting.sigmoid() * state[1] + entering.sigmoid() * new.tanh()
            return leaving.sigmoid() * memory.tanh(), memory
        width = state[0].shape[-1]
        reset, update = (product + hidden)[:, : 2 * width].sigmoid().chunk(2, -1)
        new = (product[:, 2 * width :] + reset * hidden[:, 2 * width :]).tanh()
        return (new + update * (state[0] - new),)


class _Decoder:
    """The steps of one call, one after the other, with the states between them."""

    def __init__(self, model: _Model, source: Tensor, lengths: Tensor) -> None:
        self.model, self.number = model, 0
        self.memory, self.states = model.encode(source)
        additive = model.config["score"] == "additive"
        self.keys = self.memory @ model.weights["attention.w_key"] if additive else self.memory
        self.positions = torch.arange(source.shape[1], device=source.device)
        self.allowed = self.positions < lengths[:, None]

    def __call__(self, embedding: Tensor) -> tuple[Tensor, Tensor]:
        """The top layer's state after one step, b d, and the weights with which it has attended, b s."""
        visible, window, states = self.allowed, self.model.config["window"], self.states
        if window is not None:
            visible = visible & ((self.positions - self.number).abs() <= window)
        weights = self.model.weigh(states[-1][0], self.keys, visible)
        x = torch.cat([torch.einsum("bs,bsd->bd", weights, self.memory), embedding], -1)
        for layer, state in enumerate(states):
            name = f"decoder.{layer}"
            states[layer] = self.model.cell(name, self.model.product(name, x), state)
            x = states[layer][0]
        self.number += 1
        return x, weights
