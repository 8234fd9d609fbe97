"""Ratios between two runs have no verdict; those of pairs of processes claim a difference only beyond chance."""

import math
from random import Random
from statistics import median

import pytest
from builders import RUN, measured, recorded, without_time
from msgspec.structs import replace
from scipy.stats import wilcoxon

from attnsuite.model.statistics import LEVEL, rounds_needed
from attnsuite.results import ratios
from attnsuite.results.ratios import (
    FEWEST_PAIRS,
    TOO_FEW_PAIRS,
    PairedTimes,
    memories,
    memories_of_runs,
    memory,
    of_one_run,
    pairs_of,
    probability,
    signed_rank,
    times,
    times_of_runs,
)

SOURCES = {"attention/matmul": "1a", "attention/chunked": "2b"}
OLD = replace(RUN, id="r1", sources=SOURCES)
NEW = replace(RUN, id="r2", sources=SOURCES)


def side(run, *rows):
    return recorded({run.id: rows}, [run])


def compared(new, base=(0.05, 0.05)):
    """The ratio of `chunked`, which took 0.1 s, with a baseline that took these times."""
    first = side(OLD, measured("matmul", seconds=base[0]), measured("chunked", seconds=0.1))
    second = side(NEW, measured("matmul", seconds=base[1]), measured("chunked", seconds=new))
    return next(item for item in times_of_runs(first, second) if item.row.implementation == "attention/chunked")


# Times of stored runs


def test_a_machine_that_is_slower_as_a_whole_is_not_taken_for_a_slower_implementation():
    result = compared(new=0.12, base=(0.05, 0.06))

    assert result.ratio == pytest.approx(1.0)
    assert (result.old, result.new) == pytest.approx((0.1, 0.12))


def test_times_of_stored_runs_have_no_verdict_and_the_reason_is_given():
    result = compared(new=0.3)

    assert (result.verdict, result.why, result.ratio) == ("inconclusive", ratios.RUNS_DIFFER, pytest.approx(3.0))
    assert (result.low, result.high) == (0.0, math.inf)


def test_times_are_compared_alone_where_a_run_has_no_baseline():
    first = side(OLD, measured("chunked", seconds=0.1))
    second = side(NEW, measured("matmul", seconds=0.05), measured("chunked", seconds=0.13))

    (result,) = times_of_runs(first, second)

    assert result.ratio == pytest.approx(1.3)


def test_rows_of_one_run_are_not_compared_with_themselves():
    first, second = side(OLD, measured()), side(OLD, measured())

    assert of_one_run(first, second) == 1
    assert times_of_runs(first, second) == []
    assert memories_of_runs(first, second) == []


def test_rows_without_a_time_have_no_ratio():
    assert times_of_runs(side(OLD, measured()), side(NEW, without_time("matmul", "out_of_memory"))) == []


# Memory


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (100e6, 120e6, "more"),
        (120e6, 100e6, "less"),
        (100e6, 101e6, "same"),
        (1e5, 9e5, "same"),
        (1e6, 3e6, "inconclusive"),
        (0.0, 100e6, "more"),
    ],
)
def test_memory_differs_where_meters_cannot_be_off_by_as_much(old, new, verdict):
    rows = [measured(memory={"resident": peak, "retained": 0.0}) for peak in (old, new)]

    assert memory(*rows).verdict == verdict


# Claims about the same code, simulated: each process has an offset of its own


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
    assert rounds_needed(1) == 8
    assert pairs_of(1) == FEWEST_PAIRS
    assert 2 / 2 ** pairs_of(1000) <= (1 - LEVEL) / 1000
    assert median([pairs_of(20), pairs_of(40)]) > FEWEST_PAIRS
