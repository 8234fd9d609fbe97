"""Scores of translations with exactly one named mistake each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps
from attnsuite.cases.mutants import (
    Mutation,
    mutants,
    reads_in_memory_order,
    remembers_tensors,
    reuses_output,
    with_arguments,
    with_result,
)

Tokens = list[Hashable]
Grams = list[Hashable]


class Scoring(Steps):
    """The formula, step by step. Tokens are lists of Python's numbers."""

    axes = Axes(prediction="p", reference="r")

    def compute(self, prediction: Tensor, reference: Tensor, *, k: int) -> Tensor:
        ours, theirs = self.read(prediction), self.read(reference)
        if not ours:
            return self.answer(self.nothing())
        powers = []
        for n in self.orders(k, len(ours)):
            grams, due = self.grams(ours, n), self.grams(theirs, n)
            share = self.share(self.matches(grams, due), self.total(grams, due))
            powers.append(share ** self.exponent(n, k))
        return self.answer(self.brevity(len(ours), len(theirs)) * self.together(powers))

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        if {given["prediction"].dtype, given["reference"].dtype} != {torch.int64}:
            raise ValueError("these are no tokens")
        if not sizes["r"] or given["k"] < 1:
            raise ValueError("no reference, or no n-grams")

    @staticmethod
    def read(tokens: Tensor) -> Tokens:
        found: Tokens = tokens.tolist()
        return found

    @staticmethod
    def orders(k: int, length: int) -> Iterable[int]:
        return range(1, min(k, length) + 1)

    @staticmethod
    def grams(tokens: Tokens, n: int) -> Grams:
        return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]

    @staticmethod
    def matches(ours: Grams, theirs: Grams) -> float:
        return (Counter(ours) & Counter(theirs)).total()

    total = staticmethod(lambda ours, theirs: len(ours))
    share = staticmethod(lambda matches, total: matches / total if total else 0.0)
    exponent = staticmethod(lambda n, k: 0.5**n)
    together = staticmethod(lambda powers: math.prod(powers))
    brevity = staticmethod(lambda length, due: math.exp(min(0.0, 1 - due / length)))
    nothing = staticmethod(lambda: 0.0)
    answer = staticmethod(lambda score: torch.tensor(score, dtype=torch.float32))


def positioned(ours: Grams, theirs: Grams) -> float:
    return sum(one == other for one, other in zip(ours, theirs, strict=False))


def longer_than(least: int) -> Callable[[int, int], float]:
    """No penalty where fewer than so many tokens are missing."""
    return lambda length, due: 1.0 if due - length < least else Scoring.brevity(length, due)


def apart(tokens: Tokens, n: int) -> Grams:
    """Runs of n tokens that do not overlap."""
    return Scoring.grams(tokens, n)[::n]


def up_to(end: Hashable) -> Callable[[Tokens], Tokens]:
    """What stands before a token."""
    return lambda tokens: tokens[: tokens.index(end)] if end in tokens else tokens


def without(token: Hashable) -> Callable[[Tokens], Tokens]:
    return lambda tokens: [each for each in tokens if each != token]


def each(change: Callable[[Any], Hashable]) -> Callable[[Tokens], Tokens]:
    """Every token changed."""
    return lambda tokens: list(map(change, tokens))


def characters(tokens: Tokens) -> Tokens:
    return list(" ".join(map(str, tokens)))


def once(tokens: Tokens) -> Tokens:
    """A token that follows itself counts once."""
    return [token for place, token in enumerate(tokens) if place == 0 or token != tokens[place - 1]]


def in_a_circle(tokens: Tokens, n: int) -> Grams:
    return Scoring.grams([*tokens, *tokens[: n - 1]], n)


def none_or_zero(powers: Sequence[float]) -> float:
    """The geometric mean, by logarithms of what is at least a thousandth."""
    return math.exp(math.fsum(math.log(max(each, 1e-3)) for each in powers))


