"""How much each head of a trained translator matters: its loss where one head after the other is taken out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.documents.claims.claim import ABOVE_ZERO, Claim, Measured, at_least, at_most, sampled
from attnsuite.documents.learning import Trained, translator
from attnsuite.documents.learning.sentences.preprocessing import PAD, tokens
from attnsuite.documents.learning.tasks.translation import TRANSFORMER, divided
from attnsuite.documents.learning.translating import bleu, greedy
from attnsuite.implementations.transformer.eager import transformer
from attnsuite.model import Evidence
from attnsuite.model.statistics import MARGIN

SEED = 0
NOTHING = math.log1p(MARGIN)
"""Nats per token: a head whose loss is less is not missed. The perplexity differs by less than what counts as none."""
CHOOSING = 200
"""Sentences of the training by which the least and the most important head are chosen; others say how much they matter."""

Weights = Mapping[str, Tensor]
Pair = tuple[str, str]
Head = tuple[str, int]
"""The attention and the number of a head."""
Importance = Mapping[Head, tuple[Tensor, Tensor]]
"""How losses change without a head: of the sentences by which heads are chosen, and of those held out, in nats."""


def heads(config: Mapping[str, int]) -> Iterator[Head]:
    """The attention and the number of each head."""
    for number in range(config["encoder_blocks"]):
        yield from ((f"encoder.{number}.attention", head) for head in range(config["heads"]))
    for number in range(config["decoder_blocks"]):
        for name in ("self_attention", "cross_attention"):
            yield from ((f"decoder.{number}.{name}", head) for head in range(config["heads"]))


def without(weights: Weights, attention: str, head: int, count: int) -> dict[str, Tensor]:
    """The weights with one head of `count` taken out: nothing of what it mixes reaches the output map."""
    name = f"{attention}.w_output"
    changed = weights[name].clone()
    changed.unflatten(0, (count, -1))[head] = 0
    return {**weights, name: changed}


def losses(config: Mapping[str, int], weights: Weights, read: Sequence[Tensor], padding: int) -> Tensor:
    """The mean loss of each sentence's tokens, in nats, given the true ones before."""
    source, lengths, begun, following = read
    with torch.no_grad():
        logits = transformer(config, weights)(source, lengths, begun)
    each = functional.cross_entropy(logits.mT, following, ignore_index=padding, reduction="none")  # b t
    return each.sum(1) / (following != padding).sum(1)


def rows(of: Trained, pairs: Sequence[Pair]) -> list[Tensor]:
    """Pairs as the translator reads them."""
    read, lengths = of.source.rows([tokens(each) for each, _ in pairs], of.steps)
    begun, _ = of.target.rows([tokens(each) for _, each in pairs], of.steps + 1, begin=True)
    return [read, lengths, begun[:, :-1], begun[:, 1:]]


@cache
def changes() -> Importance:
    """How the losses of trained and of held-out sentences change without each head, sentence by sentence."""
    of = translator("transformer", SEED)
    known, held_out = divided(TRANSFORMER.config)
    sets = [rows(of, pairs) for pairs in (known[:CHOOSING], held_out)]
    padding = of.target[PAD]
    whole = [losses(of.config, of.weights, read, padding) for read in sets]
    found = {}
    for attention, head in heads(of.config):
        weights = without(of.weights, attention, head, of.config["heads"])
        one, other = (
            losses(of.config, weights, read, padding) - before for read, before in zip(sets, whole, strict=True)
        )
        found[attention, head] = one, other
    return found


def ranked(importance: Importance) -> list[Head]:
    """The heads, the least important first, by the sentences by which they are chosen."""
    return sorted(importance, key=lambda head: float(importance[head][0].mean()))


def least(importance: Importance | None = None) -> Measured:
    """How the loss of held-out sentences changes without the least important head."""
    importance = importance or changes()
    head = ranked(importance)[0]
    return sampled(importance[head][1].tolist(), f"head {head[1]} of {head[0]}")


def difference(importance: Importance | None = None) -> Measured:
    """How much more the loss of held-out sentences changes without the most important head than without the least."""
    importance = importance or changes()
    first, *_, last = ranked(importance)
    said = f"head {last[1]} of {last[0]} against head {first[1]} of {first[0]}"
    return sampled((importance[last][1] - importance[first][1]).tolist(), said, _means(importance))


@cache
def scores() -> dict[Head | None, list[float]]:
    """BLEU of each held-out sentence, translated with all heads (None) and without each."""
    of = translator("transformer", SEED)
    _, pairs = divided(TRANSFORMER.config)
    every: dict[Head | None, Weights] = {None: of.weights}
    every |= {each: without(of.weights, *each, of.config["heads"]) for each in heads(of.config)}
    return {each: translated(of, weights, pairs) for each, weights in every.items()}


def translated(of: Trained, weights: Weights, pairs: Sequence[Pair]) -> list[float]:
    """BLEU of each sentence, translated greedily with these weights."""
    source, lengths, _, _ = rows(of, pairs)
    with torch.no_grad():
        numbers = greedy(transformer(of.config, weights), source, lengths, of.target, of.steps)
    found = [of.target.sentence(row) for row in numbers.tolist()]
    return [bleu(words, tokens(due)) for words, (_, due) in zip(found, pairs, strict=True)]


def score() -> Measured:
    """The change of BLEU of held-out sentences without the least important head."""
    found, head = scores(), ranked(changes())[0]
    numbers = {"all": fmean(found[None])} | {
        f"without {each[0]} {each[1]}": fmean(of) for each, of in found.items() if each
    }
    changed = [one - other for one, other in zip(found[head], found[None], strict=True)]
    return sampled(changed, f"head {head[1]} of {head[0]}; mean BLEU of held-out sentences", numbers)


def _means(importance: Importance) -> dict[str, float]:
    """The mean change of each head's held-out loss."""
    return {f"{name} {head}": float(held_out.mean()) for (name, head), (_, held_out) in importance.items()}


CLAIMS = (
    Claim("head_importance/least", "doc-004", "11.5, exercise 2", "heads that matter little can be pruned",
          "loss that the least important head of a translator saves, nats per token of a sentence", at_most(NOTHING),
          Evidence.TRAINED, least),
    Claim("head_importance/score", "doc-004", "11.5, exercise 2", "heads that matter little can be pruned",
          "change of a held-out sentence's BLEU without the least important head", at_least(-MARGIN), Evidence.TRAINED, score),
    Claim("head_importance/difference", "doc-004", "11.5, exercise 2", "heads differ in importance",
          "loss that the most important head of a translator saves more than the least important one, nats per token of a sentence",
          ABOVE_ZERO, Evidence.TRAINED, difference),
)  # fmt: skip
