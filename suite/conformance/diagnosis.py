"""Diagnosis: the mutant that gives the same wrong results as an implementation, or the two that give them together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

from torch import Tensor

from attnsuite.cases import Call, Case, Contract, Conventions, Mutant, Reply
from attnsuite.cases.draws import replayed_draws
from attnsuite.cases.mutants import together
from attnsuite.conformance.case_tests import CaseTests
from attnsuite.conformance.float32 import IN_FLOAT32, in_float32
from attnsuite.model import Status
from attnsuite.worker.calling import tries, undisturbed

MAX_EXAMINED = 8
"""Wrong results that are compared with every mutant: an implementation seldom has many mistakes."""
SAMPLE = 24
"""Wrong results on which each mutant that matches one is tried."""
PASSED, MAX_SIZE = 16, 2**20
"""Passed tests of the same families, of others, and of those most alike, that may refute a mutant, and the largest
product of their lengths: keys, queries and width."""
FEW = 3
"""Results that a mutant must explain to be established. With fewer, a passed test on which it is wrong refutes it."""
CLEARLY_WRONG = 10.0
"""The error, in error bounds, that a mutant's own result must have: where it is nearly right, a match proves little. An
established mutant needs none."""
MAX_NAMES = 3
"""Mutants that are named where several explain as many results. Where there are more, none is."""
MIN_CASES = 2
"""Cases that a mutant must explain where more cases fail: among hundreds of results some match a mutant by chance."""
MIN_CASES_OF_PAIR = 3
"""Cases that a pair must explain: of a thousand pairs several match two small cases."""
MAX_PAIRS, PAIRED_RESULTS = 1000, 3
"""Pairs of mutants that are tried on one result, half a millisecond each, and results on which they are tried."""
ALL_IN_FLOAT32 = ("computes_float64_in_float32", "float32_inside")
"""The names in contracts of the mutant that computes float64 in float32."""
WORK = 40_000.0
"""Work for the diagnosis of one implementation, in tries of a mutant on a small case (0.5 ms). It is counted and not
timed, so that a slow machine gives the same names."""
NUMBERS_PER_TRY = 25_000
"""Numbers in the inputs of a case that cost as much as a call of a small one."""
CONVENTION_SUBJECTS = {
    "causal": "causal is",
    "window": "the window is",
    "empty_row": "a query that may attend to nothing gives",
    "bool_mask": "True in a mask means",
}
"""How a sentence about each convention begins."""
CONVENTION_CHOICES = {
    "upper_left": "aligned at the first key",
    "lower_right": "aligned at the last key",
    "nan": "NaN",
    "mean": "the mean of the values",
    "may_attend": "may attend",
    "may_not": "hidden",
}
"""The choices of conventions whose names need an explanation."""
DECLARED = "the declared convention:"

Key = tuple[str, str]
"""The names of a test: its case's and its dtype's."""
Test = tuple[Case, str]
"""A case and a dtype."""
AND = " + "
"""Between the names of two mutants that give a result together."""


@dataclass(frozen=True)
class Diagnosis:
    """The mutants that give the same wrong result, by name and in words; no mutant for a broken convention.

    Two mutants that give it only together have one name, `unscaled + ignores_causal`.
    """

    mutants: tuple[str, ...]
    says: str


class Effect(NamedTuple):
    """Whether a mutant gives a wrong result, and the error of its own result in error bounds; 0 where that is right."""

    same: bool = False
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class WrongResult:
    """A wrong result that is to be explained, or without replies a right one on which mutants are tried."""

    case: Case
    calls: tuple[Call, ...]
    replies: tuple[Reply, ...]
    expected: Any

    @cached_property
    def cost(self) -> float:
        """The work of trying one mutant on it."""
        numbers = sum(tensor.numel() for call in self.calls for tensor in call.tensors.values())
        return len(self.calls) + numbers / NUMBERS_PER_TRY

    @cached_property
    def replies_of(self) -> Callable[[Callable[..., Any]], tuple[Reply, ...]]:
        """The replies of a function to its calls."""
        return tries(self.calls)

    @cached_property
    def loose(self) -> bool:
        """Whether the error bounds are so wide that chance decides whether two results match."""
        return not self.case.counts(self.expected)

    @cached_property
    def draws(self) -> Mapping[int, Tensor]:
        """The random numbers that its replies show."""
        return self.case.draws(self.calls, self.replies, self.expected)

    @cached_property
    def has_finite(self) -> bool:
        """Whether its replies have a finite number. Where only some rows are NaN, their places tell as much."""
        return any(bool(reply.output.isfinite().any()) for reply in self.replies if reply.output is not None)

    def effect(self, function: Callable[..., Any]) -> Effect:
        """The effect of a function, with the random numbers that the replies show."""
        with replayed_draws(self.draws if self.replies else {}):
            is_used = getattr(function, "is_used", None)
            replies = self.replies_of(function) if is_used is None or is_used(self.replies_of) else ()
        if not replies or any(reply.output is None for reply in replies):
            return Effect()
        verdict = self.case.verdict(self.calls, replies, self.expected)
        if verdict.status == Status.PASSED:
            return Effect()
        same = bool(self.replies) and self.case.alike(self.calls, self.replies, replies, self.expected)
        return Effect(same, math.inf if verdict.bounds is None else verdict.bounds)


class Diagnostician:
    """Diagnoses the wrong results of one implementation. `budget` is the work that it may do.

    `inputs` may have the expected values of passed tests.
    """

    def __init__(
        self, contract: Contract, conventions: Conventions, inputs: CaseTests | None = None, budget: float = WORK
    ) -> None:
        self.contract, self.conventions, self.budget = contract, conventions, budget
        self.inputs = inputs or CaseTests(contract, keep=False)
        self.work = 0.0
        self.examined = 0
        self.cases: dict[str, set[str]] = {}
        """The mutants and pairs that are named, each with the cases that it explains."""
        self.failing_cases: set[str] = set()
        self.passed: list[Test] = []
        self.uncompared: set[Key] = set()
        """The results without a name that were not compared with every mutant."""
        self._right: dict[Key, WrongResult] = {}
        self._features: dict[Key, set[str]] = {}

    def diagnoses(self, results: Mapping[Key, WrongResult], passed: Sequence[Test]) -> dict[Key, Diagnosis]:
        """The diagnoses of wrong results, in their order; none of a result that nothing explains.

        Of the mutants that give a result, the one that explains most of all results is named in all of them, if no
        passed test refutes it. Where error bounds are loose, only an established mutant explains a result.
        """
        self.passed += passed
        self.failing_cases.update(wrong.case.name for wrong in results.values())
        own = {key: diagnosis for key, wrong in results.items() if (diagnosis := self._without_mutants(wrong))}
        search = Search(self, {key: wrong for key, wrong in results.items() if key not in own})
        with undisturbed():
            diagnoses = own | {key: self._in_words(names) for key, names in search.run().items()}
        return {key: diagnoses[key] for key in results if key in diagnoses}

    def explains(self, name: str, wrong: WrongResult) -> bool:
        """Whether the mutant of this name, or the pair `first + second`, gives this wrong result."""
        return name in ALL_IN_FLOAT32 or self.effect(name, wrong).same

    @cached_property
    def mutants(self) -> dict[str, Mutant]:
        """The contract's mutants, and those that were fitted to wrong results, by name."""
        return {mutant.name: mutant.under(self.conventions) for mutant in self.contract.mutants()}

    def fit(self, wrong: WrongResult) -> None:
        """Add the mutants whose sizes or numbers this result suggests."""
        for mutant in {mutant.family: mutant for mutant in self.mutants.values() if mutant.fitted}.values():
            for call, reply in zip(wrong.calls, wrong.replies, strict=True):
                for fitted in mutant.fitted(call, reply) if mutant.fitted and reply.output is not None else ():
                    self.mutants.setdefault(fitted.name, fitted.under(self.conventions))

    def right(self, case: Case, dtype: str) -> WrongResult:
        """A test that the implementation passes."""
        if (case.name, dtype) not in self._right:
            test = self.inputs.test(case, dtype, self.conventions)
            self._right[case.name, dtype] = WrongResult(case, test.calls, (), test.expected)
        return self._right[case.name, dtype]

    def features(self, case: Case, dtype: str) -> set[str]:
        """The unusual properties of a case."""
        if (case.name, dtype) not in self._features:
            self._features[case.name, dtype] = {*chain(*case.traits(dtype).values())}
        return self._features[case.name, dtype]

    def family(self, name: str) -> str:
        """The family of a mutant; empty for a pair."""
        return self.mutants[name].family if name in self.mutants else ""

    def effect(self, name: str, wrong: WrongResult) -> Effect:
        """The effect of a mutant in whichever of its forms comes closest, or of a pair."""
        effect = Effect()
        for function in self.forms(name):
            self.work += wrong.cost
            effect = max(effect, wrong.effect(function))
            if effect.same:
                break
        return effect

    def forms(self, name: str) -> Sequence[Callable[..., Any]]:
        """The ways to write a mutant, or the one function of a pair; empty for two that exclude each other."""
        mutants = [self.mutants[part] for part in name.split(AND) if part in self.mutants]
        if len(mutants) == 1:
            return mutants[0].function, *mutants[0].others
        both = together(*(mutant.function for mutant in mutants)) if mutants else None
        return (both,) if both else ()

    def _in_words(self, names: Sequence[str]) -> Diagnosis:
        says = []
        for name in names:
            mutants = [self.mutants[part] for part in name.split(AND)]
            equals = " together with ".join(f'"{mutant.name}"' for mutant in mutants)
            says.append(f"equals {equals}: {', and '.join(mutant.says for mutant in mutants)}")
        return Diagnosis(tuple(names), " or ".join(says))

    def _without_mutants(self, wrong: WrongResult) -> Diagnosis | None:
        """The diagnosis of a result that was computed in float32, or under other conventions."""
        if wrong.loose:
            return None
        if in_float32(wrong.case, wrong.calls, wrong.replies, wrong.expected, self.conventions):
            name = next((name for name in ALL_IN_FLOAT32 if name in self.mutants), ALL_IN_FLOAT32[0])
            return Diagnosis((name,), IN_FLOAT32)
        broken = self._broken_conventions(wrong)
        words = convention_words(broken, self.contract.conventions, self.conventions) if broken else ""
        return Diagnosis((), words) if words else None

    def _broken_conventions(self, wrong: WrongResult) -> Sequence[str]:
        """The declared conventions without which the result is right: one of them, or else all."""
        everywhere = self.contract.conventions.keys() - self.contract.features.keys()
        points = self.contract.needs(wrong.calls) | everywhere if self.conventions else ()
        relevant = tuple(point for point in self.conventions if point in points)
        for broken in dict.fromkeys([*((point,) for point in relevant), relevant]) if relevant else ():
            others = {point: choice for point, choice in self.conventions.items() if point not in broken}
            expected = wrong.case.expected(wrong.calls, others)
            if wrong.case.verdict(wrong.calls, wrong.replies, expected).status == Status.PASSED:
                return broken
        return ()


