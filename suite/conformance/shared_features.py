"""What failing tests share and passing ones lack: features that meet, or a size from which they fail, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import NamedTuple

from attnsuite.cases.case import HOW, Traits

MAX_FEATURES = 3
"""The features that a sentence joins: with more, some would separate any few tests from all others."""
SPARE_CASES = 1
"""The failing cases that a sentence needs beyond one for each feature: fewer share many unrelated features."""
MAX_PASSING_SHARE = 0.3
"""The share of the tests with all the features that may pass, if the sentence says so: where a mask hides nothing, no
mistake in it can show."""
MAX_SHARE_OF_PASSING = 0.2
"""The share of all passing tests that may have the features, where no rule has fewer: it still says where to look."""
MIN_PASSING_CASES, MIN_PASSING_RATIO = 2, 0.2
"""The passing cases without the features that a sentence needs, and their tests per failing test. With fewer, features
that nearly every test has would separate by chance."""
CANDIDATES = 40
"""The features that are joined: of those that all failing tests have, the ones that fewest passing tests have. All
triples of 40 are 10,000, which takes a tenth of a second."""
MAX_CHANCE = 0.05
"""The probability up to which a feature of a rule with exceptions may be common to all failing cases by chance: the
share of the passing tests that have it, to the power of the number of failing cases. A few cases share many."""
MIN_SIZES = 2
"""Different sizes that must pass below a threshold, and fail above it: fewer show no threshold."""
MAX_PASSING_ABOVE = 0.5
"""The share of the tests above a threshold that may pass, if the sentence says so: a wrong tile need not show in every
test that has one."""

Feature = tuple[str, str]
"""What it is about, and the phrase."""


@dataclass(frozen=True, eq=False)
class FeatureTest:
    """A test that has run: its case, its features, whether it failed, and its sizes by name where known."""

    case: str
    features: Traits
    failed: bool
    sizes: Mapping[str, int] = field(default_factory=dict)


class Rule(NamedTuple):
    """What separates failing tests from passing ones: the sentence, and whether a test has it."""

    says: str = ""
    holds: Callable[[FeatureTest], bool] = lambda test: False


def where_failing(tests: Sequence[FeatureTest], status: str) -> Rule:
    """The rule that says most: an exact threshold, else features that meet, else a threshold with exceptions.

    Its sentence is empty where no simple rule separates the tests.
    """
    rules = threshold(tests, status), shared_features(tests, status), threshold(tests, status, MAX_PASSING_ABOVE)
    return next((rule for rule in rules if rule.says), Rule())


def shared_features(tests: Sequence[FeatureTest], status: str = "failed") -> Rule:
    """`failed only where is_causal and a width above 64 meet, backward`; empty where nothing simple separates.

    The simplest rule: of one feature, else of two that meet, else of three. Every failing test has them, and no passing
    test; else a few passing ones, fewer than half of them, and the sentence says how many.
    """
    failing, passing = [test for test in tests if test.failed], [test for test in tests if not test.failed]
    if not failing or not passing:
        return Rule()
    passing_with = _places_by_feature(passing)
    cases = len({test.case for test in failing})
    shares = {feature: passing_with.get(feature, 0).bit_count() / len(passing) for feature in _common(failing)}
    common = sorted(shares, key=shares.__getitem__)
    telling = [feature for feature in common if shares[feature] ** cases <= MAX_CHANCE]
    a_few = min(int(len(failing) * MAX_PASSING_SHARE / (1 - MAX_PASSING_SHARE)), (len(passing) - 1) // 2)
    for allowed in (0, a_few, int(len(passing) * MAX_SHARE_OF_PASSING)):
        for count in range(1, min(MAX_FEATURES, cases - SPARE_CASES) + 1):
            if rule := _rule((telling if allowed else common)[:CANDIDATES], passing_with, count, allowed):
                exceptions = _all_of(rule, passing_with)
                others = [test for place, test in enumerate(passing) if not exceptions >> place & 1]
                with_rule = len(failing) + exceptions.bit_count()
                share = f", in {len(failing)} of {with_rule} such tests" if exceptions else ""
                if not _enough(failing, others):
                    return Rule()
                return Rule(f"{status} only {_in_words(rule)}{share}", partial(_has_all, rule))
    return Rule()


def _has_all(rule: Collection[Feature], test: FeatureTest) -> bool:
    return {*rule} <= {*_features(test)}


def threshold(tests: Sequence[FeatureTest], status: str = "failed", passing_share: float = 0.0) -> Rule:
    """`right up to 32 keys, failed from 33 on`; empty where no size separates failing tests from passing ones.

    No test fails below the threshold. Of the tests above it at most `passing_share` passes.
    """
    sentences = [_threshold_of(name, tests, status, passing_share) for name in ("keys", "queries", "width")]
    return min(filter(None, sentences), key=lambda rule: rule[:2], default=(0, "", Rule()))[2]


def _threshold_of(
    name: str, tests: Sequence[FeatureTest], status: str, passing_share: float
) -> tuple[int, str, Rule] | None:
    """How many tests pass above the threshold of this size, the sentence, and the rule."""
    failing = {test: test.sizes.get(name, 0) for test in tests if test.failed}
    first = min(failing.values(), default=0)
    if first == 0:
        return None
    passing = {test: test.sizes[name] for test in tests if not test.failed and name in test.sizes}
    below = {test: size for test, size in passing.items() if size < first}
    above = len(passing) - len(below)
    if not _enough(failing, below) or min(len(set(failing.values())), len(set(below.values()))) < MIN_SIZES:
        return None
    if above > passing_share * (above + len(failing)):
        return None
    share = f" in {len(failing)} of {above + len(failing)} tests" if above else ""
    size = f"a {name} of {max(below.values())}" if name == "width" else f"{max(below.values())} {name}"
    says = f"right up to {size}, {status}{share} from {first} on"
    return above, says, Rule(says, lambda test: test.sizes.get(name, 0) >= first)


def _enough(failing: Collection[FeatureTest], passing: Collection[FeatureTest]) -> bool:
    """Whether there are enough tests of both kinds for a sentence about what separates them."""
    cases = [len({test.case for test in tests}) for tests in (failing, passing)]
    return min(cases) >= MIN_PASSING_CASES and len(passing) >= MIN_PASSING_RATIO * len(failing)


def _places_by_feature(tests: Iterable[FeatureTest]) -> dict[Feature, int]:
    """For each feature the places of the tests that have it, as the bits of a number."""
    places: dict[Feature, int] = {}
    for place, test in enumerate(tests):
        for feature in _features(test):
            places[feature] = places.get(feature, 0) | 1 << place
    return places


def _common(tests: Sequence[FeatureTest]) -> list[Feature]:
    """The features that all of these tests have."""
    others = [{*_features(test)} for test in tests[1:]]
    return [feature for feature in _features(tests[0]) if all(feature in other for other in others)]


def _features(test: FeatureTest) -> Iterator[Feature]:
    return ((factor, phrase) for factor, phrases in test.features.items() for phrase in phrases)


def _rule(
    candidates: Sequence[Feature], passing_with: Mapping[Feature, int], count: int, allowed: int
) -> tuple[Feature, ...]:
    """`count` features, of different factors, that at most `allowed` passing tests have together; or empty.

    Where several rules do, the one whose features alone separate most.
    """
    rules: list[tuple[int, tuple[Feature, ...]]] = []
    for features in combinations(candidates, count):
        distinct = len({factor for factor, _ in features}) == count
        if distinct and _all_of(features, passing_with).bit_count() <= allowed:
            rules.append((sum(passing_with.get(feature, 0).bit_count() for feature in features), features))
    return min(rules, key=lambda rule: rule[0])[1] if rules else ()


def _all_of(features: Sequence[Feature], places: Mapping[Feature, int]) -> int:
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
