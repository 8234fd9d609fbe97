"""What failing tests share and passing ones lack: features that meet, or a size from which they fail, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import NamedTuple

from attnsuite.cases.case import HOW, Traits

MAX_FEATURES = 3
"""The features that a sentence joins: with more, some would separate any few tests from all others."""
SPARE_CASES = 1
"""The failing cases that a sentence needs beyond one for each feature: fewer share many unrelated features."""
MIN_PASSING_CASES, MIN_PASSING_RATIO = 2, 0.2
"""The passing cases that a sentence needs, and passing tests per failing test. With fewer, features that nearly every
test has would separate by chance."""
CANDIDATES = 40
"""The features that are joined: of those that all failing tests have, the ones that fewest passing tests have. All
triples of 40 are 10,000, which takes a tenth of a second."""
MIN_COUNTED, MARGIN = 4, 3
"""For a count: the failing cases that it needs, and how many times as many passing tests must have any other features,
or must lack these as lack any other ones."""
MOSTLY, MIN_FAILING, MANY = 5, 2, 4
"""For a count: the failing tests for each passing one with the features; or fewer, where the passing ones are a
small share of all passing tests."""
MIN_SIZES = 2
"""Different sizes that must pass below a threshold, and fail above it: fewer show no threshold."""
SIZES = ("keys", "queries", "width")

Feature = tuple[str, str]
"""What it is about, and the phrase."""


@dataclass(frozen=True, eq=False)
class FeatureTest:
    """A test that has run: its case, its features, whether it failed, and its sizes by name where known."""

    case: str
    features: Traits
    failed: bool
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def all(self) -> Iterator[Feature]:
        """All features, with what each is about."""
        return ((factor, phrase) for factor, phrases in self.features.items() for phrase in phrases)


class Rule(NamedTuple):
    """What separates failing tests from passing ones: the sentence, and whether a test has it."""

    says: str = ""
    holds: Callable[[FeatureTest], bool] = lambda test: False
    share: float = 1.0
    """How many of the tests that have it fail: fewer than all where it is a count."""


def where_failing(tests: Sequence[FeatureTest], status: str = "failed") -> Rule:
    """`right up to 32 keys, failed from 33 on`; `failed only where is_causal and a width above 64 meet, backward`.

    Every failing test has the features, and no passing test has all of them. The rule is empty where no three features
    separate the tests, and where as few features of other kinds separate them as well: one of them would mislead.
    """
    failing, passing = [test for test in tests if test.failed], [test for test in tests if not test.failed]
    failing_cases, passing_cases = ({test.case for test in part} for part in (failing, passing))
    if len(passing_cases) < MIN_PASSING_CASES or len(passing) < MIN_PASSING_RATIO * len(failing):
        return Rule()
    places, cases = _places_by_feature(passing), _places_by_feature(passing, by_case=True)
    common = sorted(_common(failing), key=lambda feature: places.get(feature, 0).bit_count())[:CANDIDATES]
    thresholds = {name: rule for name in SIZES if (rule := _threshold(name, failing, passing, status))}
    for count in range(1, min(MAX_FEATURES, len(failing_cases) - SPARE_CASES) + 1):
        found: dict[frozenset[str], tuple[Feature, ...]] = {}
        separating = [*_separating(common, places, cases, count)]
        apart = [features for features in separating if len({factor for factor, _ in features}) == count]
        for features in apart or separating:
            found.setdefault(frozenset(factor for factor, _ in features), features)
        kinds = [*found, *(frozenset((name,)) for name in thresholds if count == 1)]
        if not all(_alike(kind, kinds[0]) for kind in kinds):
            return Rule()
        if kinds:
            (name, *more) = kinds[0]
            if not more and name in thresholds:
                return thresholds[name]
            return Rule(f"{status} only {_in_words(found[kinds[0]])}", partial(_has_all, found[kinds[0]]))
    return _counted(failing, common, places, len(passing), status) if len(failing_cases) >= MIN_COUNTED else Rule()


def _counted(
    failing: Sequence[FeatureTest], common: Sequence[Feature], places: Mapping[Feature, int], total: int, status: str
) -> Rule:
    """`failed in 78 of 98 tests with a float mask, in no other`: features that few passing tests have.

    A count and no cause: some passing tests have them, too, as where a mask hides nothing.
    """
    for count in (1, 2):
        fewest: dict[frozenset[str], tuple[int, tuple[Feature, ...]]] = {}
        for features in combinations(common, count):
            kind, passing = frozenset(factor for factor, _ in features), _with_all(features, places).bit_count()
            if len(kind) == count and passing < fewest.get(kind, (passing + 1, ()))[0]:
                fewest[kind] = passing, features
        ranked = sorted(fewest.items(), key=lambda entry: entry[1][0])
        if ranked and _are_few(ranked[0][1][0], len(failing), total):
            kind, (passing, features) = ranked[0]
            next_best = next((number for other, (number, _) in ranked[1:] if not _alike(kind, other)), total)
            if next_best < MARGIN * passing and total - passing < MARGIN * (total - next_best):
                return Rule()
            says = f"{status} in {len(failing)} of {len(failing) + passing} tests {_in_words(features)}, in no other"
            return Rule(says, partial(_has_all, features), len(failing) / (len(failing) + passing))
    return Rule()


def _are_few(passing: int, failing: int, total: int) -> bool:
    """Whether few of the tests with some features pass, of `total` passing ones. Without any it would be a cause."""
    mostly = MOSTLY * passing <= failing or (MIN_FAILING * passing <= failing and MANY * passing <= total)
    return passing > 0 and mostly


def _alike(kind: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two kinds of features are one: many heads, or many items, are many matrices."""
    different = kind ^ other
    return not different or different in ({"heads", "matrices"}, {"batch", "matrices"})


