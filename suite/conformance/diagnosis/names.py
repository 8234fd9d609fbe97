"""Names the mistake behind a wrong answer: the deviation that gives the same answer, or the two that do together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from itertools import combinations
from typing import Any

from torch import Tensor

from attnsuite.cases import Call, Case, Contract, Conventions, Mutant, Reply
from attnsuite.cases.draws import replayed_draws
from attnsuite.cases.mutants import together
from attnsuite.conformance.diagnosis.conventions import broken as broken_conventions
from attnsuite.conformance.diagnosis.in_float32 import InFloat32, in_float32
from attnsuite.conformance.diagnosis.side_by_side import side_by_side
from attnsuite.model import Status
from attnsuite.worker import ask

EXAMINED = 12
"""The number of wrong answers that are compared with every deviation. Later ones are compared only with deviations that
matched before: an implementation seldom makes many mistakes, and comparing all takes seconds."""
ESTABLISHED = 3
"""The answers that a deviation must have explained before it is taken to explain another one without a look at all
others, which is kept for answers that it does not explain. With fewer, a chance agreement could stand in the way of the
mistake itself."""
CLEARLY_WRONG = 10.0
"""The error in bounds that a deviation's own answer must have on the case. Of a deviation that is nearly right there,
agreement proves little; it is enough where other answers have established the deviation."""
MOST_NAMED = 2
"""The mistakes that are named where several explain as many answers: a reader can look at two."""
MOST_PAIRS = 1000
"""Pairs of deviations that are tried on one answer. On a small case some 45 deviations are clearly wrong, which makes
as many pairs; trying one takes half a millisecond."""
CONFIRMED = 2
"""Cases in which a pair must have given the answer before it is named, in the second of them; and a single deviation,
where another one is established: of hundreds of wrong answers some equal a deviation by chance."""
IN_FLOAT32 = ("computes_float64_in_float32", "float32_inside")
"""What contracts call the deviation that computes float64 in float32."""
PART_IN_FLOAT32 = "computes_part_of_float64_in_float32"
"""What an answer is called that no deviation gives, and whose errors are those of float32."""
MOSTLY = 0.75
"""The share of such answers among those in float64 that have no other name."""
PAIR_WORK = 6_000.0
"""How much of the work for the diagnosis pairs may take: six answers of small cases."""
RIGHT = 24
"""Rightly answered questions that are looked at where several mistakes explain an answer equally well: those of its
family first. Later answers look at further ones."""
WORK = 30_000.0
"""Work for the diagnosis of one implementation: someone waits for it. One is a try on a small case, half a millisecond.
It is counted and not timed, so that a loaded machine, or a slow one, names what any other names."""
WORK_ON_ESTABLISHED = 10_000.0
"""Work beyond that for mistakes that matched before: most of the answers that are left show them, too."""
NUMBERS = 25_000
"""Numbers in the calls of a case that cost as much as the call of a small one."""

Pair = tuple[Mutant, Mutant]


@dataclass(frozen=True)
class Diagnosis:
    """The deviations that give the same wrong answer, the likeliest first, by name and in words. Both may be empty.

    Two deviations that give it only together stand as one name, `unscaled + ignores_causal`.
    """

    deviations: tuple[str, ...] = ()
    says: str = ""
    compared: bool = field(default=True, compare=False)
    """Whether nothing was left out for want of work: false of an answer without a name that may well show a mistake."""
    open: tuple[tuple[Mutant, ...], ...] = field(default=(), compare=False)
    """The mistakes, or pairs of them, that give the answer too, where later answers may settle which it is."""
    in_numbers: bool = field(default=True, compare=False)
    """Whether the answer held a number."""


class Shown(Enum):
    """What a deviation makes of a question, beside the answer that is to be explained."""

    NOTHING = auto()
    """It is right there, nearly right, or gives no answer."""
    ANOTHER = auto()
    """It is clearly wrong, but otherwise."""
    THE_SAME = auto()


@dataclass(frozen=True)
class Question:
    """A wrong answer that is to be explained."""

    case: Case
    calls: tuple[Call, ...]
    replies: tuple[Reply, ...]
    truth: Any

    @cached_property
    def cost(self) -> float:
        """The work of trying one deviation on it."""
        numbers = sum(tensor.numel() for call in self.calls for tensor in call.tensors.values())
        return len(self.calls) + numbers / NUMBERS

    @property
    def threaded(self) -> bool:
        """Whether it computes with threads, which a copy of this process has not."""
        return any(call.own_thread or call.at_once or call.threads not in (None, 1) for call in self.calls)

    @cached_property
    def loose(self) -> bool:
        """Whether its bounds had to be so wide that luck decides whether two answers agree."""
        return not self.case.counts(self.truth)

    @cached_property
    def draws(self) -> Mapping[int, Tensor]:
        """What its answers show to have been drawn."""
        return self.case.draws(self.calls, self.replies, self.truth)

    @cached_property
    def in_numbers(self) -> bool:
        """Whether its answers hold a number. Where some rows are NaN and others exact, the places tell as much."""
        return any(bool(reply.output.isfinite().any()) for reply in self.replies if reply.output is not None)

    def shown_by(self, deviation: Mutant, least: float = CLEARLY_WRONG) -> Shown:
        """What a mistake makes of it, in any of the ways in which it is written."""
        found = [self.shown_by_one(deviation.function, least)]
        for each in deviation.others:
            if found[-1] is not Shown.THE_SAME:
                found.append(self.shown_by_one(each, least))
        return max(found, key=lambda shown: shown.value)

    def shown_by_one(self, function: Any, least: float = CLEARLY_WRONG) -> Shown:
        with replayed_draws(self.draws):
            theirs = ask(function, self.calls)
        if any(reply.output is None for reply in theirs) or not self.clearly_wrong(theirs, least):
            return Shown.NOTHING
        return Shown.THE_SAME if self.alike(theirs) else Shown.ANOTHER

    def clearly_wrong(self, theirs: tuple[Reply, ...], least: float = CLEARLY_WRONG) -> bool:
        verdict = self.case.verdict(self.calls, theirs, self.truth)
        return verdict.status != Status.PASSED and (verdict.error_ratio is None or verdict.error_ratio >= least)

    def alike(self, theirs: tuple[Reply, ...]) -> bool:
        return self.case.alike(self.calls, self.replies, theirs, self.truth)


@dataclass
class Pairs:
    """The pairs of deviations that gave an answer together which neither gave alone, and where."""

    cases: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def saw(self, pair: Pair, case: str) -> None:
        self.cases.setdefault((pair[0].name, pair[1].name), set()).add(case)

    def certain(self, pair: Pair) -> bool:
        """Whether a pair may be named: there are many, and one of them may give the answer of one case by chance."""
        return len(self.cases[pair[0].name, pair[1].name]) >= CONFIRMED


@dataclass
class Narrow:
    """How many answers that are no known mistake are off as if a part of them was computed in float32."""

    parts: int = 0
    others: int = 0

    def saw(self, narrow: InFloat32 | None) -> None:
        self.parts += narrow is InFloat32.PART
        self.others += narrow is InFloat32.NOTHING

    @property
    def certain(self) -> bool:
        """Whether it may be said: one answer may be off so by chance, and most of them are not."""
        return self.parts >= CONFIRMED and self.parts >= MOSTLY * (self.parts + self.others)


class Diagnostician:
    """Diagnoses the wrong answers of one implementation, preferring the mistake that explains most of them.

    `budget` is in calls of small cases; when it is used up, wrong answers are compared with what matched before alone.
    With `processes` above 1, copies of this process help where all deviations are tried.
    """

    def __init__(self, contract: Contract, conventions: Conventions, budget: float = WORK, processes: int = 1) -> None:
        self.contract, self.conventions, self.budget, self.processes = contract, conventions, budget, processes
        self.matches: Counter[str] = Counter()
        """How many answers each deviation has given, where those that give more did not."""
        self.cases: defaultdict[str, set[str]] = defaultdict(set)
        """In which cases."""
        self.in_numbers: Counter[str] = Counter()
        """How many of these answers held numbers: many mistakes end in NaN everywhere."""
        self.refuted: set[str] = set()
        """The deviations that are clearly wrong where this implementation is right."""
        self.pairs = Pairs()
        self.narrow = Narrow()
        self._right: list[tuple[Case, str]] = []
        """The questions that were answered rightly and have not been looked at."""
        self.uncompared: set[tuple[str, str]] = set()
        """The cases and dtypes of wrong answers without a name that were not compared with every deviation."""
        self.open: dict[tuple[str, str], Diagnosis] = {}
        """What was said of the cases and dtypes whose answers may yet turn out to show one mistake."""
        self.examined = 0
        self._left_out = False
        self.work = self.work_on_pairs = 0.0

    def diagnose(self, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Diagnosis:
        """The mistake that a wrong answer shows: `equals "unscaled": the scores are not divided by √e`.

        If the bounds of the case are so loose that many mistakes would agree, it shows no other than established ones.
        """
        self._left_out = False
        found = self._diagnosis(case, calls, replies, truth)
        return found if found.says else replace(found, compared=not self._left_out)

    def _diagnosis(self, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Diagnosis:
        question = Question(case, calls, replies, truth)
        if question.loose:
            return self._loosely(question)
        narrow = in_float32(case, calls, replies, truth, self.conventions)
        if narrow is InFloat32.ALL:
            return Diagnosis((self._of_all_in_float32,), narrow.value)
        if broken := self._broken(question):
            return Diagnosis((), broken_conventions(broken, self.contract.conventions, self.conventions))
        found, acting = self._alone(question)
        likeliest = self._likeliest(found, case.family) if found else []
        if certain := [each for each in likeliest if self._certain(each, question.in_numbers)]:
            return self._named(certain, question)
        self.narrow.saw(narrow)
        if narrow is InFloat32.PART and self.narrow.certain:
            return Diagnosis((PART_IN_FLOAT32,), narrow.value)
        in_pairs = self._in_pairs(question, acting)
        if in_pairs.says:
            return in_pairs
        left = (*((each,) for each in likeliest), *in_pairs.open)
        return replace(in_pairs, open=left, in_numbers=question.in_numbers)

    def settled(self, diagnosis: Diagnosis) -> Diagnosis | None:
        """The one mistake that a former answer shows, if later ones have settled it; None where they have not."""
        alone = [each for (each, *others) in diagnosis.open if not others and each.name not in self.refuted]
        certain = [each for each in alone if self._certain(each, diagnosis.in_numbers)]
        most = max((self.matches[each.name] for each in certain), default=0)
        likeliest = [each for each in certain if self.matches[each.name] == most]
        confirmed_one = diagnosis.in_numbers and not diagnosis.says  # it waited for a second case that shows it
        if len(likeliest) == 1 and (confirmed_one or self._established(likeliest[0])):
            return _said(likeliest)
        pairs = [] if alone else [(each[0], each[1]) for each in diagnosis.open if len(each) > 1]
        confirmed = [pair for pair in pairs if self.pairs.certain(pair)]
        return _said_together(confirmed[0]) if len(confirmed) == 1 else None

    def passed(self, case: Case, dtype: str) -> None:
        """A right answer: it may tell apart mistakes that explain the wrong ones equally well."""
        self._right.append((case, dtype))

    @cached_property
    def _of_all_in_float32(self) -> str:
        """The name of the deviation that computes all of it in float32, where there is one."""
        return next((each.name for each in self._deviations if each.name in IN_FLOAT32), IN_FLOAT32[0])

    @cached_property
    def _deviations(self) -> list[Mutant]:
        return [each.under(self.conventions) for each in self.contract.mutants()]

    def _alone(self, question: Question) -> tuple[list[Mutant], list[Mutant]]:
        """The deviations that give this answer, and those that are clearly wrong there in another way."""
        before = [d for d in self._deviations if self.matches[d.name]]
        before.sort(key=lambda each: -self.matches[each.name])
        found, acting = self._tried(question, before, self.budget + WORK_ON_ESTABLISHED)
        self._left_out |= not found and self.examined >= EXAMINED
        if not any(map(self._established, found)) and self.examined < EXAMINED:
            self.examined += 1
            others = self._compared(question, [d for d in self._deviations if not self.matches[d.name]])
            found, acting = [*found, *others[0]], [*acting, *others[1]]
        self.matches.update(each.name for each in found)
        for each in found:
            self.cases[each.name].add(question.case.name)
            self.in_numbers[each.name] += question.in_numbers
        return found, acting

    def _tried(self, question: Question, candidates: list[Mutant], budget: float) -> tuple[list[Mutant], list[Mutant]]:
        """Those that give the answer, and those that act on it in another way, as far as it is not settled before."""
        found: list[Mutant] = []
        acting: list[Mutant] = []
        tried = 0
        for each in self._affordable(candidates, question.cost, budget):
            tried += 1
            least = 0.0 if self._established(each) and not question.loose else CLEARLY_WRONG
            shown = question.shown_by(each, least)
            if shown == Shown.ANOTHER:
                acting.append(each)
            elif shown == Shown.THE_SAME and each.name not in self.refuted:
                found.append(each)
            if self._settled(found, candidates[tried:]):
                return found, acting
        self._left_out |= tried < len(candidates)
        return found, acting

    def _compared(self, question: Question, candidates: list[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
        """The same of deviations that have matched nothing yet, none of which settles anything."""
        affordable = list(self._affordable(candidates, question.cost, self.budget))
        self._left_out |= len(affordable) < len(candidates)
        processes = 1 if question.threaded else self.processes
        shown = list(zip(affordable, side_by_side(question.shown_by, affordable, processes), strict=True))
        found = [each for each, shows in shown if shows is Shown.THE_SAME and each.name not in self.refuted]
        return found, [each for each, shows in shown if shows is Shown.ANOTHER]

    def _settled(self, found: list[Mutant], left: list[Mutant]) -> bool:
        """Whether none of those that are left explains as many answers as one that is found, and established."""
        most = max((self.matches[each.name] for each in found if self._established(each)), default=0)
        return bool(most) and all(self.matches[each.name] < most for each in left)

    def _established(self, deviation: Mutant) -> bool:
        return self.matches[deviation.name] >= ESTABLISHED and deviation.name not in self.refuted

    def _certain(self, deviation: Mutant, in_numbers: bool) -> bool:
        """Whether its answer is no chance agreement of an implementation that makes another mistake.

        Where another one is established by numbers, NaN alone is no sign of this one.
        """
        established = [each for each in self._deviations if each is not deviation and self._established(each)]
        if not in_numbers and not self.in_numbers[deviation.name]:
            return all(self.in_numbers[each.name] < ESTABLISHED for each in established)
        return not established or self._established(deviation) or len(self.cases[deviation.name]) >= CONFIRMED

    def _likeliest(self, found: list[Mutant], family: str) -> list[Mutant]:
        """Those that explain most answers, without those that are wrong where this implementation is right."""
        most = max(self.matches[each.name] for each in found)
        likeliest = [each for each in found if self.matches[each.name] == most]
        if len(likeliest) == 1:
            return likeliest
        self._right.sort(key=lambda right: right[0].family == family)
        looked_at, self._right[-RIGHT:] = self._right[-RIGHT:], []
        for case, dtype in self._affordable(looked_at, len(likeliest), self.budget):
            self.refuted |= self._wrong_at(case, dtype, likeliest)
        return [each for each in likeliest if each.name not in self.refuted]

    def _wrong_at(self, case: Case, dtype: str, deviations: list[Mutant]) -> set[str]:
        """The deviations that are clearly wrong about a question that this implementation answers rightly.

        Where numbers are drawn, the same mistake may pass with one draw and fail with another.
        """
        calls = case.calls(dtype)
        truth = case.expected(calls, self.conventions)
        if not case.counts(truth) or any(call.seed is not None for call in calls):
            return set()
        question = Question(case, calls, (), truth)
        return {
            each.name
            for each in deviations
            if all(question.clearly_wrong(ask(function, calls)) for function in (each.function, *each.others))
        }

    def _named(self, likeliest: list[Mutant], question: Question) -> Diagnosis:
        if len(likeliest) == 1:
            return _said(likeliest)
        shown = question.in_numbers or all(self.in_numbers[each.name] for each in likeliest)
        found = _said(likeliest[:MOST_NAMED]) if shown else Diagnosis()  # NaN everywhere is what many mistakes end in
        return replace(found, open=tuple((each,) for each in likeliest), in_numbers=question.in_numbers)

    def _in_pairs(self, question: Question, acting: list[Mutant]) -> Diagnosis:
        """The two mistakes that give this answer together, where neither does alone and no other two do."""
        if not question.in_numbers or self.work_on_pairs >= PAIR_WORK:
            return Diagnosis()
        before, likely = self.work, self._likely_pairs(acting)
        pairs = list(self._affordable(likely, question.cost, self.budget))
        processes = 1 if question.threaded else self.processes
        given = side_by_side(lambda pair: self._given_by(pair, question), pairs, processes)
        found = [pair for pair, is_given in zip(pairs, given, strict=True) if is_given]
        self.work_on_pairs += self.work - before
        for pair in found:
            self.pairs.saw(pair, question.case.name)
        certain = [pair for pair in found if self.pairs.certain(pair)]
        return _said_together(certain[0]) if len(certain) == 1 else Diagnosis(open=tuple(found))

    def _likely_pairs(self, acting: list[Mutant]) -> list[Pair]:
        """Pairs of deviations that act on the answer: first those of which more explain other answers alone.

        Where some are established, one of them is at work here, too: two others would agree by chance.
        """
        anything = not any(map(self._established, self._deviations))
        pairs = [pair for pair in combinations(acting, 2) if anything or any(map(self._established, pair))]
        pairs.sort(key=lambda pair: -sum(self.matches[each.name] > 0 for each in pair))
        return pairs[:MOST_PAIRS]

    def _given_by(self, pair: Pair, question: Question) -> bool:
        both = together(pair[0].function, pair[1].function)
        return both is not None and question.shown_by_one(both) == Shown.THE_SAME

    def _loosely(self, question: Question) -> Diagnosis:
        """An established mistake that gives the answer, and is clearly wrong there."""
        before = sorted(filter(self._established, self._deviations), key=lambda each: -self.matches[each.name])
        found, _ = self._tried(question, before, self.budget + WORK_ON_ESTABLISHED)
        return self._named(found[:1], question)

    def _broken(self, question: Question) -> Sequence[str]:
        """The declared conventions without which the answer is right: then they alone are wrong. One, or else all."""
        at_issue = self._at_issue(question)
        for broken in dict.fromkeys([*((point,) for point in at_issue), tuple(at_issue)]) if at_issue else ():
            kept = {point: chosen for point, chosen in self.conventions.items() if point not in broken}
            if self._by_these(question, kept):
                return broken
        return ()

    def _by_these(self, question: Question, conventions: Conventions) -> bool:
        """Whether the answer is right under other conventions than those declared."""
        case, calls = question.case, question.calls
        return case.verdict(calls, question.replies, case.expected(calls, conventions)).status == Status.PASSED

    def _at_issue(self, question: Question) -> Conventions:
        """The declared conventions about what the question needs, and those about every question."""
        if not self.conventions:
            return {}
        everywhere = self.contract.conventions.keys() - self.contract.features.keys()
        points = self.contract.needs(question.calls) | everywhere
        return {point: chosen for point, chosen in self.conventions.items() if point in points}

    def _affordable(self, candidates: Iterable[Any], cost: float, budget: float) -> Iterator[Any]:
        """The candidates, as many as the budget still pays for."""
        for candidate in candidates:
            if self.work >= budget:
                return
            self.work += cost
            yield candidate


def _said(deviations: Sequence[Mutant]) -> Diagnosis:
    """Each of them gives the answer."""
    says = " or ".join(f'equals "{each.name}": {each.says}' for each in deviations)
    return Diagnosis(tuple(each.name for each in deviations), says)


def _said_together(pair: Pair) -> Diagnosis:
    """The two give the answer together."""
    first, second = pair
    says = f'equals "{first.name}" together with "{second.name}": {first.says}, and {second.says}'
    return Diagnosis((f"{first.name} + {second.name}",), says)
