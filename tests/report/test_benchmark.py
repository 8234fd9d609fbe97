"""The benchmark's tables: right numbers and verdicts, every status in words, harmless text, readable pages."""

import csv
import io
import random
import re
import subprocess
import sys
from dataclasses import replace

import pandas
import pytest
from markdown_it import MarkdownIt

from suite.commands import reporting
from suite.records import EVERY_CASE, Machine, Measurement, Outcome, Run, UsageError
from suite.report import benchmark_lines, write_benchmark, write_index
from suite.report.benchmark import absences, units, wording
from suite.report.benchmark import page as page_of
from suite.report.benchmark.growth import growths, power
from suite.report.benchmark.speed import ANOTHER_RUN, natural, tables
from suite.report.benchmark.views import shapes, views
from suite.store import Recorded, Results

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux 6.1")
NASTY = [
    "a|b",
    "line\nbreak\r\n\ttab",
    "`code` ``more``",
    "<script>alert(1)</script></summary></details>",
    "<!-- hidden -->",
    "[link](javascript:alert(1)) ![image](http://x/y.png)",
    "**bold** _em_ __init__ ~~gone~~",
    "&lt; &amp; # heading",
    "\x1b[31mred\x1b[0m \x07 \u202egnirts\u202c \x00",
    "lone \udc80 surrogate",
    "=1+1",
    "",
]
FACTS = {
    "vit/b16": {"group": "vit", "shape": "12 heads, length 197", "why": "a layer of ViT-B/16", "length": 197},
    "vit/b16-batch8": {"group": "vit", "shape": "batch 8, length 197", "why": "the same, 8 images", "length": 197},
    **{
        f"ladder/{k}k": {
            "group": "ladder",
            "shape": f"length {k * 1024}",
            "why": "one head: growth",
            "length": k * 1024,
        }
        for k in (1, 2, 8, 16, 32)
    },
}
RUN = Run(
    *("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"python": "3.12.1", "torch": "2.13.0"}, "abc123", {}, "s"),
    finished="2026-01-02T04:00:00+00:00",
    notes={
        "facts": {"workloads": {"attention": FACTS}},
        "profile": "quick",
        "seconds": {"rounds": 30.0, "starts": 6, "memory": 24.0},
    },
)
LATER = replace(RUN, id="r2", started="2026-02-02T00:00:00+00:00", finished="2026-02-02T01:00:00+00:00")
ROUNDS = 24
WORK = {"attended": 4e9, "convention": 8e9, "bytes": 1e6}
CEILINGS = {"flops": 8e10, "bytes": 1e10}


def samples(seconds, count=ROUNDS):
    """Samples with a spread of 1 %, the same for all, so that ratios within rounds are exact."""
    return tuple(seconds * (1 + 0.01 * ((7 * number) % 5 - 2) / 2) for number in range(count))


def measured(name="matmul", workload="vit/b16", seconds=0.1, **others):
    """A row with times."""
    fields = {
        "dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "direction": "forward",
        "cache": "hot",
        "status": "measured",
        "seconds": samples(seconds) if isinstance(seconds, float) else tuple(seconds),
        "calls": 3,
        "first_call": 0.5,
        "warm_up": 0.25,
        "memory": {"output": 2.0**19, "resident": 3.0 * 2**20, "retained": 2.0**20, "constant": 2.0**16},
        "work": WORK,
        "ceilings": CEILINGS,
        "error_ratio": 0.125,
        "kernel": "aten::bmm 90%",
        **others,
    }
    return Measurement(f"attention/{name}", "attention", workload, **fields)


def without_time(name, status, detail="", workload="vit/b16", **others):
    """A row that says why there is no time."""
    bare = {"seconds": (), "calls": 0, "memory": {}, "work": {}, "ceilings": {}, "error_ratio": None, "kernel": ""}
    return measured(name, workload, **{"status": status, "detail": detail, **bare, **others})


def about_all(name="jax_nn", status="missing", detail="No module named 'jax'", device="cpu"):
    every = {"dtype": "*", "threads": 0, "direction": "*", "cache": "*"}
    return without_time(name, status, detail, EVERY_CASE, device=device, **every)


def recorded(*rows, runs=(RUN,), outcomes=()):
    """What results/ would hold: rows of the first run, or pairs of a run's id and a row."""
    pairs = [row if isinstance(row, tuple) else (runs[0].id, row) for row in rows]
    ordered = tuple(sorted(pairs, key=lambda pair: pair[1].key))
    return Recorded(MACHINE.name, {run.id: run for run in runs}, tuple(outcomes), ordered)


def page(tmp_path, *rows, **others):
    write_benchmark(tmp_path, recorded(*rows, **others))
    return (tmp_path / "benchmark.md").read_text()


def cells(text, start, after=""):
    """The cells of the first table row that starts with `start`, below the line that starts with `after`."""
    below = text[text.index(f"\n{after}") :]
    row = next(line for line in below.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def column(text, start, head, after=""):
    """The cell of a row under a heading of its table."""
    lines = text[text.index(f"\n{after}") :].splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(f"| {start} |"))
    header = next(lines[number - 1] for number in range(place, 0, -1) if lines[number].startswith("|---"))
    names = [cell.strip() for cell in header.strip("|").split("|")]
    return cells("\n" + "\n".join(lines), start)[names.index(head)]


# Verdicts


@pytest.mark.parametrize(
    ("seconds", "verdict", "words"),
    [(0.05, "faster", "2.00× faster"), (0.4, "slower", "4.00× slower"), (0.101, "same", "same")],
)
def test_a_verdict_is_told_in_words(seconds, verdict, words):
    (table,) = tables([("r", measured()), ("r", measured("chunked", seconds=seconds))])

    row = table.row("chunked")

    assert row.verdict == verdict
    assert wording.verdict(row) == words
    assert (table.row("matmul").verdict, wording.verdict(table.row("matmul"))) == ("baseline", "")


def test_all_comparisons_of_a_table_are_corrected_together():
    eight = [0.1 + 1e-4 * number for number in range(8)]
    base, other = measured(seconds=eight), measured("a", seconds=[each / 2 for each in eight])
    many = [measured(f"n{number}", seconds=eight) for number in range(30)]

    (alone,) = tables([("r", base), ("r", other)])
    (together,) = tables([("r", each) for each in (base, other, *many)])

    assert alone.row("a").verdict == "faster"
    assert together.row("a").verdict == "unclear"  # eight rounds are too few for thirty-one claims


def test_rows_of_other_tables_are_no_part_of_the_correction():
    eight = [0.1 + 1e-4 * number for number in range(8)]
    others = [
        measured("chunked", seconds=[each / 2 for each in eight], **setting)
        for setting in ({}, {"threads": 2}, {"dtype": "bfloat16"}, {"direction": "backward"}, {"cache": "cold"})
    ]

    found = tables([("r", measured(seconds=eight)), *(("r", each) for each in others)])

    assert len(found) == 5
    assert [table.row("chunked").verdict for table in found].count("faster") == 1
    assert [table.row("chunked").verdict for table in found].count("") == 4


def test_a_row_of_another_run_is_not_compared(tmp_path):
    rows = [("r2", measured()), ("r1", measured("chunked", seconds=0.05)), ("r2", measured("flex", seconds=0.05))]

    (table,) = tables(rows)
    text = page(tmp_path, *rows, runs=(RUN, LATER))

    assert (table.row("chunked").verdict, table.row("chunked").against) == (ANOTHER_RUN, None)
    assert table.row("flex").verdict == "faster"
    assert cells(text, "`chunked`", "### float32")[1] == "50.0 ms, another run"
    assert cells(text, "`matmul`", "### float32")[1] == "100 ms", "none is the fastest of all"
    row = "| 2026-01-02T03:04:05+00:00 | 2.13.0 | abc123 | 1 | `attention/chunked` |"
    assert row in text.split("## Rows of an earlier run")[1]


def test_without_a_baseline_there_are_times_and_no_verdicts(tmp_path):
    failed = without_time("matmul", "out_of_memory", "17 GB")

    text = page(tmp_path, failed, measured("chunked", seconds=0.05))

    assert cells(text, "`chunked`", "### float32")[1] == "50.0 ms"
    assert cells(text, "`matmul`", "### float32")[1] == "out of memory"


def test_the_baseline_of_another_contract_is_none():
    other = replace(measured(), contract="add_norm", implementation="add_norm/matmul")

    found = tables([("r", other), ("r", measured("chunked"))])

    assert [table.setting.contract for table in found] == ["add_norm", "attention"]
    assert found[1].row("chunked").verdict == ""


def test_a_name_that_only_ends_like_the_baseline_is_none():
    (table,) = tables([("r", measured("quick_matmul", seconds=0.05)), ("r", measured())])

    assert [row.verdict for row in table.rows] == ["baseline", "faster"]


def test_what_is_missing_stands_in_every_table_of_its_device(tmp_path):
    rows = [
        measured(),
        measured(workload="ladder/1k"),
        measured(device="cuda", threads=0),
        about_all(),
        about_all("flex", "raised", "ImportError: no"),
    ]

    on_cpu, ladder, on_cuda = tables([("r", each) for each in rows])
    text = page(tmp_path, *rows)

    assert ladder.row("jax_nn").of.status == on_cpu.row("jax_nn").of.status == "missing"
    assert on_cuda.row("jax_nn") is None
    assert cells(text, "`jax_nn`", "## vit")[1] == "missing"
    said = text.split("## Not timed at all")[1].split("##")[0]
    assert "| missing | `attention/jax_nn` | every workload on cpu | No module named 'jax' |" in said
    assert "| raised | `attention/flex` | every workload on cpu | ImportError: no |" in said


def test_what_was_measured_after_all_is_not_called_missing():
    (table,) = tables([("r1", about_all()), ("r2", measured("jax_nn"))])

    assert [row.of.status for row in table.rows] == ["measured"]


# Numbers


def test_the_roofline_is_the_nearer_ceiling():
    (table,) = tables([("r", measured(seconds=[0.1] * 12))])
    (bound_by_memory,) = tables([("r", measured(seconds=[0.1] * 12, work={**WORK, "bytes": 8e8}))])
    (unknown,) = tables([("r", measured(ceilings={"flops": 8e10}))])

    assert table.rows[0].roofline == pytest.approx(4e9 / 8e10 / 0.1)
    assert bound_by_memory.rows[0].roofline == pytest.approx(8e8 / 1e10 / 0.1)
    assert unknown.rows[0].roofline is None


def test_the_long_table_has_every_number_of_a_row(tmp_path):
    telemetry = {"joules": 0.0125, "power": {"median": 300.0}}
    chunked = measured("chunked", seconds=0.05, telemetry=telemetry, stopped="narrow")

    text = page(tmp_path, measured(), chunked)

    for head, cell in {
        "time": "50.0 ms",
        "99 % interval": "49.8–50.2 ms",
        "speed-up": "2.00× faster (2.00–2.00)",
        "rounds": "24",
        "first call": "500 ms",
        "GFLOP/s": "80.0",
        "GFLOP/s as FlashAttention counts": "160",
        "of roofline": "100 %",
        "peak memory": "4.00 MiB",
        "its output": "512 KiB",
        "retained": "1.00 MiB",
        "energy": "12.5 mJ",
        "error in bounds": "0.12",
        "what ran": "aten::bmm 90%",
    }.items():
        assert column(text, "`chunked`", head, "<details>") == cell, head
    assert column(text, "`matmul`", "energy", "<details>") == "–"
    assert "by NVML" not in text


def test_a_slower_one_has_its_speed_up_below_one(tmp_path):
    text = page(tmp_path, measured(), measured("loops", seconds=0.4))

    assert column(text, "`loops`", "speed-up", "<details>") == "0.250×, slower (0.250–0.250)"


def test_too_few_rounds_for_an_interval_are_said(tmp_path):
    text = page(tmp_path, measured(seconds=[0.1] * 3), measured("chunked", seconds=[0.05] * 3))

    assert column(text, "`chunked`", "99 % interval", "<details>") == "too few rounds"
    assert column(text, "`chunked`", "speed-up", "<details>") == "2.00×, unclear (too few rounds)"
    assert "inf" not in text


def test_columns_without_numbers_and_a_second_count_that_is_equal_are_left_out(tmp_path):
    bare = measured(work={**WORK, "convention": WORK["attended"]}, memory={}, error_ratio=None, kernel="")

    text = page(tmp_path, bare)

    header = next(line for line in text.splitlines() if line.startswith("| implementation | time"))
    assert header == (
        "| implementation | time | 99 % interval | speed-up | rounds | first call | GFLOP/s | of roofline |"
    )
    assert "peak memory |" not in text


def test_times_of_a_workload_share_one_unit(tmp_path):
    rows = [measured(seconds=0.02), measured("a", seconds=0.0004), measured("loops", seconds=2.5)]

    text = page(tmp_path, *rows)

    said = [cells(text, f"`{name}`", "### float32")[1] for name in ("matmul", "a", "loops")]
    assert said == ["20.0 ms", "**0.400 ms**, 50.0× faster", "2,500 ms, 125× slower"]


def test_threads_and_cache_are_words(tmp_path):
    rows = [measured(), measured(threads=2), measured(device="cuda", threads=0, cache="cold"), measured(threads=7)]

    text = page(tmp_path, *rows)

    headings = re.findall(r"^### (.*)", text.split("## vit")[1], re.MULTILINE)
    assert headings == [
        "float32 on cpu, one thread, forward, hot cache",
        "float32 on cpu, both cores, forward, hot cache",
        "float32 on cpu, 7 threads, forward, hot cache",
        "float32 on cuda, forward, cold cache",
    ]
    assert wording.threads(8, replace(MACHINE, cores=8, threads=16)) == "all 8 cores"
    assert wording.threads(16, replace(MACHINE, cores=8, threads=16)) == "all 16 threads"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123456, "0.0123"), (1.2949, "1.29"), (9.996, "10.0"), (45, "45.0"), (1234, "1,230"), (0, "0"), (-2, "−2.00")],
)
def test_a_number_has_three_digits_and_no_exponent(value, text):
    assert units.significant(value) == text


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [(0, "0 B"), (48, "48 B"), (2**16, "64.0 KiB"), (3 * 2**29, "1.50 GiB"), (None, "–"), (float("inf"), "–")],
)
def test_bytes_have_the_unit_that_suits(bytes_, text):
    assert units.size(bytes_) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.50 s"), (59, "59 s"), (112.4, "1 min 52 s"), (7260, "2 h 1 min")]
)
def test_a_wait_is_told_in_minutes(seconds, text):
    assert units.duration(seconds) == text


