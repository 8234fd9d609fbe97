"""What samples say: intervals against brute force, verdicts against their definition, claims against chance."""

import math
import random
from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from simulated import FOUND, MOST_CLAIMS, Machine, counted

from attnsuite.model.faster import MARGIN, PROCESSES_DIFFER, ROUNDS_DEPEND, VERDICTS, Comparison, compare
from attnsuite.model.statistics import LEVEL, autocorrelation, exponent, interval, rounds_needed

unhurried = settings(deadline=None)  # the machine may be busy
positive = st.floats(1e-9, 1e9)
samples = st.lists(positive, min_size=1, max_size=60)


def ratios(*speedups: float) -> tuple[list[float], list[float]]:
    """A baseline and another whose ratios within rounds are these."""
    return list(speedups), [1.0] * len(speedups)


def one(*speedups: float, level: float = LEVEL) -> Comparison:
    baseline, other = ratios(*speedups)
    return compare(baseline, {"other": other}, level)["other"]


def zigzag(values: Sequence[float]) -> list[float]:
    """Values in an order that says nothing of a trend: the smallest, the largest, the second smallest, and so on."""
    low = sorted(values)
    return [low[place // 2] if place % 2 == 0 else low[-1 - place // 2] for place in range(len(low))]


# Intervals


@unhurried
@given(st.integers(1, 400), st.sampled_from([0.5, 0.8, 0.95, 0.99, 0.999, 0.9999]))
def test_ranks_are_those_of_the_binomial_distribution(count: int, level: float) -> None:
    found = interval(list(range(1, count + 1)), level)

    rank = 0 if math.isinf(found.low) else int(found.low)
    assert rank == 0 or 2 * binom.cdf(rank - 1, count, 0.5) <= (1 - level) * (1 + 1e-6)
    assert rank >= count // 2 or 2 * binom.cdf(rank, count, 0.5) > (1 - level) * (1 - 1e-6)


def test_the_median_interval_of_too_few_samples_has_no_ends() -> None:
    assert interval([3.0, 1.0, 2.0]) == interval([2.0, 3.0, 1.0])
    assert (interval([3.0, 1.0, 2.0]).low, interval([3.0, 1.0, 2.0]).high) == (-math.inf, math.inf)
    assert interval([3.0, 1.0, 2.0]).median == 2
    assert math.isfinite(interval([1.0] * 8).low), "eight are enough for 99 %"
    assert math.isinf(interval([1.0] * 7).low)


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        interval([])


@unhurried
@given(samples)
def test_intervals_hold_their_median_and_do_not_depend_on_order(seconds: list[float]) -> None:
    found = interval(seconds)

    assert found.low <= found.median == median(seconds) <= found.high
    assert interval(sorted(seconds, reverse=True)) == found
    assert interval([2 * each for each in seconds]).median == 2 * found.median
    assert interval(seconds, 0.999).low <= found.low <= found.high <= interval(seconds, 0.999).high


# Verdicts


@pytest.mark.parametrize(
    ("speedups", "verdict"),
    [
        ([1.10] * 12, "faster"),
        ([0.90] * 12, "slower"),
        ([1.01] * 12, "same"),
        ([1.0] * 12, "same"),
        ([0.98] * 12, "same"),
        ([1.10] * 7, "unclear"),
        ([0.5, 2.0] * 6, "unclear"),
        ([1.0] * 11 + [5.0], "same"),
        ([1.0] * 10 + [5.0] * 2, "unclear"),
        ([1.02, 1.10] * 6, "faster"),
        ([1.001, 1.10, 1.001] * 4, "unclear"),
        ([1 + MARGIN - 1e-6] * 12, "same"),
        ([1 + MARGIN + 1e-6] * 12, "faster"),
        ([1 / (1 + MARGIN) + 1e-6] * 12, "same"),
        ([1 / (1 + MARGIN) - 1e-6] * 12, "slower"),
        ([1.05] * 11 + [0.99], "faster"),
        ([1.05] * 10 + [0.99] * 2, "unclear"),
    ],
)
def test_verdicts_are_as_defined(speedups: list[float], verdict: str) -> None:
    assert one(*speedups).verdict == verdict


def test_a_speedup_of_two_is_half_the_time() -> None:
    found = compare([2.0] * 12, {"half": [1.0] * 12})["half"]

    assert found == Comparison(pytest.approx(2), pytest.approx(2), pytest.approx(2), 12, "faster")


def test_only_rounds_that_both_have_are_compared() -> None:
    found = compare([1.0] * 12 + [100.0] * 12, {"stopped early": [1.0] * 12})["stopped early"]

    assert (found.pairs, found.speedup, found.verdict) == (12, 1, "same")


def test_noise_that_disturbs_both_alike_does_not_hide_a_difference() -> None:
    disturbed = [1.0, 3.0, 1.2, 8.0, 1.1, 2.0, 1.0, 5.0, 1.3, 1.0, 4.0, 1.0]

    found = compare(disturbed, {"faster": [each / 1.1 for each in disturbed]})["faster"]

    assert (found.verdict, found.low) == ("faster", pytest.approx(1.1))


def test_without_samples_there_is_no_comparison() -> None:
    assert compare([1.0] * 12, {"none": [], "same": [1.0] * 12}).keys() == {"same"}
    assert compare([], {"other": [1.0]}) == {}
    assert compare([1.0], {}) == {}


@unhurried
@given(st.dictionaries(st.sampled_from("abcde"), samples, max_size=5), samples)
def test_every_comparison_is_consistent(others: dict[str, list[float]], baseline: list[float]) -> None:
    for name, found in compare(baseline, others).items():
        assert found.verdict in VERDICTS
        assert found.low <= found.speedup * (1 + 1e-12)
        assert found.speedup <= found.high * (1 + 1e-12)
        assert found.pairs == min(len(baseline), len(others[name]))
        assert (found.verdict == "faster") <= (found.low > 1)
        assert (found.verdict == "slower") <= (found.high < 1)
        assert (found.verdict == "same") <= (1 / (1 + MARGIN) < found.low <= found.high < 1 + MARGIN)


@unhurried
@given(samples, samples)
def test_who_is_the_baseline_does_not_matter(one: list[float], other: list[float]) -> None:
    opposite = {"faster": "slower", "slower": "faster", "same": "same", "unclear": "unclear"}

    there, back = compare(one, {"": other})[""], compare(other, {"": one})[""]

    assert there.verdict == opposite[back.verdict]
    assert there.speedup == pytest.approx(1 / back.speedup)


# Many comparisons at once


def test_comparisons_made_together_need_more_rounds() -> None:
    baseline, alone = ratios(*[1.1] * 8)

    assert compare(baseline, {"a": alone})["a"].verdict == "faster"
    together = compare(baseline, dict.fromkeys("abcd", alone))
    assert {found.verdict for found in together.values()} == {"unclear"}


def test_each_claim_leaves_the_next_a_milder_level() -> None:
    """Holm's steps at eight rounds: 1/128 is claimed at 1 %, not at 0.5 %; twelve equal signs, 1/2048, at both."""
    certain, likely = [1.0] * 12, [1.0] * 8

    alone = compare([1.1] * 12, {"likely": likely})
    behind_a_claim = compare([1.1] * 12, {"likely": likely, "certain": certain})
    behind_none = compare([1.1] * 12, {"likely": likely, "tie": [1.1] * 12})

    assert alone["likely"].verdict == "faster"
    assert {name: found.verdict for name, found in behind_a_claim.items()} == {"certain": "faster", "likely": "faster"}
    assert behind_none["likely"].verdict == "unclear"


@unhurried
@given(st.lists(st.lists(st.floats(0.5, 2), min_size=12, max_size=12), min_size=1, max_size=5))
def test_claims_are_at_least_those_of_bonferroni_and_at_most_those_without_correction(drawn: list[list[float]]) -> None:
    baseline, others = [1.0] * 12, list(map(zigzag, drawn))
    found = compare(baseline, {str(number): samples for number, samples in enumerate(others)})

    for number, seconds in enumerate(others):
        uncorrected = compare(baseline, {"": seconds})[""].verdict
        bonferroni = compare(baseline, {"": seconds}, 1 - (1 - LEVEL) / len(others))[""].verdict
        verdict = found[str(number)].verdict
        assert verdict in (uncorrected, "unclear")
        assert bonferroni in (verdict, "unclear")


@pytest.mark.parametrize("comparisons", [0, 1, 2, 5, 9, 30])
def test_the_rounds_needed_are_the_fewest_that_can_lead_to_a_claim(comparisons: int) -> None:
    def claims(rounds: int) -> bool:
        others = {str(number): [1.0] * rounds for number in range(max(comparisons, 1))}
        return any(found.verdict == "faster" for found in compare([2.0] * rounds, others).values())

    needed = rounds_needed(comparisons)

    assert claims(needed)
    assert not claims(needed - 1)


# Chance


@pytest.mark.parametrize(("others", "rounds"), [(1, 12), (1, 40), (6, 12), (6, 40)])
def test_equal_implementations_rarely_differ(others: int, rounds: int) -> None:
    """In at most 1 % of tables is anything claimed of implementations that are one and the same.

    Noise of 30 % makes medians beyond the margin the rule, so that the interval alone prevents claims.
    """
    draw, trials = random.Random(7), 800

    tables = (Machine(noise=0.3, heavy=0.1, shared=1.0).table(draw, rounds, others=others) for _ in range(trials))
    false = sum(any(found.verdict in ("faster", "slower") for found in table.values()) for table in tables)

    assert false <= 0.01 * trials + 3 * math.sqrt(trials * 0.01), "three standard deviations of a fair 1 %"


def test_different_ones_are_rarely_called_the_same() -> None:
    """Two implementations that differ by 4 %, just beyond the margin, under noise of 2 %."""
    draw, trials = random.Random(8), 800

    tables = (Machine(shared=1.0).table(draw, 40, slower=0.04, others=1) for _ in range(trials))
    false = sum(found.verdict in ("same", "faster") for table in tables for found in table.values())

    assert false <= 0.01 * trials


# What is assumed


@pytest.mark.parametrize(
    ("machine", "rounds"),
    [
        (Machine(noise=0.15, following=0.7), 12),
        (Machine(noise=0.15, following=0.7), 40),
        (Machine(noise=0.15, heavy=0.2), 12),
        (Machine(drift=0.5), 40),
        (Machine(process=0.02, processes=2), 12),
        (Machine(process=0.02, processes=2), 40),
    ],
    ids=str,
)
def test_machines_that_break_what_is_assumed_lead_to_few_claims(machine: Machine, rounds: int) -> None:
    """At most 2 % of comparisons of what is one and the same; what does so on any machine is in simulating.py."""
    assert counted(machine, rounds, tables=100).claims <= MOST_CLAIMS


def test_offsets_of_processes_lead_to_claims_where_there_is_one_process() -> None:
    """Which is why there are two: without them, the rounds say nothing of it."""
    assert counted(Machine(process=0.02), 40, tables=30).claims > 0.1


@pytest.mark.parametrize(
    "machine",
    [Machine(), Machine(following=0.5), Machine(heavy=0.1), Machine(drift=0.5), Machine(processes=2)],
    ids=str,
)
def test_slowdowns_of_five_per_cent_are_found_in_long_races(machine: Machine) -> None:
    assert counted(machine, 120, tables=12, slower=0.05).slower >= FOUND


@pytest.mark.parametrize("machine", [Machine(), Machine(following=0.7), Machine(processes=2)], ids=str)
def test_large_differences_are_found_in_few_rounds(machine: Machine) -> None:
    assert counted(machine, 12, tables=40, slower=1.6).slower == 1


def test_a_comparison_says_which_assumption_failed() -> None:
    trend = [1.05 + 0.06 * math.sin(place / 6) for place in range(40)]
    processes = "01" * 20

    by_rounds = one(*trend)
    base, other = ratios(*[1.10 if process == "1" else 1.04 for process in processes])
    by_processes = compare(base, {"other": other}, LEVEL, {"other": processes}, processes)["other"]

    assert (by_rounds.verdict, by_rounds.why) == ("unclear", ROUNDS_DEPEND)
    assert (by_processes.verdict, by_processes.why) == ("unclear", PROCESSES_DIFFER)


def test_processes_that_differ_by_chance_alone_leave_intervals_as_they_are() -> None:
    draw = random.Random(5)
    base, mine = Machine(processes=2).row(draw, 40, [0.0] * 40)
    other, its = Machine(processes=2).row(draw, 40, [0.0] * 40)

    tested = compare(base, {"other": other}, LEVEL, {"other": its}, mine)["other"]
    untested = compare(base, {"other": other})["other"]

    assert (tested.low, tested.high) == (untested.low, untested.high)


def test_one_implementation_whose_processes_differ_does_not_blur_the_others() -> None:
    draw = random.Random(6)
    steady, torn = Machine(noise=0.005, processes=2), Machine(noise=0.005, processes=2, process=0.2)
    rows = {str(number): steady.row(draw, 40, [0.0] * 40, 0.1) for number in range(5)}
    rows["torn"] = torn.row(draw, 40, [0.0] * 40, 0.1)
    base, of = steady.row(draw, 40, [0.0] * 40)

    found = compare(
        base, {name: row for name, (row, _) in rows.items()}, LEVEL, {n: p for n, (_, p) in rows.items()}, of
    )

    assert {found[name].verdict for name in "01234"} == {"slower"}
    assert (found["torn"].verdict, found["torn"].why) == ("unclear", PROCESSES_DIFFER)


def test_rounds_that_alternate_need_no_allowance() -> None:
    assert autocorrelation([1.0, 2.0] * 10) == pytest.approx(-0.95)
    assert autocorrelation(list(range(20))) == pytest.approx(0.85, abs=0.01)
    assert autocorrelation([1.0] * 20) is None
    assert autocorrelation([1.0, 2.0]) is None


# Growth


@pytest.mark.parametrize(
    ("sizes", "values", "constant", "power"),
    [
        ([1, 2, 4], [3, 12, 48], 0, 2),
        ([1, 2, 4], [5, 5, 5], 0, 0),
        ([1, 2, 4], [110, 120, 140], 100, 1),
        ([1, 2, 4, 8], [90, 100, 120, 140], 100, 1),
        ([1, 2], [90, 110], 100, None),
        ([2, 2], [1, 3], 0, None),
        ([4], [7], 0, None),
        ([], [], 0, None),
    ],
)
def test_exponents(sizes: Sequence[float], values: Sequence[float], constant: float, power: float | None) -> None:
    found = exponent(sizes, values, constant)

    assert found is None if power is None else found == pytest.approx(power)
