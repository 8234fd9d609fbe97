"""Which rows were measured together, and who is faster there."""

import pytest
from builders import BASELINES, measured, without_time
from msgspec.structs import replace
from pages import LATER, TIMED, about_all, cells, page

from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.timed_tables import ANOTHER_RUN, natural, tables


@pytest.mark.parametrize(
    ("seconds", "verdict", "words"),
    [(0.05, "faster", "2.00× faster"), (0.4, "slower", "4.00× slower"), (0.101, "same", "same")],
)
def test_a_verdict_is_told_in_words(seconds, verdict, words):
    (table,) = tables([("r", measured()), ("r", measured("chunked", seconds=seconds))], BASELINES)

    row = table.row("chunked")

    assert row.verdict == verdict
    assert wording.verdict(row) == words
    assert (table.row("matmul").verdict, wording.verdict(table.row("matmul"))) == ("baseline", "")


def test_a_row_says_that_its_processes_differ():
    processes = "01" * 10
    torn = [0.1 if process == "0" else 0.09 for process in processes]
    rows = [measured(seconds=[0.1] * 20, processes=processes), measured("chunked", seconds=torn, processes=processes)]

    (table,) = tables([("r", each) for each in rows], BASELINES)
    (alone,) = tables([("r", replace(each, processes="")) for each in rows], BASELINES)

    assert wording.verdict(table.row("chunked")) == "unclear"
    assert wording.reasoned(table.row("chunked")) == "unclear: its processes differ"
    assert wording.reasoned(alone.row("chunked")) == wording.verdict(alone.row("chunked")) == "unclear"
    assert "unclear: its processes differ" in page(*(("r1", each) for each in rows))


def test_all_comparisons_of_a_table_are_corrected_together():
    eight = [0.1 + 1e-4 * number for number in range(8)]
    base, other = measured(seconds=eight), measured("a", seconds=[each / 2 for each in eight])
    many = [measured(f"n{number}", seconds=eight) for number in range(30)]

    (alone,) = tables([("r", base), ("r", other)], BASELINES)
    (together,) = tables([("r", each) for each in (base, other, *many)], BASELINES)

    assert alone.row("a").verdict == "faster"
    assert together.row("a").verdict == "unclear"  # eight rounds are too few for thirty-one claims


def test_rows_of_other_tables_are_no_part_of_the_correction():
    eight = [0.1 + 1e-4 * number for number in range(8)]
    others = [
        measured("chunked", seconds=[each / 2 for each in eight], **setting)
        for setting in ({}, {"threads": 2}, {"dtype": "bfloat16"}, {"direction": "backward"}, {"cache": "cold"})
    ]

    found = tables([("r", measured(seconds=eight)), *(("r", each) for each in others)], BASELINES)

    assert len(found) == 5
    assert [table.row("chunked").verdict for table in found].count("faster") == 1
    assert [table.row("chunked").verdict for table in found].count("") == 4


def test_a_row_of_another_run_is_not_compared():
    rows = [("r2", measured()), ("r1", measured("chunked", seconds=0.05)), ("r2", measured("flex", seconds=0.05))]

    (table,) = tables(rows, BASELINES)
    text = page(*rows, runs=(TIMED, LATER))

    assert (table.row("chunked").verdict, table.row("chunked").against) == (ANOTHER_RUN, None)
    assert table.row("flex").verdict == "faster"
    assert cells(text, "`chunked`", "### float32")[1] == "50.0 ms, another run"
    assert cells(text, "`matmul`", "### float32")[1] == "100 ms", "none is the fastest of all"
    row = "| 2026-01-02T03:04:05+00:00 | 2.13.0 | abc123 | 1 | `attention/chunked` |"
    assert row in text.split("## Rows of an earlier run")[1]


def test_without_a_baseline_there_are_times_and_no_verdicts():
    failed = without_time("matmul", "out_of_memory", "17 GB")

    text = page(failed, measured("chunked", seconds=0.05))

    assert cells(text, "`chunked`", "### float32")[1] == "50.0 ms"
    assert cells(text, "`matmul`", "### float32")[1] == "out of memory"


def test_the_baseline_of_another_contract_is_none():
    other = replace(measured(), contract="add_norm", implementation="add_norm/matmul")

    found = tables([("r", other), ("r", measured("chunked"))], BASELINES)

    assert [table.setting.contract for table in found] == ["add_norm", "attention"]
    assert found[1].row("chunked").verdict == ""


def test_a_name_that_only_ends_like_the_baseline_is_none():
    (table,) = tables([("r", measured("quick_matmul", seconds=0.05)), ("r", measured())], BASELINES)

    assert [row.verdict for row in table.rows] == ["baseline", "faster"]


def test_what_is_missing_stands_in_every_table_of_its_device():
    rows = [
        measured(),
        measured(workload="ladder/1k"),
        measured(device="cuda", threads=0),
        about_all(),
        about_all("flex", "raised", "ImportError: no"),
    ]

    on_cpu, ladder, on_cuda = tables([("r", each) for each in rows], BASELINES)
    text = page(*rows)

    assert ladder.row("jax_nn").of.status == on_cpu.row("jax_nn").of.status == "missing"
    assert on_cuda.row("jax_nn") is None
    assert "Declined or missing in all of these: `jax_nn`." in text.split("## vit")[1]
    said = text.split("## Not timed at all")[1].split("##")[0]
    assert "| missing | `attention/jax_nn` | every workload on cpu | No module named 'jax' |" in said
    assert "| raised | `attention/flex` | every workload on cpu | ImportError: no |" in said


def test_what_was_measured_after_all_is_not_called_missing():
    (table,) = tables([("r1", about_all()), ("r2", measured("jax_nn"))], BASELINES)

    assert [row.of.status for row in table.rows] == ["measured"]


def test_a_long_name_comes_after_a_shorter_number():
    assert sorted(["ladder/16k", "ladder/2k", "ladder/1k"], key=natural) == ["ladder/1k", "ladder/2k", "ladder/16k"]