def test_a_long_name_comes_after_a_shorter_number():
    assert sorted(["ladder/16k", "ladder/2k", "ladder/1k"], key=natural) == ["ladder/1k", "ladder/2k", "ladder/16k"]


# Statuses


@pytest.mark.parametrize("status", ["out_of_memory", "raised", "died", "hung", "refused", "declined", "missing"])
def test_every_status_is_told_where_there_is_no_number(status, tmp_path):
    text = page(tmp_path, measured(), without_time("chunked", status, "because of that"))

    word = status.replace("_", " ")
    assert cells(text, "`chunked`", "### float32")[1] == word
    assert f"| {word} | `attention/chunked` | `vit/b16` | because of that |" in text
    assert "`chunked`" not in text.split("<details>")[1].split("</details>")[0]


def test_a_refusal_that_a_finding_knows_says_so(tmp_path):
    text = page(tmp_path, measured(), without_time("flex", "refused", "it fails gqa/rows", known="pt-1"))

    assert cells(text, "`flex`", "### float32")[1] == "refused (known)"
    assert "| refused (known) | `attention/flex` | `vit/b16` | known as pt-1: it fails gqa/rows |" in text


def test_fifty_reasons_that_say_the_same_are_one_line(tmp_path):
    workloads = [f"ladder/{k}k" for k in (1, 2, 8, 16, 32)]
    rows = [
        without_time(f"n{number}", "out_of_memory", f"needs {number + place} GB", workload)
        for number in range(10)
        for place, workload in enumerate(workloads)
    ]

    text = page(tmp_path, *rows, without_time("n1", "hung", "needs 3 GB", "ladder/1k", dtype="bfloat16"))

    section = text.split("### Why there is no time")[1].split("##")[0]
    assert section.count("out of memory") == 1
    named = "`attention/n0`, `attention/n1`, `attention/n2` and 7 more implementations"
    where = "`ladder/1k`, `ladder/2k`, `ladder/8k` and 2 more workloads"
    assert f"| out of memory | {named} | {where} | needs 0 GB |" in section
    assert "| hung | `attention/n1` | `ladder/1k` | needs 3 GB |" in section


