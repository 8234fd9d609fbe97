"""What is true of every masking, and of how many of its tokens: there is no one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnsuite.contracts.steps.token_masking.contract import FATES, IGNORED
from attnsuite.judging.patterns import agreement, pairs
from attnsuite.judging.shares import Share, exactly

Array = np.ndarray[Any, Any]

LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64)
"""Distances at which selections are compared: neighbours, the seventh part that 15 % nearly are, and whole tiles."""
BINS = 64
"""So many parts of a vocabulary are held against each other."""


@dataclass(frozen=True)
class Masking:
    """One answer beside what was asked; all arrays are b l."""

    tokens: Array
    special: Array
    corrupted: Array
    labels: Array
    vocab_size: int
    mask_token: int
    select: float

    @property
    def selected(self) -> Array:
        chosen: Array = self.labels != IGNORED
        return chosen

    @property
    def fates(self) -> Array:
        """What became of each token if it was selected: "mask", "random" or "kept"."""
        changed = np.where(self.corrupted == self.mask_token, "mask", "random")
        return np.where(self.corrupted == self.tokens, "kept", changed)

    @property
    def likely(self) -> dict[str, tuple[float, float]]:
        """How likely each fate is to be seen: a random token may happen to be the mask token or the original."""
        by_chance = FATES["random"] / self.vocab_size
        return {
            "mask": (FATES["mask"], FATES["mask"] + by_chance),
            "random": (FATES["random"] - 2 * by_chance, FATES["random"]),
            "kept": (FATES["kept"], FATES["kept"] + by_chance),
        }

    @property
    def agreeing(self) -> tuple[float, float]:
        """How likely two places agree in their selection: as independent draws do, or less where counts are exact."""
        p, length = self.select, self.tokens.shape[1]
        independent = p * p + (1 - p) ** 2
        return independent - 2 * p * (1 - p) / (length - 1), independent

    @property
    def sharing(self) -> tuple[float, float]:
        """How likely two selected tokens share their fate: less where the counts of an item are exact."""
        of_item = self.select * self.tokens.shape[1]
        exact = sum(share * (share * of_item - 1) / (of_item - 1) for share in FATES.values())
        return exact, sum(most * most for _, most in self.likely.values())


WORDS = {
    "selected": "are selected",
    "untouched": "are left alone",
    "mask": "become the mask token",
    "random": "become a random token",
    "kept": "stay as they are, though selected",
}
Judge = Callable[[Sequence[Masking]], list[Share]]
"""What is counted in the answers to the calls of a case."""


def proportions(select: float) -> dict[str, float]:
    """How many of all tokens that are not special are selected, meet each fate, and are left alone."""
    return {"selected": select, "untouched": 1 - select} | {fate: select * share for fate, share in FATES.items()}


def rules(maskings: Sequence[Masking]) -> list[Share]:
    """What holds of every token of every answer."""
    found = []
    for masking in maskings:
        chosen, special = masking.selected, masking.special
        outside = (masking.corrupted < 0) | (masking.corrupted >= masking.vocab_size)
        found += [
            exactly("special tokens are selected", _count(chosen & special), _count(special), 0.0),
            exactly("labels are not the original token", _count(chosen & (masking.labels != masking.tokens)),
                    _count(chosen), 0.0),
            exactly("tokens that are not selected are changed", _count(~chosen & (masking.corrupted != masking.tokens)),
                    _count(~chosen), 0.0),
            exactly("tokens lie outside the vocabulary", _count(outside), outside.size, 0.0),
        ]  # fmt: skip
    return found


def nothing_else(maskings: Sequence[Masking]) -> list[Share]:
    """Where no more is asked than the rules."""
    return []


def selection(maskings: Sequence[Masking]) -> list[Share]:
    """How many tokens are selected."""
    (masking,) = maskings
    free = ~masking.special
    return [exactly("tokens are selected", _count(masking.selected & free), _count(free), masking.select)]


def kinds(maskings: Sequence[Masking]) -> list[Share]:
    """How many are selected, and what becomes of them."""
    (masking,) = maskings
    fates = masking.fates[masking.selected]
    return selection(maskings) + [
        Share(f"selected tokens {WORDS[fate]}", _count(fates == fate), fates.size, *likely)
        for fate, likely in masking.likely.items()
    ]


def quarters(maskings: Sequence[Masking]) -> list[Share]:
    """How many are selected in each quarter of the positions."""
    (masking,) = maskings
    return [
        exactly(f"tokens of quarter {number} are selected", _count(quarter), quarter.size, masking.select)
        for number, quarter in enumerate(np.array_split(masking.selected, 4, axis=1), start=1)
    ]


def positions(maskings: Sequence[Masking]) -> list[Share]:
    """How many items select each position."""
    (masking,) = maskings
    return [
        exactly(f"items select position {position}", _count(column), column.size, masking.select)
        for position, column in enumerate(masking.selected.T)
    ]


def apart(maskings: Sequence[Masking]) -> list[Share]:
    """How often places some steps apart are both selected or both not, along each axis."""
    (masking,) = maskings
    says = "pairs of {} {} apart agree in their selection"
    return agreement(masking.selected, ("items", "positions"), LAGS, says, *masking.agreeing)


def mixed(maskings: Sequence[Masking]) -> list[Share]:
    """How often each half becomes the mask token, and how often one selected token shares the fate of the next.

    The next is the next in the item, or the one beside it in the next item.
    """
    (masking,) = maskings
    found = []
    for axis, name in enumerate(("items", "positions")):
        halves = zip(np.array_split(masking.selected, 2, axis), np.array_split(masking.fates, 2, axis), strict=True)
        for half, (selected, fates) in enumerate(halves, start=1):
            says = f"selected tokens in half {half} of the {name} become the mask token"
            found.append(Share(says, _count(fates[selected] == "mask"), _count(selected), *masking.likely["mask"]))
    fates = masking.fates[masking.selected]
    both: Array = np.logical_and(*pairs(masking.selected, 1))
    beside = pairs(masking.fates, 1)[:, both]
    next_to = {"pairs of selected tokens": pairs(fates, 1), "tokens selected in two neighbouring items": beside}
    for says, (one, other) in next_to.items():
        found.append(Share(f"{says} share their fate", _count(one == other), one.size, *masking.sharing))
    return found


def of_calls(maskings: Sequence[Masking]) -> list[Share]:
    """How many calls mask their first selected token, and in how many the second shares its fate."""
    fates = [masking.fates[masking.selected][:2] for masking in maskings]
    both = [each for each in fates if len(each) == 2]
    first = sum(each[0] == "mask" for each in both)
    alike = sum(each[0] == each[1] for each in both)
    return [
        Share("calls mask the first token that they select", first, len(both), *maskings[0].likely["mask"]),
        Share("calls treat the first two tokens that they select alike", alike, len(both), *maskings[0].sharing),
    ]


def uniform(maskings: Sequence[Masking]) -> list[Share]:
    """How many random tokens come from each part of the vocabulary, apart from what may be left out of it."""
    (masking,) = maskings
    known = np.union1d(masking.tokens, masking.mask_token)
    others = np.delete(np.arange(masking.vocab_size), known)
    random = masking.corrupted[masking.selected & (masking.fates == "random")]
    drawn = random[~np.isin(random, known)]
    one, other = pairs(drawn, 1)
    even = one == other
    by_chance = FATES["random"] * len(known) / masking.vocab_size
    says = "selected tokens become another of those that were there"
    beside = pairs(masking.corrupted, 1)
    both: Array = np.logical_and(*pairs(masking.selected, 1)) & ~np.isin(beside, known).any(0)
    same: Array = both & (beside[0] == beside[1])
    found = [
        Share(says, len(random) - len(drawn), _count(masking.selected), 0.0, by_chance),
        exactly("pairs of random tokens are equal", _count(even), even.size, 1 / len(others)),
        exactly("random tokens of two neighbouring items are equal", _count(same), _count(both), 1 / len(others)),
    ]
    parts = np.array_split(others, min(len(others), BINS))
    counts = np.histogram(drawn, [*(part[0] for part in parts), masking.vocab_size])[0]
    for part, count in zip(parts, counts, strict=True):
        says = f"random tokens lie between {part[0]} and {part[-1]}"
        found.append(exactly(says, int(count), len(drawn), len(part) / len(others)))
    return found


def repeated(maskings: Sequence[Masking]) -> list[Share]:
    """The same seed twice, another seed, and the call after it: how often they agree."""
    first, again, other, next_call = maskings
    differ = (first.corrupted != again.corrupted) | (first.labels != again.labels)
    found = [exactly("places differ between two calls with one seed", _count(differ), differ.size, 0.0)]
    for one, two, by in ((first, other, "two seeds"), (other, next_call, "two calls")):
        chosen = one.selected & two.selected
        fates = one.fates[chosen], two.fates[chosen]
        random = (fates[0] == "random") & (fates[1] == "random")
        even = one.corrupted[chosen] == two.corrupted[chosen]
        agree = one.selected == two.selected
        low, high = (sum(share[end] ** 2 for share in first.likely.values()) for end in (0, 1))
        found += [
            Share(f"places agree in their selection by {by}", _count(agree), agree.size, *first.agreeing),
            Share(f"places selected twice share their fate by {by}", _count(fates[0] == fates[1]), fates[0].size,
                  low, high),
            Share(f"random tokens are the same by {by}", _count(even & random), _count(random), 0.0,
                  1 / (first.vocab_size - 2)),
        ]  # fmt: skip
    return found


def in_all(wanted: str, probability: float) -> Judge:
    """How many of all tokens are selected, meet a fate or are left alone, by a document's numbers."""

    def judge(maskings: Sequence[Masking]) -> list[Share]:
        (masking,) = maskings
        counts = {"selected": _count(masking.selected), "untouched": _count(~masking.selected)}
        counts |= {fate: _count(masking.selected & (masking.fates == fate)) for fate in FATES}
        by_chance = 2 / masking.vocab_size  # a random token may be the original or the mask token
        low, high = probability * (1 - by_chance), probability * (1 + by_chance)
        return [Share(f"tokens {WORDS[wanted]}", counts[wanted], masking.tokens.size, low, high)]

    return judge


def _count(places: Array) -> int:
    return int(places.sum())


def readings(tokens: Array, special: Array, outputs: Sequence[Array], **options: Any) -> Iterator[Masking]:
    """Each answer beside what was asked."""
    for corrupted, labels in outputs:
        yield Masking(tokens, special, corrupted, labels, **{"select": 0.15} | options)
