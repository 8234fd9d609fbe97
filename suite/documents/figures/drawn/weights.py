"""The weights of any attention for a sentence: what the command line asks for."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from attnsuite.documents.figures.asked import asked_weights
from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import HeatMaps, heat_map, rounded
from attnsuite.documents.figures.sentence import WORDS, axes, queries_and_keys
from attnsuite.model import UsageError
from attnsuite.report.cells import plain

TITLE = "Attention weights of a sentence"
WIDTH = 16
"""The width of words that have no embedding in the documents."""
LONGEST = 40
"""Words of a sentence: more would not be told apart in a picture that fits a screen."""
LONGEST_WORD = 24


def words_of(sentence: str) -> tuple[str, ...]:
    """The words of a sentence, by its spaces. UsageError if there are none or too many."""
    words = tuple(plain(word, LONGEST_WORD) for word in plain(sentence, 10_000).split())
    if not 1 <= len(words) <= LONGEST:
        raise UsageError(f"a sentence of 1 to {LONGEST} words is due, not of {len(words)}")
    return words


def drawn_queries_and_keys(words: tuple[str, ...], seed: int) -> tuple[Tensor, Tensor]:
    """Queries and keys, l e: standard normal vectors, the same wherever a word stands, mapped by drawn matrices."""
    x = torch.stack([_normal(f"word {word}", seed, WIDTH) for word in words])
    w_query, w_key = (_normal(f"map of the {role}", seed, WIDTH, WIDTH) / WIDTH**0.5 for role in ("query", "key"))
    return x @ w_query, x @ w_key


def _normal(what: str, seed: int, *shape: int) -> Tensor:
    digest = hashlib.sha256(f"{seed} {what}".encode(errors="backslashreplace")).digest()
    draw = torch.Generator().manual_seed(int.from_bytes(digest[:6], "big"))
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def picture(
    sentence: str = " ".join(WORDS), attention: str = "matmul", causal: bool = False, seed: int = 0
) -> HeatMaps:
    """One map, words by words. The sentence of doc-003 has its embeddings and maps; those of others are drawn.

    Raises UsageError for a sentence without words, and for an attention that cannot be asked or answers something else.
    """
    words = words_of(sentence)
    printed = words == WORDS
    query, key = queries_and_keys() if printed else drawn_queries_and_keys(words, seed)
    name, weights, remark = asked_weights(attention, query, key, causal)
    origin = "embeddings and maps of doc-003" if printed else f"embeddings and maps drawn with seed {seed}"
    across, down = axes(words)
    return HeatMaps(
        TITLE,
        "; ".join(filter(None, (f"{name}{', causal' if causal else ''}, in float32", origin, remark))),
        (heat_map(weights),),
        columns=1,
        across=across,
        down=down,
        domain=_domain(weights),
        cell=30 if len(words) <= 20 else 16,
        written=len(words) <= 20,
    )


def _domain(weights: Tensor) -> tuple[float, float]:
    """From 0 to the largest weight: in long sentences none comes near 1. A wrong attention may have negative ones."""
    low, high = (rounded(float(each)) for each in weights.aminmax())
    return min(0.0, low), high if high > 0 else 1.0


FIGURE = DrawnFigure(
    TITLE, "doc-003, section 3.4.2, for its own sentence", picture, ("sentence", "attention", "causal", "seed")
)