def test_a_submission_whose_reasons_all_differ_cannot_fill_the_page():
    def word(number):
        return "".join(chr(97 + int(digit)) for digit in str(number))

    rows = [without_time(f"n{number}", "raised", f"Error: {word(number)}") for number in range(200)]

    found = absences.absences(rows)

    assert len(found) == absences.MOST + 1
    assert found[-1].others == 200 - absences.MOST
    assert sum(len(each.rows) for each in found) == 200
    assert found[-1].reason.startswith("170 other reasons, such as Error: ")


def test_a_note_beside_a_time_is_shown(tmp_path):
    text = page(tmp_path, measured(), measured("mine", detail="no memory: died: SIGKILL", memory={}))

    assert "| no memory: died: SIGKILL | `attention/mine` | `vit/b16` |" in text
    assert cells(text, "`mine`", "| peak memory")[1] == "–"


def test_nothing_but_reasons_is_a_page_all_the_same(tmp_path):
    text = page(tmp_path, without_time("matmul", "declined", "no"), about_all())

    assert "No implementation has a time yet." in text
    assert cells(text, "`matmul`", "### float32")[1] == "declined"


# Growth


def ladder(name, seconds_of, bytes_of, lengths=(1, 2, 8, 16, 32), **others):
    rows = []
    for k in lengths:
        memory = {"output": 0.0, "resident": float(bytes_of(k * 1024) + 2**16), "retained": 0.0, "constant": 2.0**16}
        rows.append(measured(name, f"ladder/{k}k", float(seconds_of(k * 1024)), memory=memory, **others))
    return rows


