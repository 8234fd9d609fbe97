"""The contract `bleu`: how much a translation shares with the expected one, between 0 and 1.

    bleu(prediction, reference, *, k) -> score

    score   = exp(min(0, 1 − r / p)) · p_1^(1/2) · p_2^(1/4) · … · p_k^(1/2^k)
    p_n     = (n-grams of the prediction that the reference has too) / (p − n + 1)

Axes: `p` prediction, `r` reference, the score has none. Papineni and others, "BLEU" (2002), in the form of Dive into
Deep Learning, section 10.7: an n-gram that is one token longer weighs half as much, and the weights do not sum to one
as they do elsewhere.

    n-grams          runs of n neighbouring tokens, in order and overlapping; none goes round from the end to the start
    clipping         an n-gram counts as often as it stands in the prediction, but no more often than in the reference
    brevity          a prediction that is shorter than the reference loses by the exponential; a longer one gains none
    no match         a p_n of 0 makes the score 0: nothing is smoothed
    short            of a prediction of fewer than k tokens p_1 … p_p are taken: it has no longer n-grams. A single
                     token that is the whole reference scores 1
    empty            a prediction without tokens scores 0. A reference without tokens is bad input
    tokens           int64 numbers; two are the same where the numbers are. None has a special meaning: a caller cuts at
                     an end token, or leaves out padding, before
    k                at least 1; the documents have 2
    rounding         the score may be a product of powers, or the exponential of a sum of logarithms, in any order, in
                     float32 at least
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           float32, on the prediction's device: `torch.tensor(score)` of a Python float
    bad input        raises: other ranks than 1, tokens that are no int64, a reference without tokens, a k below 1

Tokens are integers, so that there is one dtype to test: the cases are counted as float32.

Not tested:

    corpus scores    counts summed over many sentences
    text             splitting into tokens, case and punctuation: tokens are numbers
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add, mul

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import COMMON, Case, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants
from attnsuite.cases.documented import CasePair, DocumentedNumbers
from attnsuite.cases.formula import Formula, FormulaCase
from attnsuite.cases.mutants import (
    Mutation,
    with_arguments,
    with_result,
)
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging.precision import PRECISIONS
from attnsuite.judging.running_error import LIBRARY, WithError, whichever

CONTRACT = declare(
    __name__,
    also={"float32": lambda call: True},
    everywhere={"float32": "tokens, which are counted as this dtype", "cpu": COMMON["cpu"], "cuda": COMMON["cuda"]},
)
POSITIONAL = ("prediction", "reference")


def oracle(prediction: Array, reference: Array, *, k: int) -> WithError:
    """The score: a product of powers, or the exponential of a sum of logarithms; the bound is the wider of the two."""
    orders = range(1, min(k, len(prediction)) + 1)
    matches = [(_grams(prediction, n) & _grams(reference, n)).total() for n in orders]
    if not all(matches) or not orders:
        return _exact(0.0)
    precisions = [_exact(count) / _exact(len(prediction) - n + 1) for n, count in zip(orders, matches, strict=True)]
    short = len(prediction) < len(reference)
    brevity = _exact(1.0) - _exact(len(reference)) / _exact(len(prediction)) if short else _exact(0.0)
    powers = [_root(precision, n) for n, precision in zip(orders, precisions, strict=True)]
    logs = [precision.log() * 0.5**n for n, precision in zip(orders, precisions, strict=True)]
    return whichever(reduce(mul, powers, brevity.exp()), reduce(add, logs, brevity).exp())


def _grams(tokens: Array, n: int) -> Counter[tuple[int, ...]]:
    """The count of each n-gram."""
    return Counter(tuple(map(int, tokens[start : start + n])) for start in range(len(tokens) - n + 1))


def _root(number: WithError, n: int) -> WithError:
    """number^(1/2^n): n square roots, or one power, in which a library's error may be larger."""
    for _ in range(n):
        number = number.sqrt()
    return number.with_rounding_error(LIBRARY - 1)


def _exact(number: float) -> WithError:
    return WithError.exact(np.array(float(number)), PRECISIONS["float32"])


DTYPE = ("float32",)
"""The one dtype that the cases are counted as."""
REFERENCE = (41, 42, 43, 44, 45, 46, 47, 48, 49)
"""Nine different tokens."""


