"""The Transformer exported to ONNX and run by onnxruntime.

A graph depends on the config and the dtype alone: it is exported once, with the weights as inputs, and becomes a model
when a factory's weights are made its constants. Attention is one operator from opset 23 on, and many before. Cached
decoding has two graphs, one that reads the source and one that adds tokens to what is kept of those before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from attnsuite import implementation
from attnsuite.implementations import _export
from attnsuite.implementations._export import Config, Exports, Model, Part, Run, Weights
from attnsuite.implementations._greedy import by_whole_targets, check_greedy, translation
from attnsuite.implementations.transformer import eager
from attnsuite.implementations.transformer._checks import check_config, check_decoder, check_inputs, check_model, shapes
from attnsuite.implementations.transformer.eager import decode_full, encode, padding_mask

TRANSLATOR = {
    "source_vocab": 200,
    "target_vocab": 200,
    "width": 256,
    "heads": 4,
    "ffn_width": 64,
    "encoder_blocks": 2,
    "decoder_blocks": 2,
    "decoding": "full",
}
"""The documents' English–French translator; they do not say how many words it knows."""
PARTS = {
    "full": "source, lengths and target in, logits out",
    "encoder": "source and lengths in, the keys and values that every block of the decoder attends to out",
    "decoder": "some tokens and what is kept of those before in, their logits and what is then kept out",
}
"""The graphs of a Transformer. Encoder and decoder together are its cached decoding."""


