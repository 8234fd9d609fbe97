"""Statistics of draws: their limits are left as seldom as they say, and what is counted in patterns is right."""

import numpy as np
import pytest
from scipy import stats

from attnsuite.judging import patterns, shares
from attnsuite.judging.shares import FALSE_REJECTION, MAX_TESTS, Share, Spread, exactly

TAIL = FALSE_REJECTION / MAX_TESTS / 2
"""Of the only statistic of a question."""


@pytest.mark.parametrize("tail", [1e-10, 1e-14])
@pytest.mark.parametrize("total", [64, 16384, 262144])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.58, 0.9])
def test_limits_are_left_with_the_stated_probability_and_hardly_less(
    total: int, probability: float, tail: float
) -> None:
    low, high = Share("", 0, total, probability, probability).limits(tail)

    assert stats.binom.cdf(low - 1, total, probability) <= tail
    assert stats.binom.sf(high, total, probability) <= tail
    assert stats.binom.cdf(low, total, probability) >= tail * (1 - 1e-5)
    assert stats.binom.sf(high - 1, total, probability) >= tail * (1 - 1e-5)
    assert low < total * probability < high


def test_every_statistic_of_a_test_has_its_share_of_false_alarms() -> None:
    """A count of a million is judged by limits that lie farther out, the more statistics stand beside it."""
    share = Share("", 0, 10**6, 0.5, 0.5)
    for beside in (1, 20):
        least, most = share.limits(FALSE_REJECTION / MAX_TESTS / beside / 2)
        for count, wrong in ((least, False), (least - 1, True), (most, False), (most + 1, True)):
            others = [Share("others", 5 * 10**5, 10**6, 0.5, 0.5)] * (beside - 1)
            assert bool(shares.complaint([Share("", int(count), 10**6, 0.5, 0.5), *others])) == wrong


def test_the_limits_of_a_spread_lie_far_outside_what_honest_counts_do() -> None:
    random = np.random.default_rng(8)
    for p in (0.1, 0.5):
        spreads = [Spread("", random.binomial(16, 1 - p, size=256), 16, 1 - p) for _ in range(4000)]
        standard = np.array([(spread.value - 256) / spread.deviation for spread in spreads])
        least, most = spreads[0].limits(TAIL)

        assert abs(standard.std() - 1) < 0.05, "the variance that the limits suppose is right"
        assert (abs(standard) < 0.75 * (most - 256) / spreads[0].deviation).all()
        assert 256 - least == pytest.approx(most - 256)


def test_the_limits_of_a_spread_lie_beyond_those_of_chi_squared() -> None:
    for rows in (256, 10_240):
        spread = Spread("", np.zeros(rows), 400, 0.5)  # counts of many draws, which are nearly normal
        least, most = spread.limits(TAIL)

        assert least < stats.chi2.ppf(TAIL, rows)
        assert most > stats.chi2.isf(TAIL, rows)


@pytest.mark.parametrize(("probability", "due"), [(0.0, 0), (1.0, 50)])
def test_what_is_certain_has_one_count(probability: float, due: int) -> None:
    for count in (0, 1, 49, 50):
        said = shares.complaint([exactly("places are kept", count, 50, probability)])
        assert (said is None) == (count == due)
        assert said is None or said == f"{count} of 50 places are kept, should be {due}"


def test_nothing_of_nothing_is_no_complaint() -> None:
    assert shares.complaint([exactly("places are kept", 0, 0, 0.5)]) is None
    assert shares.complaint([]) is None


def test_the_first_statistic_that_leaves_its_limits_is_named() -> None:
    found = [Share("are fine", 500, 1000, 0.5, 0.5), Share("are few", 0, 1000, 0.5, 0.5), Share("are none", 0, 9, 1, 1)]

    assert str(shares.complaint(found)).startswith("0 of 1000 are few, should be between ")


def test_outputs_are_alike_that_break_the_same_limits_by_like_counts_or_spreads() -> None:
    def counted(share: float) -> list[Share]:
        return [Share("are kept", int(share * 10_000), 10_000, 0.5, 0.5)]

    assert shares.alike(counted(0.8), counted(0.81))
    assert not shares.alike(counted(0.8), counted(0.9))
    assert not shares.alike(counted(0.8), counted(0.5))
    assert not shares.alike(counted(0.8), [Share("are dropped", 8000, 10_000, 0.5, 0.5)])
    one, other = (Spread("counts", np.full(400, count), 32, 0.5) for count in (32, 0))
    assert shares.alike([one], [other])
    assert not shares.alike([one], [Spread("counts", np.where(np.arange(400) % 2, 32, 16), 32, 0.5)])


def test_neighbours_count_pairs_that_share_no_place() -> None:
    pattern = np.random.default_rng(1).random((2, 3, 8, 9)) < 0.5
    found = {each.says: each for each in patterns.neighbours([pattern], (1,), 0.5)}

    assert found["places of keys 4 apart agree"].value == (pattern[..., :4] == pattern[..., 4:8]).sum()
    assert found["places of batch items 1 apart agree"].value == (pattern[0] == pattern[1]).sum()
    assert found["places of heads 1 apart agree"].value == (pattern[:, 0] == pattern[:, 1]).sum()
    assert len(found) == 1 + 1 + 4 + 4
