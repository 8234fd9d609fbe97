"""All pairs of n-grams compared at once, as PyTorch operations."""

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

    Raises ValueError, before any work, for what are no tokens, for an empty reference and for a k below 1.
    """
    check_axes(prediction=(prediction, "p"), reference=(reference, "r"))
    if not prediction.dtype == reference.dtype == torch.int64:
        raise ValueError(f"tokens are {prediction.dtype} and {reference.dtype}, expected torch.int64")
    if k < 1 or not len(reference):
        raise ValueError(f"k is {k} and reference has {len(reference)} tokens, expected at least 1 of both")
    length, expected = len(prediction), len(reference)
    if not length:
        return torch.zeros((), device=prediction.device)
    score = torch.tensor(min(0.0, 1 - expected / length), dtype=torch.float64, device=prediction.device).exp()
    for n in range(1, min(k, length) + 1):
        share = _matches(prediction, reference, n) / (length - n + 1)
        score = score * share ** (0.5**n)
    return score.float()


def _matches(prediction: Tensor, reference: Tensor, n: int) -> Tensor:
    """How many n-grams of the prediction the reference has too, each no oftener than there."""
    if len(reference) < n:
        return prediction.new_zeros((), dtype=torch.float64)
    ours, theirs = prediction.unfold(0, n, 1), reference.unfold(0, n, 1)  # m n
    kinds, number = torch.cat([ours, theirs]).unique(dim=0, return_inverse=True)
    counts = (number[: len(ours)].bincount(minlength=len(kinds)), number[len(ours) :].bincount(minlength=len(kinds)))
    return torch.minimum(*counts).sum().double()
