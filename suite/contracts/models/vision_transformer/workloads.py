"""The workloads of Vision Transformers: the documents' classifier, and ViT-B/16."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from attnsuite.cases.model import Config
from attnsuite.cases.training import Loss, class_loss
from attnsuite.contracts.models.vision_transformer.cases import BASE, USUAL, model
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.contracts.models.workloads import TRAINED, USUALLY, ModelWorkload

FASHION: Config = {
    **USUAL,
    "image_height": 96,
    "image_width": 96,
    "patch": 16,
    "channels": 1,
    "width": 512,
    "heads": 8,
    "mlp_width": 2048,
    "blocks": 2,
}
"""The documents' classifier of Fashion-MNIST, 6,457,866 weights."""


def workloads() -> list[ModelWorkload]:
    """All workloads, in the order of tables."""
    return [
        _workload("vit/fashion", "the documents' classifier of Fashion-MNIST", FASHION, 16, TRAINED, class_loss),
        _workload("vit/b16", "ViT-B/16 at 224 × 224", BASE, 1),
    ]


def _workload(
    name: str,
    why: str,
    config: Config,
    batch: int,
    profiles: Mapping[str, tuple[str, ...]] = USUALLY,
    learns: Loss | None = None,
) -> ModelWorkload:
    length = shapes(config)["positions"][0]
    sizes = f"batch {batch}, {config['image_height']} × {config['image_width']}, {config['blocks']} blocks of width "
    sizes += f"{config['width']}, {config['heads']} heads"
    return ModelWorkload(name, why, model, config, shapes, partial(_images, config, batch), length,
                         batch * _flops(config, length), {"images": float(batch)}, sizes, profiles=profiles, learns=learns)  # fmt: skip


def _images(config: Config, batch: int, random: torch.Generator) -> Mapping[str, Tensor]:
    size = (batch, config["channels"], config["image_height"], config["image_width"])
    return {"images": torch.randn(size, generator=random) + 0.25}


def _flops(config: Config, length: int) -> float:
    """Of one image: products with weights, and two products of attention."""
    width = config["width"]
    attention = 2.0 * length * 4 * width * width + 4.0 * length * length * width
    network = 2.0 * length * 2 * width * config["mlp_width"]
    patches = 2.0 * (length - 1) * config["channels"] * config["patch"] ** 2 * width
    return float(patches + config["blocks"] * (attention + network) + 2.0 * width * config["classes"])
