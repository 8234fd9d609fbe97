"""The contract `token_masking`: which tokens a masked language model has to predict, and what it sees in their place.

    token_masking(tokens, special, *, vocab_size, mask_token, select=0.15) -> masking

    masking[0]       the tokens after the corruption
    masking[1]       the labels: the original token where it was selected, −100 elsewhere, as losses ignore it

Axes: `b l` tokens and special, `2 b l` masking (b items, l tokens of each). Devlin and others, "BERT" (arXiv
1810.04805), section 3.1.

    selection        of the tokens that are not special, each is selected with probability `select`; 0 selects none and
                     1 all
    exact counts     of an item's or of all tokens that are not special may be selected instead of independent draws;
                     statistics are asked where `select` of each item's are a whole number
    fate             of the selected, 80 % become the mask token, 10 % a random token and 10 % stay as they are, each by
                     a draw of its own or by exact counts in random order
    random token     uniform over the vocabulary. The original, the mask token and special tokens are in it, but an
                     implementation may leave them out
    special          True marks what is never selected: padding, separators. A token that is the mask token already is
                     selected like any other, unless it is marked
    labels           of all selected tokens, those that stay included
    the rest         tokens that are not selected stay as they are
    random source    `torch.manual_seed`: the same seed gives the same masking, and each call draws anew
    rounding         tokens are integers, and nothing is rounded; where exact counts are no whole number, rounding
                     either way is honest
    inputs           tokens int64, special boolean, both of any strides; never modified; the output aliases none, and
                     outlives later calls
    output           int64, on the tokens' device
    bad input        raises: another rank than 2, shapes that differ, special tokens that are not marked by booleans,
                     tokens that are no int64, tokens or a mask token outside the vocabulary, a share outside [0, 1]

Tokens are integers, so that there is one dtype to ask: the cases stand in the rows of float32. A run accuses an
honest implementation with probability ≤ 1e-9.
"""

from __future__ import annotations

from attnsuite.cases import COMMON, declare

POSITIONAL = ("tokens", "special")
IGNORED = -100
"""The label of what is not to be predicted: what PyTorch's cross entropy ignores."""
FATES = {"mask": 0.8, "random": 0.1, "kept": 0.1}
"""What becomes of the selected."""

CONTRACT = declare(
    __name__,
    {"select": "a share other than 15 %"},
    {"select": ("select",)},
    also={"float32": lambda call: True},
    everywhere={
        "float32": "integers, which have this row",
        "cpu": COMMON["cpu"],
        "cuda": COMMON["cuda"],
    },
)
