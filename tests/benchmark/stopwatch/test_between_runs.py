"""Runs of the same code are timed anew, stored one after the other, and tell how far runs lie apart."""

import pytest

from attnsuite.benchmark.stopwatch.audit import Plan
from attnsuite.cli.audit import audit_between_runs, spread_lines
from attnsuite.model import UsageError
from attnsuite.results import read
from attnsuite.results.ratios import FEWEST_RUNS, Spread

SMALLEST = "documents/one-sentence"


@pytest.mark.slow
def test_a_run_times_the_baseline_and_copies_of_it_and_adds_them_to_those_before(tmp_path, capsys):
    plan = Plan(tables={1: 1}, workloads=(SMALLEST,), budget=0.001)

    assert audit_between_runs(tmp_path, 1, plan=plan) == 0
    assert audit_between_runs(tmp_path, 1, plan=plan) == 0

    (recorded,) = read(tmp_path).values()
    rows = recorded.repeats
    assert [(row.workload, row.threads, row.place) for row in rows] == 2 * [(SMALLEST, 1, place) for place in range(4)]
    assert rows[0].ratio == rows[4].ratio == 1.0
    assert all(row.seconds > 0 for row in rows)
    assert f"{FEWEST_RUNS} are needed for the spread between runs" in capsys.readouterr().out


def test_what_is_stored_is_said_as_what_two_runs_may_differ_by():
    (line,) = spread_lines([Spread("vit/b16", 1, 12, 0.1, of_ratios=0.005, of_times=0.02)], 12)

    said = "two of the same code lie within ±2.2 % next to the baseline and ±8.8 % alone (99 %)"
    assert line == f"vit/b16, threads 1: 12 runs; {said}"


@pytest.mark.parametrize("runs", [65])
def test_a_number_of_runs_that_is_none_is_refused(runs, tmp_path):
    with pytest.raises(UsageError, match="--between-runs expects an integer from 1 to 64"):
        audit_between_runs(tmp_path, runs)
