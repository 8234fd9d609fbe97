"""The score of translations compared with sacrebleu: what both count alike, and where they differ."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
import torch

from attnsuite.implementations.bleu import eager, loops

sacrebleu = pytest.importorskip("sacrebleu.metrics", reason="pip install attnsuite[test]")

IMPLEMENTATIONS = {"eager": eager.bleu, "loops": loops.bleu}


def sentences(count: int = 200) -> Iterator[tuple[list[int], list[int], int]]:
    """A prediction and a reference of few different tokens, so that n-grams come several times, and a k."""
    draw = random.Random(11)
    for _ in range(count):
        reference = draw.choices(range(1, 7), k=draw.randint(1, 14))
        prediction = [token for token in reference if draw.random() < 0.8]
        prediction += draw.choices(range(1, 7), k=draw.randint(1, 3))
        yield prediction, reference, draw.randint(1, 4)


def ours(name: str, prediction: list[int], reference: list[int], k: int) -> float:
    return float(IMPLEMENTATIONS[name](torch.tensor(prediction), torch.tensor(reference), k=k))


def theirs(prediction: list[int], reference: list[int], k: int) -> sacrebleu.BLEUScore:
    """sacrebleu's score of one sentence, of the n-grams that it has, with nothing smoothed."""
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", max_ngram_order=k, effective_order=True)
    return metric.sentence_score(" ".join(map(str, prediction)), [" ".join(map(str, reference))])


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_matches_totals_and_brevity_are_sacrebleu_s_and_only_the_weights_differ(name: str) -> None:
    seen = set()
    for prediction, reference, k in sentences():
        found = theirs(prediction, reference, k)
        orders = range(1, min(k, len(prediction)) + 1)
        shares = [found.counts[n - 1] / found.totals[n - 1] for n in orders]

        expected = found.bp * math.prod(share ** (0.5**n) for n, share in zip(orders, shares, strict=True))

        assert ours(name, prediction, reference, k) == pytest.approx(expected, rel=1e-6)
        seen.add((k, found.bp < 1, expected == 0, len(prediction) < k))
    assert len(seen) > 12, "every k, brevity or none, matches or none"
