"""The page of a benchmark: what it shows first, every status in words, and harmless text."""

import csv
import dataclasses
import io
import random
import re

import pytest
from builders import BASELINES, MACHINE, NASTY, measured, without_time
from markdown_it import MarkdownIt
from msgspec.structs import replace
from pages import TIMED, about_all, cells, page, recorded

from attnsuite.model import ContractFacts, Facts, Reason, UsageError, WorkloadFacts
from attnsuite.report import files, write_index
from attnsuite.report.benchmark import absences, wording
from attnsuite.report.benchmark import page as page_of
from attnsuite.report.benchmark.page import benchmark
from attnsuite.report.benchmark.timed_tables import tables
from attnsuite.report.benchmark.views import material
from attnsuite.report.charts.files import Charts
from attnsuite.report.machine import write_benchmark

WORK = {"attended": 4e9, "convention": 8e9, "bytes": 1e6}


# Statuses


@pytest.mark.parametrize("status", ["out_of_memory", "raised", "died", "hung", "refused", "declined", "missing"])
def test_every_status_is_told_where_there_is_no_number(status):
    text = page(measured(), without_time("chunked", status, "because of that"))

    word = status.replace("_", " ")
    if status in ("declined", "missing"):
        assert "\nDeclined or missing in all of these: `chunked`.\n" in text.split("### float32")[1]
    else:
        assert cells(text, "`chunked`", "### float32")[1] == word
    assert f"| {word} | `attention/chunked` | `vit/b16` | because of that |" in text
    assert "`chunked`" not in text.split("<details>")[1].split("</details>")[0]


def test_a_refusal_that_a_finding_knows_says_so():
    text = page(measured(), without_time("flex", "refused", "it fails gqa/rows", known="pt-1"))

    assert cells(text, "`flex`", "### float32")[1] == "refused (known)"
    assert "| refused (known) | `attention/flex` | `vit/b16` | known as pt-1: it fails gqa/rows |" in text


def test_fifty_reasons_that_say_the_same_are_one_line():
    workloads = [f"ladder/{k}k" for k in (1, 2, 8, 16, 32)]
    rows = [
        without_time(f"n{number}", "out_of_memory", f"needs {number + place} GB", workload)
        for number in range(10)
        for place, workload in enumerate(workloads)
    ]

    text = page(*rows, without_time("n1", "hung", "needs 3 GB", "ladder/1k", dtype="bfloat16"))

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

    assert len(found) == absences.MOST_LINES + 1
    assert found[-1].others == 200 - absences.MOST_LINES
    assert sum(len(each.rows) for each in found) == 200
    assert found[-1].reason.startswith("170 other reasons, such as Error: ")


def test_a_note_beside_a_time_is_shown():
    text = page(measured(), measured("mine", detail="no memory: died: SIGKILL", memory={}))

    assert "| no memory: died: SIGKILL | `attention/mine` | `vit/b16` |" in text
    assert cells(text, "`mine`", "| peak memory")[1] == "–"


def test_nothing_but_reasons_is_a_page_all_the_same():
    text = page(without_time("matmul", "declined", "no"), about_all())

    assert "No implementation has a time yet." in text
    assert "Declined or missing in all of these: `matmul`, `jax_nn`." in text
    assert "| declined | `attention/matmul` | `vit/b16` | no |" in text


def test_who_is_declined_on_some_of_the_workloads_or_too_slow_on_all_keeps_a_row():
    text = page(
        measured(),
        measured(workload="vit/b16-batch8"),
        measured("a"),
        without_time("a", "declined", "no", "vit/b16-batch8"),
        *(
            without_time("slow", "declined", "takes 9 s", at, reason=Reason.TOO_SLOW)
            for at in ("vit/b16", "vit/b16-batch8")
        ),
    )

    assert cells(text, "`a`", "### float32")[2] == "declined"
    assert cells(text, "`slow`", "### float32")[1:] == ["too slow", "too slow"]
    assert "Declined or missing in all" not in text


# The page


def test_threads_and_cache_are_words():
    rows = [measured(), measured(threads=2), measured(device="cuda", threads=0, cache="cold"), measured(threads=7)]

    text = page(*rows)

    headings = re.findall(r"^### (.*)", text.split("## vit")[1], re.MULTILINE)
    assert headings == [
        "float32 on cpu, one thread, forward, hot cache",
        "float32 on cpu, both cores, forward, hot cache",
        "float32 on cpu, 7 threads, forward, hot cache",
        "float32 on cuda, forward, cold cache",
    ]
    assert wording.threads(8, replace(MACHINE, cores=8, threads=16)) == "all 8 cores"
    assert wording.threads(16, replace(MACHINE, cores=8, threads=16)) == "all 16 threads"


