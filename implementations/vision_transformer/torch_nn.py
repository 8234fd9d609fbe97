"""The Vision Transformer of torch.nn: a convolution for the patches, and its encoder layers with weights converted."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnsuite import implementation
from attnsuite.implementations._attention_weights import with_attention_weights
from attnsuite.implementations.vision_transformer._checks import check_images, check_model

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]


@implementation
def vision_transformer(config: Config, weights: Weights, *, need_weights: bool = False) -> Callable[[Tensor], Any]:
    """Return model(images) → logits, b k; without classes the states of all positions, b n d.

    With `need_weights` the model returns a pair: that, and the weights of every attention by name, b h n n.
    Raises ValueError for a config, weights or images that do not go together.
    """
    check_model(config, weights)
    model = _VisionTransformer(config, weights).eval().requires_grad_(False)
    attentions = {f"blocks.{number}.attention": block.self_attn for number, block in enumerate(model.blocks)}
    return with_attention_weights(model, attentions) if need_weights else model


class _VisionTransformer(nn.Module):
    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__()
        self.config, self.weights = config, weights
        width, side = config["width"], config["patch"]
        like = {"dtype": weights["w_patch"].dtype, "device": weights["w_patch"].device}
        self.patches = nn.Conv2d(config["channels"], width, side, stride=side, **like)
        kernels = weights["w_patch"].T.reshape(width, config["channels"], side, side)
        self.patches.load_state_dict({"weight": kernels, "bias": weights["b_patch"]})
        self.blocks = nn.ModuleList(_converted(config, weights, number, like) for number in range(config["blocks"]))
        if config["classes"]:
            self.head = nn.Sequential(nn.LayerNorm(width, **like), nn.Linear(width, config["classes"], **like))
            norm = {f"0.{part}": weights[f"norm.{part}"] for part in ("weight", "bias")}
            self.head.load_state_dict({**norm, "1.weight": weights["w_head"].T, "1.bias": weights["b_head"]})

    def forward(self, images: Tensor) -> Tensor:
        check_images(self.config, self.weights, images)
        x = self.patches(images).flatten(2).mT
        if self.config["pooling"] == "class":
            x = torch.cat([self.weights["class_token"].repeat(len(x), 1, 1), x], 1)
        x = x + self.weights["positions"]
        for block in self.blocks:
            x = block(x)
        if not self.config["classes"]:
            return x
        logits: Tensor = self.head(x[:, 0] if self.config["pooling"] == "class" else x.mean(1))
        return logits


def _converted(config: Config, weights: Weights, number: int, like: Mapping[str, Any]) -> nn.Module:
    """One pre-norm layer with the block's weights; torch.nn's are transposed, its attention's biases become zero."""
    prefix, width = f"blocks.{number}.", config["width"]
    own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    layer = nn.TransformerEncoderLayer(
        width, config["heads"], config["mlp_width"], 0.0, "gelu", batch_first=True, norm_first=True, **like
    )
    roles = [own[f"attention.w_{role}"].T for role in ("query", "key", "value")]
    layer.load_state_dict(
        {
            "self_attn.in_proj_weight": torch.cat(roles),
            "self_attn.in_proj_bias": torch.zeros(3 * width, **like),
            "self_attn.out_proj.weight": own["attention.w_output"].T,
            "self_attn.out_proj.bias": torch.zeros(width, **like),
            "linear1.weight": own["mlp.w1"].T,
            "linear1.bias": own["mlp.b1"],
            "linear2.weight": own["mlp.w2"].T,
            "linear2.bias": own["mlp.b2"],
            **{name: tensor for name, tensor in own.items() if name.startswith("norm")},
        }
    )
    return layer
