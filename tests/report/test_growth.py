"""How time and memory grow with the length."""

import io

import pandas
import pytest
from builders import BASELINES, measured
from msgspec.structs import replace
from pages import TIMED, cells, column, ladder, page, recorded

from attnsuite.model import Facts
from attnsuite.report.benchmark.growth import growth_table, growths, power
from attnsuite.report.benchmark.timed_tables import tables
from attnsuite.report.benchmark.views import material, workloads
from attnsuite.report.render import csv


def test_planted_powers_are_found_again():
    rows = [
        *ladder("matmul", lambda s: 1e-9 * s**2, lambda s: 4 * s**2),
        *ladder("chunked", lambda s: 1e-8 * s**1.5, lambda s: 1000 * s if s >= 8192 else 5000 * 1024),
    ]

    text = page(*rows)
    of = material(recorded(*rows))
    table = pandas.read_csv(io.StringIO(csv.render(growth_table(growths(of.tables)))))
    table = table.set_index("implementation")

    assert cells(text, "`matmul`", "## Growth")[1:] == ["5", "1,024", "32,768", "s^2.00", "s^2.00", "s^2.00", "s^2.00"]
    chunked = cells(text, "`chunked`", "## Growth")
    assert chunked[4:6] == ["s^1.50", "s^1.50"]
    assert chunked[7] == "s^1.00"
    assert table.loc["attention/chunked", "memory_of_long"] == pytest.approx(1)
    assert table.loc["attention/chunked", "memory"] < 0.7


def test_powers_are_fitted_apart_for_each_setting():
    rows = [
        *ladder("matmul", lambda s: s**2, lambda s: s),
        *ladder("matmul", lambda s: s**3, lambda s: s, threads=2),
        *ladder("matmul", lambda s: s, lambda s: s, dtype="bfloat16", lengths=(1, 2)),
        *ladder("matmul", lambda s: s, lambda s: s, direction="backward", lengths=(1,)),
    ]
    of = recorded(*rows)

    found = growths(material(of).tables)

    assert [(each.setting.threads, each.setting.dtype, round(each.time)) for each in found] == [
        (1, "float32", 2),
        (2, "float32", 3),
        (1, "bfloat16", 1),
    ]
    assert found[2].long_time is None


def test_rows_of_two_runs_are_no_growth():
    rows = ladder("matmul", lambda s: s**2, lambda s: s, lengths=(8, 16, 32))
    later = ladder("matmul", lambda s: 9 * s**2, lambda s: 9 * s, lengths=(1, 2))
    most = [("20261122", each) for each in rows] + [("20261123", each) for each in later]
    named = workloads(recorded(*rows, *later))

    (found,) = growths(tables(most, BASELINES, named))
    assert (found.lengths, round(found.time, 6)) == ((8192, 16384, 32768), 2)

    (found,) = growths(tables([each for each in most if each[1].workload != "ladder/32k"], BASELINES, named))
    assert found.lengths == (1024, 2048), "of two that have as many, the newest"


def test_memory_that_the_meter_cannot_tell_from_nothing_has_no_power():
    text = page(*ladder("matmul", lambda s: s, lambda s: 0))

    assert cells(text, "`matmul`", "## Growth")[4:] == ["s^1.00", "s^1.00", "–", "–"]
    assert cells(text, "`matmul`", "| peak memory")[1] == "none seen"
    assert "none seen" not in page(measured(memory={"resident": float("inf")})).split("## vit")[1]
    assert column(text, "`matmul`", "peak memory", "<details>") == "none seen"


def test_lengths_that_no_run_notes_are_not_guessed():
    text = page(*ladder("matmul", lambda s: s, lambda s: s), runs=(replace(TIMED, facts=Facts(BASELINES)),))

    assert "## Growth" not in text
    assert cells(text, "`matmul`", "## ladder")[0] == "`matmul`"


def test_a_power_is_never_minus_zero():
    assert [power(of) for of in (-0.001, None, 1.985, -0.5)] == ["s^0.00", "–", "s^1.99", "s^−0.50"]
