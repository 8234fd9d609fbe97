"""Translating with a model: greedy decoding, and BLEU of what comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.contracts.models.greedy import Run, Translating
from attnsuite.documents.learning.sentences.preprocessing import BEGIN, END, Corpus, Vocabulary, tokens
from attnsuite.registry import Loaded

GRAMS = 2
"""The longest n-grams that BLEU counts, as documents, section 11.4.3, counts them."""


def greedy(model: Run, source: Tensor, lengths: Tensor, target: Vocabulary, steps: int) -> Tensor:
    """The contracts' greedy decoding: the likeliest token, after those before it; b steps, for source b s, lengths b.

    Behind the first end token of a row stand end tokens.
    """
    how = {"begin": target[BEGIN], "end": target[END], "steps": steps}
    return Translating().translated(model, how, source, lengths)


def translate(model: Run, corpus: Corpus, sentences: Sequence[str]) -> list[list[str]]:
    """The translations of sentences, as tokens, cut at the end token. A word that is not known is read as `<unk>`."""
    source, lengths = corpus.source.rows([tokens(each) for each in sentences], corpus.steps)
    numbers = greedy(model, source, lengths, corpus.target, corpus.steps)
    return [corpus.target.sentence(row) for row in numbers.tolist()]


def bleu(translation: Sequence[str], reference: Sequence[str]) -> float:
    """BLEU of a translation's tokens, as the contract `bleu` defines it, with n-grams up to `GRAMS`."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys((*translation, *reference)))}
    predicted, due = (
        torch.tensor([numbers[word] for word in each], dtype=torch.int64) for each in (translation, reference)
    )
    return float(_bleu()(predicted, due, k=GRAMS))


@cache
def _bleu() -> Callable[..., float]:
    loaded = registry.load(registry.find(["bleu/eager"])[0])
    assert isinstance(loaded, Loaded), loaded
    return loaded.function
