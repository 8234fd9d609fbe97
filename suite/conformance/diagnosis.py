"""Diagnosis: the mutant that gives the same wrong result as an implementation, or the two that give it together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from itertools import combinations
from typing import Any, TypeVar

from torch import Tensor

from attnsuite.cases import Call, Case, Contract, Conventions, Mutant, Reply
from attnsuite.cases.draws import replayed_draws
from attnsuite.cases.mutants import together
from attnsuite.conformance.float32 import IN_FLOAT32, in_float32
from attnsuite.model import Status
from attnsuite.worker import run_calls

MAX_EXAMINED = 12
"""Wrong results that are compared with every mutant. Later ones are compared only with mutants that matched before: an
implementation seldom has many mistakes, and comparing all takes seconds."""
ESTABLISHED = 3
"""Results that a mutant must have explained before it may explain another one without a look at all other mutants. With
fewer, a chance match could hide the mistake itself."""
CLEARLY_WRONG = 10.0
"""The error, in error bounds, that a mutant's own result must have: where it is nearly right, a match proves little. An
established mutant needs none."""
MAX_NAMES = 2
"""Mutants that are named where several explain as many results."""
MAX_PAIRS = 1000
"""Pairs of mutants that are tried on one result, half a millisecond each. On a small case some 45 are clearly wrong."""
MIN_CASES = 2
"""Cases that a mutant must have explained before it is named once another one is established: among hundreds of wrong
results, some match a mutant by chance."""
MIN_CASES_OF_PAIR = 3
"""Cases that a pair must have explained before it is named: of a thousand pairs several match two small cases."""
ALL_IN_FLOAT32 = ("computes_float64_in_float32", "float32_inside")
"""The names in contracts of the mutant that computes float64 in float32."""
PASSED_PER_SIZE = 60
"""Passed tests on which a mutant of some size is tried before it is named: some 0.2 s."""
PASSED_PER_LOOK = 24
"""Passed tests, those of the same family first, on which mutants that explain a result equally well are tried."""
WORK = 30_000.0
"""Work for the diagnosis of one implementation, in tries of a mutant on a small case (0.5 ms). It is counted and not
timed, so that a slow machine gives the same names."""
WORK_ON_ESTABLISHED = 10_000.0
"""Work beyond that for mutants that matched before: most of the remaining results show them, too."""
WORK_ON_PAIRS = 6_000.0
"""The part of the work that pairs may take: six results of small cases."""
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

Pair = tuple[Mutant, Mutant]
Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Diagnosis:
    """The mutants that give the same wrong result, the likeliest first, by name and in words. Both may be empty.

    Two mutants that give it only together have one name, `unscaled + ignores_causal`.
    """

    mutants: tuple[str, ...] = ()
    says: str = ""
    exhaustive: bool = field(default=True, compare=False)
    """Whether the result was compared with every mutant; False if some were left out to save work."""
    candidates: tuple[tuple[Mutant, ...], ...] = field(default=(), compare=False)
    """The mutants, or pairs of them, among which later results may decide."""
    has_finite: bool = field(default=True, compare=False)
    """Whether the result has a finite number."""


class Effect(Enum):
    """What a mutant makes of a test, compared with the result that is to be explained."""

    NONE = auto()
    """It is right there, nearly right, or gives no result."""
    OTHER = auto()
    """It is clearly wrong, but otherwise."""
    SAME = auto()


@dataclass(frozen=True)
class WrongResult:
    """A wrong result that is to be explained."""

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

    def effect(self, mutant: Mutant, least: float = CLEARLY_WRONG) -> Effect:
        """The effect of a mutant in whichever of its forms comes closest."""
        effect = Effect.NONE
        for function in (mutant.function, *mutant.others):
            effect = max(effect, self.effect_of(function, least), key=lambda each: each.value)
            if effect is Effect.SAME:
                break
        return effect

    def effect_of(self, function: Callable[..., Any], least: float = CLEARLY_WRONG) -> Effect:
        """The effect of a function, with the random numbers that the replies show."""
        with replayed_draws(self.draws):
            replies = run_calls(function, self.calls)
        if any(reply.output is None for reply in replies) or not self.is_wrong(replies, least):
            return Effect.NONE
        same = self.case.alike(self.calls, self.replies, replies, self.expected)
        return Effect.SAME if same else Effect.OTHER

    def is_wrong(self, replies: tuple[Reply, ...], least: float = CLEARLY_WRONG) -> bool:
        """Whether other replies are wrong by at least `least` error bounds."""
        verdict = self.case.verdict(self.calls, replies, self.expected)
        return verdict.status != Status.PASSED and (verdict.bounds is None or verdict.bounds >= least)


class Diagnostician:
    """Diagnoses the wrong results of one implementation, in the order of tests; prefers the mutant that explains most.

    `budget` is the work that it may do; after that, results are compared only with mutants that matched before.
    """

    def __init__(self, contract: Contract, conventions: Conventions, budget: float = WORK) -> None:
        self.contract, self.conventions, self.budget = contract, conventions, budget
        self.matches: Counter[str] = Counter()
        """How many results each mutant has explained."""
        self.cases: defaultdict[str, set[str]] = defaultdict(set)
        """The cases that each mutant has explained; a pair of mutants under `first + second`."""
        self.with_finite: Counter[str] = Counter()
        """How many of these results had a finite number: many mistakes end in NaN everywhere."""
        self.unlike: Counter[str] = Counter()
        """How many results without a name each mutant gets clearly wrong in another way."""
        self.refuted: set[str] = set()
        """The mutants that are clearly wrong where the implementation passes."""
        self.results = self.examined = 0
        self.work = self.work_on_pairs = 0.0
        self._passed: list[tuple[Case, str]] = []
        self._noted: list[tuple[Case, str]] = []
        self._vetted: set[str] = set()
        self._left_out = False

    def passed(self, case: Case, dtype: str) -> None:
        """Note a passed test: it may tell apart mutants that explain wrong results equally well."""
        self._passed.append((case, dtype))
        self._noted.append((case, dtype))

    def diagnose(self, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], expected: Any) -> Diagnosis:
        """The mutant that explains a wrong result: `equals "unscaled": the scores are not divided by √d`.

        Where error bounds are so loose that many mutants would match, only an established one does.
        """
        self._left_out = False
        self.results += 1
        diagnosis = self._diagnosis(WrongResult(case, calls, replies, expected))
        return diagnosis if diagnosis.says else replace(diagnosis, exhaustive=not self._left_out)

    def settled(self, diagnosis: Diagnosis) -> Diagnosis | None:
        """The one mutant that explains an earlier result, if later results have settled it; else None."""
        alone = [mutant for mutant, *others in diagnosis.candidates if not others and mutant.name not in self.refuted]
        certain = [mutant for mutant in alone if self._is_certain(mutant, diagnosis.has_finite)]
        likeliest = self._most_matches(certain)
        waited = diagnosis.has_finite and not diagnosis.says  # for a second case that shows it
        if len(likeliest) == 1 and (waited or self._is_established(likeliest[0])):
            return _one_of(likeliest)
        pairs = [(first, second[0]) for first, *second in diagnosis.candidates if second and not alone]
        confirmed = [pair for pair in pairs if self._is_certain_pair(pair)]
        return _together(confirmed[0]) if len(confirmed) == 1 else None

    def is_doubtful(self, diagnosis: Diagnosis) -> bool:
        """Whether each mutant of a diagnosis matches by chance.

        A result that shows only part of a mistake, as rows that are all hidden do, may equal another mutant.
        """
        return bool(diagnosis.mutants) and all(map(self._by_chance, diagnosis.mutants))

    def _by_chance(self, name: str) -> bool:
        """Whether a mutant explains fewer results than it contradicts, or few, and is wrong in tests that pass."""
        if self.unlike[name] > self.matches[name] > 0:
            return True
        few, mutant = 0 < self.matches[name] < min(ESTABLISHED, self.results), self.mutants.get(name)
        if not few or mutant is None:
            return False
        families = {case.partition("/")[0] for case in self.cases[name]}
        tests = sorted(self._noted, key=lambda test: test[0].family not in families)[:PASSED_PER_LOOK]
        tried = self._affordable(tests, cost=1.0, more_work=WORK_ON_ESTABLISHED)
        return any(self._wrong_at(case, dtype, [mutant]) for case, dtype in tried)

    def explains(
        self, name: str, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], expected: Any
    ) -> bool:
        """Whether the mutant of this name, or the pair `first + second`, gives this wrong result."""
        wrong, mutants = WrongResult(case, calls, replies, expected), [self.mutants.get(n) for n in name.split(" + ")]
        if len(mutants) == 1 and mutants[0]:
            return wrong.effect(mutants[0], least=0.0) is Effect.SAME
        both = together(*(mutant.function for mutant in mutants if mutant)) if None not in mutants else None
        return name in ALL_IN_FLOAT32 or (both is not None and wrong.effect_of(both, least=0.0) is Effect.SAME)

    def _diagnosis(self, wrong: WrongResult) -> Diagnosis:
        if wrong.loose:
            mutants, _ = self._tried(wrong, self._by_matches(self._is_established), WORK_ON_ESTABLISHED)
            return self._named(mutants[:1], wrong)
        if in_float32(wrong.case, wrong.calls, wrong.replies, wrong.expected, self.conventions):
            name = next((mutant.name for mutant in self._mutants if mutant.name in ALL_IN_FLOAT32), ALL_IN_FLOAT32[0])
            return Diagnosis((name,), IN_FLOAT32)
        if broken := self._broken_conventions(wrong):
            return Diagnosis((), convention_words(broken, self.contract.conventions, self.conventions))
        matching, effective = self._matching(wrong)
        likeliest = self._likeliest(matching, wrong.case.family)
        if certain := [mutant for mutant in likeliest if self._is_certain(mutant, wrong.has_finite)]:
            return self._named(certain, wrong)
        diagnosis = self._in_pairs(wrong, effective)
        self.unlike.update(mutant.name for mutant in effective if not diagnosis.says)
        candidates = (*((mutant,) for mutant in likeliest), *diagnosis.candidates)
        return diagnosis if diagnosis.says else replace(diagnosis, candidates=candidates, has_finite=wrong.has_finite)

    # Single mutants

    @cached_property
    def mutants(self) -> dict[str, Mutant]:
        """The contract's mutants, and those that were fitted to wrong results, by name."""
        return {mutant.name: mutant.under(self.conventions) for mutant in self.contract.mutants()}

    @property
    def _mutants(self) -> list[Mutant]:
        return list(self.mutants.values())

    def _fit(self, wrong: WrongResult) -> None:
        """Add the mutants whose sizes or numbers this result suggests."""
        for mutant in {mutant.family: mutant for mutant in self._mutants if mutant.fitted}.values():
            for call, reply in zip(wrong.calls, wrong.replies, strict=True):
                for fitted in mutant.fitted(call, reply) if mutant.fitted and reply.output is not None else ():
                    self.mutants.setdefault(fitted.name, fitted.under(self.conventions))

    def _by_matches(self, condition: Callable[[Mutant], Any]) -> list[Mutant]:
        return sorted(filter(condition, self._mutants), key=lambda mutant: -self.matches[mutant.name])

    def _most_matches(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        most = max((self.matches[mutant.name] for mutant in mutants), default=0)
        return [mutant for mutant in mutants if self.matches[mutant.name] == most]

    def _matching(self, wrong: WrongResult) -> tuple[list[Mutant], list[Mutant]]:
        """The mutants that give this result, and those that are clearly wrong there in another way."""
        before = self._by_matches(lambda mutant: self.matches[mutant.name])
        same, other = self._tried(wrong, before, WORK_ON_ESTABLISHED)
        self._left_out |= not same and self.examined >= MAX_EXAMINED
        if not any(map(self._is_established, same)) and self.examined < MAX_EXAMINED:
            self.examined += 1
            self._fit(wrong)
            more = self._tried(wrong, [mutant for mutant in self._mutants if not self.matches[mutant.name]])
            same, other = [*same, *more[0]], [*other, *more[1]]
        for mutant in same:
            self.matches[mutant.name] += 1
            self.cases[mutant.name].add(wrong.case.name)
            self.with_finite[mutant.name] += wrong.has_finite
        return same, other

    def _tried(
        self, wrong: WrongResult, mutants: list[Mutant], more_work: float = 0.0
    ) -> tuple[list[Mutant], list[Mutant]]:
        """The mutants with the same result and those with another effect, until one that is found settles it."""
        same: list[Mutant] = []
        other: list[Mutant] = []
        tried = 0
        for mutant in self._affordable(mutants, wrong.cost, more_work):
            tried += 1
            least = 0.0 if self._is_established(mutant) and not wrong.loose else CLEARLY_WRONG
            effect = wrong.effect(mutant, least)
            if effect is Effect.OTHER:
                other.append(mutant)
            elif effect is Effect.SAME and mutant.name not in self.refuted:
                same.append(mutant)
            if self._is_settled(same, mutants[tried:]):
                return same, other
        self._left_out |= tried < len(mutants)
        return same, other

    def _is_settled(self, same: list[Mutant], remaining: list[Mutant]) -> bool:
        """Whether none of the remaining mutants explains as many results as an established one that matches."""
        most = max((self.matches[mutant.name] for mutant in same if self._is_established(mutant)), default=0)
        return bool(most) and all(self.matches[mutant.name] < most for mutant in remaining)

    def _is_established(self, mutant: Mutant) -> bool:
        return self.matches[mutant.name] >= ESTABLISHED and mutant.name not in self.refuted

    def _is_certain(self, mutant: Mutant, has_finite: bool) -> bool:
        """Whether a match is no chance match of an implementation with another mistake.

        Where numbers have established another mutant, NaN alone is no sign of this one.
        """
        others = [other for other in self._mutants if other is not mutant and self._is_established(other)]
        if not has_finite and self.with_finite[mutant.name] < ESTABLISHED:
            return all(self.with_finite[other.name] < ESTABLISHED for other in others)
        return not others or self._is_established(mutant) or len(self.cases[mutant.name]) >= MIN_CASES

    def _likeliest(self, matching: list[Mutant], family: str) -> list[Mutant]:
        """Those that explain most results, without those that are wrong where the implementation passes."""
        likeliest = self._most_matches([mutant for mutant in matching if not self._is_refuted(mutant)])
        if len(likeliest) <= 1:
            return likeliest
        self._passed.sort(key=lambda test: test[0].family == family)
        tests, self._passed[-PASSED_PER_LOOK:] = self._passed[-PASSED_PER_LOOK:], []
        for case, dtype in self._affordable(tests, len(likeliest)):
            self.refuted |= self._wrong_at(case, dtype, likeliest)
        return [mutant for mutant in likeliest if mutant.name not in self.refuted]

    def _is_refuted(self, mutant: Mutant) -> bool:
        """Whether a mutant of some size is clearly wrong in a test that the implementation passes.

        Its sentence says at what sizes results are wrong; any other mistake may be made in some places only.
        """
        if mutant.family and mutant.name not in self._vetted:
            self._vetted.add(mutant.name)
            every = max(1, len(self._noted) // PASSED_PER_SIZE)
            for case, dtype in self._affordable(self._noted[::every], cost=1.0, more_work=WORK_ON_ESTABLISHED):
                self.refuted |= self._wrong_at(case, dtype, [mutant])
        return mutant.name in self.refuted

    def _wrong_at(self, case: Case, dtype: str, mutants: list[Mutant]) -> set[str]:
        """The mutants that are clearly wrong in a test that the implementation passes.

        Where numbers are drawn, the same mistake may pass with one draw and fail with another.
        """
        calls = case.calls(dtype)
        expected = case.expected(calls, self.conventions)
        if not case.counts(expected) or any(call.seed is not None for call in calls):
            return set()
        test = WrongResult(case, calls, (), expected)
        return {
            mutant.name
            for mutant in mutants
            if all(test.is_wrong(run_calls(function, calls)) for function in (mutant.function, *mutant.others))
        }

    def _named(self, mutants: list[Mutant], wrong: WrongResult) -> Diagnosis:
        if len(mutants) == 1:
            return _one_of(mutants)
        telling = wrong.has_finite or all(self.with_finite[mutant.name] for mutant in mutants)
        kinds = list({mutant.family or mutant.name: mutant for mutant in reversed(mutants)}.values())[::-1]
        kinds.sort(key=lambda mutant: bool(mutant.family))  # a size says more than the result shows
        diagnosis = _one_of(kinds[:MAX_NAMES]) if telling else Diagnosis()  # many mistakes end in NaN everywhere
        candidates = tuple((mutant,) for mutant in mutants)
        return replace(diagnosis, candidates=candidates, has_finite=wrong.has_finite)

    # Pairs of mutants

    def _in_pairs(self, wrong: WrongResult, effective: list[Mutant]) -> Diagnosis:
        """The two mutants that give this result together, where neither does alone and no other two do."""
        if not wrong.has_finite or self.work_on_pairs >= WORK_ON_PAIRS:
            return Diagnosis()
        before = self.work
        pairs = list(self._affordable(self._likely_pairs(effective), wrong.cost))
        matching = [pair for pair in pairs if self._gives(pair, wrong)]
        self.work_on_pairs += self.work - before
        for pair in matching:
            self.cases[_pair_name(pair)].add(wrong.case.name)
        certain = [pair for pair in matching if self._is_certain_pair(pair)]
        return _together(certain[0]) if len(certain) == 1 else Diagnosis(candidates=tuple(matching))

    def _likely_pairs(self, effective: list[Mutant]) -> list[Pair]:
        """Pairs of mutants that have an effect, first those whose members explain other results alone.

        Where some are established, one of them is at work here, too: two others would match by chance.
        """
        any_pair = not any(map(self._is_established, self._mutants))
        pairs = [pair for pair in combinations(effective, 2) if any_pair or any(map(self._is_established, pair))]
        pairs.sort(key=lambda pair: -sum(self.matches[mutant.name] > 0 for mutant in pair))
        return pairs[:MAX_PAIRS]

    def _gives(self, pair: Pair, wrong: WrongResult) -> bool:
        both = together(pair[0].function, pair[1].function)
        return both is not None and wrong.effect_of(both) is Effect.SAME

    def _is_certain_pair(self, pair: Pair) -> bool:
        """Whether a pair may be named: of many pairs some match a few cases by chance."""
        return len(self.cases[_pair_name(pair)]) >= MIN_CASES_OF_PAIR

    # Conventions

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

    def _affordable(self, candidates: Iterable[Candidate], cost: float, more_work: float = 0.0) -> Iterator[Candidate]:
        """The candidates, as many as the budget pays for."""
        for candidate in candidates:
            if self.work >= self.budget + more_work:
                return
            self.work += cost
            yield candidate


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


def _one_of(mutants: Sequence[Mutant]) -> Diagnosis:
    """Each of these mutants gives the result."""
    says = " or ".join(f'equals "{mutant.name}": {mutant.says}' for mutant in mutants)
    return Diagnosis(tuple(mutant.name for mutant in mutants), says)


def _together(pair: Pair) -> Diagnosis:
    first, second = pair
    says = f'equals "{first.name}" together with "{second.name}": {first.says}, and {second.says}'
    return Diagnosis((_pair_name(pair),), says)


def _pair_name(pair: Pair) -> str:
    return f"{pair[0].name} + {pair[1].name}"
