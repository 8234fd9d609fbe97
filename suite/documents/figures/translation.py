"""What trained translators attend to while they translate a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attnsuite.documents.figures.implementations import function, implementation
from attnsuite.documents.figures.picture import Axis, HeatMaps, heat_map, rounded
from attnsuite.documents.learning.sentences.preprocessing import BEGIN, END
from attnsuite.documents.learning.trained import Trained, translator
from attnsuite.documents.learning.translating import greedy
from attnsuite.model import UsageError
from attnsuite.registry.loading import as_plug, told

SENTENCE = "I'm home."
"""The last of the sentences that the documents translate."""


@dataclass(frozen=True)
class Translation:
    """A sentence, its translation, and by name the weights of the attentions that made it, heads queries keys.

    Only tokens are kept: the keys of a source's padding have weight 0, and its queries mean nothing.
    """

    source: tuple[str, ...]
    """Its tokens, `<eos>` last."""
    target: tuple[str, ...]
    """What the decoder reads: `<bos>`, then its own words."""
    weights: Mapping[str, Tensor]
    by: str
    """Who translated, for readers."""

    @property
    def said(self) -> str:
        return f"{' '.join(self.source[:-1])} → {' '.join(self.target[1:])}"


_trained = cache(translator)


def translated(name: str, sentence: str, seed: int, attention: str = "") -> Translation:
    """Translate with a translator, `transformer` or `seq2seq_attention`, and keep its weights.

    An attention that is named is plugged in. Raises UsageError for unknown words and for an attention that raises.
    """
    return translate(name, _trained(name, seed), sentence, attention)


def translate(name: str, by: Trained, sentence: str, attention: str = "") -> Translation:
    """The same by a translator at hand, whether it is trained or not."""
    words = by.source.known(sentence)
    if not 1 <= len(words) < by.steps:
        raise UsageError(f"a sentence of 1 to {by.steps - 1} tokens is due, not of {len(words)}: {sentence!r:.80}")
    plug: dict[str, Any] = {"attention": as_plug(implementation(attention, "attention"))} if attention else {}
    called = f"{name}/eager{f'+{attention}' if attention else ''}"
    with told(f"{called} gave no weights:"):
        written, weights = _watched(function(f"{name}/eager"), by, words, plug)
    source, target = (*words, END), (BEGIN, *written)
    lengths = {"source": len(source), "target": len(target)}
    return Translation(source, target, {key: _cut(of, key, lengths) for key, of in weights.items()}, called)


def _watched(
    factory: Any, by: Trained, words: list[str], plug: Mapping[str, Any]
) -> tuple[list[str], Mapping[str, Tensor]]:
    """The words of the translation, and the weights of all attentions while the decoder reads them."""
    source, lengths = by.source.rows([words], by.steps)
    model = factory(by.config, by.weights, **plug)
    numbers = greedy(model, source, lengths, by.target, by.steps)
    written = by.target.sentence(numbers[0].tolist())
    begun = torch.tensor([[by.target[BEGIN], *numbers[0, : len(written)].tolist()]])
    _, weights = factory(by.config, by.weights, **plug, need_weights=True)(source, lengths, begun)
    return written, weights


def _cut(weights: Tensor, name: str, lengths: Mapping[str, int]) -> Tensor:
    """The weights of the one sentence without its padding, heads queries keys: a weight without heads has one."""
    queries = lengths["source" if name.startswith("encoder") else "target"]
    keys = lengths["target" if name.endswith("self_attention") else "source"]
    one = weights[0] if weights.dim() == 4 else weights
    return one[:, :queries, :keys]


def heads(title: str, of: Translation, kind: str) -> HeatMaps:
    """A row of maps for each layer, a column for each head, of the attentions called `kind`."""
    layers = [weights for name, weights in of.weights.items() if name.endswith(kind)]
    queries = of.source if kind == ".attention" else of.target
    keys = of.target if kind == ".self_attention" else of.source
    maps = [
        heat_map(matrix, f"layer {layer}, head {head}")
        for layer, weights in enumerate(layers, 1)
        for head, matrix in enumerate(weights, 1)
    ]
    return HeatMaps(
        title,
        f"{of.said}; {of.by} in float32",
        tuple(maps),
        columns=len(layers[0]),
        across=Axis("key", keys),
        down=Axis("query", queries),
        domain=(0.0, max(1.0, *(rounded(float(weights.max())) for weights in layers))),
    )