def test_groups_stand_in_the_order_of_the_workloads_with_their_workloads():
    rows = [measured(workload=name) for name in ("ladder/16k", "ladder/2k", "vit/b16", "vit/b16-batch8", "mine/x")]

    text = page(*rows)

    assert re.findall(r"^## (vit|ladder|mine)$", text, re.MULTILINE) == ["vit", "ladder", "mine"]
    assert "| `b16` | 12 heads, length 197 | a layer of ViT-B/16 |" in text
    assert "One head: growth.\n\n| workload | shape |\n|---|---|\n| `2k` | length 2048 |" in text
    assert "| time | 2k | 16k |" in text


def test_many_workloads_stand_in_tables_that_fit_on_a_page():
    names = [f"{length}-e{width}" for width in (64, 128) for length in (512, "1k", "2k", "4k", "8k")]
    noted = {f"flash/{name}": WorkloadFacts("flash", "x", "y", 9) for name in names}
    run = replace(TIMED, facts=Facts(BASELINES, workloads={"attention": noted}))

    text = page(*(measured(workload=f"flash/{name}") for name in names), runs=(run,))

    heads = re.findall(r"^\| time \|.*", text.split("## flash")[1], re.MULTILINE)
    assert heads == [f"| time | 512-e{e} | 1k-e{e} | 2k-e{e} | 4k-e{e} | 8k-e{e} |" for e in (64, 128)]


def test_in_short_shows_the_most_work_at_which_most_were_measured():
    work = {f"ladder/{k}k": {**WORK, "attended": float(k)} for k in (1, 2, 8, 16)}
    rows = [measured(name, at, work=of) for at, of in work.items() for name in ("matmul", "a", "b")]
    few = [each for each in rows if each.workload != "ladder/16k" or each.implementation == "attention/matmul"]

    text = page(*few, measured(), measured(workload="vit/b16-batch8", work={**WORK, "attended": 9e9}))

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

    (view,) = material(of).views

    assert (view.setting.threads, view.setting.direction, view.setting.dtype) == (1, "forward", "bfloat16")


def test_every_device_has_its_own_view_accelerators_first():
    of = recorded(measured(), measured("a"), measured(device="cuda", threads=0, cache="cold"))

    assert [view.setting.device for view in material(of).views] == ["cuda", "cpu"]


def test_the_time_the_run_took_is_told_with_its_share_of_rounds():
    text = page(measured())

    said = "of this, of the profile quick, took 1 min 0 s: rounds 50 %, memory 40 %, starts 10 %."
    assert f"The run that measured most {said}" in text.split("## How it was measured")[1].split("##")[0]


def test_a_run_that_notes_nothing_has_times_and_no_more():
    rows = [measured(), *(measured(workload=f"ladder/{k}k") for k in (1, 2, 8))]

    text = page(*rows, runs=(replace(TIMED, facts=Facts()),))

    assert "100 ms" in text
    assert "## Growth" not in text
    assert "The run that measured most" not in text


def test_ceilings_are_told_once_for_each_dtype_and_thread_count():
    rows = [measured(), measured("a"), measured(direction="backward"), measured(threads=2, ceilings={"flops": 1.5e11})]
    other = replace(measured(), contract="mask", implementation="mask/matmul")

    text = page(*rows, other)
    whole, *_ = benchmark(recorded(*rows, other), TIMED, Charts())

    assert text.split("## What the machine reaches")[1].count("| cpu |") == 2
    assert "| cpu | float32 | one thread | r1 | 80.0 GFLOP/s | 10.0 GB/s |" in text
    assert "| cpu | float32 | both cores | r1 | 150 GFLOP/s | – |" in text
    ceilings = whole.data["benchmark_ceilings"].data.rows
    assert [(row[0].value, row[5].value) for row in ceilings if row[0].value == "attention"] == [
        ("attention", 8e10),
        ("attention", 1.5e11),
    ]


def test_a_page_too_long_leaves_out_every_number_and_then_each_workload(monkeypatch, tmp_path):
    rows = [measured(name, dtype=dtype) for name in ("matmul", "a") for dtype in ("float32", "bfloat16")]
    rows += [without_time("b", "declined", "not here"), about_all()]

    def of_at_most(lines):
        monkeypatch.setattr(files, "LONGEST_PAGE", lines)
        return write_benchmark(tmp_path, recorded(*rows))[0].read_text()

    whole = of_at_most(10**6)
    some, none = of_at_most(whole.count("\n") - 1), of_at_most(1)

    assert [text.count("<details>") for text in (whole, some, none)] == [2, 0, 0]
    assert [text.count("### float32") for text in (whole, some, none)] == [1, 1, 0]
    for text in (whole, some, none):
        assert "| declined | `attention/b` | `vit/b16` | not here |" in text
        assert "| missing | `attention/jax_nn` | every workload on cpu | No module named 'jax' |" in text
    assert "as numbers: [benchmark.csv](benchmark.csv)." in none


