"""The Transformer of torch.nn: its encoder and decoder layers, with weights converted."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnsuite import implementation
from attnsuite.implementations._attention_weights import with_attention_weights
from attnsuite.implementations._greedy import by_whole_targets, check_greedy, with_weights
from attnsuite.implementations.transformer._checks import check_decoder, check_inputs, check_model

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]


@implementation(lacks={"cached": "torch.nn.TransformerDecoderLayer keeps no cache"})
def transformer(
    config: Config, weights: Weights, *, need_weights: bool = False, greedy: Mapping[str, int] | None = None
) -> Callable[..., Any]:
    """Return model(source, lengths, target) → logits, b t v; without a decoder model(source, lengths) → states, b s d.

    With `need_weights` the model returns a pair: that, and the weights of every attention by name, b h queries keys.
    With `greedy`, the tokens `begin` and `end` and a number of `steps`, it is model(source, lengths) → tokens, b steps.
    With both it returns the tokens and the weights of every step, zeros behind the end.
    Raises ValueError for a config, weights or inputs that do not go together.
    """
    check_model(config, weights)
    if config.get("decoding") == "cached":
        raise NotImplementedError("torch.nn.TransformerDecoderLayer keeps no cache")
    model = _Transformer(config, weights).eval()
    if greedy is not None:
        check_decoder(config)
        check_greedy(greedy, config["target_vocab"])
        translate = by_whole_targets(model, greedy)
        if not need_weights:
            return translate
        return with_weights(translate, with_attention_weights(model, model.attentions()), greedy)
    return with_attention_weights(model, model.attentions()) if need_weights else model


class _Transformer(nn.Module):
    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__()
        self.config, self.weights = config, weights
        self.encoder = [_converted(config, weights, f"encoder.{i}") for i in range(config["encoder_blocks"])]
        self.decoder = [_converted(config, weights, f"decoder.{i}") for i in range(config["decoder_blocks"])]
        for layer in (*self.encoder, *self.decoder):
            layer.eval().requires_grad_(False)

    def attentions(self) -> dict[str, nn.Module]:
        """The modules that attend, by name."""
        modules = {f"encoder.{number}.attention": layer.self_attn for number, layer in enumerate(self.encoder)}
        for number, layer in enumerate(self.decoder):
            modules[f"decoder.{number}.self_attention"] = layer.self_attn
            modules[f"decoder.{number}.cross_attention"] = layer.multihead_attn
        return modules

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor | None = None) -> Tensor:
        check_inputs(self.config, source, lengths, target)
        if target is not None and not target.numel():  # torch.nn reshapes no empty batch
            return self.weights["b_logits"].new_empty(*target.shape, self.config["target_vocab"])
        padding = torch.arange(source.shape[1], device=source.device) >= lengths[:, None]  # True means not attended to
        states = self._embedded(source, "source_embedding")
        for layer in self.encoder:
            states = layer(states, src_key_padding_mask=padding)
        if target is None:
            return states
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device).triu(1)
        hidden = self._embedded(target, "target_embedding")
        for layer in self.decoder:
            hidden = layer(hidden, states, tgt_mask=future, memory_key_padding_mask=padding)
        return nn.functional.linear(hidden, self.weights["w_logits"].T, self.weights["b_logits"])

    def _embedded(self, tokens: Tensor, name: str) -> Tensor:
        rows = nn.functional.embedding(tokens, self.weights[name]) * math.sqrt(self.config["width"])
        position = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float64)[:, None]
        column = torch.arange(self.config["width"], device=tokens.device, dtype=torch.float64)
        angle = position * torch.exp(-math.log(10000) * (column - column % 2) / self.config["width"])
        return rows + torch.where(column % 2 == 0, angle.sin(), angle.cos()).to(rows.dtype)


def _converted(config: Config, weights: Weights, block: str) -> nn.Module:
    """One layer with the block's weights; torch.nn's are transposed, its attention's biases become zero."""
    own = {name.removeprefix(f"{block}."): tensor for name, tensor in weights.items() if name.startswith(f"{block}.")}
    dtype, device = own["ffn.w1"].dtype, own["ffn.w1"].device
    kind = nn.TransformerEncoderLayer if block.startswith("encoder") else nn.TransformerDecoderLayer
    layer: nn.Module = kind(
        config["width"], config["heads"], config["ffn_width"], 0.0, batch_first=True, dtype=dtype, device=device
    )
    state = {"linear1.weight": own["ffn.w1"].T, "linear1.bias": own["ffn.b1"]}
    state |= {"linear2.weight": own["ffn.w2"].T, "linear2.bias": own["ffn.b2"]}
    state |= {name: tensor for name, tensor in own.items() if name.startswith("norm")}
    attentions = {"attention": "self_attn", "self_attention": "self_attn", "cross_attention": "multihead_attn"}
    for ours, theirs in attentions.items():
        if f"{ours}.w_query" in own:
            roles = [own[f"{ours}.w_{role}"].T for role in ("query", "key", "value")]
            state |= {
                f"{theirs}.in_proj_weight": torch.cat(roles),
                f"{theirs}.out_proj.weight": own[f"{ours}.w_output"].T,
            }
            state |= {f"{theirs}.in_proj_bias": torch.zeros(3 * config["width"], dtype=dtype, device=device)}
            state |= {f"{theirs}.out_proj.bias": torch.zeros(config["width"], dtype=dtype, device=device)}
    layer.load_state_dict(state)
    return layer