def test_planted_powers_are_found_again(tmp_path):
    rows = [
        *ladder("matmul", lambda s: 1e-9 * s**2, lambda s: 4 * s**2),
        *ladder("chunked", lambda s: 1e-8 * s**1.5, lambda s: 1000 * s if s >= 8192 else 5000 * 1024),
    ]

    text = page(tmp_path, *rows)
    table = pandas.read_csv(tmp_path / "benchmark_growth.csv").set_index("implementation")

    assert cells(text, "`matmul`", "## Growth")[1:] == ["5, 1,024 to 32,768", "s^2.00", "s^2.00", "s^2.00", "s^2.00"]
    chunked = cells(text, "`chunked`", "## Growth")
    assert chunked[2:4] == ["s^1.50", "s^1.50"]
    assert chunked[5] == "s^1.00"
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

    found = growths(tables(of.measured), shapes(of))

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
    named = shapes(recorded(*rows, *later))

    (found,) = growths(tables(most), named)
    assert (found.lengths, round(found.time, 6)) == ((8192, 16384, 32768), 2)

    (found,) = growths(tables([each for each in most if each[1].workload != "ladder/32k"]), named)
    assert found.lengths == (1024, 2048), "of two that have as many, the newest"


def test_memory_that_the_meter_cannot_tell_from_nothing_has_no_power(tmp_path):
    text = page(tmp_path, *ladder("matmul", lambda s: s, lambda s: 0))

    assert cells(text, "`matmul`", "## Growth")[2:] == ["s^1.00", "s^1.00", "–", "–"]
    assert cells(text, "`matmul`", "| peak memory")[1] == "none seen"
    assert "none seen" not in page(tmp_path, measured(memory={"resident": float("inf")})).split("## vit")[1]
    assert column(text, "`matmul`", "peak memory", "<details>") == "none seen"


