"""Associative recall: pairs of a key and a value, then a key; its value is due. Without attention this is a guess.

A source is `k₁ v₁ k₂ v₂ …`, keys that all differ and values that may repeat, and the target one of these keys. The
model is that of the contract `transformer`: its encoder has to find, from each value, the key before it, and its decoder
the value whose key it was given. Sequences are drawn anew for every batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from suite.contracts.models.transformer.contract import shapes
from suite.learning import models
from suite.learning.task import Attention, Batch, Task, Training, generator

ACCURACY = "recalled"
"""The name of the score: of the sequences held out, the share whose value is recalled."""
HELD_OUT = 2000
"""Sequences that are scored: at 99 % an accuracy of so many has a standard error of 0.2 %."""


def drawn(config: Mapping[str, Any], count: int, random: torch.Generator) -> Batch:
    """Sources b 2n, lengths b, targets b 1, and the values that are due, b.

    Keys are the tokens 0 to keys − 1 of the source, values those after them; as targets and logits both count from 0.
    """
    pairs, keys = config["pairs"], config["keys"]
    chosen = torch.rand(count, keys, generator=random).argsort(-1)[:, :pairs]  # b n, all different
    values = torch.randint(config["values"], (count, pairs), generator=random)
    asked = torch.randint(pairs, (count, 1), generator=random)
    source = torch.stack([chosen, keys + values], -1).flatten(1)
    lengths = torch.full((count,), 2 * pairs)
    return source, lengths, chosen.gather(1, asked), values.gather(1, asked)[:, 0]


def prepare(config: Mapping[str, Any], seed: int, attention: Attention) -> Training:
    """The training of a Transformer. The sequences held out are the same for all seeds."""
    made = model_config(config)
    weights = models.initial(shapes(made), generator(seed, "weights"))
    held_out = drawn(config, HELD_OUT, generator(0, "held out"))

    def answered(batch: Batch, random: torch.Generator | None = None) -> Tensor:
        logits: Tensor = models.transformer(made, weights, attention, config["dropout"], random)(*batch[:3])
        return logits[:, -1]  # b values

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        return cross_entropy(answered(batch, random), batch[3])

    def scores() -> dict[str, float]:
        return {ACCURACY: float((answered(held_out).argmax(-1) == held_out[3]).double().mean())}

    return Training(weights, partial(batches, config), loss, scores, partial(guessing, config, held_out))


def batches(config: Mapping[str, Any], random: torch.Generator) -> Iterator[Batch]:
    """Some batches of new sequences."""
    for _ in range(config["steps"]):
        yield drawn(config, config["batch"], random)


def guessing(config: Mapping[str, Any], of: Batch) -> dict[str, float]:
    """What is reached by whoever knows which values a sequence has, and not whose they are: the commonest is named."""
    values = of[0][:, 1::2] - config["keys"]
    commonest = torch.stack([row.bincount(minlength=config["values"]).argmax() for row in values])
    return {"the commonest value": float((commonest == of[3]).double().mean())}


def model_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the contract's model."""
    vocabularies = {"source_vocab": config["keys"] + config["values"], "target_vocab": max(config["keys"], config["values"])}
    return vocabularies | {name: config[name] for name in MODEL}


MODEL = ("width", "heads", "ffn_width", "encoder_blocks", "decoder_blocks", "decoding")
"""What of a task's config its model is made of."""
CONFIG: Mapping[str, Any] = {
    "pairs": 6, "keys": 16, "values": 16,
    "width": 32, "heads": 2, "ffn_width": 64, "encoder_blocks": 1, "decoder_blocks": 1, "decoding": "full",
    "dropout": 0.0, "batch": 128, "steps": 25, "learning_rate": 0.003, "epochs": 30,
}  # fmt: skip
RECALL = Task(
    "recall",
    "the value that stood beside a key, by the Transformer of documents, section 11.7",
    CONFIG,
    prepare,
    needs=frozenset({"causal", "gradient"}),
)
TASKS = (RECALL,)
