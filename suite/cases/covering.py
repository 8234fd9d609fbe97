"""Covering arrays: few rows in which every pair of levels meets, and every triple of the factors that kernels fuse.

A factor is something that tests vary, such as the width; its levels are its values. A row has a level of every factor.
Arrays are drawn greedily, a row at a time, and stored as text. Where rows have costs, cheap ones are preferred.

See D. M. Cohen et al., "The AETG system: an approach to testing based on combinatorial design", IEEE Transactions on
Software Engineering 23 (1997), and D. R. Kuhn, R. N. Kacker and Y. Lei, "Practical combinatorial testing", NIST SP
800-142 (2010).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from random import Random

Row = Mapping[str, str]
"""A level by factor: of a whole row, or of a part."""
Meeting = tuple[tuple[str, str], ...]
"""Levels that meet, as pairs of factor and level, sorted."""
JOINED = "+"
"""The separator of the levels in a written row."""
Choices = Mapping[str, Sequence[str]]
"""The levels that a row may still have, by factor."""
USUAL = "usual"
"""The written row that has the usual level of every factor."""
CANDIDATES = 4
"""The rows from which the next one of an array is chosen where rows have costs: more take seconds to draw."""


@dataclass(frozen=True)
class Contradiction:
    """Levels that no row may have together: one of each factor, where `test` agrees."""

    says: str
    levels: Mapping[str, Collection[str]]
    test: Callable[..., bool] | None = None
    """Whether these levels, one of each factor in order, contradict each other; None: always."""
    least: Row = field(default_factory=dict)
    """The level that stands for a factor that a part of a row lacks: `test` accepts it wherever it accepts another."""

    def unknown(self, factors: Mapping[str, Collection[str]]) -> str:
        """Describes a level that does not exist, or empty."""
        for name, named in self.levels.items():
            if unknown := sorted(set(named) - set(factors.get(name, ()))):
                known = ", ".join(factors.get(name, ())) or "no such factor"
                return f"{self.says!r} names the level {unknown[0]!r} of {name}; there are: {known}"
        return ""

    def forbids(self, row: Row) -> bool:
        """Whether the row has all its factors but those of `least`, and their levels contradict each other."""
        row = {**self.least, **row} if self.least else row
        if any(row.get(name) not in levels for name, levels in self.levels.items()):
            return False
        return self.test is None or self.test(*(row[name] for name in self.levels))


@dataclass(frozen=True)
class Coverage:
    """The number of possible meetings of levels, and those that no row has."""

    possible: int
    unmet: tuple[Meeting, ...] = ()

    @property
    def met(self) -> int:
        """The number of combinations that some row has."""
        return self.possible - len(self.unmet)


@dataclass(frozen=True)
class Space:
    """The levels of each factor, the usual one first, and the contradictions among them.

    No two factors share a level, so that a row can be written as its unusual levels. ValueError if they do, or if a
    contradiction names an unknown level.
    """

    factors: Mapping[str, Sequence[str]]
    contradictions: Sequence[Contradiction] = ()
    fused: Sequence[tuple[str, ...]] = ()
    """Groups of factors in which every triple of levels must meet."""
    lacking: Sequence[Collection[str]] = ()
    """In each entry, the factors that an implementation lacks. Other meetings occur in rows with the usual levels of
    these factors, so that such an implementation is tested on them, too."""
    cost: Callable[[Row], float] | None = None
    """The time of a row, in any unit; None where all take about as long."""

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for name, levels in self.factors.items():
            for level in levels:
                if level in seen:
                    raise ValueError(f"{seen[level]} and {name} both have a level {level!r}")
                seen[level] = name
        for unknown in filter(None, (rule.unknown(self.factors) for rule in self.contradictions)):
            raise ValueError(unknown)

    @cached_property
    def usual(self) -> Row:
        """The first level of each factor."""
        return {name: levels[0] for name, levels in self.factors.items()}

    def read(self, text: str) -> Row:
        """A row from its unusual levels. ValueError for an unknown level, or a contradiction."""
        factor_of = {level: name for name, levels in self.factors.items() for level in levels}
        words = [] if text == USUAL else text.split(JOINED)
        if unknown := [word for word in words if word not in factor_of]:
            raise ValueError(f"{text!r} names the level {unknown[0]!r}; there are: {', '.join(factor_of)}")
        row = {**self.usual, **{factor_of[word]: word for word in words}}
        if reasons := [rule.says for rule in self.contradictions if rule.forbids(row)]:
            raise ValueError(f"{text!r} is contradictory: {reasons[0]}")
        return row

    def write(self, row: Row) -> str:
        """A row as its unusual levels."""
        return JOINED.join(row[name] for name, usual in self.usual.items() if row[name] != usual) or USUAL

    def meetings(self, fused: bool) -> set[Meeting]:
        """Every pair of levels of different factors, or every triple within a fused group, the impossible ones too."""
        groups = self.fused if fused else [tuple(self.factors)]
        chosen = {tuple(sorted(names)) for group in groups for names in combinations(group, 3 if fused else 2)}
        return {
            tuple(zip(names, levels, strict=True))
            for names in chosen
            for levels in product(*(self.factors[name] for name in names))
        }

    def coverage(self, rows: Iterable[Row], fused: bool) -> Coverage:
        """The pairs of levels, or triples of fused factors, that meet in these rows, and those that do not."""
        meetings = self.meetings(fused)
        met = meetings & {meeting for row in rows for meeting in met_in(row, fused)}
        unmet = tuple(sorted(filter(self.possible, meetings - met)))
        return Coverage(len(met) + len(unmet), unmet)

    def possible(self, meeting: Meeting) -> bool:
        """Whether some row without contradiction has these levels."""
        return self.completes(dict(meeting))

    def completes(self, levels: Row) -> bool:
        """The same for levels by factor."""
        if any(rule.forbids(levels) for rule in self.contradictions):
            return False
        return self._completes(levels, {name: self.choices(name, levels) for name in self._bound if name not in levels})

    def _completes(self, levels: Row, choices: Choices) -> bool:
        """Whether levels without contradiction are part of a row. The factor with the fewest choices is tried first."""
        if not choices:
            return True
        name = min(choices, key=lambda factor: len(choices[factor]))
        rows = ({**levels, name: level} for level in choices[name])
        return any(self._completes(row, self.narrowed(choices, row, name)) for row in rows)

    @cached_property
    def _bound(self) -> Sequence[str]:
        """The factors of contradictions: the others are never an obstacle."""
        return [name for name in self.factors if any(name in rule.levels for rule in self.contradictions)]

    def choices(self, name: str, levels: Row) -> Sequence[str]:
        """The levels of a factor that do not contradict the chosen levels."""
        return self._without(self.factors[name], name, levels, name)

    def narrowed(self, choices: Choices, row: Row, chosen: str) -> Choices:
        """The remaining choices for other factors after the choice of one."""
        return {name: self._without(levels, name, row, chosen) for name, levels in choices.items() if name != chosen}

    def _without(self, levels: Sequence[str], name: str, row: Row, other: str) -> Sequence[str]:
        """The levels of a factor that do not contradict a row, by contradictions that have the other factor as well."""
        for rule in self._rules.get((name, other), ()):
            ruled_out = self._ruled_out(rule, name, row)
            if not ruled_out.isdisjoint(levels):
                levels = [level for level in levels if level not in ruled_out]
        return levels

    def _ruled_out(self, rule: Contradiction, name: str, row: Row) -> frozenset[str]:
        """The levels of a factor that contradict a row without this factor, by one contradiction."""
        key = id(rule), name, tuple([row.get(other) for other in rule.levels if other != name])
        if key not in self._known:
            levels = self.factors[name]
            theirs = {other: row[other] for other in rule.levels if other in row}
            self._known[key] = frozenset(level for level in levels if rule.forbids({**theirs, name: level}))
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, str, tuple[str | None, ...]], frozenset[str]]:
        """The cache of `_ruled_out`, by contradiction, factor and the row's levels of its other factors."""
        return {}

    @cached_property
    def _rules(self) -> Mapping[tuple[str, str], Sequence[Contradiction]]:
        """The contradictions, by each two of their factors, and by each factor twice."""
        rules: dict[tuple[str, str], list[Contradiction]] = {}
        for rule in self.contradictions:
            for name, other in product(rule.levels, repeat=2):
                rules.setdefault((name, other), []).append(rule)
        return rules