def test_lengths_that_no_run_notes_are_not_guessed(tmp_path):
    text = page(tmp_path, *ladder("matmul", lambda s: s, lambda s: s), runs=(replace(RUN, notes={}),))

    assert "## Growth" not in text
    assert cells(text, "`matmul`", "## ladder")[0] == "`matmul`"


def test_a_power_is_never_minus_zero():
    assert [power(of) for of in (-0.001, None, 1.985, -0.5)] == ["s^0.00", "–", "s^1.99", "s^−0.50"]


# The page


def test_groups_stand_in_the_order_of_the_workloads_with_their_shapes(tmp_path):
    rows = [measured(workload=name) for name in ("ladder/16k", "ladder/2k", "vit/b16", "vit/b16-batch8", "mine/x")]

    text = page(tmp_path, *rows)

    assert re.findall(r"^## (vit|ladder|mine)$", text, re.MULTILINE) == ["vit", "ladder", "mine"]
    assert "| `b16` | 12 heads, length 197 | a layer of ViT-B/16 |" in text
    assert "One head: growth.\n\n| workload | shape |\n|---|---|\n| `2k` | length 2048 |" in text
    assert "| time | 2k | 16k |" in text


def test_many_workloads_stand_in_tables_that_fit_on_a_page(tmp_path):
    names = [f"{length}-e{width}" for width in (64, 128) for length in (512, "1k", "2k", "4k", "8k")]
    facts = {f"flash/{name}": {"group": "flash", "shape": "x", "why": "y", "length": 9} for name in names}
    run = replace(RUN, notes={"facts": {"workloads": {"attention": facts}}})

    text = page(tmp_path, *(measured(workload=f"flash/{name}") for name in names), runs=(run,))

    heads = re.findall(r"^\| time \|.*", text.split("## flash")[1], re.MULTILINE)
    assert heads == [f"| time | 512-e{e} | 1k-e{e} | 2k-e{e} | 4k-e{e} | 8k-e{e} |" for e in (64, 128)]


def test_in_short_shows_the_most_work_at_which_most_were_measured(tmp_path):
    work = {f"ladder/{k}k": {**WORK, "attended": float(k)} for k in (1, 2, 8, 16)}
    rows = [measured(name, at, work=of) for at, of in work.items() for name in ("matmul", "a", "b")]
    few = [each for each in rows if each.workload != "ladder/16k" or each.implementation == "attention/matmul"]

    text = page(tmp_path, *few, measured(), measured(workload="vit/b16-batch8", work={**WORK, "attended": 9e9}))

    assert "| time | vit/b16-batch8 | ladder/8k |" in text.split("## In short")[1].split("##")[0]


def test_in_short_is_forward_on_one_thread_wherever_that_was_measured():
    rows = [
        *(measured(f"n{number}", threads=2) for number in range(9)),
        *(measured(f"n{number}", direction="backward") for number in range(9)),
        measured(),
        measured(dtype="bfloat16"),
        measured("chunked", dtype="bfloat16"),
    ]
    of = recorded(*rows)

    (view,) = views(tables(of.measured), shapes(of))

    assert (view.setting.threads, view.setting.direction, view.setting.dtype) == (1, "forward", "bfloat16")


def test_every_device_has_its_own_view_accelerators_first():
    of = recorded(measured(), measured("a"), measured(device="cuda", threads=0, cache="cold"))

    assert [view.setting.device for view in views(tables(of.measured), shapes(of))] == ["cuda", "cpu"]


def test_the_time_the_run_took_is_told_with_its_share_of_rounds(tmp_path):
    text = page(tmp_path, measured())

    section = text.split("## What it took")[1].split("##")[0]
    assert (
        "The run that measured most of this, of the profile quick, took 1 min 0 s, 50 % of it in timed rounds."
        in section
    )
    assert section.index("| rounds | 30 s | 50 % |") < section.index("| memory | 24 s | 40 % |")


