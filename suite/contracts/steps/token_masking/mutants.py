"""Maskings of tokens with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps
from attnsuite.cases.mutants import (
    Mutation,
    filled_beyond,
    first_for_all,
    formula,
    mutants,
    reads_in_memory_order,
    reuses_output,
    turned,
    with_arguments,
    with_result,
)
from attnsuite.contracts.steps.token_masking.contract import IGNORED

MASK, RANDOM, KEPT = range(3)
OTHER = Generator().manual_seed(7)
"""A random source that torch.manual_seed does not reach."""


class Corrupting(Steps):
    """The rules, step by step."""

    axes = Axes(tokens="b l", special="b l")

    def compute(
        self, tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select: float = 0.15
    ) -> Tensor:
        source = self.source()
        free = self.free(special)
        selected = self.choose(free, self.share(select, free), source)
        fates = self.fates(selected, source)
        noise = self.noise(tokens, vocab_size, source)
        corrupted = self.corrupt(tokens, selected & (fates == MASK), selected & (fates == RANDOM), mask_token, noise)
        return self.answer(corrupted, self.label(tokens, corrupted, selected))

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        tokens, vocab_size = given["tokens"], given["vocab_size"]
        if tokens.dtype != torch.int64 or bool(((tokens < 0) | (tokens >= vocab_size)).any()):
            raise ValueError("these are no tokens")
        if given["special"].dtype != torch.bool:
            raise ValueError("the flags are not boolean")
        if not 0 <= given["mask_token"] < vocab_size or not 0 <= given["select"] <= 1:
            raise ValueError("mask token or share out of range")

    source = staticmethod(lambda: None)  # what draws; None is PyTorch's own

    free = formula(lambda special: ~special)
    share = staticmethod(lambda select, free: select)

    choose = formula(lambda free, share, source: (torch.rand(free.shape, generator=source) < share) & free)
    fates = formula(lambda selected, source: fated(torch.rand(selected.shape, generator=source)))
    noise = formula(lambda tokens, vocab_size, source: torch.randint(vocab_size, tokens.shape, generator=source))

    @staticmethod
    def corrupt(tokens: Tensor, masked: Tensor, random: Tensor, mask_token: int, noise: Tensor) -> Tensor:
        return torch.where(random, noise, tokens.masked_fill(masked, mask_token))

    label = formula(lambda tokens, corrupted, selected: tokens.masked_fill(~selected, IGNORED))
    answer = formula(lambda corrupted, labels: torch.stack([corrupted, labels]))


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


def fated_by(mask: float, random: float) -> Callable[..., Tensor]:
    """Fates with other shares of mask tokens and random tokens."""
    return lambda selected, source: fated(torch.rand(selected.shape, generator=source), mask, random)


def within_vocabulary(given: Arguments) -> Arguments:
    """The check sees tokens outside the vocabulary as tokens in it."""
    tokens = given["tokens"]
    return given if tokens.is_floating_point() else {**given, "tokens": tokens % given["vocab_size"]}


def shared_by_two(step: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The step draws for every second item, and the next one gets the same."""

    def drawn(tokens: Tensor, *others: Any) -> Tensor:
        return step(tokens[::2], *others).repeat_interleave(2, 0)[: len(tokens)]

    return drawn


def random_over_masked(selected: Tensor, source: Generator | None) -> Tensor:
    fates = torch.where(torch.rand(selected.shape, generator=source) < 0.8, MASK, KEPT)
    return fates.masked_fill(torch.rand(selected.shape, generator=source) < 0.5, RANDOM)