def _separating(
    candidates: Sequence[Feature], places: Mapping[Feature, int], cases: Mapping[Feature, int], count: int
) -> Iterator[tuple[Feature, ...]]:
    """Features that no passing test has together, though some cases have all but any one of them.

    As many as are joined: a single one may lack a feature by chance.
    """
    for features in combinations(candidates, count):
        if not _with_all(features, places):
            others = (tuple(other for other in features if other != feature) for feature in features)
            if count == 1 or all(_with_all(fewer, cases).bit_count() >= count for fewer in others):
                yield features


def _has_all(features: Sequence[Feature], test: FeatureTest) -> bool:
    return {*features} <= {*test.all}


def _threshold(name: str, failing: Sequence[FeatureTest], passing: Sequence[FeatureTest], status: str) -> Rule | None:
    """The rule that all tests pass below a size, and fail from it on."""
    fails, passes = ({test.sizes[name] for test in tests if name in test.sizes} for tests in (failing, passing))
    first = min(fails, default=0)
    unknown = any(name not in test.sizes for test in failing)
    if unknown or min(len(fails), len(passes)) < MIN_SIZES or max(passes) >= first:
        return None
    size = f"a {name} of {max(passes)}" if name == "width" else f"{max(passes)} {name}"
    return Rule(f"right up to {size}, {status} from {first} on", lambda test: test.sizes.get(name, 0) >= first)


def _places_by_feature(tests: Iterable[FeatureTest], by_case: bool = False) -> dict[Feature, int]:
    """For each feature the places of the tests, or of the cases, that have it, as the bits of a number."""
    places: dict[Feature, int] = {}
    numbers: dict[str, int] = {}
    for place, test in enumerate(tests):
        bit = 1 << (numbers.setdefault(test.case, place) if by_case else place)
        for feature in test.all:
            places[feature] = places.get(feature, 0) | bit
    return places


def _common(tests: Sequence[FeatureTest]) -> list[Feature]:
    """The features that all of these tests have."""
    others = [{*test.all} for test in tests[1:]]
    return [feature for feature in tests[0].all if all(feature in other for other in others)] if tests else []


def _with_all(features: Sequence[Feature], places: Mapping[Feature, int]) -> int:
    """The places of the tests that have all these features, as bits."""
    bits = -1
    for feature in features:
        bits &= places.get(feature, 0)
    return bits


def _in_words(features: Sequence[Feature]) -> str:
    adverbs = [phrase for factor, phrase in features if factor == HOW]
    nouns = [phrase for factor, phrase in features if factor != HOW]
    if not nouns:
        return " and ".join(adverbs)
    *before, last = nouns
    met = f"where {', '.join(before)} and {last} meet" if before else f"with {last}"
    return ", ".join([met, *adverbs])
