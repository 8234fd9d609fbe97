"""Where an implementation is wrong: what wrong questions have in common and right ones have not, in one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from attnsuite.cases.case import HOW, Traits

MOST_TRAITS = 3
"""The traits that a sentence joins: with more, some would separate any few questions from all others."""
SPARE_CASES = 1
"""The failing cases that a sentence must rest on beyond one for each trait that it joins: fewer have many traits in
common that have nothing to do with the mistake."""
RIGHT_THERE = 0.3
"""The share of the questions where all the traits meet that may be right, if the sentence says so: where a mask hides
nothing, no mistake in it can show."""
FEWEST_RIGHT, SHARE_RIGHT = 2, 0.2
"""The passing cases without the traits that a sentence must rest on, and their number as a share of the failing tests.
With fewer, traits that nearly every test has would separate by chance."""
CANDIDATES = 40
"""The traits that are joined with each other: of those that all failing questions have, the ones that fewest right
questions have. All triples of 40 are 10,000, which takes a tenth of a second."""

Trait = tuple[str, str]
"""What it is about, and the phrase."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question that has an answer: its case, its traits, whether it failed, and its sizes by name where known."""

    case: str
    traits: Traits
    failed: bool
    sizes: Mapping[str, int] = field(default_factory=dict)


def enough(failing: Collection[Asked], right: Collection[Asked]) -> bool:
    """Whether there are enough tests of both kinds for a sentence about what separates them."""
    cases = [len({each.case for each in tests}) for tests in (failing, right)]
    return min(cases) >= FEWEST_RIGHT and len(right) >= SHARE_RIGHT * len(failing)


def where(asked: Sequence[Asked], status: str = "wrong") -> str:
    """`wrong only where is_causal and a width above 64 meet, backward`; empty where nothing simple separates.

    The simplest rule: of one trait, else of two that meet, else of three. It holds for every failing question, and for
    no right one; else for a few right ones, fewer than half of them, and the sentence says for how many. Enough right
    questions lack the traits.
    """
    failing = [each for each in asked if each.failed]
    right = [each for each in asked if not each.failed]
    if not failing or not right:
        return ""
    has = _held_by(right)
    few = sorted(_shared(failing), key=lambda trait: has.get(trait, 0).bit_count())[:CANDIDATES]
    cases = len({each.case for each in failing})
    a_few = min(int(len(failing) * RIGHT_THERE / (1 - RIGHT_THERE)), (len(right) - 1) // 2)
    for allowed in (0, a_few):
        for count in range(1, min(MOST_TRAITS, cases - SPARE_CASES) + 1):
            if found := _rule(few, has, count, allowed):
                there = _both(found, has)
                without = [each for place, each in enumerate(right) if not there >> place & 1]
                said = f"{status} only {_in_words(found)}{_but_for(there.bit_count(), len(failing))}"
                return said if enough(failing, without) else ""
    return ""


def _but_for(right: int, failing: int) -> str:
    """In how many of the tests that have all the traits; empty where all fail."""
    return f", in {failing} of {right + failing} such tests" if right else ""


def _held_by(asked: Iterable[Asked]) -> dict[Trait, int]:
    """For each trait the questions that have it, as the bits of a number."""
    found: dict[Trait, int] = {}
    for place, each in enumerate(asked):
        for trait in _traits(each.traits):
            found[trait] = found.get(trait, 0) | 1 << place
    return found


def _shared(failing: Sequence[Asked]) -> list[Trait]:
    """The traits that all of these have."""
    first, *others = ({*_traits(each.traits)} for each in failing)
    return [trait for trait in _traits(failing[0].traits) if all(trait in other for other in others) and trait in first]


def _traits(traits: Traits) -> Iterator[Trait]:
    return ((factor, phrase) for factor, phrases in traits.items() for phrase in phrases)


def _rule(candidates: Sequence[Trait], has: Mapping[Trait, int], count: int, allowed: int) -> tuple[Trait, ...]:
    """So many traits, of different factors, that at most some right questions have together; empty if there are none.

    Where several rules do, the one of which each trait alone tells most apart.
    """
    found: list[tuple[int, tuple[Trait, ...]]] = []
    for traits in combinations(candidates, count):
        if len({factor for factor, _ in traits}) < count:
            continue
        if _both(traits, has).bit_count() <= allowed:
            found.append((sum(has.get(trait, 0).bit_count() for trait in traits), traits))
    return min(found, key=lambda each: each[0])[1] if found else ()


def _both(traits: Sequence[Trait], has: Mapping[Trait, int]) -> int:
    """The right questions that have all these traits, as bits."""
    found = -1
    for trait in traits:
        found &= has.get(trait, 0)
    return found


def _in_words(traits: Sequence[Trait]) -> str:
    how = [phrase for factor, phrase in traits if factor == HOW]
    nouns = [phrase for factor, phrase in traits if factor != HOW]
    if not nouns:
        return " and ".join(how)
    *before, last = nouns
    met = f"where {', '.join(before)} and {last} meet" if before else f"with {last}"
    return ", ".join([met, *how])