@implementation(
    variant="opset18",
    requires=["onnx", "onnxruntime", "onnxscript"],
    compiles="an ONNX graph for each config",
    lacks={
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
    },
)
def opset18(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """With attention as many operators."""
    return _model(config, weights, opset18.exports, greedy)


@implementation(
    variant="opset23",
    requires=["onnx", "onnxruntime", "onnxscript"],
    compiles="an ONNX graph for each config",
    lacks={
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
    },
)
def opset23(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """With attention as the one operator `Attention`."""
    return _model(config, weights, opset23.exports, greedy)


@implementation(
    variant="int8",
    requires=["onnx", "onnxruntime", "onnxscript"],
    conventions={"accuracy": "measured"},
)
def int8(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """With matrix products by weights rounded to 8 bits: no limit of its errors is promised, they are measured."""
    return _model(config, weights, int8.exports, greedy)


def _model(config: Config, weights: Weights, exports: Exports, greedy: Mapping[str, int] | None) -> Model:
    """Make the model, of logits or of translations. Raises ValueError for what does not go together."""
    check_model(config, weights)
    if greedy is not None:
        check_decoder(config)
        check_greedy(greedy, config["target_vocab"])
    parts = ["encoder", "decoder"] if _is_cached(config) else ["full"]
    given = (tuple(sorted(config.items())), weights["source_embedding"].dtype, exports.opset)
    device, runs, making = weights["source_embedding"].device, {}, dict[str, float]()
    for part in parts:
        runs[part], took = exports.opened(_graph(*given, part), weights, device)
        making = {name: making.get(name, 0.0) + number for name, number in took.items()}
    model = answering(config, weights, runs) if greedy is None else _translating(config, weights, runs, greedy)
    model.making = making  # type: ignore[attr-defined]
    return model


def answering(config: Config, weights: Weights, runs: Mapping[str, Run]) -> Model:
    """The model whose parts answer by running graphs."""
    empty = weights["source_embedding"]

    def full(source: Tensor, lengths: Tensor, target: Tensor | None = None) -> Tensor:
        check_inputs(config, source, lengths, target)
        if target is not None and not target.numel():  # onnxruntime reshapes no empty target
            return empty.new_empty(*target.shape, config["target_vocab"])
        inputs = {"source": source, "lengths": lengths, "target": target}
        (output,) = runs["full"](**{name: each for name, each in inputs.items() if each is not None})
        return output

    def cached(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        check_inputs(config, source, lengths, target)
        logits = [empty.new_empty(len(target), 0, config["target_vocab"])]
        if target.numel():
            decoder = _Cached(config, empty, asked, source, lengths)
            logits += [decoder(token) for token in target.split(1, 1)]
        return torch.cat(logits, 1)

    asked = {part: runs.get(part) or _part(config, empty.dtype, part).run(weights) for part in _parts(config, runs)}
    return full if "full" in runs else cached


def _parts(config: Config, runs: Mapping[str, Run]) -> Sequence[str]:
    return () if "full" in runs else ("encoder", "decoder")


def _translating(config: Config, weights: Weights, runs: Mapping[str, Run], greedy: Mapping[str, int]) -> Model:
    """The model that translates, with a cache where its graphs have one."""
    if "full" in runs:
        return by_whole_targets(answering(config, weights, runs), greedy)

    def translate(source: Tensor, lengths: Tensor) -> Tensor:
        check_inputs({**config, "decoder_blocks": 0}, source, lengths, None)  # of an encoder, which reads no target
        decoder = _Cached(config, weights["source_embedding"], runs, source, lengths)
        return translation(lambda latest: decoder(latest[:, None])[:, 0], greedy, source)

    return translate


class _Cached:
    """A decoder that runs graphs, and keeps keys and values: those of the source, and of the tokens before."""

    def __init__(self, config: Config, like: Tensor, runs: Mapping[str, Run], source: Tensor, lengths: Tensor) -> None:
        found = runs["encoder"](source=source, lengths=lengths)
        self.decoder, self.lengths = runs["decoder"], lengths
        self.sources = dict(zip(_kept(config, "source"), found, strict=True))
        nothing = like.new_empty(len(source), config["heads"], 0, config["width"] // config["heads"])
        self.past = dict.fromkeys(_kept(config, "past"), nothing)

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of some tokens more, b t v."""
        logits, *present = self.decoder(target=tokens, lengths=self.lengths, **self.sources, **self.past)
        self.past = dict(zip(self.past, present, strict=True))
        return logits


def _is_cached(config: Config) -> bool:
    return config.get("decoding") == "cached" and config["decoder_blocks"] > 0


def _kept(config: Config, what: str) -> list[str]:
    """The names of keys and values of every block of the decoder: past, present, or of the source."""
    return [f"{what}_{role}.{block}" for block in range(config["decoder_blocks"]) for role in ("key", "value")]


class _Module(nn.Module):
    """What the parts have in common: inputs and weights come as lists."""

    def __init__(self, config: Config, inputs: Sequence[str]) -> None:
        super().__init__()
        self.config, self.inputs, self.names = config, list(inputs), sorted(shapes(config))

    def forward(self, inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
        named = dict(zip(self.names, weights, strict=True))
        return self.outputs(named, **dict(zip(self.inputs, inputs, strict=True)))

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError


class _Full(_Module):
    """The eager model with PyTorch's own attention."""

    def outputs(self, weights: Weights, **given: Tensor) -> tuple[Tensor, ...]:
        source, target = given["source"], given.get("target")
        within = padding_mask(given["lengths"], source.shape[1])
        states = encode(self.config, weights, _attention, source, within)
        if target is None:
            return (states,)
        return (decode_full(self.config, weights, _attention, states, within, target),)


class _Encoder(_Module):
    """The source, read once: what the blocks of the decoder attend to."""

    def outputs(self, weights: Weights, **given: Tensor) -> tuple[Tensor, ...]:
        source = given["source"]
        within = padding_mask(given["lengths"], source.shape[1])
        states, heads = encode(self.config, weights, _attention, source, within), self.config["heads"]
        blocks = (
            eager._Block(weights, f"decoder.{n}", heads, _attention) for n in range(self.config["decoder_blocks"])
        )
        return tuple(each for at in blocks for each in at.keys_and_values("cross_attention", states))


class _Decoder(_Module):
    """Some tokens more: each sees those before it, of which keys and values are kept, and itself."""

    def outputs(self, weights: Weights, **given: Tensor) -> tuple[Tensor, ...]:
        target, past, present = given["target"], given["past_key.0"].shape[2], []
        within = padding_mask(given["lengths"], given["source_key.0"].shape[2])
        every = torch.arange(past + target.shape[1], device=target.device)
        seen = (every <= every[past:, None])[None, None]  # 1 1 t, t and those before
        hidden = eager._embedded(target, weights["target_embedding"], past)
        for number in range(self.config["decoder_blocks"]):
            at = eager._Block(weights, f"decoder.{number}", self.config["heads"], _attention)
            new = zip(("key", "value"), at.keys_and_values("self_attention", hidden), strict=True)
            kept = [torch.cat([given[f"past_{role}.{number}"], each], 2) for role, each in new]
            source = [given[f"source_{role}.{number}"] for role in ("key", "value")]
            hidden = at.norm("norm1", hidden + at.mixed("self_attention", hidden, *kept, mask=seen))
            hidden = at.norm("norm2", hidden + at.mixed("cross_attention", hidden, *source, mask=within))
            hidden = at.norm("norm3", hidden + at.feed_forward(hidden))
            present += kept
        return (hidden @ weights["w_logits"] + weights["b_logits"], *present)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """PyTorch's attention, with the mask expanded over queries: onnxruntime's operator does not broadcast them."""
    if attn_mask is not None:
        attn_mask = attn_mask.expand(-1, -1, query.shape[2], -1)
    return scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal)


def _part(config: Config, dtype: torch.dtype, part: str) -> Part:
    """What of the model becomes a graph. Raises ValueError for a part of a decoder where there is none."""
    blocks, heads, width = config["decoder_blocks"], config["heads"], config["width"] // config["heads"]
    if part != "full" and not blocks:
        raise ValueError(f"the part {part} belongs to a decoder, and decoder_blocks is 0: there is full alone")
    tokens, lengths = torch.zeros(3, 7, dtype=torch.int64), torch.tensor([7, 4, 2])
    axes: dict[str, Sequence[str | int]] = {"source": ("batch", "source_length"), "lengths": ("batch",)}
    axes["target"] = ("batch", "target_length")
    axes["logits"] = (*axes["target"], config.get("target_vocab", 0))
    axes["states"] = (*axes["source"], config["width"])
    for what in ("source", "past", "present"):
        axes |= dict.fromkeys(_kept(config, what), ("batch", heads, f"{what}_length", width))
    target = {"target": torch.zeros(3, 5, dtype=torch.int64)} if blocks else {}
    given: dict[str, Tensor] = {"source": tokens, "lengths": lengths}
    if part == "full":
        outputs, module = ["logits" if blocks else "states"], _Full
        given |= target
    elif part == "encoder":
        outputs, module = _kept(config, "source"), _Encoder
    else:
        outputs, module = ["logits", *_kept(config, "present")], _Decoder
        given = {**target, "lengths": lengths}
        for what, length in (("source", 7), ("past", 4)):  # a tensor each: the exporter takes one for one input
            given |= {name: torch.zeros(3, heads, length, width, dtype=dtype) for name in _kept(config, what)}
    return Part(module(config, given), given, outputs, axes)


@_export.kept
def _graph(config: tuple[tuple[str, Any], ...], dtype: torch.dtype, opset: int, part: str = "full") -> _export.Graph:
    """The graph with the part's inputs and the weights as inputs, all sizes of inputs dynamic."""
    return opset18.exports.graph(dict(config), dtype, opset, part)


def _exports(opset: int, quantised: bool = False) -> Exports:
    return Exports(TRANSLATOR, check_config, shapes, PARTS, _part, answering, opset, quantised)


opset18.exports, opset23.exports, int8.exports = _exports(18), _exports(23), _exports(18, quantised=True)