class Search:
    """The search for the mutants that explain most of some wrong results."""

    def __init__(self, diagnostician: Diagnostician, results: Mapping[Key, WrongResult]) -> None:
        self.diagnostician, self.results = diagnostician, results
        self.names: dict[Key, tuple[str, ...]] = {}
        """The mutants or pairs that explain each result."""
        self.effective: dict[Key, list[str]] = {}
        """The mutants that are clearly wrong in each examined result, in another way."""
        self._effects: dict[tuple[str, Key], Effect] = {}

    def run(self) -> dict[Key, tuple[str, ...]]:
        """The names of the mutants or pairs by key."""
        for name in self.diagnostician.cases:
            self._name((name,), self._explained(name, self.results))
        for key in self._in_turns():
            if key not in self.names and self.diagnostician.examined < MAX_EXAMINED:
                self.diagnostician.examined += 1
                self._examine(key)
        unpaired = [key for key in self.effective if key not in self.names and self.results[key].has_finite]
        for key in unpaired[:PAIRED_RESULTS]:
            self._pair(key)
        unnamed = [key for key in self._in_turns() if key not in self.names]
        contradicted = {names for names in {*self.names.values()} if self._contradicts(names, unnamed[:SAMPLE])}
        self.diagnostician.uncompared.update(key for key in unnamed if key not in self.effective)
        return {key: names for key, names in self.names.items() if names not in contradicted}

    def _in_turns(self) -> list[Key]:
        """The results that may be examined, finite ones first, then one of each family in turn, small ones first."""
        turns = Counter[str]()
        ranks: dict[Key, tuple[bool, int, float]] = {}
        for key, wrong in sorted(self.results.items(), key=lambda item: item[1].cost):
            turns[wrong.case.family] += 1
            if not wrong.loose:
                ranks[key] = not wrong.has_finite, turns[wrong.case.family], wrong.cost
        return sorted(ranks, key=ranks.__getitem__)

    def _effect(self, name: str, key: Key) -> Effect:
        """The effect of a mutant or pair on a result; none once the budget is used up."""
        if (name, key) not in self._effects:
            affordable = self.diagnostician.work < self.diagnostician.budget
            self._effects[name, key] = self.diagnostician.effect(name, self.results[key]) if affordable else Effect()
        return self._effects[name, key]

    def _explained(self, name: str, keys: Iterable[Key]) -> list[Key]:
        """Those of these results that a mutant explains: also nearly right ones where it is established."""
        same = [key for key in keys if key not in self.names and self._effect(name, key).same]
        clear = [key for key in same if self._effect(name, key).error >= CLEARLY_WRONG]
        tight = [key for key in clear if not self.results[key].loose]
        if len(tight) + len(self.diagnostician.cases.get(name, ())) < FEW:
            return tight
        return [key for key in same if key in clear or not self.results[key].loose]

    def _examine(self, key: Key) -> None:
        """Compare a result with every mutant, and name the one that explains most."""
        self.diagnostician.fit(self.results[key])
        effects = {name: self._effect(name, key) for name in self.diagnostician.mutants}
        if self.diagnostician.work < self.diagnostician.budget:
            clear = [name for name, effect in effects.items() if effect.error >= CLEARLY_WRONG]
            self.effective[key] = [name for name in clear if not effects[name].same]
            self._choose([name for name in clear if effects[name].same], key, MAX_NAMES)

    def _pair(self, key: Key) -> None:
        """Name the two mutants that give a result together, where neither does alone and no other two do.

        Where one is named elsewhere, it is at work here, too: two others would match by chance.
        """
        if key not in self.names:
            named = self.diagnostician.cases
            effective = sorted(self.effective[key], key=lambda name: name not in named)
            pairs = [pair for pair in combinations(effective, 2) if not named or pair[0] in named]
            names = [AND.join(pair) for pair in pairs[:MAX_PAIRS]]
            self._choose([name for name in names if self._effect(name, key).same], key, 1)

    def _choose(self, matching: Sequence[str], key: Key, limit: int) -> None:
        """Name the mutant that explains most, in all that it explains; or up to `limit` that explain as many.

        Those with a size come last: where others explain as much, no test shows the size.
        """
        sample = {key: None} | dict.fromkeys([other for other in self._in_turns() if other not in self.names][:SAMPLE])
        explained = {name: self._explained(name, sample) for name in matching}
        explained = {name: keys for name, keys in explained.items() if self._may_explain(name, keys)}
        most = max(map(len, explained.values()), default=0)
        best = [name for name, keys in explained.items() if len(keys) == most]
        if len(best) > 1:
            best = [name for name in best if not self._is_refuted(name, explained[name])]
        plain = [name for name in best if not self.diagnostician.family(name)]
        kinds: dict[str, str] = {}
        for name in plain or best:
            kinds.setdefault(self.diagnostician.family(name) or name, name)
        names = tuple(kinds.values())
        if len(names) == 1:
            self._name(names, self._explained(names[0], self.results))
        elif names and len(names) <= limit and self.results[key].has_finite:  # many mistakes end in NaN everywhere
            self._name(names, set(explained[names[0]]).intersection(*(explained[name] for name in names)))

    def _name(self, names: tuple[str, ...], keys: Iterable[Key]) -> None:
        for key in keys:
            self.names[key] = names
            if len(names) == 1:
                self.diagnostician.cases.setdefault(names[0], set()).add(self.results[key].case.name)

    def _may_explain(self, name: str, keys: Sequence[Key]) -> bool:
        """Whether its matches are no chance matches of an implementation with another mistake."""
        cases = {self.results[key].case.name for key in keys}
        least = MIN_CASES if len(self.diagnostician.failing_cases) >= FEW else 1
        if len(cases) < (MIN_CASES_OF_PAIR if AND in name else least):
            return False
        established = any(len(cases) >= FEW for other, cases in self.diagnostician.cases.items() if other != name)
        only_nan = established and not any(self.results[key].has_finite for key in keys)
        if only_nan and (len(cases) < FEW or not self.diagnostician.passed):
            return False
        few = len(keys) < min(FEW, len(self.results))
        return not ((few or only_nan or self.diagnostician.family(name)) and self._is_refuted(name, keys))

    def _is_refuted(self, name: str, keys: Sequence[Key]) -> bool:
        """Whether a mutant is clearly wrong in a passed test, of the families of these results or of others."""
        families = {self.results[key].case.family for key in keys}
        passed = [test for test in self.diagnostician.passed if math.prod(test[0].lengths().values()) <= MAX_SIZE]
        near = [test for test in passed if test[0].family in families]
        others = [test for test in passed if test[0].family not in families]
        sampled = [test for part in (near, others) for test in part[:: max(1, len(part) // PASSED)][:PASSED]]
        alike = self._most_alike([(self.results[key].case, key[1]) for key in keys], passed)
        tests = {(case.name, dtype): (case, dtype) for case, dtype in (*alike, *sampled)}
        return any(self._is_wrong_at(case, dtype, name) for case, dtype in tests.values())

    def _most_alike(self, explained: Sequence[Test], passed: Sequence[Test]) -> Sequence[Test]:
        """The passed tests with most of the features that more of the explained tests have than of the passed ones."""
        features = self.diagnostician.features
        counts, usual = (Counter(chain(*(features(*test) for test in part))) for part in (explained, passed))
        typical = {f: n / len(explained) - usual[f] / max(1, len(passed)) for f, n in counts.items()}

        def likeness(test: Test) -> float:
            return sum(typical.get(feature, 0.0) for feature in features(*test)) / (1 + len(features(*test)))

        return sorted(passed, key=likeness, reverse=True)[:PASSED]

    def _is_wrong_at(self, case: Case, dtype: str, name: str) -> bool:
        """Whether each form of a mutant is clearly wrong there; unknown where numbers are drawn or bounds are loose."""
        right = self.diagnostician.right(case, dtype)
        if right.loose or any(call.seed is not None for call in right.calls):
            return False
        forms = self.diagnostician.forms(name)
        self.diagnostician.work += right.cost * len(forms)
        return all(right.effect(function).error >= CLEARLY_WRONG for function in forms)

    def _contradicts(self, names: tuple[str, ...], unnamed: Sequence[Key]) -> bool:
        """Whether mutants are clearly wrong in another way in more results without a name than they explain."""
        explained = sum(named == names for named in self.names.values())
        effects = [[self._effect(name, key) for key in unnamed] for name in names]
        return all(sum(e.error >= CLEARLY_WRONG and not e.same for e in row) > explained for row in effects)


def convention_words(points: Sequence[str], known: Mapping[str, Sequence[str]], declared: Conventions) -> str:
    """`causal is aligned at the first key; the declared convention: aligned at the last key (causal is lower_right)`.

    `points` are the conventions that a result breaks; of those in `known`, the first choice is the contract's own.
    """
    actual = " and ".join(
        f"{CONVENTION_SUBJECTS.get(point, f'{point} is')} {_choice(known[point][0])}" for point in points
    )
    expected = " and ".join(_choice(declared[point]) for point in points)
    return f"{actual}; {DECLARED} {expected} ({', '.join(f'{point} is {declared[point]}' for point in points)})"


def names_convention(detail: str) -> bool:
    """Whether the detail of a failure names a broken convention, also in the words of a signature."""
    return DECLARED.removeprefix("the declared") in detail


def _choice(choice: str | Mapping[str, str]) -> str:
    """A choice in words; where it differs by the kind of mask, `NaN under a bool_mask`."""
    if isinstance(choice, Mapping):
        return " and ".join(f"{_choice(value)} under a {kind}" for kind, value in choice.items())
    return CONVENTION_CHOICES.get(choice, choice)
