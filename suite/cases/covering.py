"""Covering arrays: few rows in which every pair of levels meets, and every triple of the factors that kernels fuse.

A factor is something that questions may vary, such as the width; its levels are the values that it takes. A row chooses
a level of every factor. Arrays are drawn greedily, a row at a time, and kept as text.

See D. M. Cohen et al., "The AETG system: an approach to testing based on combinatorial design", IEEE Transactions on
Software Engineering 23 (1997), and D. R. Kuhn, R. N. Kacker and Y. Lei, "Practical combinatorial testing", NIST SP
800-142 (2010).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from random import Random

Row = Mapping[str, str]
"""A level by factor: all of a row's, or those that are to meet."""
Meeting = tuple[tuple[str, str], ...]
"""Levels that meet, as pairs of factor and level, sorted."""
JOINED = "+"
"""What stands between the levels of a row where it is written down."""
Choices = Mapping[str, Sequence[str]]
"""The levels by factor that a row may still have."""
USUAL = "usual"
"""How a row is written that has the usual level of every factor."""


@dataclass(frozen=True)
class Contradiction:
    """Levels that no row may hold together: one of each factor's, where `test` agrees."""

    says: str
    levels: Mapping[str, Collection[str]]
    test: Callable[..., bool] | None = None
    """Whether these levels, one of each factor and in their order, contradict each other; None: they always do."""

    def unknown(self, factors: Mapping[str, Collection[str]]) -> str:
        """What it names that is not among these levels by factor, or empty."""
        for name, named in self.levels.items():
            if unknown := sorted(set(named) - set(factors.get(name, ()))):
                known = ", ".join(factors.get(name, ())) or "no such factor"
                return f"{self.says!r} names the level {unknown[0]!r} of {name}; there are: {known}"
        return ""

    def holds(self, row: Row) -> bool:
        """Whether all its factors are in the row, and their levels contradict each other."""
        if any(row.get(name) not in levels for name, levels in self.levels.items()):
            return False
        return self.test is None or self.test(*(row[name] for name in self.levels))


@dataclass(frozen=True)
class Coverage:
    """How many meetings of levels there can be, and which of them no row has."""

    possible: int
    unmet: tuple[Meeting, ...] = ()

    @property
    def met(self) -> int:
        return self.possible - len(self.unmet)