CONTROLS = {"correct": Scoring()}
GENERAL_MUTANTS = [reads_in_memory_order(Scoring()), reuses_output(Scoring()), remembers_tensors(Scoring())]
MUTANTS = mutants(
    Scoring,
    whole={
        "swapped": Mutation(
            "prediction and reference are swapped",
            lambda prediction, reference, *, k: Scoring()(reference, prediction, k=k),
        ),
        "flattens": Mutation(
            "several sentences are taken for one long one",
            with_arguments(prediction=lambda tokens: tokens.reshape(-1), reference=lambda tokens: tokens.reshape(-1)),
        ),
        "clamps_k": Mutation("a k below 1 is taken for 1", with_arguments(k=lambda k: max(1, k))),
        "converts_tokens": Mutation(
            "numbers that are no int64 are taken for tokens",
            with_arguments(prediction=lambda tokens: tokens.long(), reference=lambda tokens: tokens.long()),
        ),
    },
    check={"accepts_no_reference": Mutation("a reference without tokens is accepted", with_arguments(sizes=lambda _: {"r": 1}))},
    read={
        "characters_for_tokens": Mutation("n-grams are of characters, not of tokens", with_result(characters)),
        "cut_at_zero": Mutation("tokens from the first 0 on are cut off, as padding", with_result(up_to(0))),
        "cut_at_two": Mutation("tokens from the first 2 on are cut off, as the end of a sentence", with_result(up_to(2))),
        "cut_at_three": Mutation("tokens from the first 3 on are cut off, as the end of a sentence", with_result(up_to(3))),
        "without_zeros": Mutation("tokens that are 0 are left out, as padding", with_result(without(0))),
        "without_ones": Mutation("tokens that are 1 are left out, as padding", with_result(without(1))),
        "without_sign": Mutation("a token and its negative are taken for one", with_result(each(abs))),
        "single_precision": Mutation("tokens are read in single precision", lambda tokens: tokens.float().tolist()),
        "lower_bits": Mutation("tokens are read as int32", lambda tokens: tokens.int().tolist()),
        "once": Mutation("a token that follows itself counts once", with_result(once)),
        "as_a_set": Mutation("a token counts once, wherever it stands", with_result(lambda tokens: list(dict.fromkeys(tokens)))),
        "first_512": Mutation("tokens beyond the 512th are not read", with_result(lambda tokens: tokens[:512])),
        "without_the_last": Mutation("the last token is left out, as the end of a sentence", with_result(lambda tokens: tokens[:-1])),
    },
    orders={
        "always_two": Mutation("n-grams are of up to 2 tokens, whatever k", with_arguments(k=lambda k: 2)),
        "always_four": Mutation("n-grams are of up to 4 tokens, whatever k", with_arguments(k=lambda k: 4)),
        "at_most_four": Mutation("n-grams are of up to 4 tokens, even where k is more", with_arguments(k=lambda k: min(k, 4))),
        "one_too_few": Mutation("n-grams are of up to k − 1 tokens", with_arguments(k=lambda k: max(1, k - 1))),
        "one_too_many": Mutation("n-grams are of up to k + 1 tokens", with_arguments(k=lambda k: k + 1)),
        "longest_alone": Mutation("n-grams of k tokens alone count", lambda k, length: [min(k, length)]),
        "without_single_tokens": Mutation(
            "single tokens do not count", lambda k, length: range(min(2, k, length), min(k, length) + 1)
        ),
        "short_is_zero": Mutation(
            "a prediction of fewer than k tokens scores 0",
            lambda k, length: range(1, k + 1),
            "BLEU without effective order",
        ),
    },
    grams={
        "without_order": Mutation(
            "the order of tokens in an n-gram does not matter", with_result(lambda grams: [tuple(sorted(gram)) for gram in grams])
        ),
        "joined": Mutation(
            "the tokens of an n-gram are joined without a space",
            with_result(lambda grams: ["".join(map(str, gram)) for gram in grams]),
        ),
        "apart": Mutation("n-grams do not overlap", apart),
        "in_a_circle": Mutation("n-grams go round from the end to the start", in_a_circle),
        "single_tokens": Mutation("single tokens are counted for every n", with_arguments(n=lambda n: 1)),
        "one_missing": Mutation("the last n-gram is left out", with_result(lambda grams: grams[:-1])),
        "ends_alone": Mutation(
            "of an n-gram the first and the last token are compared", with_result(lambda grams: [gram[:: max(1, len(gram) - 1)] for gram in grams])
        ),
    },
    matches={
        "unclipped": Mutation(
            "an n-gram counts as often as it stands in the prediction, however often in the reference",
            lambda ours, theirs: sum(gram in theirs for gram in ours),
        ),
        "once_each": Mutation(
            "an n-gram counts once, however often it stands in both", lambda ours, theirs: len({*ours} & {*theirs})
        ),
        "as_often_as_due": Mutation(
            "an n-gram counts as often as it stands in the reference",
            lambda ours, theirs: sum(gram in ours for gram in theirs),
        ),
        "in_place": Mutation("an n-gram counts where it stands in the same place alone", positioned),
        "smoothed": Mutation("one match is added to every n-gram's", with_result(lambda found: found + 1)),
    },
    total={
        "recall": Mutation("matches are divided by the n-grams of the reference", lambda ours, theirs: len(theirs)),
        "total_of_tokens": Mutation("matches are divided by the tokens, not by the n-grams", lambda ours, theirs: len(ours) + len(ours[0]) - 1),
        "total_of_kinds": Mutation("matches are divided by the different n-grams", lambda ours, theirs: len({*ours})),
    },
    exponent={
        "one_over_k": Mutation("every n-gram weighs 1/k", lambda n, k: 1 / k, "BLEU as Papineni defines it"),
        "one_over_n": Mutation("n-grams weigh 1/n", lambda n, k: 1 / n),
        "from_one": Mutation("n-grams weigh 1/2^(n−1): 1, 1/2, 1/4", lambda n, k: 0.5 ** (n - 1)),
        "half_for_all": Mutation("every n-gram weighs 1/2", lambda n, k: 0.5),
        "without_exponent": Mutation("no n-gram has an exponent", lambda n, k: 1.0),
        "powers_of_two": Mutation("n-grams weigh 2^n in place of 1/2^n", lambda n, k: 2.0**n),
        "weights_of_sum_one": Mutation("the exponents are divided by their sum", lambda n, k: 0.5**n / (1 - 0.5**k)),
        "longest_weighs_most": Mutation("the exponents come in reverse order", lambda n, k: 0.5 ** (k + 1 - n)),
    },
    together={
        "arithmetic_mean": Mutation("the powers are averaged, not multiplied", lambda powers: sum(powers) / len(powers)),
        "least": Mutation("the least power counts alone", min),
        "never_zero": Mutation("a share of 0 is taken for a thousandth", none_or_zero),
    },
    brevity={
        "no_brevity_penalty": Mutation("a prediction that is too short loses nothing", lambda length, due: 1.0),
        "lengths_swapped": Mutation("the lengths are swapped: too long a prediction loses", with_arguments(length=lambda _, due: due, due=lambda _, length: length)),
        "ratio_for_exponential": Mutation("too short a prediction is multiplied by p/r, not by the exponential", lambda length, due: min(1.0, length / due)),
        "rewards_length": Mutation("a longer prediction gains", lambda length, due: math.exp(1 - due / length)),
        "punishes_length": Mutation("a longer prediction loses as a shorter one does", lambda length, due: math.exp(-abs(1 - due / length))),
        "difference_for_ratio": Mutation("the penalty is of the difference of lengths, not of their ratio", lambda length, due: math.exp(min(0, length - due))),
        "by_the_reference": Mutation("the difference of lengths is divided by the reference's", lambda length, due: math.exp(min(0.0, length / due - 1))),
        "one_missing_is_nothing": Mutation("a prediction that is one token too short loses nothing", longer_than(2)),
    },
    nothing={
        "empty_is_one": Mutation("a prediction without tokens scores 1", lambda: 1.0),
        "empty_is_nan": Mutation("a prediction without tokens scores NaN", lambda: math.nan),
        "empty_divides": Mutation("a prediction without tokens divides by zero", lambda: 1 / len([]), "Dive into Deep Learning's code"),
    },
    answer={
        "percent": Mutation("the score is multiplied by 100", with_result(lambda score: score * 100), "sacrebleu"),
        "three_decimals": Mutation("the score is rounded to three decimals", with_arguments(score=lambda score: round(score, 3))),
        "in_bfloat16": Mutation("the score is rounded to bfloat16", with_result(lambda score: score.bfloat16().float())),
        "complement": Mutation("the score is taken off 1", with_arguments(score=lambda score: 1 - score)),
        "double": Mutation("the answer is float64", with_result(lambda score: score.double())),
        "with_an_axis": Mutation("the answer has an axis", with_result(lambda score: score[None])),
    },
)  # fmt: skip