def test_a_page_of_many_workloads_is_short_and_counts_what_it_leaves_out(monkeypatch, tmp_path):
    monkeypatch.setattr(page_of, "MOST_RANKED", 5)

    text = write_benchmark(tmp_path, recorded(*(measured(workload=f"ladder/{k}k") for k in range(300))))[0].read_text()

    assert len(text.splitlines()) < 60
    assert text.count("| `ladder/") == 5
    assert "295 more lines: [benchmark.csv](benchmark.csv)" in text
    assert len((tmp_path / "benchmark.csv").read_text().splitlines()) == 301


def test_the_same_rows_in_another_order_give_the_same_files(tmp_path):
    rows = [
        measured(name, workload, seconds, dtype=dtype)
        for name, seconds in (("matmul", 0.1), ("chunked", 0.05), ("loops", 1.0))
        for workload in ("vit/b16", "ladder/1k", "ladder/2k")
        for dtype in ("float32", "bfloat16")
    ]
    rows += [about_all(), without_time("flex", "died", "SIGSEGV")]
    of = recorded(*rows)
    mixed = dataclasses.replace(of, measured=tuple(random.Random(0).sample(of.measured, len(of.measured))))
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()

    one, two = write_benchmark(tmp_path / "one", of), write_benchmark(tmp_path / "two", mixed)

    assert tables(of.measured, BASELINES) == tables(mixed.measured, BASELINES)
    assert one[0].read_bytes() == two[0].read_bytes()
    assert sorted(one[1].read_text().splitlines()) == sorted(two[1].read_text().splitlines())


def test_where_nothing_was_measured_no_page_of_before_stays(tmp_path):
    write_benchmark(tmp_path, recorded(measured()))
    (tmp_path / "notes.md").write_text("mine")

    written = write_benchmark(tmp_path, recorded(runs=(TIMED,)))

    assert written == []
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]


def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        write_benchmark(tmp_path / "file", recorded(measured()))


# Escaping


def hostile():
    rows = [measured()]
    for place, text in enumerate(NASTY):
        name, other = f"attention/{text}{place}", f"{text}/x{place}"
        rows += [
            measured(name, kernel=text, detail=text, seconds=0.05),
            measured(name, other, dtype=text, device=text, direction=text, cache=text),
            without_time(name, "refused", text, other, known=text[:9]),
            about_all(f"attention/{text}-all{place}", detail=text, device=text),
        ]
    noted = {f"{text}/x{place}": WorkloadFacts(text, text, text, 0) for place, text in enumerate(NASTY)}
    machine = replace(MACHINE, name=NASTY[4], processor=NASTY[4], system=NASTY[6])
    baselines = {**BASELINES, "attention": ContractFacts(baseline=f"{NASTY[4]}4")}
    facts = Facts(baselines, workloads={"attention": noted}, profile=NASTY[4], seconds={NASTY[4]: 2.0})
    run = replace(TIMED, machine=machine, versions={"torch": NASTY[4]}, facts=facts)
    return recorded(*rows, runs=(run,))


def test_a_page_of_hostile_text_holds_no_html_but_its_own_and_no_link(tmp_path):
    of = hostile()

    _, *tables = write_benchmark(tmp_path, of)
    write_index(tmp_path, {"amd": of})

    for name in ("benchmark.md", "README.md"):
        text = (tmp_path / name).read_text()
        tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
        blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
        kinds = {child.type for token in tokens for child in token.children or ()}
        for block in blocks:
            assert block == "</details>" or re.fullmatch(r"<details><summary>[^<>]*</summary>", block), block
        assert not kinds & {"html_inline", "image", "s_open"}
        links = [each.attrs["href"] for token in tokens for each in token.children or () if each.type == "link_open"]
        assert set(links) == ({table.name for table in tables} if name == "benchmark.md" else set())
        assert not any(c < " " and c != "\n" for c in text)


def test_csvs_hold_one_line_per_row_and_no_formula(tmp_path):
    of = hostile()

    write_benchmark(tmp_path, of)

    rows = list(csv.reader(io.StringIO((tmp_path / "benchmark.csv").read_text())))
    assert len(rows) == len(of.measured) + 1
    assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row)
