"""The Transformer in PyTorch's tensor operations, with any implementation of attention as its backend."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite import implementation
from attnsuite.implementations._attention_weights import Recorder
from attnsuite.implementations._greedy import check_greedy, translation, with_weights
from attnsuite.implementations.transformer._checks import check_decoder, check_inputs, check_model

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Attention = Callable[..., Tensor]
Model = Callable[..., Tensor]


@implementation
def transformer(
    config: Config,
    weights: Weights,
    *,
    attention: Attention | None = None,
    need_weights: bool = False,
    greedy: Mapping[str, int] | None = None,
) -> Model:
    """Return model(source, lengths, target) → logits, b t v; without a decoder model(source, lengths) → states, b s d.

    With `need_weights` the model returns a pair: that, and the weights of every attention by name, b h queries keys.
    With `greedy`, the tokens `begin` and `end` and a number of `steps`, it is model(source, lengths) → tokens, b steps.
    With both it returns the tokens and the weights of every step, zeros behind the end.
    Raises ValueError for a config, weights or inputs that do not go together.
    """
    check_model(config, weights)
    attend = attention or softmax_attention
    decode = decode_cached if config.get("decoding") == "cached" else decode_full

    def run(attend: Attention, source: Tensor, lengths: Tensor, target: Tensor | None = None) -> Tensor:
        check_inputs(config, source, lengths, target)
        padded = bool((lengths < source.shape[1]).any())
        within = padding_mask(lengths, source.shape[1]) if padded else None
        states = encode(config, weights, attend, source, within)
        return states if target is None else decode(config, weights, attend, states, within, target)

    def run_with_weights(*inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        recorder = Recorder(attend)
        return run(recorder, *inputs), attention_weights(config, recorder.weights)

    if greedy is not None:
        check_decoder(config)
        check_greedy(greedy, config["target_vocab"])
        translator = partial(translate, config, weights, attend, greedy)
        return with_weights(translator, run_with_weights, greedy) if need_weights else translator
    return run_with_weights if need_weights else partial(run, attend)


def translate(
    config: Config, weights: Weights, attend: Attention, greedy: Mapping[str, int], source: Tensor, lengths: Tensor
) -> Tensor:
    """The translations of the sources, b steps, with a cache where the config says so."""
    check_inputs({**config, "decoder_blocks": 0}, source, lengths, None)  # of an encoder, which reads no target either
    within = padding_mask(lengths, source.shape[1]) if bool((lengths < source.shape[1]).any()) else None
    states = encode(config, weights, attend, source, within)
    if config.get("decoding") == "cached":
        cached = Cached(config, weights, attend, states, within)
        return translation(lambda latest: cached(latest[:, None])[:, 0], greedy, source)
    tokens: list[Tensor] = []

    def step(latest: Tensor) -> Tensor:
        tokens.append(latest)
        return decode_full(config, weights, attend, states, within, torch.stack(tokens, 1))[:, -1]

    return translation(step, greedy, source)


def attention_weights(config: Config, calls: Sequence[Tensor]) -> dict[str, Tensor]:
    """The weights of each attention by name, b h queries keys, from those of all its calls, in their order."""
    encoder = [f"encoder.{number}.attention" for number in range(config["encoder_blocks"])]
    decoder = [
        f"decoder.{number}.{kind}"
        for number in range(config["decoder_blocks"])
        for kind in ("self_attention", "cross_attention")
    ]
    weights = dict(zip(encoder, calls, strict=False))
    for place, name in enumerate(decoder):
        rows = calls[len(encoder) + place :: len(decoder)]
        weights[name] = torch.cat([functional.pad(row, (0, rows[-1].shape[-1] - row.shape[-1])) for row in rows], 2)
    return weights


def padding_mask(lengths: Tensor, length: int) -> Tensor:
    """True for tokens that are not padding, b 1 1 s."""
    return (torch.arange(length, device=lengths.device) < lengths[:, None])[:, None, None]


def encode(config: Config, weights: Weights, attend: Attention, source: Tensor, within: Tensor | None) -> Tensor:
    """The states of the source, b s d."""
    states = _embedded(source, weights["source_embedding"])
    for number in range(config["encoder_blocks"]):
        at = _Block(weights, f"encoder.{number}", config["heads"], attend)
        states = at.norm("norm1", states + at.multi_head("attention", states, states, mask=within))
        states = at.norm("norm2", states + at.feed_forward(states))
    return states


def decode_full(
    config: Config, weights: Weights, attend: Attention, states: Tensor, within: Tensor | None, target: Tensor
) -> Tensor:
    """The logits of all positions at once, b t v."""
    hidden = _embedded(target, weights["target_embedding"])
    for number in range(config["decoder_blocks"]):
        at = _Block(weights, f"decoder.{number}", config["heads"], attend)
        hidden = at.norm("norm1", hidden + at.multi_head("self_attention", hidden, hidden, causal=True))
        hidden = at.norm("norm2", hidden + at.multi_head("cross_attention", hidden, states, mask=within))
        hidden = at.norm("norm3", hidden + at.feed_forward(hidden))
    return hidden @ weights["w_logits"] + weights["b_logits"]


def decode_cached(
    config: Config, weights: Weights, attend: Attention, states: Tensor, within: Tensor | None, target: Tensor
) -> Tensor:
    """The same, position by position."""
    cached = Cached(config, weights, attend, states, within)
    logits = [cached(tokens) for tokens in target.split(1, 1)] if target.shape[1] else []
    return torch.cat(logits, 1) if logits else states.new_empty(len(target), 0, config["target_vocab"])


class Cached:
    """A decoder with a cache of keys and values: those of the source, and those of earlier positions."""

    def __init__(
        self, config: Config, weights: Weights, attend: Attention, states: Tensor, within: Tensor | None
    ) -> None:
        numbers = range(config["decoder_blocks"])
        self.blocks = [_Block(weights, f"decoder.{number}", config["heads"], attend) for number in numbers]
        self.weights, self.within = weights, within
        self.sources = [at.keys_and_values("cross_attention", states) for at in self.blocks]
        self.seen = [at.keys_and_values("self_attention", states[:, :0]) for at in self.blocks]

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of the next position, b 1 v, by its tokens, b 1."""
        hidden = _embedded(tokens, self.weights["target_embedding"], self.seen[0][0].shape[2])
        for number, at in enumerate(self.blocks):
            new = at.keys_and_values("self_attention", hidden)
            seen = self.seen[number] = tuple(torch.cat(pair, 2) for pair in zip(self.seen[number], new, strict=True))
            hidden = at.norm("norm1", hidden + at.mixed("self_attention", hidden, *seen))
            read = at.mixed("cross_attention", hidden, *self.sources[number], mask=self.within)
            hidden = at.norm("norm2", hidden + read)
            hidden = at.norm("norm3", hidden + at.feed_forward(hidden))
        return hidden @ self.weights["w_logits"] + self.weights["b_logits"]


def softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """softmax(query keyᵀ / √p) value, b h l p."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    return scores.softmax(-1) @ value


class _Block:
    """The computations of one block, with its weights."""

    def __init__(self, weights: Weights, name: str, heads: int, attend: Attention) -> None:
        self.weights = {
            tensor.removeprefix(f"{name}."): w for tensor, w in weights.items() if tensor.startswith(f"{name}.")
        }
        self.heads, self.attend = heads, attend

    def norm(self, name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def feed_forward(self, x: Tensor) -> Tensor:
        inner = (x @ self.weights["ffn.w1"] + self.weights["ffn.b1"]).relu()
        return inner @ self.weights["ffn.w2"] + self.weights["ffn.b2"]

    def multi_head(
        self, name: str, x: Tensor, memory: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        return self.mixed(name, x, *self.keys_and_values(name, memory), mask=mask, causal=causal)

    def keys_and_values(self, name: str, memory: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._split(memory @ self.weights[f"{name}.w_{role}"]) for role in ("key", "value"))

    def mixed(
        self, name: str, x: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        query = self._split(x @ self.weights[f"{name}.w_query"])
        options: dict[str, Any] = {"is_causal": True} if causal else {}
        if mask is not None:
            options["attn_mask"] = mask
        mixed = self.attend(query, key, value, **options)
        return mixed.transpose(1, 2).flatten(-2) @ self.weights[f"{name}.w_output"]

    def _split(self, x: Tensor) -> Tensor:
        """b l d → b h l p."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _embedded(tokens: Tensor, table: Tensor, offset: int = 0) -> Tensor:
    """Rows of the table times √d, plus their positions, b l d."""
    width = table.shape[1]
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64, device=tokens.device) / width)
    angles = torch.arange(offset, offset + tokens.shape[1], device=tokens.device)[:, None] * rates
    positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
    return table[tokens] * math.sqrt(width) + positions.to(table.dtype)
