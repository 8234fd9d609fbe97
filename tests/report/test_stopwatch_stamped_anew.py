"""The stopwatch's page, altered and stamped anew: held against its comparisons, and against its own rows."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from builders import RUN
from restamped import altered

from attnsuite.model.statistics import Interval, judged
from attnsuite.model.stopwatch import Agreement, StopwatchAudit, Trial
from attnsuite.report.stopwatch import write_stopwatch
from attnsuite.report.verification.stopwatch import of_stopwatch
from attnsuite.results.store import Recorded

RECORDED = Recorded(RUN.machine.name, {RUN.id: RUN}, ())
REAL = Path(__file__).parent.parent.parent / "results"


def compared(table, injected, speedup):
    low, high = 0.98 * speedup, 1.02 * speedup
    verdict = judged(Interval(*map(math.log, (speedup, low, high))), 20).verdict
    return Trial(table, 1, "vit/b16", injected, verdict, speedup, low, high, 20)


def agreed(ratio, tool="timer"):
    return Agreement(tool, "cpu", "attention/matmul", "vit/b16", 0.00125, ratio, 12)


TRIALS = [compared(table, injected, 1 / (1 + injected)) for table in range(3) for injected in (0.0, 0.05, 0.10)]
AUDIT = StopwatchAudit(TRIALS, [agreed(1.0012), agreed(0.9731), agreed(1.01449), agreed(1.5, "other")], seconds=90.0)
MISSING = replace(AUDIT, trials=[compared(0, 0.0, 1.1), compared(0, 0.05, 1.0)], agreements=[agreed(1.0)])


def said(folder):
    return [str(each).replace(f"{folder}/", "") for each in of_stopwatch(folder, RECORDED).refusals]


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / RUN.machine.name
    write_stopwatch(found, AUDIT, RUN)
    return found


@pytest.mark.parametrize("audit", [AUDIT, MISSING, replace(AUDIT, agreements=[])], ids=["sound", "poor", "alone"])
def test_what_an_audit_writes_is_consistent(tmp_path, audit):
    write_stopwatch(tmp_path / RUN.machine.name, audit, RUN)

    assert said(tmp_path / RUN.machine.name) == []


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ("timer: 1.4 % from our times", "timer: 0.0 % from our times", "are 1.4 % apart in the median, not 0.0"),
        (", 2.7 % at most", ", 0.1 % at most", "timer: its rows are 2.7 % apart at most, not 0.1 %"),
        ("- timer: 1.4 %", "- clock: 1.4 %", "timer: its rows are 1.4 % apart in the median, not nothing"),
        ("| 0.9731 | 2.7 % |", "| 0.9731 | 0.7 % |", "a ratio of 0.9731 is not 0.7 % apart"),
        ("| 0.9731 | 2.7 % |", "| 1.0000 | 2.7 % |", "a ratio of 1.0000 is not 2.7 % apart"),
        ("| 0.9731 | 2.7 % |", "| none | 2.7 % |", "'none' in 12 pairs, '2.7 %' apart, are none"),
        ("- amiss: other is", "- fine: other is", "other is 50.0 % from our times, and nothing is amiss"),
        ("- 3 tables were measured", "- 300 tables were measured", "stopwatch.csv has 3 tables, not 300"),
        ("## Identical", "- false claims on one thread: none at all\n\n## Identical", "does not give '- false claims"),
        ("\n## Injected", "| more | of | it | 0 | 0 | 9 | 0 | 0 |\n\n## Injected", "does not give '| more | of | it"),
        ("\n## Other", "\n- amiss: false claims: many\n\n## Other", "says that something is amiss with false claims"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_page_says_is_what_its_rows_give(folder, before, now, says):
    altered(folder / "stopwatch.md", before, now)

    assert any(says in each for each in said(folder)), said(folder)


def test_a_complaint_that_the_comparisons_give_cannot_be_left_out(tmp_path):
    folder = tmp_path / RUN.machine.name
    write_stopwatch(folder, MISSING, RUN)

    altered(folder / "stopwatch.md", "- amiss: false claims: ", "- fine: ")

    assert any("gives 'false claims: 1 of 1 on one thread" in each for each in said(folder)), said(folder)


def test_numbers_that_are_spelled_otherwise_are_named_by_row_and_column(folder):
    table = folder / "stopwatch.csv"
    altered(table, "vit/b16,0.0,", "vit/b16, 0.00,", folder / "stopwatch.md")

    assert any(each.startswith("stopwatch.csv, row 2, column injected: ' 0.00' stands here") for each in said(folder))
