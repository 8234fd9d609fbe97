"""The workloads of recurrent encoder–decoders: the documents' translator, forward and in training."""

from __future__ import annotations

from functools import partial

from attnsuite.cases.model import Config
from attnsuite.cases.training import next_token_loss
from attnsuite.contracts.models.seq2seq_attention.cases import USUAL, model
from attnsuite.contracts.models.seq2seq_attention.contract import GATES, shapes
from attnsuite.contracts.models.workloads import TRAINED, ModelWorkload, sentences

TRANSLATOR: Config = {
    **USUAL,
    "source_vocab": 200,
    "target_vocab": 200,
    "embedding": 256,
    "hidden": 256,
    "layers": 2,
}
"""The documents' English–French translator; its vocabulary is not given."""
BATCH, LENGTH = 128, 10
"""Sentences of a batch, and words of a sentence, as the documents train it."""


def workloads() -> list[ModelWorkload]:
    """All workloads, in the order of tables."""
    config = TRANSLATOR
    why = "ten words a sentence, as the documents train it"
    sizes = f"batch {BATCH}, {LENGTH} tokens to {LENGTH}, 2 + 2 layers of width {config['hidden']}, additive scores"
    vocabularies = {"source": config["source_vocab"], "target": config["target_vocab"]}
    found = ModelWorkload(f"translator/{LENGTH}", why, model, config, shapes, partial(sentences, config, BATCH, LENGTH), LENGTH,
                          BATCH * _flops(config, LENGTH), {"tokens": float(BATCH * LENGTH)}, sizes, vocabularies,
                          profiles=TRAINED, learns=next_token_loss)  # fmt: skip
    return [found]


def _flops(config: Config, length: int) -> float:
    """Of one item: products with weights, and at each step those of the scores and the weighted sum."""
    width, embedding = float(config["hidden"]), float(config["embedding"])
    gates = GATES[config["cell"]] * width

    def stack(first: float) -> float:
        return 2 * gates * (first + width + (float(config["layers"]) - 1) * 2 * width)

    scored = 2.0 * width * width + 4.0 * length * width  # the query's map, then scores and the sum of values
    step = stack(embedding) + stack(width + embedding) + scored + 2.0 * width * float(config["target_vocab"])
    return length * (step + 2.0 * width * width)  # and the map of each key
