"""The contract `token_masking`: the tokens that a masked language model has to predict, and what it sees instead.

    token_masking(tokens, special, *, vocab_size, mask_token, select=0.15) -> masking

    masking[0]       the tokens after the corruption
    masking[1]       the labels: the original token where it was selected, −100 elsewhere, as losses ignore it

Axes: `b l` tokens and special, `2 b l` masking (b items, l tokens of each). Devlin and others, "BERT" (arXiv
1810.04805), section 3.1.

    selection        of the tokens that are not special, each is selected with probability `select`; 0 selects none and
                     1 all
    exact counts     of an item's or of all tokens that are not special may be selected instead of independent draws;
                     statistics are tested where these counts are whole numbers
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

Tokens are integers, so that there is one dtype to test: the cases are counted as float32. A run rejects a
correct implementation with probability ≤ 1e-9.

Not tested:

    whole words      masking all tokens of a word, or spans, as later models do
    data loaders     a masking that is drawn once and reused in every epoch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator as Source
from torch import Tensor

from attnsuite.cases import COMMON, Calls, Case, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.changes import filled_beyond, turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps
from attnsuite.cases.expected import Form
from attnsuite.cases.formula import Formula, FormulaCase
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.mutants import (
    Mutation,
    formula,
    mutants,
    reads_in_memory_order,
    reuses_output,
    with_arguments,
    with_result,
)
from attnsuite.cases.random_cases import SEED, CountedCase
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.sources import documents
from attnsuite.judging.patterns import Seeds, agreement, pairs
from attnsuite.judging.shares import Share, Statistic

CONTRACT = declare(
    __name__,
    {"select": "a share other than 15 %"},
    {"select": ("select",)},
    also={"float32": lambda call: True},
    everywhere={"float32": "integers, which are counted as this dtype", "cpu": COMMON["cpu"], "cuda": COMMON["cuda"]},
)
POSITIONAL = ("tokens", "special")
IGNORED = -100
"""The label of tokens that are not predicted: PyTorch's cross entropy ignores it."""
FATES = {"mask": 0.8, "random": 0.1, "kept": 0.1}
"""The fates of selected tokens, and their probabilities."""

LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64)
"""Distances at which selections are compared: neighbours, one in seven, which is nearly 15 %, and whole tiles."""


@dataclass(frozen=True)
class Masking:
    """One output with its inputs; all arrays are b l."""

    tokens: Array
    special: Array
    corrupted: Array
    labels: Array
    vocab_size: int
    mask_token: int
    select: float

    @property
    def selected(self) -> Array:
        return np.asarray(self.labels != IGNORED)

    @property
    def fates(self) -> Array:
        """The fate of each token if it was selected: "mask", "random" or "kept"."""
        changed = np.where(self.corrupted == self.mask_token, "mask", "random")
        return np.where(self.corrupted == self.tokens, "kept", changed)

    @property
    def likely(self) -> dict[str, tuple[float, float]]:
        """The probability of each visible fate: a random token may happen to be the mask token or the original."""
        by_chance = FATES["random"] / self.vocab_size
        return {
            "mask": (FATES["mask"], FATES["mask"] + by_chance),
            "random": (FATES["random"] - 2 * by_chance, FATES["random"]),
            "kept": (FATES["kept"], FATES["kept"] + by_chance),
        }

    @property
    def agreeing(self) -> tuple[float, float]:
        """The probability that two places agree in their selection: of independent draws, and less of exact counts."""
        p, length = self.select, self.tokens.shape[1]
        independent = p * p + (1 - p) ** 2
        return independent - 2 * p * (1 - p) / (length - 1), independent

    @property
    def sharing(self) -> tuple[float, float]:
        """The probability that two selected tokens share their fate: less where the counts of an item are exact."""
        selected = self.select * self.tokens.shape[1]
        exact = sum(share * (share * selected - 1) / (selected - 1) for share in FATES.values())
        return exact, sum(most * most for _, most in self.likely.values())


WORDS = {
    "selected": "are selected", "untouched": "stay untouched", "mask": "become the mask token",
    "random": "become a random token", "kept": "stay as they are, though selected",
}  # fmt: skip
Judge = Callable[..., list[Share]]
"""Counts in the outputs of the calls of a case, each an argument."""


def counted(says: str, places: Array, among: Array, low: float, high: float | None = None) -> Share:
    """How many of the places `among` are these; the probability is `low`, or between `low` and `high`."""
    return Share(says, int((places & among).sum()), int(among.sum()), low, low if high is None else high)


