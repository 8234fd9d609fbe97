"""Ratios between two runs claim a difference only beyond the spread between runs of the same code."""

import dataclasses
import math
from random import Random
from statistics import median

import pytest
from builders import RUN, measured, recorded, samples, without_time
from msgspec.structs import replace
from scipy.stats import wilcoxon

from attnsuite.model.rows import Repetition
from attnsuite.model.statistics import LEVEL
from attnsuite.results import ratios
from attnsuite.results.ratios import (
    FEWEST_PAIRS,
    FEWEST_RUNS,
    TOO_FEW_PAIRS,
    PairedTimes,
    Spread,
    memories,
    memories_of_runs,
    memory,
    nearest,
    of_one_run,
    pairs_needed,
    pairs_of,
    probability,
    signed_rank,
    spreads,
    times,
    times_of_runs,
    width,
)

SOURCES = {"attention/matmul": "1a", "attention/chunked": "2b"}
OLD = replace(RUN, id="r1", sources=SOURCES)
NEW = replace(RUN, id="r2", sources=SOURCES)
KNOWN = [Spread("vit/b16", 1, 10, 0.1, of_ratios=0.005, of_times=0.03)]


def side(run, *rows):
    return recorded({run.id: rows}, [run])


def compared(old=0.1, new=0.1, base=(0.05, 0.05), known=KNOWN, runs=(OLD, NEW), **more):
    """The ratio of `chunked`, with a baseline that took these times."""
    first = side(runs[0], measured("matmul", seconds=base[0]), measured("chunked", seconds=old, **more))
    second = side(runs[1], measured("matmul", seconds=base[1]), measured("chunked", seconds=new, **more))
    return next(item for item in times_of_runs(first, second, known) if item.row.implementation == "attention/chunked")


# Verdicts


def test_a_tenth_more_is_slower_and_a_tenth_less_is_faster():
    slower, faster = compared(new=0.11), compared(new=0.09)

    assert (slower.verdict, faster.verdict) == ("slower", "faster")
    assert slower.ratio == pytest.approx(1.1)
    assert slower.low < 1.1 < slower.high
    assert (slower.old, slower.new) == pytest.approx((0.1, 0.11))


def test_a_machine_that_is_slower_as_a_whole_is_not_taken_for_a_slower_implementation():
    assert compared(new=0.12, base=(0.05, 0.06)).ratio == pytest.approx(1.0)
    assert compared(new=0.12, base=(0.05, 0.06)).verdict != "slower"


def test_differences_within_the_spread_of_runs_are_inconclusive():
    wide = [dataclasses.replace(KNOWN[0], of_ratios=0.05)]

    assert compared(new=0.11, known=wide).verdict == "inconclusive"


def test_without_a_spread_nothing_is_claimed_and_the_reason_is_given():
    result = compared(new=0.3, known=[])

    assert (result.verdict, result.why) == ("inconclusive", ratios.NO_SPREAD)
    assert (result.low, result.high) == (0.0, math.inf)


def test_too_few_rounds_are_inconclusive():
    assert compared(old=samples(0.1, 3), new=samples(0.2, 3)).why == ratios.TOO_FEW


@pytest.mark.parametrize(
    "run",
    [
        replace(NEW, sources={**SOURCES, "attention/matmul": "other"}),
        replace(NEW, sources={}),
        replace(NEW, versions={**RUN.versions, "torch": "2.14.0"}),
    ],
    ids=["other source", "unknown source", "other torch"],
)
def test_times_are_compared_alone_if_the_baseline_may_have_changed(run):
    result = compared(new=0.13, base=(0.05, 0.10), runs=(OLD, run))

    assert result.ratio == pytest.approx(1.3)


def test_a_margin_that_is_wider_lets_small_differences_pass():
    first = side(OLD, measured("matmul", seconds=0.05), measured("chunked", seconds=0.1))
    second = side(NEW, measured("matmul", seconds=0.05), measured("chunked", seconds=0.11))

    verdicts = [[entry.verdict for entry in times_of_runs(first, second, KNOWN, margin)] for margin in (0.03, 0.2)]

    assert [item[0] for item in verdicts] == ["slower", "same"]


def test_rows_of_one_run_are_not_compared_with_themselves():
    first, second = side(OLD, measured()), side(OLD, measured())

    assert of_one_run(first, second) == 1
    assert times_of_runs(first, second, KNOWN) == []
    assert memories_of_runs(first, second) == []


def test_rows_without_a_time_have_no_ratio():
    assert times_of_runs(side(OLD, measured()), side(NEW, without_time("matmul", "out_of_memory")), KNOWN) == []


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