def met_in(row: Row, fused: bool) -> Iterator[Meeting]:
    """The pairs, or triples, of levels that meet in a row."""
    yield from combinations(sorted(row.items()), 3 if fused else 2)


def drawn(space: Space, seed: int, fused: bool) -> list[Row]:
    """An array of the space for a seed: every pair meets, and with `fused` every fused triple."""
    pairs = list(Drawing(space, Random(seed), space.meetings(fused=False)).rows())
    return [*pairs, *for_triples(space, seed, pairs)] if fused else pairs


def for_triples(space: Space, seed: int, pairs: Iterable[Row]) -> list[Row]:
    """The rows to add to an array of pairs for every fused triple to meet."""
    met = {meeting for row in pairs for meeting in met_in(row, fused=True)}
    return list(Drawing(space, Random(seed), space.meetings(fused=True) - met).rows())


class Drawing:
    """Draws rows so that as much as possible meets that has not met yet."""

    def __init__(self, space: Space, random: Random, meetings: Iterable[Meeting], candidates: int = CANDIDATES) -> None:
        self.space, self.random, self.candidates = space, random, candidates
        self.order = sorted(meetings)
        random.shuffle(self.order)
        self.unmet = set(self.order)
        self.fused = any(len(meeting) > 2 for meeting in self.order)

    def rows(self, drawn: Iterable[Row] = ()) -> Iterator[Row]:
        """Each row starts with a new meeting; rows without the factors of `lacking` come first.

        A meeting in a row with one of these factors is still new among the rows without them.
        """
        rows = list(drawn)
        for lacking in (*self.space.lacking, ()):
            left_out = {name: self.space.usual[name] for name in lacking}
            without = [row for row in rows if left_out.items() <= row.items()]
            self.unmet = set(self.order).difference(*map(self.met, without))
            for meeting in self.order:
                levels = dict(meeting)
                if (
                    meeting in self.unmet
                    and left_out.keys().isdisjoint(levels)
                    and self.space.completes(levels | left_out)
                ):
                    rows.append(self.row(levels | left_out))
                    self.unmet -= self.met(rows[-1])
                    yield rows[-1]

    def met(self, row: Row) -> set[Meeting]:
        """The pairs that meet in a row, and the triples where some are to meet."""
        return {*met_in(row, False), *(met_in(row, True) if self.fused else ())}

    def row(self, levels: Row) -> Row:
        """A row with these levels; of some candidates, the best one for its cost. ValueError if no row has them."""
        if (row := self.completed(levels)) is None:
            raise ValueError(f"no row has the levels {', '.join(levels.values())}")
        if self.space.cost is None:
            return row
        others = filter(None, (self.completed(levels) for _ in range(1, self.candidates)))
        return max((row, *others), key=self._value)

    def _value(self, row: Row) -> float:
        """The new meetings of a row for its cost. The root keeps arrays short: many cheap rows are no aim either."""
        assert self.space.cost is not None
        return float((1 + len(self.unmet & self.met(row))) / self.space.cost(row) ** 0.5)

    def completed(self, levels: Row, choices: Choices | None = None) -> Row | None:
        """These levels and, of each other factor, one with many new meetings; None if there is no such row."""
        if choices is None:
            choices = {name: self.space.choices(name, levels) for name in self.space.factors if name not in levels}
        if not choices:
            return levels
        name = min(choices, key=lambda factor: (len(choices[factor]), self.random.random()))
        usual = self.space.usual[name] if any(name in lacking for lacking in self.space.lacking) else ""
        by_worth = sorted(
            choices[name], key=lambda level: (-self.worth(name, level, levels), level != usual, self.random.random())
        )
        for level in by_worth:
            row = {**levels, name: level}
            if whole := self.completed(row, self.space.narrowed(choices, row, name)):
                return whole
        return None

    def worth(self, name: str, level: str, levels: Row) -> int:
        """The number of new meetings that this level adds to a row with these levels."""
        own = name, level
        pairs = ((own, other) if own < other else (other, own) for other in levels.items())
        return sum(map(self.unmet.__contains__, pairs)) + (self._triples(own, levels) if self.fused else 0)

    def _triples(self, own: tuple[str, str], levels: Row) -> int:
        groups = [group for group in self.space.fused if own[0] in group]
        triples = {
            tuple(sorted((own, (first, levels[first]), (other, levels[other]))))
            for group in groups
            for first, other in combinations([name for name in group if name in levels], 2)
        }
        return sum(map(self.unmet.__contains__, triples))