def rules(maskings: Sequence[Masking]) -> list[Share]:
    """The rules that hold for every token of every output."""
    counts = []
    for masking in maskings:
        chosen, special, corrupted = masking.selected, masking.special, masking.corrupted
        outside = (corrupted < 0) | (corrupted >= masking.vocab_size)
        broken = {
            "special tokens are selected": (chosen, special),
            "labels are not the original token": (masking.labels != masking.tokens, chosen),
            "tokens that are not selected are changed": (corrupted != masking.tokens, ~chosen),
            "tokens lie outside the vocabulary": (outside, outside | True),
        }
        counts += [counted(says, places, among, 0.0) for says, (places, among) in broken.items()]
    return counts


def selection(masking: Masking) -> list[Share]:
    """Selected tokens."""
    return [counted("tokens are selected", masking.selected, ~masking.special, masking.select)]


def kinds(masking: Masking) -> list[Share]:
    """Selected tokens, and their fates."""
    of_fates = (
        counted(f"selected tokens {WORDS[fate]}", masking.fates == fate, masking.selected, *likely)
        for fate, likely in masking.likely.items()
    )
    return [*selection(masking), *of_fates]


def parts(says: str, count: int = 0) -> Judge:
    """Selected tokens in this many parts of the positions, or at each position; `says` gets their number."""

    def judge(masking: Masking) -> list[Share]:
        pieces = np.array_split(masking.selected, count or masking.selected.shape[1], axis=1)
        return [counted(says.format(n), piece, piece | True, masking.select) for n, piece in enumerate(pieces, 1)]

    return judge


def agreeing(masking: Masking) -> list[Share]:
    """Places some steps apart that are both selected or both not, along each axis."""
    says = "pairs of {} {} apart agree in their selection"
    return agreement(masking.selected, ("items", "positions"), LAGS, says, *masking.agreeing)


def mixed(masking: Masking) -> list[Share]:
    """Mask tokens in each half, and neighbours, in an item or in two items, that share their fate."""
    is_mask, counts = masking.fates == "mask", []
    for axis, name in enumerate(("items", "positions")):
        halves = zip(np.array_split(masking.selected, 2, axis), np.array_split(is_mask, 2, axis), strict=True)
        for half, (selected, of_half) in enumerate(halves, start=1):
            says = f"selected tokens in half {half} of the {name} become the mask token"
            counts.append(counted(says, of_half, selected, *masking.likely["mask"]))
    first, second = pairs(masking.fates[masking.selected], 1)
    both: Array = np.logical_and(*pairs(masking.selected, 1))
    neighbours = {
        "pairs of selected tokens": (first == second, first == first),
        "tokens selected in two neighbouring items": (np.asarray(np.equal(*pairs(masking.fates, 1))), both),
    }
    return counts + [
        counted(f"{says} share their fate", alike, among, *masking.sharing)
        for says, (alike, among) in neighbours.items()
    ]


def uniform(masking: Masking) -> list[Share]:
    """Random tokens from each part of the vocabulary, without the tokens that may be left out of it."""
    known = np.union1d(masking.tokens, masking.mask_token)
    others = np.delete(np.arange(masking.vocab_size), known)
    was_there = np.isin(masking.corrupted, known)
    drawn = masking.corrupted[masking.selected & (masking.fates == "random") & ~was_there]
    one, other = pairs(drawn, 1)
    in_items, both = pairs(masking.corrupted, 1), np.logical_and(*pairs(masking.selected & ~was_there, 1))
    by_chance, even = FATES["random"] * len(known) / masking.vocab_size, 1 / len(others)
    replaced = (masking.fates == "random") & was_there
    bounds = [part[0] for part in np.array_split(others, min(len(others), 64))] + [masking.vocab_size]
    return [
        counted("selected tokens become another of those that were there", replaced, masking.selected, 0.0, by_chance),
        counted("pairs of random tokens are equal", one == other, one == one, even),
        counted("random tokens of two neighbouring items are equal", np.asarray(np.equal(*in_items)), both, even),
        *(counted(f"random tokens lie from {start} on", (drawn >= start) & (drawn < stop), drawn == drawn,
            ((others >= start) & (others < stop)).sum() * even) for start, stop in pairwise(bounds)),
    ]  # fmt: skip


