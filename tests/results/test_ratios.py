"""Ratios between two runs claim a difference only where it is larger than runs of the same code lie apart."""

import dataclasses
import math
from random import Random

import pytest
from builders import RUN, measured, recorded, samples, without_time
from msgspec.structs import replace

from attnsuite.model.rows import Repetition
from attnsuite.results import ratios
from attnsuite.results.ratios import (
    FEWEST_RUNS,
    Spread,
    memories_of_runs,
    memory,
    nearest,
    of_one_run,
    spreads,
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
    """The ratio of `chunked`, beside a baseline that took these times."""
    first = side(runs[0], measured("matmul", seconds=base[0]), measured("chunked", seconds=old, **more))
    second = side(runs[1], measured("matmul", seconds=base[1]), measured("chunked", seconds=new, **more))
    return next(of for of in times_of_runs(first, second, known) if of.row.implementation == "attention/chunked")


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


def test_what_lies_within_the_spread_of_runs_is_unclear():
    wide = [dataclasses.replace(KNOWN[0], of_ratios=0.05)]

    assert compared(new=0.11, known=wide).verdict == "unclear"


def test_without_a_spread_nothing_is_claimed_and_the_reason_is_said():
    found = compared(new=0.3, known=[])

    assert (found.verdict, found.why) == ("unclear", ratios.NO_SPREAD)
    assert (found.low, found.high) == (0.0, math.inf)


def test_a_spread_on_one_thread_says_nothing_of_two():
    assert compared(new=0.3, threads=2).why == ratios.NO_SPREAD


def test_too_few_rounds_are_unclear():
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
def test_times_beside_a_baseline_that_may_have_changed_are_compared_alone(run):
    found = compared(new=0.13, base=(0.05, 0.10), runs=(OLD, run))

    assert found.ratio == pytest.approx(1.3)


def test_a_margin_that_is_wider_lets_small_differences_pass():
    first = side(OLD, measured("matmul", seconds=0.05), measured("chunked", seconds=0.1))
    second = side(NEW, measured("matmul", seconds=0.05), measured("chunked", seconds=0.11))

    verdicts = [[of.verdict for of in times_of_runs(first, second, KNOWN, margin)] for margin in (0.03, 0.2)]

    assert [each[0] for each in verdicts] == ["slower", "same"]


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
        (1e6, 3e6, "unclear"),
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

    (found,) = spreads(rows)

    assert found.runs == 10
    assert found.of_ratios == pytest.approx(0.01 * math.sqrt(10 / 9))
    assert found.of_times == pytest.approx(0.02 * math.sqrt(10 / 18))


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
    mine = speed + offsets(kind, random) + math.log(factor)
    return measured(name, seconds=[0.1 * math.exp(mine + random.gauss(0, 0.02)) for _ in range(24)])


NAMES = [f"same_{place}" for place in range(8)]


def simulated(kind, random, factor=1.0):
    speed = random.gauss(0.0, 0.05)
    rows = [timed("matmul", kind, random, speed), *(timed(name, kind, random, speed, factor) for name in NAMES)]
    return rows


def learned(kind, random, runs=12):
    """The spread, as an audit of so many runs finds it."""
    rows = []
    for run in range(runs):
        of = simulated(kind, random)
        middles = [sorted(each.seconds)[12] for each in of]
        rows += [repeated(run, place, middle / middles[0], middle) for place, middle in enumerate(middles)]
    return spreads(rows)


@pytest.mark.parametrize("kind", ["uniform", "normal", "heavy"])
def test_runs_of_the_same_code_are_told_apart_in_at_most_two_per_cent(kind):
    random = Random(f"{kind} offsets")
    claims = pairs = 0
    for _ in range(25):
        known = learned(kind, random)
        for _ in range(4):
            first, second = side(OLD, *simulated(kind, random)), side(NEW, *simulated(kind, random))
            found = times_of_runs(first, second, known)
            claims += sum(of.verdict in ("slower", "faster") for of in found)
            pairs += len(found)

    assert pairs == 900
    assert claims / pairs <= 0.02


def test_without_the_spread_of_runs_the_same_code_would_be_told_apart():
    """The simulation tells a comparison that trusts samples alone from one that does not."""
    random = Random("no spread")
    blind = [Spread("vit/b16", 1, 1000, 0.1, of_ratios=0.0, of_times=0.0)]
    found = [
        of.verdict
        for _ in range(20)
        for of in times_of_runs(side(OLD, *simulated("normal", random)), side(NEW, *simulated("normal", random)), blind)
    ]

    assert sum(verdict in ("slower", "faster") for verdict in found) / len(found) > 0.1


def test_a_difference_of_a_third_is_found_between_runs():
    random = Random("slower")
    found = []
    for _ in range(20):
        known = learned("uniform", random)
        rows = simulated("uniform", random), simulated("uniform", random, factor=1.33)
        found += [of.verdict for of in times_of_runs(side(OLD, *rows[0]), side(NEW, *rows[1]), known)[1:]]

    assert found.count("slower") / len(found) >= 0.9