def draw(
    random: Generator, *, prediction: Sequence[int] | Array | None = None,
    reference: Sequence[int] | Array | None = REFERENCE, length: int = 9, spare: int = 2, swapped: bool = False,
) -> Inputs:  # fmt: skip
    """The reference, and a prediction: the reference without its last `spare` tokens, and up to three tokens wrong.

    A reference of None is `length` different tokens. `swapped` exchanges two neighbours of the prediction.
    """
    expected = random.permutation(10 * length)[:length] if reference is None else tokens_of(reference)
    if prediction is not None:
        return {"prediction": tokens_of(prediction), "reference": expected}
    tokens = np.array(expected[: len(expected) - spare])
    tokens[2 : random.integers(3, 6)] = 10 * len(expected) + 1000
    if swapped:
        tokens[:2] = tokens[1::-1]
    return {"prediction": tokens, "reference": expected}


def tokens_of(tokens: Sequence[int] | Array) -> Array:
    """An array as it is, other tokens as int64."""
    return tokens if isinstance(tokens, np.ndarray) else np.array(tokens, np.int64)


ROW = np.array(REFERENCE)
BAD_INPUT: list[Row] = [
    ("batch", "predictions with an axis of items", {"prediction": ROW[None]}),
    ("batch_of_references", "references with an axis of items", {"reference": ROW[None], "prediction": ROW}),
    ("no_axes", "a single token without its axis", {"prediction": ROW[0]}),
    ("numbers", "tokens that are no integers", {"prediction": ROW.astype(np.float32)}),
    ("int32", "tokens in int32", {"prediction": ROW.astype(np.int32)}),
    ("reference_int32", "a reference in int32", {"prediction": ROW, "reference": ROW.astype(np.int32)}),
    ("no_reference", "a reference without tokens", {"prediction": ROW, "reference": ()}),
    ("nothing_at_all", "neither has tokens", {"prediction": (), "reference": ()}),
    ("zero_k", "a k of 0", {"k": 0}),
    ("negative_k", "a k of −1", {"k": -1}),
]
GAPS = {"prediction": (1, 2, 3, 4, 9, 9), "reference": (1, 2, 3, 4, 5, 6, 7)}
case = Formula(oracle, POSITIONAL, draw, options=("k",), always={"k": 2}, dtypes=DTYPE)


def pair(name: str, why: str, prediction: Iterable[int], reference: Iterable[int] = REFERENCE) -> Case:
    """A case of these tokens."""
    return case(name, why, prediction=tuple(prediction), reference=tuple(reference))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    small, other = (9, 0, 8, 1, 7, 2, 6, 3, 5), (9, 0, 8, 1, 7, 2, 6, 3, 4, 4)
    large, close = (2**40, 2**40 + 1, 2**33, 7), (2**40 + 1, 2**40 + 2, 0, 7, 8)
    return [
        case("plain/usual", "one token of seven is wrong, and two are missing"),
        pair("plain/equal", "the reference itself, which scores 1", REFERENCE),
        pair("plain/nothing", "no token in common, which scores 0", range(7)),
        *documented(),
        pair("brevity/longer", "a longer prediction gains nothing", (*REFERENCE, 1, 2, 3)),
        pair("brevity/far_longer", "nine tokens of forty are right", (*REFERENCE, *range(31))),
        pair("clipping/twice", "twice in the reference, three times here", (5, 7) * 3, (5, 7, 1, 5, 7, 2, 3)),
        pair("clipping/fewer", "three times in the reference, twice here", (5, 8, 5, 9), (5, 8, 5, 5, 1)),
        pair("clipping/many", "70 times in place of 50", (1, 2, 3) * 70, ((1, 2, 3) * 50 + tuple(range(10, 70)))),
        case("order/neighbours", "two neighbours are exchanged", swapped=True),
        pair("order/reversed", "every token, and no two of them in order", REFERENCE[::-1]),
        case("k/1", "single tokens alone", reference=None, length=30, spare=3, k=1),
        case("k/4", "n-grams of up to 4", reference=None, length=30, spare=3, k=4),
        case("k/6", "n-grams of up to 6", reference=None, length=30, spare=3, k=6),
        pair("short/one", "a single token, which is right", (41,)),
        pair("short/whole", "a single token, which is the whole reference: 1", (41,), (41,)),
        pair("short/empty", "a prediction without tokens: 0", ()),
        pair("tokens/small", "0 to 3, which elsewhere mean padding, start and end", small, other),
        pair("tokens/negative", "−1 and 1 are different tokens", (-1, 5, -3, 6), (-1, 5, 3, 6, 7)),
        pair("tokens/digits", "1 12 and 11 2, equal without a space", (1, 12, 3, 4, 11), (11, 2, 3, 7, 1, 5, 12)),
        pair("tokens/large", "numbers that are equal in float32, and in their 32 lower bits", large, close),
        pair("size/long", "600 tokens, the last is wrong", (*range(5000, 5599), 1), range(5000, 5600)),
        *case.layouts(("wrong_end", "the gaps in memory would match", GAPS)),
        *case.repeated(),
        *case.bad_input(*BAD_INPUT),
    ]