@dataclass(frozen=True)
class Space:
    """What may be combined: the levels of each factor, the usual one first, and which of them contradict each other.

    No two factors have a level in common, so that a row can be written as its unusual levels. ValueError where they
    have, or where a contradiction names what there is not.
    """

    factors: Mapping[str, Sequence[str]]
    contradictions: Sequence[Contradiction] = ()
    fused: Sequence[tuple[str, ...]] = ()
    """Groups of factors of which every triple of levels is to meet."""
    lacking: Sequence[Collection[str]] = ()
    """Factors that some implementations lack, all that one of them lacks in each entry. Whatever meets without these
    factors meets in rows that have their usual levels, so that such an implementation is asked it, too."""

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for name, levels in self.factors.items():
            for level in levels:
                if level in seen:
                    raise ValueError(f"{seen[level]} and {name} both have a level {level!r}")
                seen[level] = name
        for said in filter(None, (each.unknown(self.factors) for each in self.contradictions)):
            raise ValueError(said)

    @cached_property
    def usual(self) -> Row:
        """The first level of each factor."""
        return {name: levels[0] for name, levels in self.factors.items()}

    def read(self, text: str) -> Row:
        """A row from its unusual levels. ValueError for a level that there is not, or levels that contradict."""
        factor_of = {level: name for name, levels in self.factors.items() for level in levels}
        words = [] if text == USUAL else text.split(JOINED)
        if unknown := [word for word in words if word not in factor_of]:
            raise ValueError(f"{text!r} names the level {unknown[0]!r}; there are: {', '.join(factor_of)}")
        row = {**self.usual, **{factor_of[word]: word for word in words}}
        if broken := [each.says for each in self.contradictions if each.holds(row)]:
            raise ValueError(f"{text!r} is contradictory: {broken[0]}")
        return row

    def write(self, row: Row) -> str:
        """A row as its unusual levels."""
        return JOINED.join(row[name] for name, usual in self.usual.items() if row[name] != usual) or USUAL

    def meetings(self, fused: bool) -> set[Meeting]:
        """Every pair of levels of different factors, or every triple within a fused group, the impossible ones too."""
        groups = self.fused if fused else [tuple(self.factors)]
        chosen = {tuple(sorted(each)) for group in groups for each in combinations(group, 3 if fused else 2)}
        return {
            tuple(zip(names, levels, strict=True))
            for names in chosen
            for levels in product(*(self.factors[name] for name in names))
        }

    def coverage(self, rows: Iterable[Row], fused: bool) -> Coverage:
        """Which pairs, or triples of fused factors, meet in these rows, and which could but do not."""
        wanted = self.meetings(fused)
        met = wanted & {meeting for row in rows for meeting in met_in(row, fused)}
        unmet = tuple(sorted(filter(self.possible, wanted - met)))
        return Coverage(len(met) + len(unmet), unmet)

    def possible(self, meeting: Meeting) -> bool:
        """Whether some row without contradiction has these levels."""
        return self.completes(dict(meeting))

    def completes(self, levels: Row) -> bool:
        """Whether some row without contradiction has these levels."""
        if any(each.holds(levels) for each in self.contradictions):
            return False
        return self._completes(levels, {name: self.choices(name, levels) for name in self._bound if name not in levels})

    def _completes(self, levels: Row, choices: Choices) -> bool:
        """Whether levels without contradiction are part of a row.

        The factor with the least choice is tried first, and sooner where it was left without any before: what stands in
        the way is then found at once, not again for each choice of what does not matter.
        """
        if not choices:
            return True
        name = min(choices, key=lambda each: len(choices[each]) / (1 + self._left_without[each]))
        self._left_without[name] += not choices[name]
        rows = ({**levels, name: level} for level in choices[name])
        return any(self._completes(row, self.narrowed(choices, row, name)) for row in rows)

    @cached_property
    def _left_without(self) -> Counter[str]:
        """How often a factor was left without any choice."""
        return Counter()

    @cached_property
    def _bound(self) -> Sequence[str]:
        """The factors of which a contradiction speaks: the others never stand in the way."""
        return [name for name in self.factors if any(name in each.levels for each in self.contradictions)]

    def choices(self, name: str, levels: Row) -> list[str]:
        """The levels of a factor that do not contradict those chosen."""
        excluded = frozenset[str]().union(*(self._excluded[level] for level in levels.values()))
        rules = self._spoken_of.get(name, ())
        return [
            level
            for level in self.factors[name]
            if level not in excluded and not any(each.holds({**levels, name: level}) for each in rules)
        ]

    def narrowed(self, choices: Choices, row: Row, chosen: str) -> Choices:
        """What remains of the choices for the other factors when one has been chosen for the row."""
        excluded = self._excluded[row[chosen]]
        return {
            name: self._without(excluded, levels, row, name, chosen)
            for name, levels in choices.items()
            if name != chosen
        }

    def _without(
        self, excluded: frozenset[str], levels: Sequence[str], row: Row, name: str, chosen: str
    ) -> Sequence[str]:
        found = levels
        rules = self._of_both.get((name, chosen), ())
        for ruled_out in (excluded, *(self._ruled_out(each, name, row) for each in rules)):
            if not ruled_out.isdisjoint(found):
                found = [level for level in found if level not in ruled_out]
        return found

    def _ruled_out(self, rule: Contradiction, name: str, row: Row) -> frozenset[str]:
        """The levels of a factor that a contradiction leaves out beside those of the row, which has none of it."""
        beside = tuple([row.get(other) for other in rule.levels if other != name])
        key = id(rule), name, beside
        found = self._known.get(key)
        if found is None:
            levels = self.factors[name]
            found = frozenset(level for level in levels if rule.holds({**row, name: level}))
            self._known[key] = found
        return found

    @cached_property
    def _known(self) -> dict[tuple[int, str, tuple[str | None, ...]], frozenset[str]]:
        """What is ruled out, by contradiction, factor and what the row has of the others of which it speaks."""
        return {}

    @cached_property
    def _excluded(self) -> Mapping[str, frozenset[str]]:
        """The levels that contradict a level by themselves, by that level."""
        found: dict[str, set[str]] = {level: set() for levels in self.factors.values() for level in levels}
        for each in filter(_of_two, self.contradictions):
            for one, other in product(*each.levels.values()):
                found[one].add(other)
                found[other].add(one)
        return {level: frozenset(others) for level, others in found.items()}

    @cached_property
    def _spoken_of(self) -> Mapping[str, Sequence[Contradiction]]:
        """By factor of which a contradiction speaks, those that are not of two levels alone."""
        found: dict[str, list[Contradiction]] = {}
        for each in self.contradictions:
            for name in each.levels:
                found.setdefault(name, []).extend([] if _of_two(each) else [each])
        return found

    @cached_property
    def _of_both(self) -> Mapping[tuple[str, str], Sequence[Contradiction]]:
        """The same by each two of the factors of which they speak."""
        pairs = {(name, other): rules for name, rules in self._spoken_of.items() for other in self.factors}
        found = {pair: [each for each in rules if pair[1] in each.levels] for pair, rules in pairs.items()}
        return {pair: rules for pair, rules in found.items() if rules}


