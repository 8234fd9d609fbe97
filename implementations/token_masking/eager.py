"""Independent draws for all tokens at once, as PyTorch operations."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes

IGNORED = -100


@implementation
def token_masking(
    tokens: Tensor,  # b l
    special: Tensor,  # b l, True = never selected
    *,
    vocab_size: int,
    mask_token: int,
    select: float = 0.15,
) -> Tensor:
    """Return the corrupted tokens and the labels, 2 b l: a label is −100 where there is nothing to predict.

    Raises ValueError, before any work, for tokens outside the vocabulary and for shares outside [0, 1].
    """
    _check(tokens, special, vocab_size, mask_token, select)
    device = tokens.device
    selected = (torch.rand(tokens.shape, device=device) < select) & ~special
    masked = selected & (torch.rand(tokens.shape, device=device) < 0.8)
    random = selected & ~masked & (torch.rand(tokens.shape, device=device) < 0.5)
    anything = torch.randint(vocab_size, tokens.shape, device=device)
    corrupted = torch.where(random, anything, tokens.masked_fill(masked, mask_token))
    return torch.stack([corrupted, tokens.masked_fill(~selected, IGNORED)])


def _check(tokens: Tensor, special: Tensor, vocab_size: int, mask_token: int, select: float) -> None:
    check_axes(tokens=(tokens, "b l"), special=(special, "b l"))
    if tokens.dtype != torch.int64 or special.dtype != torch.bool:
        raise ValueError(f"tokens are {tokens.dtype} and special {special.dtype}, expected torch.int64 and torch.bool")
    if not 0 <= mask_token < vocab_size:
        raise ValueError(f"mask_token should be below vocab_size, {vocab_size}, and not negative, not {mask_token}")
    if not 0 <= select <= 1:
        raise ValueError(f"select should lie between 0 and 1, not be {select}")
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        span = f"{int(tokens.min())} to {int(tokens.max())}"
        raise ValueError(f"tokens should be below vocab_size, {vocab_size}, and not negative, not {span}")