# The spread


def repeated(run, place, ratio=1.0, seconds=0.1, workload="vit/b16", threads=1):
    return Repetition(f"run {run}", workload, threads, place, seconds, ratio)


def test_the_spread_is_the_deviation_of_logarithms_between_runs():
    rows = [repeated(run, 1, math.exp(0.01 * (-1) ** run)) for run in range(10)]
    rows += [repeated(run, 0, 1.0, 0.1 * math.exp(0.02 * (-1) ** run)) for run in range(10)]

    (result,) = spreads(rows)

    assert result.runs == 10
    assert result.of_ratios == pytest.approx(0.01 * math.sqrt(10 / 9))
    assert result.of_times == pytest.approx(0.02 * math.sqrt(10 / 18))


def test_fewer_runs_than_five_tell_no_spread():
    assert spreads([repeated(run, 1) for run in range(FEWEST_RUNS - 1)]) == []


def test_the_spread_of_the_calls_that_take_most_nearly_as_long_holds():
    known = [Spread("short", 1, 9, 1e-4, 0.1, 0.1), Spread("long", 1, 9, 1e-1, 0.01, 0.1)]

    assert [nearest(known, seconds, 1).workload for seconds in (3e-4, 2e-3, 5e-3, 1.0)] == [
        "short",
        "short",
        "long",
        "long",
    ]
    assert nearest(known, 1.0, 2) is None


def test_a_width_of_few_runs_is_students():
    assert width(1.0, 11, 0.05) == pytest.approx(2.228, abs=1e-3)


# Claims about the same code, simulated: each process has an offset of its own, each run a speed of its own


def offsets(kind, random):
    return {
        "uniform": lambda: random.uniform(-0.02, 0.02),
        "normal": lambda: random.gauss(0.0, 0.02),
        "heavy": lambda: random.gauss(0.0, 0.01) / max(random.random(), 0.05) ** 0.5,
    }[kind]()


def timed(name, kind, random, speed, factor=1.0):
    """24 rounds with a noise of 2 %, of a process with an offset, on a machine that is just as fast as `speed`."""
    own = speed + offsets(kind, random) + math.log(factor)
    return measured(name, seconds=[0.1 * math.exp(own + random.gauss(0, 0.02)) for _ in range(24)])


NAMES = [f"same_{place}" for place in range(8)]


def simulated(kind, random, factor=1.0):
    speed = random.gauss(0.0, 0.05)
    rows = [timed("matmul", kind, random, speed), *(timed(name, kind, random, speed, factor) for name in NAMES)]
    return rows


def learned(kind, random, runs=12):
    """The spread, as an audit of so many runs finds it."""
    rows = []
    for run in range(runs):
        rows_of_run = simulated(kind, random)
        middles = [sorted(item.seconds)[12] for item in rows_of_run]
        rows += [repeated(run, place, middle / middles[0], middle) for place, middle in enumerate(middles)]
    return spreads(rows)


@pytest.mark.parametrize("kind", ["uniform", "normal", "heavy"])
def test_false_claims_about_runs_of_the_same_code_are_at_most_two_per_cent(kind):
    random = Random(f"{kind} offsets")
    claims = pairs = 0
    for _ in range(25):
        known = learned(kind, random)
        for _ in range(4):
            first, second = side(OLD, *simulated(kind, random)), side(NEW, *simulated(kind, random))
            results = times_of_runs(first, second, known)
            claims += sum(item.verdict in ("slower", "faster") for item in results)
            pairs += len(results)

    assert pairs == 900
    assert claims / pairs <= 0.02


def test_without_the_spread_of_runs_false_claims_would_be_frequent():
    """The simulation tells a comparison that trusts samples alone from one that does not."""
    random = Random("no spread")
    blind = [Spread("vit/b16", 1, 1000, 0.1, of_ratios=0.0, of_times=0.0)]
    results = [
        item.verdict
        for _ in range(20)
        for item in times_of_runs(
            side(OLD, *simulated("normal", random)), side(NEW, *simulated("normal", random)), blind
        )
    ]

    assert sum(verdict in ("slower", "faster") for verdict in results) / len(results) > 0.1


def test_a_difference_of_a_third_is_found_between_runs():
    random = Random("slower")
    results = []
    for _ in range(20):
        known = learned("uniform", random)
        rows = simulated("uniform", random), simulated("uniform", random, factor=1.33)
        results += [item.verdict for item in times_of_runs(side(OLD, *rows[0]), side(NEW, *rows[1]), known)[1:]]

    assert results.count("slower") / len(results) >= 0.9


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