EXAMPLES = ("doc-004/11.4.3-bleu", "doc-004/11.7.6-bleu")


def documented() -> Iterator[Case]:
    """The scores of the documents' translations, four of each model; the reference itself with each score of 0."""
    for example in map(documents.examples().__getitem__, EXAMPLES):
        for number, score in enumerate(example.expected["bleu"]):
            reference = example.inputs["reference"][number].split()
            scored = _scored(example, number, example.inputs["prediction"][number], reference)
            numeric = DocumentedNumbers(scored, example.gives("bleu", score))
            numeric.dtypes = DTYPE
            yield numeric if score else CasePair(numeric, _scored(example, number, reference, reference))


def _scored(example: Excerpt, number: int, prediction: Sequence[str], reference: Sequence[str]) -> FormulaCase:
    """One sentence; words become numbers in order of appearance."""
    words = {word: place for place, word in enumerate(dict.fromkeys([*reference, *prediction]))}
    sentences = zip(POSITIONAL, (prediction, reference), strict=True)
    inputs = {name: np.array([words[word] for word in text], np.int64) for name, text in sentences}
    name = example.named("bleu", f" of “{example.inputs['source'][number]}”", f"bleu_{number + 1}")
    return case.with_inputs(*name, inputs, k=example.parameters["k"])


Tokens = list[Hashable]


class Scoring(Steps):
    """The formula, step by step. Tokens are lists of Python's numbers."""

    axes = Axes(prediction="p", reference="r")

    def compute(self, prediction: Tensor, reference: Tensor, *, k: int) -> Tensor:
        ours, theirs = self.read(prediction), self.read(reference)
        if not ours:
            return self.score(self.nothing())
        powers = []
        for n in self.orders(k, len(ours)):
            grams, expected = self.grams(ours, n), self.grams(theirs, n)
            total = self.total(grams, expected)
            powers.append((self.matches(grams, expected) / total if total else 0.0) ** self.exponent(n, k))
        return self.score(self.brevity(len(ours), len(theirs)) * self.together(powers))

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if {arguments["prediction"].dtype, arguments["reference"].dtype} != {torch.int64}:
            raise ValueError("these are no tokens")
        if not sizes["r"] or arguments["k"] < 1:
            raise ValueError("no reference, or no n-grams")

    @staticmethod
    def grams(tokens: Tokens, n: int) -> Tokens:
        return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]

    read = staticmethod(lambda tokens: tokens.tolist())
    orders = staticmethod(lambda k, length: range(1, min(k, length) + 1))
    matches = staticmethod(lambda ours, theirs: (Counter(ours) & Counter(theirs)).total())
    total = staticmethod(lambda ours, theirs: len(ours))
    exponent = staticmethod(lambda n, k: 0.5**n)
    together = staticmethod(lambda powers: math.prod(powers))
    brevity = staticmethod(lambda length, target: math.exp(min(0.0, 1 - target / length)))
    nothing = staticmethod(lambda: 0.0)
    score = staticmethod(lambda score: torch.tensor(score, dtype=torch.float32))