def _of_two(contradiction: Contradiction) -> bool:
    return len(contradiction.levels) == 2 and contradiction.test is None


def met_in(row: Row, fused: bool) -> Iterator[Meeting]:
    """The pairs, or triples, of levels that meet in a row."""
    yield from combinations(sorted(row.items()), 3 if fused else 2)


def drawn(space: Space, seed: int, fused: bool) -> list[Row]:
    """An array of the space, another one for another seed: every pair meets, and every fused triple where asked."""
    pairs = list(Drawing(space, Random(seed), space.meetings(fused=False)).rows())
    return [*pairs, *for_triples(space, seed, pairs)] if fused else pairs


def for_triples(space: Space, seed: int, pairs: Iterable[Row]) -> list[Row]:
    """What an array of pairs lacks for every fused triple to meet."""
    met = {meeting for row in pairs for meeting in met_in(row, fused=True)}
    return list(Drawing(space, Random(seed), space.meetings(fused=True) - met).rows())


class Drawing:
    """Rows on their way: each is chosen so that much meets in it that is in no row yet."""

    def __init__(self, space: Space, random: Random, wanted: Iterable[Meeting]) -> None:
        self.space, self.random = space, random
        self.order = sorted(wanted)
        random.shuffle(self.order)
        self.unmet = set(self.order)
        self.fused = any(len(meeting) > 2 for meeting in self.order)

    def rows(self) -> Iterator[Row]:
        """Each row begins with a meeting that none before it has; those that lack factors come first."""
        for lacking in (*self.space.lacking, ()):
            left_out = {name: self.space.usual[name] for name in lacking}
            for meeting in self.order:
                levels = dict(meeting)
                if (
                    meeting in self.unmet
                    and left_out.keys().isdisjoint(levels)
                    and self.space.completes(levels | left_out)
                ):
                    row = self.row(levels | left_out)
                    self.unmet.difference_update(met_in(row, False), met_in(row, True) if self.fused else ())
                    yield row

    def row(self, levels: Row) -> Row:
        """A row with these levels. ValueError where there is none."""
        if (found := self.completed(levels)) is None:
            raise ValueError(f"no row has the levels {', '.join(levels.values())}")
        return found

    def completed(self, levels: Row, choices: Choices | None = None) -> Row | None:
        """These levels and, of each other factor, one that meets much that has not met; None where there is none.

        `choices` are the levels of the other factors that do not contradict these, where that is known already.
        """
        if choices is None:
            choices = {name: self.space.choices(name, levels) for name in self.space.factors if name not in levels}
        if not choices:
            return levels
        name = min(choices, key=lambda each: (len(choices[each]), self.random.random()))
        usual = self.space.usual[name] if any(name in lacking for lacking in self.space.lacking) else ""
        by_worth = sorted(
            choices[name], key=lambda level: (-self.worth(name, level, levels), level != usual, self.random.random())
        )
        for level in by_worth:
            row = {**levels, name: level}
            if found := self.completed(row, self.space.narrowed(choices, row, name)):
                return found
        return None

    def worth(self, name: str, level: str, levels: Row) -> int:
        """How many meetings this level would add to a row that has these already."""
        own = name, level
        pairs = ((own, other) if own < other else (other, own) for other in levels.items())
        return sum(map(self.unmet.__contains__, pairs)) + (self._triples(own, levels) if self.fused else 0)

    def _triples(self, own: tuple[str, str], levels: Row) -> int:
        groups = [group for group in self.space.fused if own[0] in group]
        triples = {
            tuple(sorted((own, (one, levels[one]), (other, levels[other]))))
            for group in groups
            for one, other in combinations([name for name in group if name in levels], 2)
        }
        return sum(map(self.unmet.__contains__, triples))
