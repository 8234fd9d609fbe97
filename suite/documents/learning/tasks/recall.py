"""Associative recall: pairs of a key and a value, then a key; its value is due. Without attention this is a guess.

A sequence is `k₁ v₁ k₂ v₂ … q`. One causal block, normalised first, reads it; each token is embedded together with the
one before it, as a convolution of width two does in models for which recall is a test (Fu and others, "Hungry hungry
hippos", arXiv 2212.14052; Arora and others, "Zoology", arXiv 2312.04927). So a value is found by the key beside it,
which takes attention: in a mean of all positions it cannot be told which value stood beside which key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, layer_norm, scaled_dot_product_attention

from attnsuite.contracts.models.eager import Blocks, part
from attnsuite.documents.learning.models import hidden, initial
from attnsuite.documents.learning.task import Attention, Batch, Task, Training, generator

ACCURACY = "recalled"
"""The name of the score: of the sequences held out, the share whose value is recalled."""
CHANCE = "a value of the sequence at random"
"""Whoever knows which values a sequence has, and not whose they are, is right as often as this."""
HELD_OUT = 2000
"""Sequences that are scored: at 99 % an accuracy of so many has a standard error of 0.2 %."""


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The weights by name."""
    width, inner, tokens = config["width"], config["ffn_width"], config["keys"] + config["values"]
    return {
        "token_embedding": (tokens, width),
        "before_embedding": (tokens, width),
        **{f"attention.w_{role}": (width, width) for role in ("query", "key", "value", "output")},
        "ffn.w1": (width, inner),
        "ffn.b1": (inner,),
        "ffn.w2": (inner, width),
        "ffn.b2": (width,),
        **{f"norm{number}.{each}": (width,) for number in (1, 2, 3) for each in ("weight", "bias")},
        "w_logits": (width, config["values"]),
    }


def model(config: Mapping[str, Any], weights: Mapping[str, Tensor], attention: Attention) -> Callable[[Tensor], Tensor]:
    """Tokens b l → for the last of them logits of the values, b v."""
    norms = [part(weights, f"norm{number}") for number in (1, 2, 3)]
    made = Blocks(needed=hidden, norm=lambda x, at: layer_norm(x, x.shape[-1:], at["weight"], at["bias"])).plugged(
        attention
    )

    def answer(tokens: Tensor) -> Tensor:
        x = weights["token_embedding"][tokens]
        x = x + torch.nn.functional.pad(weights["before_embedding"][tokens[:, :-1]], (0, 0, 1, 0))
        so_far = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        x = x + made.to_itself(part(weights, "attention"), config["heads"], so_far, made.norm(x, norms[0]))
        last = x[:, -1]
        last = last + made.feed_forward(made.norm(last, norms[1]), part(weights, "ffn"))
        logits: Tensor = made.norm(last, norms[2]) @ weights["w_logits"]
        return logits

    return answer


def drawn(config: Mapping[str, Any], count: int, random: torch.Generator) -> Batch:
    """Sequences b 2n+1, and the values that are due, b.

    Keys are the tokens 0 to keys − 1, values those after them; those that are due count from 0. In a sequence no key
    and no value comes twice.
    """
    items = config["items"]
    keys, values = (torch.rand(count, config[of], generator=random).argsort(-1)[:, :items] for of in ("keys", "values"))
    asked = torch.randint(items, (count, 1), generator=random)
    memory = torch.stack([keys, config["keys"] + values], -1).flatten(1)
    return torch.cat([memory, keys.gather(1, asked)], 1), values.gather(1, asked)[:, 0]


def prepare(config: Mapping[str, Any], seed: int, attention: Attention) -> Training:
    """The training of that block. The sequences held out are the same for all seeds."""
    weights = initial(shapes(config), generator(seed, "weights"))
    answer, held_out = model(config, weights, attention), drawn(config, HELD_OUT, generator(0, "held out"))

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        return cross_entropy(answer(batch[0]), batch[1])

    def scores() -> dict[str, float]:
        return {ACCURACY: float((answer(held_out[0]).argmax(-1) == held_out[1]).double().mean())}

    return Training(weights, partial(batches, config), loss, scores, lambda: {CHANCE: 1 / config["items"]})


def batches(config: Mapping[str, Any], random: torch.Generator) -> Iterator[Batch]:
    """Some batches of new sequences."""
    for _ in range(config["steps"]):
        yield drawn(config, config["batch"], random)


def uniform(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:
    """Attention whose weights are equal, whatever queries and keys are: the mean of the values that may be seen."""
    return scaled_dot_product_attention(
        torch.zeros_like(query), key, value, attn_mask=attn_mask, is_causal=is_causal, dropout_p=dropout_p
    )


CONFIG: Mapping[str, Any] = {
    "items": 8, "keys": 16, "values": 16, "width": 32, "heads": 2, "ffn_width": 64,
    "batch": 128, "steps": 25, "learning_rate": 0.003, "epochs": 15,
}  # fmt: skip
RECALL = Task(
    "recall",
    "the value that stood beside a key in the sequence, by one causal block",
    CONFIG,
    prepare,
    needs=frozenset({"causal", "gradient"}),
)
UNIFORM = replace(
    RECALL,
    name="recall/uniform",
    says="the same with weights that are all equal",
    prepare=lambda config, seed, attention: prepare(config, seed, uniform),
    own="uniform weights",
    table=RECALL.name,
)
TASKS = (RECALL, UNIFORM)