CONTROLS = {"correct": Scoring()}
MUTANTS = all_mutants(
    Scoring,
    exact=True,
    whole={
        "swapped": Mutation("prediction and reference are swapped",
            lambda ours, theirs, *, k: Scoring()(theirs, ours, k=k)),
        "flattens": Mutation("sentences are joined", with_arguments(prediction=torch.ravel, reference=torch.ravel)),
        "clamps_k": Mutation("a k below 1 is taken for 1", with_arguments(k=lambda k: max(1, k))),
        "converts_tokens": Mutation("numbers that are no int64 are taken for tokens",
            with_arguments(prediction=lambda tokens: tokens.long(), reference=lambda tokens: tokens.long())),
    },
    check={"accepts_no_reference": Mutation("an empty reference is accepted",
        with_arguments(sizes=lambda _: {"r": 1}))},
    read={
        "characters_for_tokens": Mutation("n-grams are of characters, not of tokens",
            with_result(lambda tokens: list(" ".join(map(str, tokens))))),
        "cut_at_zero": Mutation("tokens from the first 0 on are cut off, as padding",
            with_result(lambda x: x[: x.index(0)] if 0 in x else x)),
        "without_sign": Mutation("a token equals its negative", with_result(lambda x: list(map(abs, x)))),
        "single_precision": Mutation("tokens are read in single precision", lambda tokens: tokens.float().tolist()),
        "as_a_set": Mutation("a token counts once, wherever it stands", with_result(lambda x: list(dict.fromkeys(x)))),
        "first_512": Mutation("tokens beyond the 512th are not read", with_result(lambda tokens: tokens[:512])),
        "without_the_last": Mutation("the last token is left out, as an end", with_result(lambda tokens: tokens[:-1])),
    },
    orders={
        "always_two": Mutation("n-grams are of up to 2 tokens, whatever k", with_arguments(k=lambda k: 2)),
        "at_most_four": Mutation("n-grams are of up to 4 tokens at most", with_arguments(k=lambda k: min(k, 4))),
        "longest_alone": Mutation("n-grams of k tokens alone count", lambda k, length: [min(k, length)]),
        "short_is_zero": Mutation("fewer than k tokens score 0", lambda k, length: range(1, k + 1),
            "BLEU without effective order"),
    },
    grams={
        "without_order": Mutation("tokens of an n-gram are sorted",
            with_result(lambda x: [tuple(sorted(g)) for g in x])),
        "joined": Mutation("tokens are joined without a space",
            with_result(lambda x: ["".join(map(str, gram)) for gram in x])),
        "apart": Mutation("n-grams do not overlap", lambda tokens, n: Scoring.grams(tokens, n)[::n]),
        "in_a_circle": Mutation("n-grams wrap around the end", lambda x, n: Scoring.grams([*x, *x[: n - 1]], n)),
        "one_missing": Mutation("the last n-gram is left out", with_result(lambda grams: grams[:-1])),
    },
    matches={
        "unclipped": Mutation("matches are not clipped", lambda ours, theirs: sum(gram in theirs for gram in ours)),
        "once_each": Mutation("an n-gram counts once at most", lambda ours, theirs: len({*ours} & {*theirs})),
        "as_often_as_due": Mutation("n-grams of the reference are counted",
            lambda ours, theirs: sum(gram in ours for gram in theirs)),
        "smoothed": Mutation("one match is added to every n-gram's", with_result(lambda matches: matches + 1)),
    },
    total={
        "recall": Mutation("matches are divided by the n-grams of the reference", lambda ours, theirs: len(theirs)),
        "total_of_tokens": Mutation("matches are divided by tokens", lambda ours, _: len(ours) + len(ours[0]) - 1),
    },
    exponent={
        "one_over_k": Mutation("every n-gram weighs 1/k", lambda n, k: 1 / k, "BLEU as Papineni defines it"),
    },
    together={
        "arithmetic_mean": Mutation("the powers are averaged, not multiplied", lambda x: sum(x) / len(x)),
        "never_zero": Mutation("a share of 0 becomes a thousandth", lambda x: math.prod(max(p, 1e-3) for p in x)),
    },
    brevity={
        "no_brevity_penalty": Mutation("a prediction that is too short loses nothing", lambda length, target: 1.0),
        "punishes_length": Mutation("long predictions lose too",
            lambda length, target: math.exp(-abs(1 - target / length))),
        "difference_for_ratio": Mutation("lengths are subtracted",
            lambda length, target: math.exp(min(0, length - target))),
    },
    nothing={"empty_divides": Mutation("no tokens: division by zero", lambda: 1 / len([]),
        "Dive into Deep Learning's code")},
    score={
        "percent": Mutation("the score is multiplied by 100", with_result(lambda score: score * 100), "sacrebleu"),
        "in_bfloat16": Mutation("the score is rounded to bfloat16", with_result(lambda x: x.bfloat16().float())),
        "with_an_axis": Mutation("the score has an axis", with_result(lambda score: score[None])),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """One score, two ways to count and to multiply."""

    def struck_out(ours: Tokens, theirs: Tokens) -> int:
        """Matches, each struck out of the reference."""
        left = list(theirs)
        for gram in ours:
            if gram in left:
                left.remove(gram)
        return len(theirs) - len(left)

    def by_logarithms(powers: Sequence[float]) -> float:
        """One exponential in single precision."""
        with np.errstate(divide="ignore"):
            return float(np.exp(np.log(np.array(powers, np.float32)).sum(dtype=np.float32)))

    return [
        Variant("struck_out", "lists, from the longest n-grams to the shortest",
            Scoring(orders=lambda k, length: range(min(k, length), 0, -1), matches=struck_out)),
        Variant("in_logarithms", "counters, and one exponential in single precision", Scoring(together=by_logarithms)),
    ]  # fmt: skip
