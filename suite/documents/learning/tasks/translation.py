"""Translating English into French: the Transformer and the Bahdanau model of documents, sections 11.7.6 and 11.4.3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnsuite.documents.learning import models
from attnsuite.documents.learning.sentences import loading
from attnsuite.documents.learning.sentences.preprocessing import PAD, RESERVED, UNKNOWN, Corpus, tokens
from attnsuite.documents.learning.task import Attention, Batch, Task, Training, generator
from attnsuite.documents.learning.translating import bleu, translate
from attnsuite.model import UsageError

Pair = tuple[str, str]

DOCUMENTS = (
    ("Go.", "Va !"),
    ("I lost.", "J'ai perdu."),
    ("He's calm.", "Il est calme."),
    ("I'm home.", "Je suis chez moi."),
)
"""The sentences that the documents translate."""
PRINTED = {
    "seq2seq_attention": (1.0, 1.0, 0.0, 1.0),
    "transformer": (1.0, 1.0, 0.368, 1.0),
}
"""By contract, the BLEU that the documents print of their models' translations, sentence by sentence."""
EVERY = 25
"""Of this many pairs in a row one is held out, unless the documents have it: 4 %, so that most words stay frequent."""


def divided(config: Mapping[str, Any]) -> tuple[list[Pair], list[Pair]]:
    """The pairs to train on, and those held out. Raises UsageError for a file that holds no pairs."""
    path = Path(config["pairs"]) if config["pairs"] else loading.SHIPPED
    pairs = loading.pairs(path)[: config["examples"]]
    of_documents = {source for source, _ in DOCUMENTS}
    out = [number % EVERY == EVERY - 1 and pair[0] not in of_documents for number, pair in enumerate(pairs)]
    trained, held_out = (
        [pair for pair, is_out in zip(pairs, out, strict=True) if is_out == wanted] for wanted in (False, True)
    )
    return trained, held_out


def corpus(config: Mapping[str, Any]) -> Corpus:
    """What is trained on, as numbers. Raises UsageError where no word is frequent enough to be learned."""
    least = config["min_frequency"]
    found = Corpus.of(divided(config)[0], config["steps"], least)
    for side, words in (("source", found.source), ("target", found.target)):
        if len(words) == len(RESERVED):
            raise UsageError(
                f"{config['pairs'] or loading.SHIPPED}: no word of the {side} sentences to train on stands there "
                f"{least} times, so that all would be {UNKNOWN}"
            )
    return found


def model_config(contract: str, config: Mapping[str, Any], of: Corpus) -> dict[str, Any]:
    """The config of the contract's model."""
    vocabularies = {"source_vocab": len(of.source), "target_vocab": len(of.target)}
    return vocabularies | {name: config[name] for name in MODELS[contract]}


MODELS = {
    "transformer": ("width", "heads", "ffn_width", "encoder_blocks", "decoder_blocks", "decoding"),
    "seq2seq_attention": ("embedding", "hidden", "layers", "score", "cell", "window"),
}
"""By contract, what of a task's config its model is made of."""


def prepare(contract: str, config: Mapping[str, Any], seed: int, attention: Attention) -> Training:
    """The training of a translator."""
    held_out, of = divided(config)[1], corpus(config)
    made = model_config(contract, config, of)
    weights = models.initial(models.SHAPES[contract](made), generator(seed, "weights"))

    def model(random: torch.Generator | None = None) -> models.Model:
        if contract == "transformer":
            return models.transformer(made, weights, attention, config["dropout"], random)
        return models.seq2seq_attention(made, weights, config["dropout"], random)

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        source, lengths, begun, following = batch
        logits = model(random)(source, lengths, begun)
        return cross_entropy(logits.flatten(0, 1), following.flatten(), ignore_index=of.target[PAD])

    return Training(weights, partial(batches, of, config["batch"]), loss, lambda: scores(model(), of, held_out))


def batches(of: Corpus, size: int, random: torch.Generator) -> Iterator[Batch]:
    """All pairs in a random order."""
    for rows in torch.randperm(len(of.arrays[0]), generator=random).split(size):
        yield tuple(array[rows] for array in of.arrays)


def scores(model: models.Model, of: Corpus, held_out: Sequence[Pair]) -> dict[str, float]:
    """BLEU of the documents' sentences, each and their mean, and the mean of those held out."""
    found = [bleu(*each) for each in translations(model, of, (*DOCUMENTS, *held_out))]
    ours, others = found[: len(DOCUMENTS)], found[len(DOCUMENTS) :]
    named = {" ".join(tokens(source)): score for (source, _), score in zip(DOCUMENTS, ours, strict=True)}
    return {**named, "BLEU": fmean(ours), **({"BLEU held out": fmean(others)} if others else {})}


def translations(model: models.Model, of: Corpus, pairs: Sequence[Pair]) -> list[tuple[list[str], list[str]]]:
    """Each translation beside its reference, as tokens."""
    found = translate(model, of, [source for source, _ in pairs])
    return [(each, tokens(reference)) for each, (_, reference) in zip(found, pairs, strict=True)]


def printed(contract: str) -> dict[str, float]:
    """The documents' scores by the names that ours have."""
    by_sentence = zip(DOCUMENTS, PRINTED[contract], strict=True)
    named = {" ".join(tokens(source)): score for (source, _), score in by_sentence}
    return {**named, "BLEU": fmean(named.values())}


USUAL: Mapping[str, Any] = {
    "pairs": "",
    "examples": None,
    "steps": 9,
    "min_frequency": 2,
    "batch": 128,
    "dropout": 0.2,
    "clip": 1.0,
}
"""What both have. `pairs` is a file of other pairs than those that ship, `examples` how many of its first are read; the
others are the documents' own."""

TRANSFORMER = Task(
    "translation/transformer",
    "short English sentences into French, by the Transformer of documents, section 11.7.6",
    {**USUAL}
    | {"width": 64, "heads": 4, "ffn_width": 128, "encoder_blocks": 2, "decoder_blocks": 2, "decoding": "full"}
    | {"learning_rate": 0.005, "epochs": 40},
    partial(prepare, "transformer"),
    needs=frozenset({"bool_mask", "causal", "gradient"}),
    uses=frozenset({"dropout"}),
    printed=printed("transformer"),
)
BAHDANAU = Task(
    "translation/seq2seq_attention",
    "short English sentences into French, by the Bahdanau model of documents, section 11.4.3",
    {**USUAL}
    | {"embedding": 64, "hidden": 64, "layers": 2, "score": "additive", "cell": "gru", "window": None}
    | {"learning_rate": 0.01, "epochs": 35},
    partial(prepare, "seq2seq_attention"),
    own="seq2seq_attention/eager",
    printed=printed("seq2seq_attention"),
)
TASKS = (TRANSFORMER, BAHDANAU)