@pytest.mark.parametrize(
    "notes",
    [
        {},
        {"facts": 3, "seconds": [1], "profile": 7},
        {"facts": {"workloads": ["a"]}, "seconds": {"rounds": "long"}},
        {"facts": {"workloads": {"vit/b16": 5}}, "seconds": {"rounds": -1.0, "total": 0}},
        {
            "facts": {
                "workloads": {f"ladder/{k}k": {"length": length} for k, length in ((1, "long"), (2, -2), (8, 8.5))}
            }
        },
        {"facts": {"workloads": {"vit/b16": {"length": "long", "group": 7, "shape": None, "why": ["x"]}}}},
        {"facts": {"workloads": {"attention": {"vit/b16": {"length": "long", "group": 7, "why": {}}, "vit": 5}}}},
        {"facts": {"workloads": {"attention": {"ladder/1k": ["x"], "ladder/2k": {}}, "": {"": {"": {}}}}}},
        {"facts": {"workloads": {"attention": "all", "transformer": {}, "vit/b16": {"group": {"a": {}}}}}},
    ],
)
def test_notes_of_another_form_say_nothing(notes, tmp_path):
    rows = [measured(), *(measured(workload=f"ladder/{k}k") for k in (1, 2, 8))]

    text = page(tmp_path, *rows, runs=(replace(RUN, notes=notes),))

    assert "100 ms" in text
    assert "## Growth" not in text
    assert "What it took" not in text


def test_ceilings_are_told_once_for_each_dtype_and_thread_count(tmp_path):
    rows = [measured(), measured("a"), measured(direction="backward"), measured(threads=2, ceilings={"flops": 1.5e11})]
    other = replace(measured(), contract="mask", implementation="mask/matmul")

    text = page(tmp_path, *rows, other)
    table = pandas.read_csv(tmp_path / "benchmark_ceilings.csv").query("contract == 'attention'")

    assert text.split("## What the machine reaches")[1].count("| cpu |") == 2
    assert "| cpu | float32 | one thread | r1 | 80.0 GFLOP/s | 10.0 GB/s |" in text
    assert "| cpu | float32 | both cores | r1 | 150 GFLOP/s | – |" in text
    assert list(table["flops_per_second"]) == [8e10, 1.5e11]


def test_a_page_too_long_keeps_the_long_tables_of_what_it_shows_first(tmp_path, monkeypatch):
    rows = [measured(name, dtype=dtype) for name in ("matmul", "a") for dtype in ("float32", "bfloat16")]
    whole = page(tmp_path, *rows)
    monkeypatch.setattr(page_of, "LONGEST_PAGE", len(whole.encode()) - 1)
    some = page(tmp_path, *rows)
    monkeypatch.setattr(page_of, "LONGEST_PAGE", 1)
    none = page(tmp_path, *rows)

    assert [text.count("<details>") for text in (whole, some, none)] == [2, 1, 0]
    assert "<details><summary>Every number: float32 on cpu" in some
    assert [page_of.LEFT_OUT in text for text in (whole, some, none)] == [False, True, True]


def test_the_same_rows_in_another_order_give_the_same_files(tmp_path):
    rows = [
        measured(name, workload, seconds, dtype=dtype)
        for name, seconds in (("matmul", 0.1), ("chunked", 0.05), ("loops", 1.0))
        for workload in ("vit/b16", "ladder/1k", "ladder/2k")
        for dtype in ("float32", "bfloat16")
    ]
    rows += [about_all(), without_time("flex", "died", "SIGSEGV")]
    of = recorded(*rows)
    mixed = replace(of, measured=tuple(random.Random(0).sample(of.measured, len(of.measured))))
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    one, two = write_benchmark(tmp_path / "one", of), write_benchmark(tmp_path / "two", mixed)

    assert tables(of.measured) == tables(mixed.measured)
    assert one[0].read_bytes() == two[0].read_bytes()
    assert sorted(one[1].read_text().splitlines()) == sorted(two[1].read_text().splitlines())


def test_where_nothing_was_measured_no_page_of_before_stays(tmp_path):
    page(tmp_path, measured())
    (tmp_path / "notes.md").write_text("mine")

    written = write_benchmark(tmp_path, recorded(runs=(RUN,)))

    assert written == []
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]


def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        write_benchmark(tmp_path / "file", recorded(measured()))


# CSV


def test_the_csv_has_a_line_for_each_measurement_with_its_numbers(tmp_path):
    rows = [
        measured(),
        measured("chunked", seconds=0.05, telemetry={"joules": 2.5, "power": {"median": 3.0}, "throttle": ["a", "b"]}),
        without_time("flex", "refused", "wrong", known="pt-1"),
        about_all(),
        measured(workload="ladder/1k"),
    ]

    page(tmp_path, *rows)
    table = pandas.read_csv(tmp_path / "benchmark.csv")

    assert len(table) == len(rows)  # the missing one stands in two tables and has one line
    chunked = table[table["implementation"] == "attention/chunked"].iloc[0]
    assert (chunked["run"], chunked["group"], chunked["length"], chunked["verdict"]) == ("r1", "vit", 197, "faster")
    expected = {"median": 0.05, "speedup": 2, "pairs": ROUNDS, "peak": 2**22, "memory_output": 2**19, "joules": 2.5}
    expected |= {"flops_per_second": 8e10, "flops_per_second_by_convention": 1.6e11, "of_roofline": 1.0}
    expected |= {"telemetry_power_median": 3.0, "work_bytes": 1e6, "ceiling_flops": 8e10, "error_ratio": 0.125}
    for name, value in expected.items():
        assert chunked[name] == pytest.approx(value), name
    assert chunked["telemetry_throttle"] == "a b"
    flex = table[table["implementation"] == "attention/flex"].iloc[0]
    assert (flex["status"], flex["detail"], flex["known"]) == ("refused", "wrong", "pt-1")
    assert pandas.isna(flex["median"])