def repeated(first: Masking, again: Masking, other: Masking, next_call: Masking) -> list[Share]:
    """The same seed twice, another seed, and the call after it: the places in which they agree."""
    differ = (first.corrupted != again.corrupted) | (first.labels != again.labels)
    counts = [counted("places differ between two calls with one seed", differ, differ | True, 0.0)]
    low, high = (sum(share[end] ** 2 for share in first.likely.values()) for end in (0, 1))
    for one, two, by in ((first, other, "two seeds"), (other, next_call, "two calls")):
        chosen, agree = one.selected & two.selected, one.selected == two.selected
        random = chosen & (one.fates == "random") & (two.fates == "random")
        same = one.corrupted == two.corrupted
        counts += [
            counted(f"places agree in their selection by {by}", agree, agree | True, *first.agreeing),
            counted(f"places selected twice share their fate by {by}", one.fates == two.fates, chosen, low, high),
            counted(f"random tokens are the same by {by}", same, random, 0.0, 1 / (first.vocab_size - 2)),
        ]
    return counts


def in_all(fate: str, probability: float) -> Judge:
    """All tokens that are selected, meet a fate or stay untouched, by a document's numbers."""

    def judge(masking: Masking) -> list[Share]:
        chosen, by_chance = masking.selected, 2 / masking.vocab_size  # a random token may be the original or the mask
        places = chosen if fate == "selected" else ~chosen if fate == "untouched" else chosen & (masking.fates == fate)
        low, high = probability * (1 - by_chance), probability * (1 + by_chance)
        return [counted(f"tokens {WORDS[fate]}", places, chosen | True, low, high)]

    return judge


VOCABULARY, MASK_TOKEN = 1000, 103
Flags = Callable[[int, int], Array]


def draw(
    random: Generator, *, items: int = 4, length: int = 20, ids: Sequence[int] = tuple(range(MASK_TOKEN)),
    flags: Flags | None = None, **replaced: Array,
) -> Inputs:  # fmt: skip
    """Tokens of these ids, none of them the mask token. A tensor's name with an array replaces that tensor."""
    inputs: dict[str, Array] = {
        "tokens": random.choice(np.asarray(ids), size=(items, length)),
        "special": np.zeros((items, length), bool) if flags is None else flags(items, length),
    }
    return inputs | replaced


OPTIONS = {"vocab_size": VOCABULARY, "mask_token": MASK_TOKEN}
masked = Formula(None, POSITIONAL, draw, options=("select", *OPTIONS), always=OPTIONS, dtypes=("float32",))


class Masked(CountedCase):
    """Maskings of the same tokens, one for each seed. Whatever `judge` counts, the rules must hold."""

    def __init__(self, base: FormulaCase, judge: Judge, seeds: Seeds = (SEED,)) -> None:
        def count(calls: Calls, outputs: Sequence[Array]) -> Sequence[Statistic]:
            tokens, special = (calls[0].tensors[name].numpy() for name in POSITIONAL)
            options = {"select": 0.15, **base.options}
            maskings = [Masking(tokens, special, *output, **options) for output in outputs]
            return rules(maskings) + judge(*maskings)

        super().__init__(base, lambda call: Form((2, *call.tensors["tokens"].shape), torch.int64), count, seeds)


def case(name: str, why: str, judge: Judge = lambda masking: [], seeds: Seeds = (SEED,), **unusual: Any) -> Masked:
    """A masking for each seed."""
    return Masked(masked(name, why, **unusual), judge, seeds)


def ends(items: int, length: int) -> Array:
    """The first and the last token of each item."""
    return np.isin(np.arange(length), (0, length - 1)) & np.ones((items, 1), bool)


