"""N-gram by n-gram in Python, each struck out of the reference once it has been matched."""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes


@implementation
def bleu(
    prediction: Tensor,  # p
    reference: Tensor,  # r
    *,
    k: int,
) -> Tensor:
    """Return the score, without axes, in float32.

    Raises ValueError for what are no tokens, for an empty reference and for a k below 1.
    """
    check_axes(prediction=(prediction, "p"), reference=(reference, "r"))
    if {prediction.dtype, reference.dtype} != {torch.int64}:
        raise ValueError(f"should be torch.int64: prediction {prediction.dtype}, reference {reference.dtype}")
    if k < 1 or not len(reference):
        raise ValueError(f"k and the tokens of the reference should be 1 or more, not {k} and {len(reference)}")
    ours, theirs = prediction.tolist(), reference.tolist()
    return torch.tensor(_score(ours, theirs, k), dtype=torch.float32, device=prediction.device)


def _score(ours: list[int], theirs: list[int], k: int) -> float:
    if not ours:
        return 0.0
    logarithm = min(0.0, 1 - len(theirs) / len(ours))
    for n in range(1, min(k, len(ours)) + 1):
        left = [theirs[start : start + n] for start in range(len(theirs) - n + 1)]
        matches = 0
        for start in range(len(ours) - n + 1):
            gram = ours[start : start + n]
            if gram in left:
                left.remove(gram)
                matches += 1
        if not matches:
            return 0.0
        logarithm += math.log(matches / (len(ours) - n + 1)) / 2**n
    return math.exp(logarithm)