# Escaping


def hostile():
    rows = [measured()]
    for place, text in enumerate(NASTY):
        name, other = f"{text}{place}", f"{text}/x{place}"
        rows += [
            measured(name, kernel=text, detail=text, seconds=0.05),
            measured(name, other, dtype=text, device=text, direction=text, cache=text),
            without_time(name, "refused", text, other, known=text[:9]),
            about_all(f"{text}-all{place}", detail=text, device=text),
        ]
    facts = {f"{text}/x{place}": {"group": text, "shape": text, "why": text} for place, text in enumerate(NASTY)}
    machine = replace(MACHINE, name=NASTY[3], processor=NASTY[3], system=NASTY[5])
    run = replace(
        *(RUN,),
        machine=machine,
        versions={"torch": NASTY[3]},
        notes={"facts": {"workloads": {"attention": facts}}, "profile": NASTY[3], "seconds": {NASTY[3]: 2.0}},
    )
    return recorded(*rows, runs=(run,))


def test_a_page_of_hostile_text_holds_no_html_but_its_own_and_no_link(tmp_path):
    of = hostile()

    write_benchmark(tmp_path, of)
    write_index(tmp_path, {"amd": of})

    for name in ("benchmark.md", "README.md"):
        text = (tmp_path / name).read_text()
        tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
        blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
        kinds = {child.type for token in tokens for child in token.children or ()}
        for block in blocks:
            assert block == "</details>" or re.fullmatch(r"<details><summary>[^<>]*</summary>", block), block
        assert not kinds & {"html_inline", "image", "s_open", "link_open"}
        assert not any(c < " " and c != "\n" for c in text)


def test_csvs_hold_one_line_per_row_and_no_formula(tmp_path):
    of = hostile()

    write_benchmark(tmp_path, of)

    rows = list(csv.reader(io.StringIO((tmp_path / "benchmark.csv").read_text())))
    assert len(rows) == len(of.measured) + 1
    assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row)


# Terminal


def test_a_table_is_a_heading_and_a_line_each():
    rows = [
        measured(seconds=0.02),
        measured("chunked", seconds=0.005),
        measured("einsum", seconds=[0.02] * 3, memory={}),
        without_time("flex", "refused", "it fails gqa/rows", known="pt-1"),
        without_time("loops", "out_of_memory"),
    ]

    assert benchmark_lines(rows, "12 heads") == [
        "vit/b16, 12 heads, float32 on cpu, one thread, forward, hot cache",
        "  attention/matmul   20.0 ms         ±0.50 %      baseline  4.00 MiB",
        "  attention/chunked  5.00 ms         ±0.50 %  4.00× faster  4.00 MiB",
        "  attention/einsum   20.0 ms  too few rounds       unclear         –",
        "  attention/flex     refused (known): it fails gqa/rows",
        "  attention/loops    out of memory",
    ]


def test_an_interval_to_one_side_is_shown_as_it_is():
    lines = benchmark_lines([measured(seconds=[0.01] * 6 + [0.02] * 10)])

    assert lines[1].split()[:4] == ["attention/matmul", "20.0", "ms", "−50"]
    assert "  −50 % +0 %  " in lines[1]


def test_what_was_too_slow_says_so_and_is_not_called_declined():
    slow = without_time("loops", "declined", "too slow to time here: a call takes 13 s, more than 5.5 s")

    assert wording.status(slow) == "too slow"
    assert benchmark_lines([slow])[1] == f"  attention/loops  {slow.detail}"
    assert wording.status(without_time("loops", "declined", "takes no scale")) == "declined"


def test_what_speaks_of_all_workloads_is_a_line_without_a_heading():
    assert benchmark_lines([about_all()]) == ["attention/jax_nn  missing: No module named 'jax'"]
    assert benchmark_lines([]) == []


def test_two_tables_have_two_headings():
    lines = benchmark_lines([measured(), measured(workload="ladder/1k"), about_all()])

    assert [line.split(",")[0] for line in lines if not line.startswith(" ")] == [
        "attention/jax_nn  missing: No module named 'jax'",
        "ladder/1k",
        "vit/b16",
    ]


def test_terminal_lines_obey_no_control_codes():
    lines = benchmark_lines(hostile().measurements, NASTY[8])

    assert lines
    assert all(character.isprintable() for line in lines for character in line)


# Index and command


def outcome(name="matmul", status="passed", **others):
    return Outcome(f"attention/{name}", "attention", "a/b", "float32", "cpu", status, **others)