def padding(items: int, length: int) -> Array:
    """Items of 20, 40, 60 tokens and so on, padded to one length."""
    lengths = 20 * (1 + np.arange(items) % (length // 20))
    return np.asarray(np.arange(length) >= lengths[:, None])


FLAGS = np.zeros((4, 20), bool)
BAD_INPUT: list[Row] = [
    ("rank", "a single item without its axis", {"tokens": np.zeros(20, np.int64), "special": FLAGS[0]}),
    ("shapes", "19 flags for 20 tokens", {"special": FLAGS[:, :19]}),
    ("broadcast", "flags for one item of 4", {"special": FLAGS[:1]}),
    ("flags", "special tokens marked by integers", {"special": FLAGS.astype(np.int64)}),
    ("numbers", "tokens that are no integers", {"tokens": np.zeros((4, 20))}),
    ("int32", "tokens in int32", {"tokens": np.zeros((4, 20), np.int32)}),
    ("beyond", "a token of 1,000 in a vocabulary of 1,000", {"ids": (999, 1000)}),
    ("negative", "a token of −1", {"ids": (-1, 0)}),
    ("mask_token", "a mask token of 1,000 in a vocabulary of 1,000", {"mask_token": VOCABULARY}),
    ("negative_mask_token", "a mask token of −1", {"mask_token": -1}),
    ("above_one", "a share of 1.5", {"select": 1.5}),
    ("below_zero", "a share of −0.1", {"select": -0.1}),
]
SMALL: dict[str, Any] = {"vocab_size": 40, "mask_token": 20, "ids": (17, 18, 19), "select": 1.0}
LARGE: dict[str, Any] = {"vocab_size": 120_000, "select": 1.0}
MASKS: dict[str, Any] = {"ids": (MASK_TOKEN - 1, MASK_TOKEN), "select": 1.0}
REPEATED: dict[str, Any] = {"seeds": (3, 3, 4, None), "select": 0.5}


def cases() -> list[Case]:
    """All cases, the plainest first; independence before shares, where one draw for many looks like another share."""
    return [
        case("plain/usual", "items and tokens"),
        case("plain/square", "as many items as tokens: axes that were swapped still fit", items=12, length=12),
        case("independence/selection", "neighbours and items are independent", agreeing, items=360, length=200),
        case("independence/positions", "every position is selected as often", parts("items select position {}"),
            items=900),
        case("independence/fates", "fates depend on neither place nor neighbour", mixed, items=136, length=200),
        case("share/usual", "15 % are selected; of these 80 %, 10 % and 10 %", kinds, items=272, length=200),
        case("share/fates", "80 %, 10 % and 10 % of many tokens", kinds, items=460, length=200, select=1.0),
        *documented(),
        case("special/ends", "separators at both ends", flags=ends),
        case("special/square", "flags whose items and tokens could be swapped", items=20,
            flags=lambda items, length: ~np.tri(items, length, dtype=bool)),
        case("special/share", "15 % of the others, not of all", selection, items=140, length=200, flags=padding),
        case("special/mask_token", "tokens that are the mask token already", selection, items=44, **MASKS),
        case("special/everything", "nothing is left to select", selection,
            flags=lambda items, length: np.ones((items, length), bool)),
        case("select/none", "exactly none", selection, select=0.0),
        case("select/all", "exactly all", selection, select=1.0),
        case("select/half", "every second token", selection, select=0.5, items=44, length=200),
        case("seed/repeated", "torch.manual_seed governs the draw", repeated, items=44, length=200, **REPEATED),
        case("vocabulary/small", "each of 40, the first and the last too", uniform, items=180, length=200, **SMALL),
        case("vocabulary/large", "every part of 120,000 is as likely", uniform, items=180, length=200, **LARGE),
        case("size/long", "tokens beyond the 512th", parts("tokens of quarter {} are selected", 4), items=44,
            length=1000),
        case("size/no_items", "an empty batch", items=0),
        case("size/no_tokens", "empty items", length=0),
        out_of_order(case("layout/scattered", "in memory from the last axis to the first", items=8, flags=ends)),
        *masked.bad_input(*BAD_INPUT),
    ]  # fmt: skip


def documented() -> Iterator[Masked]:
    """The document's rates, as shares of all tokens, and as counts of its 2,000."""
    for excerpt in documents.examples_of("token_masking"):
        tokens = excerpt.inputs.get("num_tokens", 28_000)
        total = tokens if "num_tokens" in excerpt.inputs else 1
        for quantity in excerpt.expected:
            fate = next(fate for fate in ("selected", "untouched", *FATES) if fate in quantity)
            formula_case = masked(*excerpt.named(quantity), items=tokens // 200, length=200)
            masking = Masked(formula_case, in_all(fate, excerpt.expected[quantity] / total))
            masking.source = excerpt.at(quantity)
            yield masking


MASK, RANDOM, KEPT = range(3)
OTHER = Source().manual_seed(7)
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
        corrupted = torch.where(selected & (fates == RANDOM), noise, tokens)
        corrupted = corrupted.masked_fill(selected & (fates == MASK), mask_token)
        return self.stack(corrupted, self.label(tokens, corrupted, selected))

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        tokens, vocab_size = arguments["tokens"], arguments["vocab_size"]
        if tokens.dtype != torch.int64 or bool(((tokens < 0) | (tokens >= vocab_size)).any()):
            raise ValueError("these are no tokens")
        if arguments["special"].dtype != torch.bool:
            raise ValueError("the flags are not boolean")
        if not 0 <= arguments["mask_token"] < vocab_size or not 0 <= arguments["select"] <= 1:
            raise ValueError("mask token or share out of range")

    source = staticmethod(lambda: None)  # what draws; None is PyTorch's own

    free = formula(lambda special: ~special)
    share = staticmethod(lambda select, free: select)
    choose = formula(lambda free, share, source: (torch.rand(free.shape, generator=source) < share) & free)
    fates = formula(lambda selected, source: fated(torch.rand(selected.shape, generator=source)))
    noise = formula(lambda tokens, vocab_size, source: torch.randint(vocab_size, tokens.shape, generator=source))

    label = formula(lambda tokens, corrupted, selected: tokens.masked_fill(~selected, IGNORED))
    stack = formula(lambda corrupted, labels: torch.stack([corrupted, labels]))


def fated(uniform: Tensor, mask: float = 0.8, random: float = 0.1) -> Tensor:
    """Fates from numbers uniform in [0, 1)."""
    return (uniform >= mask).long() + (uniform >= mask + random).long()


def in_random_order(places: Tensor) -> Tensor:
    """The ranks of these places in each item, in random order; all others come after them."""
    return torch.rand(places.shape).masked_fill(~places, 2.0).argsort(1).argsort(1)


def fated_by(mask: float, random: float) -> Callable[..., Tensor]:
    """Fates with other shares of mask tokens and random tokens."""
    return lambda selected, source: fated(torch.rand(selected.shape, generator=source), mask, random)


CONTROLS = {"correct": Corrupting()}
MUTANTS = [reads_in_memory_order(Corrupting()), reuses_output(Corrupting())]
MUTANTS += mutants(
    Corrupting,
    whole={
        "clamps_share": Mutation("shares are clamped to [0, 1]",
            with_arguments(select=lambda select: min(1.0, max(0.0, select)))),
        "never_the_mask_token": Mutation("what is the mask token already is never selected",
            with_arguments(special=lambda special, tokens, mask_token: special | (tokens == mask_token))),
    },
    check={"accepts_foreign_tokens": Mutation("unknown tokens are accepted", with_arguments(arguments=lambda arguments:
        {**arguments, "tokens": arguments["tokens"].remainder(arguments["vocab_size"])}))},
    source={
        "same_mask_every_call": Mutation("every call selects the same", lambda: Source().manual_seed(0),
            "before RoBERTa (arXiv 1907.11692)"),
        "source_of_its_own": Mutation("the random source is not the one that torch.manual_seed governs", lambda: OTHER),
    },
    free={
        "selects_special": Mutation("special tokens are selected like others", torch.ones_like),
        "selects_special_alone": Mutation("the flags are inverted: only special tokens are selected",
            lambda special: special),
        "transposed_special": Mutation("the flags are transposed where they are square",
            with_arguments(special=turned)),
    },
    share={
        "fixed_share": Mutation("15 % are selected, whatever the share", lambda select, free: 0.15),
        "share_of_all": Mutation("the share is of all tokens, the special ones included",
            lambda select, free: select * free.shape[1] / free.sum(1, keepdim=True).clamp_min(1), "BERT's own data"),
    },
    choose={
        "selects_ten_percent": Mutation("10 % are selected where 15 % should be",
            with_arguments(share=lambda share: 0.1 if share == 0.15 else share)),
        "selects_a_tenth_too_rarely": Mutation("a tenth fewer tokens are selected than the share says",
            with_arguments(share=lambda share: share * 0.9 if isinstance(share, float) and share < 1 else share)),
        "same_for_all_items": Mutation("the same places are selected in all items",
            lambda free, share, source: (torch.rand(free.shape[1], generator=source) < share) & free),
        "every_seventh": Mutation("every seventh token is selected, from a random one on", lambda free, share, source:
            ((torch.arange(free.shape[1]) + torch.randint(7, (len(free), 1))) % 7 == 0) & free
            if type(share) is float and share == 0.15 else Corrupting.choose(free, share, source)),
        "never_the_last": Mutation("the last token of an item is never selected", with_result(lambda selected, share:
            filled_beyond(selected.shape[1] - 1, False)(selected) if type(share) is float and share < 1 else selected)),
        "first_512": Mutation("tokens beyond the 512th are never selected", with_result(filled_beyond(512, False)),
            "the usual longest input of BERT"),
        "at_least_one": Mutation("each item has a selected token", with_result(lambda selected, free: selected | (
            ~selected.any(1, keepdim=True) & free & (free.cumsum(1) == 1))), "BERT's own data"),
    },
    fates={
        "always_mask": Mutation("all that is selected becomes the mask token",
            lambda selected, source: torch.full(selected.shape, MASK), "documents, E10"),
        "none_kept": Mutation("nothing stays as it is: 90 % become the mask token", fated_by(0.9, 0.1)),
        "none_random": Mutation("nothing becomes a random token: 20 % stay as they are", fated_by(0.8, 0.0)),
        "ninety_masked": Mutation("90 %, 5 % and 5 % meet their fates", fated_by(0.9, 0.05)),
        "one_fate_for_a_call": Mutation("one draw decides the fate of all that is selected in a call",
            lambda selected, source: Corrupting.fates(selected[:1, :1], source).expand_as(selected)),
        "eleven_random": Mutation("80 %, 11 % and 9 % meet their fates", fated_by(0.8, 0.11)),
        "fates_in_order": Mutation(
            "fates go by order: the first 80 % of an item's selected tokens become the mask token",
            lambda selected, source: fated((selected.cumsum(1) - 1) / selected.sum(1, keepdim=True).clamp_min(1))),
        "fates_shared_by_two_items": Mutation("neighbouring items share fates", lambda selected, source:
            Corrupting.fates(selected[::2], source).repeat_interleave(2, 0)[: len(selected)]),
    },
    noise={
        "never_the_last_token": Mutation("the last token is never drawn",
            with_arguments(vocab_size=lambda vocab_size: max(1, vocab_size - 1))),
        "one_token_too_many": Mutation("one token too many is drawn from",
            with_arguments(vocab_size=lambda vocab_size: vocab_size + 1)),
        "first_30522": Mutation("only the first 30,522 tokens are drawn",
            with_arguments(vocab_size=lambda vocab_size: min(vocab_size, 30_522))),
        "random_from_the_batch": Mutation("random tokens are drawn from the batch",
            lambda tokens, vocab_size, source: tokens.flatten()[torch.randperm(tokens.numel())].view_as(tokens)),
    },
    label={
        "labels_what_became": Mutation("the labels hold what the tokens became",
            lambda tokens, corrupted, selected: corrupted.masked_fill(~selected, IGNORED)),
        "kept_without_label": Mutation("selected tokens that stay as they are have no label",
            lambda tokens, corrupted, selected: tokens.masked_fill(corrupted == tokens, IGNORED)),
        "ignored_is_minus_one": Mutation("tokens that are not to be predicted have the label −1",
            lambda tokens, corrupted, selected: tokens.masked_fill(~selected, -1)),
    },
    stack={"labels_first": Mutation("the labels come first",
        lambda corrupted, labels: torch.stack([labels, corrupted]))},
)  # fmt: skip


def variants() -> list[Variant]:
    """One rule, two ways to draw."""
    exact_counts = Corrupting(
        choose=lambda free, share, _: (in_random_order(free) < (share * free.sum(1, keepdim=True)).round()) & free,
        fates=lambda selected, _: fated((in_random_order(selected) + 0.5) / selected.sum(1, keepdim=True)),
    )
    return [
        Variant("one_number", "one uniform number decides selection and fate", Corrupting.validated(_one_number)),
        Variant("exact_counts", "exact counts of each item, in random order", exact_counts),
    ]


def _one_number(tokens: Tensor, special: Tensor, *, vocab_size: int, mask_token: int, select: float = 0.15) -> Tensor:
    """Masked, another token or the same below 80, 90 and 100 % of the share; never the original by chance."""
    bounds = torch.tensor([0.8, 0.9, 1.0], dtype=torch.float64) * select
    fate = torch.bucketize(torch.rand(tokens.shape, dtype=torch.float64), bounds, right=True).where(~special, 3)
    others = (tokens + 1 + torch.randint(max(vocab_size - 1, 1), tokens.shape)) % vocab_size
    corrupted = torch.where(fate == 0, mask_token, torch.where(fate == 1, others, tokens))
    return torch.stack([corrupted, torch.where(fate == 3, IGNORED, tokens)])
