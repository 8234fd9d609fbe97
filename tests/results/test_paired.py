"""Pairs of processes: whether a difference is claimed depends on how pairs differ, and never on rounds alone."""

import math
from random import Random
from statistics import median

import pytest
from builders import measured
from scipy.stats import wilcoxon

from attnsuite.model.statistics import LEVEL
from attnsuite.results.ratios import (
    FEWEST_PAIRS,
    TOO_FEW_PAIRS,
    PairedTimes,
    memories,
    pairs_needed,
    pairs_of,
    probability,
    signed_rank,
    times,
)


def offset(kind, random):
    return random.uniform(-0.02, 0.02) if kind == "uniform" else random.gauss(0.0, 0.02)


def row(kind, random, factor=1.0, rounds=12):
    """A process with an offset of its own, whose samples have a noise of 2 %."""
    own = offset(kind, random) + math.log(factor)
    return measured(seconds=[0.1 * math.exp(own + random.gauss(0, 0.02)) for _ in range(rounds)])


def paired(kind, random, factor=1.0, pairs=FEWEST_PAIRS):
    return PairedTimes([(row(kind, random), row(kind, random, factor)) for _ in range(pairs)])


def verdicts(kind, factor, count, together=1):
    random = Random(f"{kind} {factor}")
    tables = [[paired(kind, random, factor) for _ in range(together)] for _ in range(count)]
    return [item.verdict for table in tables for item in times(table)]


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_false_claims_about_the_same_code_are_at_most_two_per_cent(kind):
    results = verdicts(kind, 1.0, 250)

    assert sum(verdict in ("slower", "faster") for verdict in results) / len(results) <= 0.02


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_a_slowdown_of_five_per_cent_is_found_nine_times_out_of_ten(kind):
    results = verdicts(kind, 1.05, 250)

    assert results.count("slower") / len(results) >= 0.90


def test_several_comparisons_still_find_five_per_cent():
    assert verdicts("uniform", 1.05, 20, together=8).count("slower") / 160 >= 0.90


def test_from_rounds_alone_false_claims_would_be_frequent():
    """The simulation distinguishes a comparison of pairs from one of single processes with many rounds."""
    from attnsuite.model.faster import compare

    random = Random("rounds alone")
    rows = [(row("normal", random, rounds=100), row("normal", random, rounds=100)) for _ in range(100)]
    results = [compare(old.seconds, {"new": new.seconds})["new"].verdict for old, new in rows]

    assert sum(verdict in ("slower", "faster") for verdict in results) / len(results) > 0.1


def test_the_ratio_is_of_the_new_side_to_the_old():
    (result,) = times([paired("uniform", Random(1), 2.0)])

    assert result.verdict == "slower"
    assert result.low < 2.0 < result.high
    assert result.ratio == pytest.approx(2.0, rel=0.03)


def test_too_few_pairs_say_nothing():
    (result,) = times([paired("uniform", Random(1), 2.0, pairs=7)])

    assert (result.verdict, result.why) == ("inconclusive", TOO_FEW_PAIRS)


def test_memory_is_that_of_the_pair_in_the_middle():
    peaks = [(100e6, 150e6), (100e6, 200e6), (100e6, 900e6)]
    pairs = [tuple(measured(memory={"resident": peak, "retained": 0.0}) for peak in both) for both in peaks]

    (result,) = memories([PairedTimes([*pairs, (measured(memory={}), measured(memory={}))])])

    assert (result.verdict, result.ratio) == ("more", 2.0)


# The interval


@pytest.mark.parametrize("count", [8, 12, 20])
def test_the_probability_is_that_of_the_signed_rank_test(count):
    random = Random(count)
    values = [random.gauss(0.5, 1.0) for _ in range(count)]

    assert probability(values) == pytest.approx(wilcoxon(values, mode="exact").pvalue)


@pytest.mark.parametrize("count", [8, 12, 20])
def test_the_interval_leaves_out_exactly_what_the_test_refuses(count):
    random = Random(count)
    values = [random.gauss(0.0, 1.0) for _ in range(count)]
    result = signed_rank(values, LEVEL)

    def refused(centre):
        return probability([value - centre for value in values]) <= (1 - LEVEL) * (1 + 1e-9)

    assert not refused(result.low + 1e-6)
    assert not refused(result.high - 1e-6)
    assert refused(result.low - 1e-6)
    assert refused(result.high + 1e-6)
    assert result.low < result.median < result.high


def test_an_interval_of_too_few_values_has_no_ends():
    result = signed_rank([1.0, 2.0], LEVEL)

    assert (result.median, result.low, result.high) == (1.5, -math.inf, math.inf)
    with pytest.raises(ValueError, match="no differences"):
        signed_rank([], LEVEL)


def test_enough_pairs_are_taken_for_all_comparisons_together():
    assert pairs_needed(1, LEVEL) == 8
    assert pairs_of(1) == FEWEST_PAIRS
    assert 2 / 2 ** pairs_of(1000) <= (1 - LEVEL) / 1000
    assert median([pairs_of(20), pairs_of(40)]) > FEWEST_PAIRS
