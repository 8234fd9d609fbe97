"""The Transformer exported to ONNX and run by onnxruntime.

A graph depends on the config and the dtype alone: it is exported once, with the weights as inputs, and becomes a model
when a factory's weights are made its constants. Attention is one operator from opset 23 on, and many before. Cached
decoding has two graphs: one reads the source, the other adds tokens to the cache.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnsuite import implementation
from attnsuite.implementations import _export
from attnsuite.implementations._export import Config, Exports, Model, Part, PartModule, Run, Weights
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
"""The documents' English–French translator; its vocabulary is not inputs."""
PARTS = {
    "full": "source, lengths and target in, logits out",
    "encoder": "source and lengths in, the keys and values that every block of the decoder attends to out",
    "decoder": "some tokens and the cache of earlier ones in, their logits and the new cache out",
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


@implementation(variant="int8", requires=["onnx", "onnxruntime", "onnxscript"], conventions={"accuracy": "measured"})
def int8(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """With matrix products by weights rounded to 8 bits: no limit of its errors is promised, they are measured."""
    return _model(config, weights, int8.exports, greedy)


def _model(config: Config, weights: Weights, exports: Exports, greedy: Mapping[str, int] | None) -> Model:
    """Make the model. Raises ValueError for a config, weights or options that do not fit together."""
    check_model(config, weights)
    if greedy is not None:
        check_decoder(config)
        check_greedy(greedy, config["target_vocab"])
    parts = ["encoder", "decoder"] if _is_cached(config) else ["full"]
    key = (tuple(sorted(config.items())), weights["source_embedding"].dtype, exports.opset)
    device, runs, making = weights["source_embedding"].device, {}, dict[str, float]()
    for part in parts:
        runs[part], took = exports.opened(_graph(*key, part), weights, device)
        making = {name: making.get(name, 0.0) + number for name, number in took.items()}
    model = assemble(config, weights, runs) if greedy is None else _translating(config, weights, runs, greedy)
    model.making = making  # type: ignore[attr-defined]
    return model


def assemble(config: Config, weights: Weights, runs: Mapping[str, Run]) -> Model:
    """The model that runs these parts."""
    empty = weights["source_embedding"]

    def full(source: Tensor, lengths: Tensor, target: Tensor | None = None) -> Tensor:
        check_inputs(config, source, lengths, target)
        if target is not None and not target.numel():  # onnxruntime reshapes no empty target
            return empty.new_empty(*target.shape, config["target_vocab"])
        inputs = {"source": source, "lengths": lengths, "target": target}
        (output,) = runs["full"](**{name: tensor for name, tensor in inputs.items() if tensor is not None})
        return output

    def cached(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        check_inputs(config, source, lengths, target)
        logits = [empty.new_empty(len(target), 0, config["target_vocab"])]
        if target.numel():
            decoder = _Cached(config, empty, parts, source, lengths)
            logits += [decoder(token) for token in target.split(1, 1)]
        return torch.cat(logits, 1)

    parts = {part: runs.get(part) or _part(config, empty.dtype, part).run(weights) for part in _parts(config, runs)}
    return full if "full" in runs else cached


def _parts(config: Config, runs: Mapping[str, Run]) -> Sequence[str]:
    return () if "full" in runs else ("encoder", "decoder")


def _translating(config: Config, weights: Weights, runs: Mapping[str, Run], greedy: Mapping[str, int]) -> Model:
    """The model that translates, with a cache where its graphs have one."""
    if "full" in runs:
        return by_whole_targets(assemble(config, weights, runs), greedy)

    def translate(source: Tensor, lengths: Tensor) -> Tensor:
        check_inputs({**config, "decoder_blocks": 0}, source, lengths, None)  # an encoder's inputs: it reads no target
        decoder = _Cached(config, weights["source_embedding"], runs, source, lengths)
        return translation(lambda latest: decoder(latest[:, None])[:, 0], greedy, source)

    return translate


class _Cached:
    """A decoder that runs graphs, with a cache of keys and values: those of the source, and of earlier tokens."""

    def __init__(self, config: Config, like: Tensor, runs: Mapping[str, Run], source: Tensor, lengths: Tensor) -> None:
        states = runs["encoder"](source=source, lengths=lengths)
        self.decoder, self.lengths = runs["decoder"], lengths
        self.sources = dict(zip(_cache(config, "source"), states, strict=True))
        nothing = like.new_empty(len(source), config["heads"], 0, config["width"] // config["heads"])
        self.past = dict.fromkeys(_cache(config, "past"), nothing)

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of further tokens, b t v."""
        logits, *present = self.decoder(target=tokens, lengths=self.lengths, **self.sources, **self.past)
        self.past = dict(zip(self.past, present, strict=True))
        return logits


def _is_cached(config: Config) -> bool:
    return config.get("decoding") == "cached" and config["decoder_blocks"] > 0


def _cache(config: Config, what: str) -> list[str]:
    """The names of keys and values of every block of the decoder: past, present, or of the source."""
    return [f"{what}_{role}.{block}" for block in range(config["decoder_blocks"]) for role in ("key", "value")]


class _Module(PartModule):
    shapes = staticmethod(shapes)


class _Full(_Module):
    """The eager model with PyTorch's own attention."""

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        source, target = inputs["source"], inputs.get("target")
        within = padding_mask(inputs["lengths"], source.shape[1])
        states = encode(self.config, weights, _attention, source, within)
        if target is None:
            return (states,)
        return (decode_full(self.config, weights, _attention, states, within, target),)


class _Encoder(_Module):
    """The source, read once: the keys and values to which the blocks of the decoder attend."""

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        source = inputs["source"]
        within = padding_mask(inputs["lengths"], source.shape[1])
        states, heads = encode(self.config, weights, _attention, source, within), self.config["heads"]
        blocks = (
            eager._Block(weights, f"decoder.{n}", heads, _attention) for n in range(self.config["decoder_blocks"])
        )
        return tuple(tensor for at in blocks for tensor in at.keys_and_values("cross_attention", states))


class _Decoder(_Module):
    """Further tokens: each attends to the cached ones before it, and to itself."""

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        target, past, present = inputs["target"], inputs["past_key.0"].shape[2], []
        within = padding_mask(inputs["lengths"], inputs["source_key.0"].shape[2])
        every = torch.arange(past + target.shape[1], device=target.device)
        visible = (every <= every[past:, None])[None, None]  # 1 1 t, t and those before
        hidden = eager._embedded(target, weights["target_embedding"], past)
        for number in range(self.config["decoder_blocks"]):
            at = eager._Block(weights, f"decoder.{number}", self.config["heads"], _attention)
            new = zip(("key", "value"), at.keys_and_values("self_attention", hidden), strict=True)
            cache = [torch.cat([inputs[f"past_{role}.{number}"], tensor], 2) for role, tensor in new]
            source = [inputs[f"source_{role}.{number}"] for role in ("key", "value")]
            hidden = at.norm("norm1", hidden + at.mixed("self_attention", hidden, *cache, mask=visible))
            hidden = at.norm("norm2", hidden + at.mixed("cross_attention", hidden, *source, mask=within))
            hidden = at.norm("norm3", hidden + at.feed_forward(hidden))
            present += cache
        return (hidden @ weights["w_logits"] + weights["b_logits"], *present)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """PyTorch's attention, with the mask expanded over queries: onnxruntime's operator does not broadcast them."""
    if attn_mask is not None:
        attn_mask = attn_mask.expand(-1, -1, query.shape[2], -1)
    return scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal)


def _part(config: Config, dtype: torch.dtype, part: str) -> Part:
    """A part of the model. Raises ValueError for a decoder's part of a model without a decoder."""
    blocks, heads, width = config["decoder_blocks"], config["heads"], config["width"] // config["heads"]
    if part != "full" and not blocks:
        raise ValueError(f"the part {part} belongs to a decoder, and decoder_blocks is 0: the only part is full")
    tokens, lengths = torch.zeros(3, 7, dtype=torch.int64), torch.tensor([7, 4, 2])
    axes: dict[str, Sequence[str | int]] = {"source": ("batch", "source_length"), "lengths": ("batch",)}
    axes["target"] = ("batch", "target_length")
    axes["logits"] = (*axes["target"], config.get("target_vocab", 0))
    axes["states"] = (*axes["source"], config["width"])
    for what in ("source", "past", "present"):
        axes |= dict.fromkeys(_cache(config, what), ("batch", heads, f"{what}_length", width))
    target = {"target": torch.zeros(3, 5, dtype=torch.int64)} if blocks else {}
    inputs: dict[str, Tensor] = {"source": tokens, "lengths": lengths}
    if part == "full":
        outputs, module = ["logits" if blocks else "states"], _Full
        inputs |= target
    elif part == "encoder":
        outputs, module = _cache(config, "source"), _Encoder
    else:
        outputs, module = ["logits", *_cache(config, "present")], _Decoder
        inputs = {**target, "lengths": lengths}
        for what, length in (("source", 7), ("past", 4)):  # a tensor each: the exporter compares inputs by identity
            inputs |= {name: torch.zeros(3, heads, length, width, dtype=dtype) for name in _cache(config, what)}
    return Part(module(config, inputs), inputs, outputs, axes)


@_export.cached
def _graph(config: tuple[tuple[str, Any], ...], dtype: torch.dtype, opset: int, part: str = "full") -> _export.Graph:
    """The graph with the part's inputs and the weights as inputs, all sizes of inputs dynamic."""
    return opset18.exports.graph(dict(config), dtype, opset, part)


def _exports(opset: int, quantised: bool = False) -> Exports:
    return Exports(TRANSLATOR, check_config, shapes, PARTS, _part, assemble, opset, quantised)


opset18.exports, opset23.exports, int8.exports = _exports(18), _exports(23), _exports(18, quantised=True)
