"""Correct scores in foreign styles."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.contracts.steps.bleu.mutants import Scoring

Score = Callable[[list[int], list[int], int], float]
"""A score of two lists of tokens and k."""


def _function(score: Score) -> Callable[..., Tensor]:
    def bleu(prediction: Tensor, reference: Tensor, *, k: int) -> Tensor:
        return torch.tensor(score(prediction.tolist(), reference.tolist(), k) if len(prediction) else 0.0)

    return Scoring.checked(bleu)


def _of_words(ours: list[int], theirs: list[int], k: int) -> float:
    """As a text book has it: n-grams as strings of words, struck off a table of the reference's."""
    score = math.exp(min(0, 1 - len(theirs) / len(ours)))
    for n in range(1, min(k, len(ours)) + 1):
        left: dict[str, int] = defaultdict(int)
        for start in range(len(theirs) - n + 1):
            left[" ".join(map(str, theirs[start : start + n]))] += 1
        found = 0
        for start in range(len(ours) - n + 1):
            words = " ".join(map(str, ours[start : start + n]))
            if left[words] > 0:
                found, left[words] = found + 1, left[words] - 1
        score *= math.pow(found / (len(ours) - n + 1), math.pow(0.5, n))
    return score


def _in_logarithms(ours: list[int], theirs: list[int], k: int) -> float:
    """Counters of tuples, and one exponential of a sum of logarithms in numpy's single precision."""
    shares = []
    for n in range(1, min(k, len(ours)) + 1):
        counts = [Counter(zip(*(tokens[shift:] for shift in range(n)), strict=False)) for tokens in (ours, theirs)]
        shares.append((counts[0] & counts[1]).total() / (len(ours) - n + 1))
    with np.errstate(divide="ignore"):
        logs = np.log(np.array(shares, np.float32)) * np.float32(0.5) ** np.arange(1, len(shares) + 1, dtype=np.float32)
    penalty = np.float32(min(0.0, (len(ours) - len(theirs)) / len(ours)))
    return float(np.exp(penalty + logs.sum(dtype=np.float32)))


def _nested_roots(ours: list[int], theirs: list[int], k: int) -> float:
    """√(p_1 √(p_2 √p_3)), from the longest n-grams to the shortest; matches by sorting both lists."""
    score = 1.0
    for n in reversed(range(1, min(k, len(ours)) + 1)):
        left, right = (
            sorted(tokens[start : start + n] for start in range(len(tokens) - n + 1)) for tokens in (ours, theirs)
        )
        score = math.sqrt(_merged(left, right) / len(left) * score)
    return score * min(1.0, math.exp(1 - len(theirs) / len(ours)))


def _merged(left: list[list[int]], right: list[list[int]]) -> int:
    """How many entries two sorted lists share."""
    one = other = found = 0
    while one < len(left) and other < len(right):
        if left[one] == right[other]:
            one, other, found = one + 1, other + 1, found + 1
        elif left[one] < right[other]:
            one += 1
        else:
            other += 1
    return found


def _paired(prediction: Tensor, reference: Tensor, *, k: int) -> Tensor:
    """Tensors alone, in single precision: longer runs grow from a table of which tokens are equal."""
    length, due = len(prediction), len(reference)
    if not length:
        return torch.zeros(())
    ours, theirs = prediction[:, None] == prediction, prediction[:, None] == reference  # p p, p r
    score = torch.tensor(1 - due / length).clamp_max(0).exp()
    alike, shared = ours, theirs
    for n in range(1, min(k, length) + 1):
        before = alike.tril(-1).sum(1)  # how many equal n-grams stand earlier in the prediction
        score = score * ((before < shared.sum(1)).sum() / (length - n + 1)) ** (0.5**n)
        alike, shared = alike[:-1, :-1] & ours[n:, n:], shared[:-1, :-1] & theirs[n:, n:]
    return score


def variants() -> list[Variant]:
    """One score, many ways to count and to multiply."""
    return [
        Variant("of_words", "strings of words and a table, as in a text book", _function(_of_words)),
        Variant("in_logarithms", "counters, and one exponential in single precision", _function(_in_logarithms)),
        Variant("nested_roots", "sorted lists, and roots within roots", _function(_nested_roots)),
        Variant("paired", "tensors alone: runs grow from a table of equal tokens", Scoring.checked(_paired)),
    ]
