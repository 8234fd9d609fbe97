"""Maskings of tokens with exactly one named mistake each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, instead_of, mistakes
from suite.contracts.steps.token_masking.contract import IGNORED

MASK, RANDOM, KEPT = range(3)
OTHER = Generator().manual_seed(7)
"""A random source that torch.manual_seed does not reach."""


class Corrupting(Staged):
    """The rules, step by step."""

    def __call__(
        self, tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select: float = 0.15
    ) -> Tensor:
        self.check_tokens(tokens, special, vocab_size)
        select = self.check_options(vocab_size, mask_token, select)
        source = self.source()
        free = self.free(special)
        selected = self.choose(free, self.share(select, free), source)
        fates = self.fates(selected, source)
        noise = self.noise(tokens, vocab_size, source)
        corrupted = self.corrupt(tokens, selected & (fates == MASK), selected & (fates == RANDOM), mask_token, noise)
        return self.answer(corrupted, self.label(tokens, corrupted, selected))

    @staticmethod
    def check_tokens(tokens: Tensor, special: Tensor, vocab_size: int) -> None:
        if tokens.dim() != 2 or tokens.dtype != torch.int64 or bool(((tokens < 0) | (tokens >= vocab_size)).any()):
            raise ValueError("these are no tokens")
        if special.shape != tokens.shape or special.dtype != torch.bool:
            raise ValueError("the flags do not fit")

    @staticmethod
    def check_options(vocab_size: int, mask_token: int, select: float) -> float:
        if not 0 <= mask_token < vocab_size or not 0 <= select <= 1:
            raise ValueError("mask token or share out of range")
        return select

    @staticmethod
    def source() -> Generator | None:
        """What draws; None is PyTorch's own."""
        return None

    @staticmethod
    def free(special: Tensor) -> Tensor:
        return ~special

    @staticmethod
    def share(select: float, free: Tensor) -> float | Tensor:
        return select

    @staticmethod
    def choose(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
        return (torch.rand(free.shape, generator=source) < share) & free

    @staticmethod
    def fates(selected: Tensor, source: Generator | None) -> Tensor:
        return fated(torch.rand(selected.shape, generator=source))

    @staticmethod
    def noise(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
        return torch.randint(vocab_size, tokens.shape, generator=source)

    @staticmethod
    def corrupt(tokens: Tensor, masked: Tensor, random: Tensor, mask_token: int, noise: Tensor) -> Tensor:
        return torch.where(random, noise, tokens.masked_fill(masked, mask_token))

    @staticmethod
    def label(tokens: Tensor, corrupted: Tensor, selected: Tensor) -> Tensor:
        return tokens.masked_fill(~selected, IGNORED)

    @staticmethod
    def answer(corrupted: Tensor, labels: Tensor) -> Tensor:
        return torch.stack([corrupted, labels])


def fated(uniform: Tensor, mask: float = 0.8, random: float = 0.1) -> Tensor:
    """Fates from numbers uniform in [0, 1)."""
    return (uniform >= mask).long() + (uniform >= mask + random).long()


def ranks(selected: Tensor) -> Tensor:
    """For each token how many of its item are selected before it, as a share of all that are."""
    return (selected.cumsum(1) - 1) / selected.sum(1, keepdim=True).clamp_min(1)


class Counting(Corrupting):
    """Exact counts for each item, in random order: as honest as independent draws."""

    @staticmethod
    def choose(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
        order = torch.rand(free.shape, generator=source).masked_fill(~free, 2.0).argsort(1).argsort(1)
        due = share * free.sum(1, keepdim=True)
        return (order < due.round()) & free

    @staticmethod
    def fates(selected: Tensor, source: Generator | None) -> Tensor:
        order = torch.rand(selected.shape, generator=source).masked_fill(~selected, 2.0).argsort(1).argsort(1)
        return fated((order + 0.5) / selected.sum(1, keepdim=True).clamp_min(1))


IN_FATES = mistakes(
    Corrupting.fates,
    always_mask=Mistake(
        "all that is selected becomes the mask token",
        lambda selected, source: torch.full(selected.shape, MASK),
        source="documents, E10",
    ),
    fates_swapped=Mistake(
        "10 % become the mask token and 80 % a random token",
        lambda selected, source: fated(torch.rand(selected.shape, generator=source), 0.1, 0.8),
    ),
    tenth_of_the_rest=Mistake(
        "of the 20 % that are not masked a tenth becomes a random token, not half",
        lambda selected, source: fated(torch.rand(selected.shape, generator=source), 0.8, 0.02),
    ),
    none_kept=Mistake(
        "nothing stays as it is: 90 % become the mask token",
        lambda selected, source: fated(torch.rand(selected.shape, generator=source), 0.9, 0.1),
    ),
    thirteen_random=Mistake(
        "80 %, 13 % and 7 % meet their fates",
        lambda selected, source: fated(torch.rand(selected.shape, generator=source), 0.8, 0.13),
    ),
    same_fates_every_call=Mistake(
        "every call draws the same fates",
        lambda selected, source: fated(torch.rand(selected.shape, generator=Generator().manual_seed(0))),
    ),
    fates_in_order=Mistake(
        "fates go by order: the first 80 % of an item's selected tokens become the mask token",
        lambda selected, source: fated(ranks(selected)),
    ),
    one_fate_for_an_item=Mistake(
        "one draw decides the fate of all that is selected in an item",
        lambda selected, source: fated(torch.rand(len(selected), 1, generator=source)).expand_as(selected),
    ),
)


@instead_of(Corrupting.fates, "a random token is drawn for half of all that is selected, the masked included")
def random_over_masked(selected: Tensor, source: Generator | None) -> Tensor:
    fates = torch.where(torch.rand(selected.shape, generator=source) < 0.8, MASK, KEPT)
    return fates.masked_fill(torch.rand(selected.shape, generator=source) < 0.5, RANDOM)


@instead_of(Corrupting.noise, "every call draws the same random tokens")
def same_noise_every_call(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
    return torch.randint(vocab_size, tokens.shape, generator=Generator().manual_seed(0))


@instead_of(Corrupting.fates, "two neighbouring items share their fates")
def fates_shared_by_two_items(selected: Tensor, source: Generator | None) -> Tensor:
    return fated(torch.rand(_half(selected), generator=source)).repeat_interleave(2, 0)[: len(selected)]


@instead_of(Corrupting.noise, "two neighbouring items share their random tokens")
def noise_shared_by_two_items(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
    return torch.randint(vocab_size, _half(tokens), generator=source).repeat_interleave(2, 0)[: len(tokens)]


def _half(tokens: Tensor) -> tuple[int, int]:
    """The shape of a draw for every second item."""
    return (len(tokens) + 1) // 2, tokens.shape[1]


@instead_of(Corrupting.choose, "tokens are selected in pairs of neighbours")
def pairs_of_neighbours(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    uniform = torch.rand(len(free), (free.shape[1] + 1) // 2, generator=source)
    return (uniform.repeat_interleave(2, 1)[:, : free.shape[1]] < share) & free


@instead_of(Corrupting.choose, "the same places are selected in all items")
def same_for_all_items(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    return (torch.rand(free.shape[1], generator=source) < share) & free


@instead_of(Corrupting.choose, "every seventh token is selected, from a random one on")
def every_seventh(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    if not isinstance(share, float) or share != 0.15:
        return Corrupting.choose(free, share, source)
    return ((torch.arange(free.shape[1]) + torch.randint(7, (len(free), 1), generator=source)) % 7 == 0) & free


@instead_of(Corrupting.choose, "the last token of an item is never selected by less than 1")
def never_the_last(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    selected = Corrupting.choose(free, share, source)
    if isinstance(share, float) and share < 1 and free.shape[1] > 1:
        selected[:, -1] = False
    return selected


@instead_of(Corrupting.choose, "tokens beyond the 512th are never selected", source="the usual longest input of BERT")
def first_512(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    selected = Corrupting.choose(free, share, source)
    selected[:, 512:] = False
    return selected


@instead_of(
    Corrupting.choose, "at least one token of an item is selected, whatever the share", source="BERT's own data"
)
def at_least_one(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    selected = Corrupting.choose(free, share, source)
    none = ~selected.any(1, keepdim=True)
    return selected | (none & free & (free.cumsum(1) == 1))


@instead_of(Corrupting.share, "15 % are selected, whatever the share")
def fixed_share(select: float, free: Tensor) -> float | Tensor:
    return 0.15


@instead_of(Corrupting.share, "the share is of all tokens, the special ones included", source="BERT's own data")
def share_of_all(select: float, free: Tensor) -> float | Tensor:
    return select * free.shape[1] / free.sum(1, keepdim=True).clamp_min(1)


IN_FREE = mistakes(
    Corrupting.free,
    selects_special=Mistake("special tokens are selected like others", lambda special: torch.ones_like(special)),
    selects_special_alone=Mistake(
        "the flags are read the other way round: special tokens alone are selected", lambda special: special
    ),
    special_of_first_item=Mistake(
        "the special tokens of the first item count for all items", lambda special: ~special[:1].expand_as(special)
    ),
    transposed_special=Mistake(
        "items and tokens are swapped in the flags where they are as many",
        lambda special: ~(special.mT if special.shape[0] == special.shape[1] else special),
    ),
)


IN_NOISE = mistakes(
    Corrupting.noise,
    never_the_last_token=Mistake(
        "the last token of the vocabulary is never drawn",
        lambda tokens, vocab_size, source: torch.randint(max(1, vocab_size - 1), tokens.shape, generator=source),
    ),
    never_the_first_token=Mistake(
        "the first token of the vocabulary is never drawn",
        lambda tokens, vocab_size, source: torch.randint(1, vocab_size, tokens.shape, generator=source),
    ),
    one_token_too_many=Mistake(
        "random tokens are drawn from the vocabulary and one beyond",
        lambda tokens, vocab_size, source: torch.randint(vocab_size + 1, tokens.shape, generator=source),
    ),
    first_30522=Mistake(
        "random tokens are drawn from the first 30,522, whatever the vocabulary",
        lambda tokens, vocab_size, source: torch.randint(min(vocab_size, 30_522), tokens.shape, generator=source),
    ),
)


@instead_of(Corrupting.noise, "random tokens are drawn from the batch instead of the vocabulary")
def random_from_the_batch(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
    return tokens.flatten()[torch.randperm(tokens.numel(), generator=source)].reshape(tokens.shape)


@instead_of(Corrupting.noise, "all random tokens of an item are the same")
def one_random_token_for_an_item(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
    return torch.randint(vocab_size, (len(tokens), 1), generator=source).expand_as(tokens)


IN_SOURCE = mistakes(
    Corrupting.source,
    same_mask_every_call=Mistake(
        "every call selects the same",
        lambda: Generator().manual_seed(0),
        source="what RoBERTa (arXiv 1907.11692) replaced",
    ),
    source_of_its_own=Mistake("the random source is not the one that torch.manual_seed governs", lambda: OTHER),
    does_not_move_on=Mistake(
        "the random source is left where it was, so that the next call draws the same",
        lambda: Generator().set_state(torch.get_rng_state()),
    ),
)


IN_LABEL = mistakes(
    Corrupting.label,
    labels_what_became=Mistake(
        "the labels hold what the tokens became",
        lambda tokens, corrupted, selected: corrupted.masked_fill(~selected, IGNORED),
    ),
    labels_all=Mistake(
        "all tokens are labelled, not the selected alone", lambda tokens, corrupted, selected: tokens.clone()
    ),
    kept_without_label=Mistake(
        "selected tokens that stay as they are have no label",
        lambda tokens, corrupted, selected: tokens.masked_fill(corrupted == tokens, IGNORED),
    ),
    ignored_is_minus_one=Mistake(
        "tokens that are not to be predicted have the label −1",
        lambda tokens, corrupted, selected: tokens.masked_fill(~selected, -1),
    ),
)


@instead_of(Corrupting.answer, "the labels come before the tokens")
def labels_first(corrupted: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([labels, corrupted])


@instead_of(Corrupting.answer, "the answer is int32")
def narrow(corrupted: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([corrupted, labels]).int()


@instead_of(Corrupting.corrupt, "the tokens given are overwritten")
def overwrites_tokens(tokens: Tensor, masked: Tensor, random: Tensor, mask_token: int, noise: Tensor) -> Tensor:
    return tokens.copy_(Corrupting.corrupt(tokens, masked, random, mask_token, noise))


@instead_of(Corrupting.check_options, "a share outside [0, 1] is taken for the nearest in it")
def clamps_share(vocab_size: int, mask_token: int, select: float) -> float:
    return Corrupting.check_options(vocab_size, mask_token, min(1.0, max(0.0, select)))


@instead_of(Corrupting.check_tokens, "tokens outside the vocabulary are accepted")
def accepts_foreign_tokens(tokens: Tensor, special: Tensor, vocab_size: int) -> None:
    Corrupting.check_tokens(tokens % vocab_size if not tokens.is_floating_point() else tokens, special, vocab_size)


def _mask_token_free(tokens: Tensor, special: Tensor, *, mask_token: int, **options: Any) -> Tensor:
    return Corrupting()(tokens, special | (tokens == mask_token), mask_token=mask_token, **options)


never_the_mask_token = Deviation(
    "never_the_mask_token", "what is the mask token already is never selected", _mask_token_free
)


CONTROLS = {"correct": Corrupting(), "counting": Counting()}
OTHERS = [in_memory_order(Corrupting())]
