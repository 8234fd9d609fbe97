"""Tables of rows that were timed together, and their comparisons."""

import pytest
from builders import BASELINES, measured, without_time

from attnsuite.model import EVERY_CASE
from attnsuite.model.rows import METER_ERROR
from attnsuite.report import timed
from attnsuite.report.timed import ANOTHER_RUN, natural, tables


@pytest.mark.parametrize(
    ("seconds", "verdict", "words"),
    [(0.05, "faster", "2.00× faster"), (0.4, "slower", "4.00× slower"), (0.101, "same", "equally fast")],
)
def test_a_verdict_in_words(seconds, verdict, words):
    (table,) = tables([("r", measured()), ("r", measured("chunked", seconds=seconds))], BASELINES)

    row = _row(table, "chunked")

    assert (row.verdict, timed.verdict(row)) == (verdict, words)
    assert timed.verdict(_row(table, "matmul")) == "baseline"


def about_all(name="jax_nn", status="missing", detail="No module named 'jax'"):
    """A row about all workloads of an implementation."""
    every = {"dtype": "*", "threads": 0, "direction": "*", "cache": "*"}
    return without_time(name, status, detail, EVERY_CASE, **every)


def _row(table, name):
    return next((row for row in table.rows if row.name == name), None)


@pytest.mark.parametrize(("padded", "words"), [({}, ""), ({"padded": 9.0}, "; 2.00 GB/s, 20 % of a copy's")])
def test_packed_items_and_caches_have_their_traffic_beside_memory(padded, words):
    work = {"attended": 1.0, "bytes": 2e8, **padded}
    (table,) = tables([("r", measured(seconds=0.1, work=work, ceilings={"bytes": 1e10}))], BASELINES)
    (row,) = table.rows

    assert (row.rate("bytes"), row.of_bandwidth) == pytest.approx((2e9, 0.2))
    assert timed.memory(row) == timed.peak(row) + words


PROCESSES = "01" * 10


@pytest.mark.parametrize(
    ("seconds", "processes", "reason"),
    [
        ([0.1 if process == "0" else 0.09 for process in PROCESSES], PROCESSES, "its processes differ"),
        ([0.1 if place % 2 else 0.05 for place in range(20)], "", "noisy"),
        ([0.1, 0.1], "", "too few rounds"),
        ([0.1 if place % 2 else 0.099 for place in range(20)], "", ""),
    ],
)
def test_an_inconclusive_comparison_has_its_reason(seconds, processes, reason):
    base = measured(seconds=[0.1] * len(seconds), processes=processes)
    (table,) = tables([("r", base), ("r", measured("chunked", seconds=seconds, processes=processes))], BASELINES)

    words = timed.verdict(_row(table, "chunked"))

    assert words == (f"inconclusive: {reason}" if reason else "equally fast")


def test_all_comparisons_of_a_table_are_corrected_together():
    eight = [0.1 + 1e-4 * number for number in range(8)]
    base, other = measured(seconds=eight), measured("a", seconds=[each / 2 for each in eight])
    many = [measured(f"n{number}", seconds=eight) for number in range(30)]

    (alone,) = tables([("r", base), ("r", other)], BASELINES)
    (together,) = tables([("r", each) for each in (base, other, *many)], BASELINES)

    assert _row(alone, "a").verdict == "faster"
    assert _row(together, "a").verdict == "unclear"  # eight rounds are too few for thirty-one claims


def test_rows_of_other_tables_do_not_change_the_correction():
    eight = [0.1 + 1e-4 * number for number in range(8)]
    others = [
        measured("chunked", seconds=[each / 2 for each in eight], **setting)
        for setting in ({}, {"threads": 2}, {"dtype": "bfloat16"}, {"direction": "backward"}, {"cache": "cold"})
    ]

    found = tables([("r", measured(seconds=eight)), *(("r", each) for each in others)], BASELINES)

    assert len(found) == 5
    assert [_row(table, "chunked").verdict for table in found].count("faster") == 1
    assert [_row(table, "chunked").verdict for table in found].count("") == 4


def test_a_row_of_another_run_is_not_compared():
    rows = [("r2", measured()), ("r1", measured("chunked", seconds=0.05)), ("r2", measured("flex", seconds=0.05))]

    (table,) = tables(rows, BASELINES)

    assert (_row(table, "chunked").verdict, _row(table, "chunked").comparison) == (ANOTHER_RUN, None)
    assert _row(table, "flex").verdict == "faster"


def test_without_a_time_of_the_baseline_there_are_no_verdicts():
    failed = without_time("matmul", "out_of_memory", "17 GB")

    (table,) = tables([("r", failed), ("r", measured("chunked", seconds=0.05))], BASELINES)

    assert [(row.name, timed.verdict(row)) for row in table.measured] == [("chunked", "")]
    assert timed.absence(_row(table, "matmul").measurement) == "out of memory"


def test_a_contract_has_its_own_baseline():
    other = measured("add_norm/matmul")

    found = tables([("r", other), ("r", measured("chunked"))], BASELINES)

    assert [table.setting.contract for table in found] == ["attention", "add_norm"]
    assert _row(found[0], "chunked").verdict == ""


def test_a_name_that_ends_like_the_baseline_is_not_the_baseline():
    (table,) = tables([("r", measured("quick_matmul", seconds=0.05)), ("r", measured())], BASELINES)

    assert [row.verdict for row in table.rows] == ["baseline", "faster"]


def test_a_missing_implementation_is_in_every_table_of_its_device():
    rows = [
        measured(),
        measured(workload="ladder/1k"),
        measured(device="cuda", threads=0),
        about_all(),
        about_all("flex", "error", "ImportError: no"),
    ]

    on_cuda, ladder, on_cpu = tables([("r", each) for each in rows], BASELINES)

    assert _row(ladder, "jax_nn").measurement.status == _row(on_cpu, "jax_nn").measurement.status == "missing"
    assert _row(on_cuda, "jax_nn") is None


def test_a_measured_implementation_is_not_missing():
    (table,) = tables([("r1", about_all()), ("r2", measured("jax_nn"))], BASELINES)

    assert [row.measurement.status for row in table.rows] == ["measured"]


def test_a_long_name_comes_after_a_shorter_number():
    assert sorted(["ladder/16k", "ladder/2k", "ladder/1k"], key=natural) == ["ladder/1k", "ladder/2k", "ladder/16k"]


@pytest.mark.parametrize(
    ("resident", "words"), [(METER_ERROR, "≤ 1.00 MiB"), (2 * METER_ERROR + 2.0**16, "2.00 MiB"), (None, "–")]
)
def test_a_peak_is_no_finer_than_its_meter(resident, words):
    memory = {"resident": resident, "retained": 0.0, "constant": 2.0**16}
    (table,) = tables([("r", measured(memory=memory))], BASELINES)

    assert timed.peak(table.rows[0]) == words
