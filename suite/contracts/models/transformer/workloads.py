"""The workloads of Transformers: the documents' translator, forward and in training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from attnsuite.cases.model import Config
from attnsuite.cases.training import next_token_loss
from attnsuite.contracts.models.transformer.cases import model
from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.contracts.models.workloads import TRAINED, TRAINED_IN_FULL, ModelWorkload, sentences

TRANSLATOR: Config = {
    "source_vocab": 200,
    "target_vocab": 200,
    "width": 256,
    "heads": 4,
    "ffn_width": 64,
    "encoder_blocks": 2,
    "decoder_blocks": 2,
    "decoding": "full",
}
"""The documents' English–French translator; its vocabulary is not given."""


def workloads() -> list[ModelWorkload]:
    """All workloads, in the order of tables."""
    return [
        _workload("translator/10", "ten words a sentence, as the documents train it", 128, 10, TRAINED),
        _workload("translator/128", "longer sentences, of which half are padded", 8, 128, TRAINED_IN_FULL),
    ]


def _workload(name: str, why: str, batch: int, length: int, profiles: Mapping[str, tuple[str, ...]]) -> ModelWorkload:
    config = TRANSLATOR
    vocabularies = {"source": config["source_vocab"], "target": config["target_vocab"]}
    sizes = (
        f"batch {batch}, {length} tokens to {length}, 2 + 2 blocks of width {config['width']}, {config['heads']} heads"
    )
    tokens = float(batch * length)
    return ModelWorkload(name, why, model, config, shapes, partial(sentences, config, batch, length), length,
                         batch * _flops(config, length), {"tokens": tokens}, sizes, vocabularies, profiles=profiles, learns=next_token_loss)  # fmt: skip


def _flops(config: Config, length: int) -> float:
    """Of one item, all its positions computed: products with weights, and two products of attention."""
    width, inner = config["width"], config["ffn_width"]
    attention = 2.0 * length * 4 * width * width + 4.0 * length * length * width
    network = 2.0 * length * 2 * width * inner
    blocks = config["encoder_blocks"] * (attention + network) + config["decoder_blocks"] * (2 * attention + network)
    return float(blocks + 2.0 * length * width * config["target_vocab"])