def pairs_of_neighbours(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    uniform = torch.rand(len(free), (free.shape[1] + 1) // 2, generator=source)
    return (uniform.repeat_interleave(2, 1)[:, : free.shape[1]] < share) & free


def every_seventh(free: Tensor, share: float | Tensor, source: Generator | None) -> Tensor:
    if not isinstance(share, float) or share != 0.15:
        return Corrupting.choose(free, share, source)
    return ((torch.arange(free.shape[1]) + torch.randint(7, (len(free), 1), generator=source)) % 7 == 0) & free


def never_the_last(selected: Tensor, share: float | Tensor) -> Tensor:
    if isinstance(share, float) and share < 1 and selected.shape[1] > 1:
        selected[:, -1] = False
    return selected


def at_least_one(selected: Tensor, free: Tensor) -> Tensor:
    return selected | (~selected.any(1, keepdim=True) & free & (free.cumsum(1) == 1))


def from_the_batch(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
    return tokens.flatten()[torch.randperm(tokens.numel(), generator=source)].reshape(tokens.shape)


def one_for_an_item(tokens: Tensor, vocab_size: int, source: Generator | None) -> Tensor:
    return torch.randint(vocab_size, (len(tokens), 1), generator=source).expand_as(tokens)


def alike(source: Any) -> Generator:
    """A random source that begins anew in every call."""
    return Generator().manual_seed(0)


CONTROLS = {"correct": Corrupting(), "counting": Counting()}
GENERAL_MUTANTS = [reads_in_memory_order(Corrupting()), reuses_output(Corrupting())]
MUTANTS = mutants(
    Corrupting,
    whole={
        "clamps_share": Mutation(
            "a share outside [0, 1] is taken for the nearest in it",
            with_arguments(select=lambda select: min(1.0, max(0.0, select))),
        ),
        "never_the_mask_token": Mutation(
            "what is the mask token already is never selected",
            with_arguments(special=lambda special, tokens, mask_token: special | (tokens == mask_token)),
        ),
    },
    check={
        "accepts_foreign_tokens": Mutation(
            "tokens outside the vocabulary are accepted", with_arguments(given=within_vocabulary)
        )
    },
    source={
        "same_mask_every_call": Mutation(
            "every call selects the same",
            lambda: Generator().manual_seed(0),
            "what RoBERTa (arXiv 1907.11692) replaced",
        ),
        "source_of_its_own": Mutation("the random source is not the one that torch.manual_seed governs", lambda: OTHER),
        "does_not_move_on": Mutation(
            "the random source is left where it was, so that the next call draws the same",
            lambda: Generator().set_state(torch.get_rng_state()),
        ),
    },
    free={
        "selects_special": Mutation("special tokens are selected like others", torch.ones_like),
        "selects_special_alone": Mutation(
            "the flags are read the other way round: special tokens alone are selected", lambda special: special
        ),
        "special_of_first_item": Mutation(
            "the special tokens of the first item count for all items", with_arguments(special=first_for_all())
        ),
        "transposed_special": Mutation(
            "items and tokens are swapped in the flags where they are as many", with_arguments(special=turned)
        ),
    },
    share={
        "fixed_share": Mutation("15 % are selected, whatever the share", lambda select, free: 0.15),
        "share_of_all": Mutation(
            "the share is of all tokens, the special ones included",
            lambda select, free: select * free.shape[1] / free.sum(1, keepdim=True).clamp_min(1),
            "BERT's own data",
        ),
    },
    choose={
        "selects_ten_percent": Mutation(
            "10 % are selected where 15 % should be",
            with_arguments(share=lambda share: 0.1 if share == 0.15 else share),
        ),
        "selects_all_or_none": Mutation(
            "one draw decides for all tokens of a call",
            lambda free, share, source: (torch.rand((), generator=source) < share) & free,
        ),
        "selects_a_tenth_too_rarely": Mutation(
            "a tenth fewer tokens are selected than the share says",
            with_arguments(share=lambda share: share * 0.9 if isinstance(share, float) and share < 1 else share),
        ),
        "pairs_of_neighbours": Mutation("tokens are selected in pairs of neighbours", pairs_of_neighbours),
        "same_for_all_items": Mutation(
            "the same places are selected in all items",
            lambda free, share, source: (torch.rand(free.shape[1], generator=source) < share) & free,
        ),
        "every_seventh": Mutation("every seventh token is selected, from a random one on", every_seventh),
        "never_the_last": Mutation(
            "the last token of an item is never selected by less than 1", with_result(never_the_last)
        ),
        "first_512": Mutation(
            "tokens beyond the 512th are never selected",
            with_result(filled_beyond(512, False)),
            "the usual longest input of BERT",
        ),
        "at_least_one": Mutation(
            "at least one token of an item is selected, whatever the share",
            with_result(at_least_one),
            "BERT's own data",
        ),
    },
    fates={
        "always_mask": Mutation(
            "all that is selected becomes the mask token",
            lambda selected, source: torch.full(selected.shape, MASK),
            "documents, E10",
        ),
        "fates_swapped": Mutation("10 % become the mask token and 80 % a random token", fated_by(0.1, 0.8)),
        "tenth_of_the_rest": Mutation(
            "of the 20 % that are not masked a tenth becomes a random token, not half", fated_by(0.8, 0.02)
        ),
        "none_kept": Mutation("nothing stays as it is: 90 % become the mask token", fated_by(0.9, 0.1)),
        "none_kept_and_a_fifth_random": Mutation(
            "nothing stays as it is: 20 % become a random token", fated_by(0.8, 0.2)
        ),
        "none_random": Mutation("nothing becomes a random token: 20 % stay as they are", fated_by(0.8, 0.0)),
        "ninety_masked": Mutation("90 %, 5 % and 5 % meet their fates", fated_by(0.9, 0.05)),
        "seventy_masked": Mutation("70 %, 15 % and 15 % meet their fates", fated_by(0.7, 0.15)),
        "equal_fates": Mutation("the three fates are as likely as each other", fated_by(1 / 3, 1 / 3)),
        "one_fate_for_a_call": Mutation(
            "one draw decides the fate of all that is selected in a call",
            lambda selected, source: Corrupting.fates(selected[:1, :1], source).expand_as(selected),
        ),
        "eleven_random": Mutation("80 %, 11 % and 9 % meet their fates", fated_by(0.8, 0.11)),
        "thirteen_random": Mutation("80 %, 13 % and 7 % meet their fates", fated_by(0.8, 0.13)),
        "same_fates_every_call": Mutation("every call draws the same fates", with_arguments(source=alike)),
        "fates_in_order": Mutation(
            "fates go by order: the first 80 % of an item's selected tokens become the mask token",
            lambda selected, source: fated(ranks(selected)),
        ),
        "one_fate_for_an_item": Mutation(
            "one draw decides the fate of all that is selected in an item",
            lambda selected, source: Corrupting.fates(selected[:, :1], source).expand_as(selected),
        ),
        "random_over_masked": Mutation(
            "a random token is drawn for half of all that is selected, the masked included", random_over_masked
        ),
        "fates_shared_by_two_items": Mutation(
            "two neighbouring items share their fates", shared_by_two(Corrupting.fates)
        ),
    },
    noise={
        "never_the_last_token": Mutation(
            "the last token of the vocabulary is never drawn",
            with_arguments(vocab_size=lambda vocab_size: max(1, vocab_size - 1)),
        ),
        "never_the_first_token": Mutation(
            "the first token of the vocabulary is never drawn",
            lambda tokens, vocab_size, source: torch.randint(1, vocab_size, tokens.shape, generator=source),
        ),
        "one_token_too_many": Mutation(
            "random tokens are drawn from the vocabulary and one beyond",
            with_arguments(vocab_size=lambda vocab_size: vocab_size + 1),
        ),
        "first_30522": Mutation(
            "random tokens are drawn from the first 30,522, whatever the vocabulary",
            with_arguments(vocab_size=lambda vocab_size: min(vocab_size, 30_522)),
        ),
        "random_from_the_batch": Mutation(
            "random tokens are drawn from the batch instead of the vocabulary", from_the_batch
        ),
        "one_random_token_for_an_item": Mutation("all random tokens of an item are the same", one_for_an_item),
        "same_noise_every_call": Mutation("every call draws the same random tokens", with_arguments(source=alike)),
        "noise_shared_by_two_items": Mutation(
            "two neighbouring items share their random tokens", shared_by_two(Corrupting.noise)
        ),
    },
    corrupt={
        "overwrites_tokens": Mutation(
            "the tokens given are overwritten", with_result(lambda corrupted, tokens: tokens.copy_(corrupted))
        )
    },
    label={
        "labels_what_became": Mutation(
            "the labels hold what the tokens became",
            lambda tokens, corrupted, selected: corrupted.masked_fill(~selected, IGNORED),
        ),
        "labels_all": Mutation(
            "all tokens are labelled, not the selected alone", lambda tokens, corrupted, selected: tokens.clone()
        ),
        "kept_without_label": Mutation(
            "selected tokens that stay as they are have no label",
            lambda tokens, corrupted, selected: tokens.masked_fill(corrupted == tokens, IGNORED),
        ),
        "ignored_is_minus_one": Mutation(
            "tokens that are not to be predicted have the label −1",
            lambda tokens, corrupted, selected: tokens.masked_fill(~selected, -1),
        ),
    },
    answer={
        "labels_first": Mutation(
            "the labels come before the tokens", lambda corrupted, labels: torch.stack([labels, corrupted])
        ),
        "narrow": Mutation("the answer is int32", with_result(lambda answer: answer.int())),
    },
)