def test_index_shows_conformance_then_times_then_findings(tmp_path):
    notes = {"facts": {"findings": {"pt-1": "SDPA reads past the end"}}}
    outcomes = [("r1", outcome()), ("r1", outcome("flex", "wrong", known="pt-1"))]
    of = recorded(
        *(("r2", row) for row in (measured(), measured("chunked", seconds=0.05))),
        ("r2", without_time("flex", "refused", "it fails", known="pt-1")),
        runs=(replace(RUN, notes=notes), LATER),
        outcomes=outcomes,
    )

    text = write_index(tmp_path, {MACHINE.name: of}).read_text()

    places = [text.index(f"### {title}") for title in ("Conformance", "Benchmark", "Findings")]
    assert places == sorted(places)
    assert "Checked on 2026-01-02, measured on 2026-02-02." in text
    assert cells(text, "`chunked`", "### Benchmark")[1] == "**50.0 ms**, 2.00× faster"
    assert "4.00 MiB" in text
    assert "| `pt-1` | `attention/flex` | 2 | SDPA reads past the end |" in text


def test_index_embeds_the_charts_and_links_the_pages_that_are_there(tmp_path):
    of, folder = recorded(measured()), tmp_path / MACHINE.name
    folder.mkdir()
    for name in ("time.svg", "tradeoff.svg", "benchmark.md"):
        (folder / name).write_text("x")

    text = write_index(tmp_path, {MACHINE.name: of}).read_text()

    assert f"![time over sequence length]({MACHINE.name}/time.svg)" in text
    assert f"({MACHINE.name}/tradeoff.svg)" in text
    assert "memory.svg" not in text
    assert f"[benchmark]({MACHINE.name}/benchmark.md)" in text
    assert "conformance.md" not in text


def test_index_of_a_machine_that_was_only_checked_has_no_benchmark(tmp_path):
    text = write_index(tmp_path, {MACHINE.name: recorded(outcomes=[("r1", outcome())])}).read_text()

    assert "### Conformance" in text
    assert "### Benchmark" not in text
    assert "### Findings" not in text


def test_index_of_a_machine_that_was_only_timed_has_no_conformance(tmp_path):
    text = write_index(tmp_path, {MACHINE.name: recorded(measured())}).read_text()

    assert "### Benchmark" in text
    assert "### Conformance" not in text


def written(path, *rows, outcomes=(), of=RUN):
    """A folder of results with a run of these rows."""
    with Results(path).open_run(of) as writer:
        for row in (*outcomes, *rows):
            writer.write(row)
        writer.finish()


def test_report_writes_what_was_measured_and_says_so(tmp_path, capsys):
    written(tmp_path, measured(), measured("chunked", seconds=0.05), outcomes=[outcome()])

    reporting.report(tmp_path)

    names = [line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()]
    assert {"conformance.md", "benchmark.md", "benchmark.csv", "benchmark.json", "README.md"} <= set(names)
    assert all((tmp_path / MACHINE.name / name).exists() for name in names if name != "README.md")


def test_after_a_run_the_pages_of_its_machine_are_written_and_the_index_of_all(tmp_path):
    another = replace(RUN, id="another", machine=replace(MACHINE, name="another"))
    written(tmp_path, measured())
    written(tmp_path, measured(), of=another)

    reporting.report(tmp_path, "another")

    assert (tmp_path / "another" / "benchmark.md").exists()
    assert not (tmp_path / MACHINE.name / "benchmark.md").exists()
    index = (tmp_path / "README.md").read_text()
    assert "## another\n" in index
    assert f"## {MACHINE.name}\n" in index


def test_report_of_times_alone_makes_no_page_of_conformance(tmp_path):
    written(tmp_path, measured())

    reporting.report(tmp_path)

    assert not (tmp_path / MACHINE.name / "conformance.md").exists()
    assert (tmp_path / MACHINE.name / "benchmark.md").exists()


def reported(path, *absent):
    """What `attnsuite report` did where these modules are not installed."""
    program = f"""
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from suite.commands import reporting
reporting.report(Path({str(path)!r}))
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_report_works_without_torch(tmp_path):
    written(tmp_path, *ladder("matmul", lambda s: 1e-9 * s**2, lambda s: s), outcomes=[outcome()])

    reported(tmp_path, "torch", "jax", "onnxruntime")

    assert "s^2.00" in (tmp_path / MACHINE.name / "benchmark.md").read_text()


@pytest.mark.parametrize(("module", "package"), [("altair", "altair"), ("vl_convert", "vl-convert-python")])
def test_without_what_draws_there_are_tables_and_a_line_that_says_what_to_install(module, package, tmp_path):
    written(tmp_path, *ladder("matmul", lambda s: 1e-9 * s**2, lambda s: s), outcomes=[outcome()])

    done = reported(tmp_path, "torch", module)

    text = (tmp_path / MACHINE.name / "benchmark.md").read_text()
    assert "s^2.00" in text
    assert len(done.stderr.splitlines()) == 1
    for said in (done.stderr, text.split("## Charts")[1].split("##")[0]):
        assert "Charts left out: 3." in said
        assert package in said.partition("pip install")[2]
    assert "svg" not in text + (tmp_path / "README.md").read_text()
    assert not list((tmp_path / MACHINE.name).glob("*.svg"))
