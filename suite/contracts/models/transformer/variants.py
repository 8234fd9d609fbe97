"""Correct Transformers in foreign styles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnsuite.cases import Variant
from attnsuite.contracts.models.eager import part
from attnsuite.contracts.models.foreign import STYLES, Style, source_by_source
from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.contracts.models.transformer.mutants.staged import Transformer

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Shown = dict[str, Tensor]
"""The weights of attentions by name, b h l s."""
Run = Callable[[Config, Weights, Shown, Tensor, Tensor, Tensor | None], Tensor]
Attentions = Mapping[str, tuple[Tensor | None, Tensor]]
"""By name, in order: the memory, or None for x itself, and who is allowed."""
ENCODER = {"attention": "self_attn"}
DECODER = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
"""What torch's layers call their attentions, by our names."""
Factory = Callable[..., Callable[..., Any]]


def _factory(run: Run) -> Factory:
    """Models that check what they are given, and decode a target as a whole whatever the config says."""

    def factory(
        config: Config, weights: Weights, *, need_weights: bool = False, greedy: Mapping[str, int] | None = None
    ) -> Callable[..., Any]:
        Transformer.check_config(config)
        Transformer.check_weights(weights, shapes(config))
        dtype = weights["source_embedding"].dtype

        def watched(source: Tensor, lengths: Tensor, target: Tensor | None = None) -> tuple[Tensor, Shown]:
            Transformer.check_inputs(config, source, lengths, target)
            shown: Shown = {}
            output = run(config, weights, shown, source, lengths, target).to(dtype)
            return output, {name: each.to(dtype) for name, each in shown.items()}

        def model(*inputs: Tensor) -> Tensor:
            return watched(*inputs)[0]

        if greedy is None:
            return watched if need_weights else model
        known = Transformer.check_greedy(greedy, config["target_vocab"])
        return source_by_source(model, known, watched if need_weights else None)

    return factory


def _styled(
    style: Style, config: Config, given: Weights, shown: Shown, source: Tensor, lengths: Tensor, target: Tensor | None
) -> Tensor:
    weights, heads = style.converted(given), config["heads"]
    within = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None]
    states = _embedded(source, weights["source_embedding"])
    for number in range(config["encoder_blocks"]):
        name = f"encoder.{number}"
        states = _block(style, weights, name, shown, heads, states, {"attention": (None, within)})
    if target is None:
        return states
    hidden, so_far = _embedded(target, weights["target_embedding"]), _so_far(target)[None, None]
    attentions = {"self_attention": (None, so_far), "cross_attention": (states, within)}
    for number in range(config["decoder_blocks"]):
        hidden = _block(style, weights, f"decoder.{number}", shown, heads, hidden, attentions)
    return style.affine(hidden, weights["w_logits"], weights["b_logits"])


def _so_far(target: Tensor) -> Tensor:
    """Which positions of the target each one attends to, t t."""
    return torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()


def _block(
    style: Style, given: Weights, block: str, shown: Shown, heads: int, x: Tensor, attentions: Attentions
) -> Tensor:
    """Attentions one after the other, to x itself where there is no memory, and the network."""
    weights = part(given, block)
    for number, (name, (memory, allowed)) in enumerate(attentions.items(), 1):
        attended, show = style.heads(x, x if memory is None else memory, part(weights, name), heads, allowed)
        shown[f"{block}.{name}"] = show()
        x = style.norm(attended + x, part(weights, f"norm{number}"))
    inner = style.feed_forward(x, part(weights, "ffn"), torch.relu)
    return style.norm(inner + x, part(weights, f"norm{len(attentions) + 1}"))


def _embedded(tokens: Tensor, table: Tensor) -> Tensor:
    """Positions by exponentials of logarithms, in the table's dtype or float32, and added one column after another."""
    width = table.shape[1]
    found = nn.functional.embedding(tokens, table) * math.sqrt(width)
    precise = torch.promote_types(table.dtype, torch.float32)
    rates = torch.exp(torch.arange(0, width, 2, dtype=precise) * (-math.log(10000.0) / width))
    angles = torch.outer(torch.arange(tokens.shape[1], dtype=precise), rates)
    found[..., 0::2] += angles.sin().to(table.dtype)
    found[..., 1::2] += angles.cos().to(table.dtype)
    return found


def _modules(
    config: Config, weights: Weights, shown: Shown, source: Tensor, lengths: Tensor, target: Tensor | None
) -> Tensor:
    """Torch's TransformerEncoderLayer and TransformerDecoderLayer, whose attentions' biases are zero."""
    beyond = torch.arange(source.shape[1]) >= lengths[:, None]
    states = _embedded(source, weights["source_embedding"])
    for number in range(config["encoder_blocks"]):
        layer = _layer(nn.TransformerEncoderLayer, config, weights, f"encoder.{number}", ENCODER, shown)
        states = layer(states, src_key_padding_mask=beyond)
    if target is None:
        return states
    hidden = _embedded(target, weights["target_embedding"])
    for number in range(config["decoder_blocks"]):
        layer = _layer(nn.TransformerDecoderLayer, config, weights, f"decoder.{number}", DECODER, shown)
        hidden = layer(hidden, states, tgt_mask=~_so_far(target), memory_key_padding_mask=beyond)
    return nn.functional.linear(hidden, weights["w_logits"].mT, weights["b_logits"])


def _layer(
    kind: Any, config: Config, given: Weights, name: str, attentions: Mapping[str, str], shown: Shown
) -> nn.Module:
    """Torch's layer with a block's weights; it is left in training, whose path needs no kernel of its own."""
    block = part(given, name)
    dtype = block["ffn.w1"].dtype
    layer: nn.Module = kind(config["width"], config["heads"], config["ffn_width"], 0.0, batch_first=True, dtype=dtype)
    state = {name: torch.zeros_like(tensor) for name, tensor in layer.state_dict().items()}
    for ours, theirs in attentions.items():
        weights = part(block, ours)
        state[f"{theirs}.in_proj_weight"] = torch.cat([weights[f"w_{role}"].mT for role in ("query", "key", "value")])
        state[f"{theirs}.out_proj.weight"] = weights["w_output"].mT
    for number in (1, 2):
        state[f"linear{number}.weight"] = block[f"ffn.w{number}"].mT
        state[f"linear{number}.bias"] = block[f"ffn.b{number}"]
    state |= {name: tensor for name, tensor in block.items() if name.startswith("norm")}
    layer.load_state_dict(state)
    for ours, theirs in attentions.items():
        _watch(getattr(layer, theirs), f"{name}.{ours}", shown)
    return layer.requires_grad_(requires_grad=False)


def _watch(attention: Any, name: str, shown: Shown) -> None:
    """Once it has answered, torch's attention is asked again, for the weights of its heads."""

    def again(module: Any, given: tuple[Tensor, ...], named: dict[str, Any], answer: Any) -> None:
        options = {**named, "need_weights": True, "average_attn_weights": False}
        shown[name] = attention.forward(*given, **options)[1]

    attention.register_forward_hook(again, with_kwargs=True)


def variants() -> list[Variant]:
    """One model, many styles."""
    return [
        *(
            Variant(name, f"blocks in the style {name}", _factory(partial(_styled, style)))
            for name, style in STYLES.items()
        ),
        Variant("modules", "torch's TransformerEncoderLayer and TransformerDecoderLayer", _factory(_modules)),
    ]
