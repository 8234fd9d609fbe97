"""Several contracts and several runs in one report: each contract keeps its own words, each number its own run."""

import dataclasses
import json
import re

import builders
import pytest
from builders import BASELINES, MACHINE, outcome, recorded
from msgspec.structs import replace

from attnsuite.cli import report as reporting
from attnsuite.model import Facts, WorkloadFacts
from attnsuite.report import provenance, write_index
from attnsuite.report.benchmark.views import material, workloads
from attnsuite.report.charts import files as charts_of
from attnsuite.report.charts.files import write_charts
from attnsuite.report.charts.pictures import pictures
from attnsuite.report.machine import write_benchmark
from attnsuite.report.pytest_benchmark import write_benchmark_json
from attnsuite.results.store import Results

LADDER = {f"ladder/{k}k": WorkloadFacts("ladder", "one head", "growth", 1024 * k) for k in (1, 2, 4)}
ATTENTION = {"vit/b16": WorkloadFacts("vit", "12 heads", "a layer", 197), **LADDER}
MODEL = {"vit/b16": WorkloadFacts("models", "12 blocks", "all of it", 224)}


def run(identity, day, noted, spent=60.0):
    """A run of one day, and what it notes of its workloads."""
    facts = Facts(BASELINES, workloads=noted, profile="quick", seconds={"rounds": spent})
    return builders.run(identity, day, facts)


FIRST = run("first", "2026-01-01", {"attention": ATTENTION}, spent=60.0)
SECOND = run("second", "2026-01-02", {"vision_transformer": MODEL}, spent=7.0)


def measured(name="attention/matmul", workload="vit/b16", seconds=0.1, **others):
    memory, work = {"resident": 2.0**22, "constant": 2.0**16}, {"attended": 4e9, "convention": 4e9, "bytes": 1e6}
    return builders.measured(name, workload, seconds, memory=memory, work=work, **others)


def of_attention(**others):
    """Enough for every chart over the length."""
    names = ("attention/matmul", "attention/chunked", "attention/loops")
    return [
        measured(name, workload, 1e-9 * place * facts.length**2, **others)
        for place, name in enumerate(names, 1)
        for workload, facts in ATTENTION.items()
    ]


def of_models(**others):
    """More rows than attention has."""
    names = ["vision_transformer/eager", *(f"vision_transformer/eager+{number}" for number in range(20))]
    return [measured(name, **others) for name in names]


@pytest.fixture
def both():
    """Attention of one run, and a model of a later one."""
    return recorded({"first": of_attention(), "second": of_models()}, (FIRST, SECOND))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A library that draws nothing."""
    monkeypatch.setattr(charts_of, "absent", list)
    monkeypatch.setattr(charts_of, "_drawn", lambda picture: f"<svg>{picture.title} {picture.subtitle}</svg>")


# Whose workloads


def test_each_contract_has_the_words_of_its_own_notes(both, tmp_path):
    write_charts(tmp_path, both)
    text = write_benchmark(tmp_path, both)[0].read_text()

    named = workloads(both)
    assert named["attention", "vit/b16"].shape == "12 heads"
    assert named["vision_transformer", "vit/b16"].shape == "12 blocks"
    assert "12 heads" in text.split("## attention: vit")[1].split("##")[0]
    assert "12 blocks" in text.split("## vision_transformer: models")[1].split("##")[0]
    rows = (tmp_path / "benchmark.csv").read_text().splitlines()
    assert all(",vit,12 heads,197," in row for row in rows if "attention/" in row and "vit/b16" in row)
    assert all(",models,12 blocks,224," in row for row in rows if "vision_transformer/" in row)


def test_the_newest_run_that_names_a_contract_is_believed():
    later = run("third", "2026-01-03", {"attention": {"vit/b16": WorkloadFacts("vit", "13 heads", "", 197)}})
    named = workloads(recorded({"first": of_attention()}, (FIRST, SECOND, later)))

    assert named["attention", "vit/b16"].shape == "13 heads"
    assert named["attention", "ladder/1k"].length == 1024
    assert named["vision_transformer", "vit/b16"].shape == "12 blocks"


def test_benchmarks_of_two_contracts_are_no_group_of_pytest_benchmark(both, tmp_path):
    rows = json.loads(write_benchmark_json(tmp_path, both).read_text())["benchmarks"]

    groups = {row["group"]: row["extra_info"]["contract"] for row in rows if "vit/b16" in row["group"]}
    assert groups == {
        "vit/b16 float32 cpu 1 thread forward hot": "attention",
        "vision_transformer vit/b16 float32 cpu 1 thread forward hot": "vision_transformer",
    }


# What comes first


def test_attention_comes_first_and_whole_models_last_whatever_was_measured_most():
    rows = [*of_attention(), *of_models(device="cuda"), *of_models(), measured("mask/matmul"), measured(device="cuda")]
    of = recorded({"first": rows}, (FIRST, SECOND))

    seen = [(view.setting.contract, view.setting.device) for view in material(of).views]

    assert seen == [
        ("attention", "cuda"),
        ("attention", "cpu"),
        ("mask", "cpu"),
        ("vision_transformer", "cuda"),
        ("vision_transformer", "cpu"),
    ]


def test_charts_of_attention_stay_where_they_are_when_a_model_is_timed(both, tmp_path):
    write_charts(tmp_path, recorded({"first": of_attention()}, (FIRST, SECOND)))
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}

    write_charts(tmp_path, both)

    after = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert before.items() <= after.items()
    assert set(after) - set(before) == {"throughput-vision-transformer-cpu.svg", "error-vision-transformer-cpu.svg"}
    assert "vision_transformer: throughput" in after["throughput-vision-transformer-cpu.svg"]


def test_a_chart_that_only_a_later_view_has_is_found_under_its_plain_name(tmp_path):
    of = recorded({"first": of_attention(), "second": [measured(device="cuda")]}, (FIRST, SECOND))

    write_charts(tmp_path, of)

    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"time.svg", "memory.svg", "tradeoff.svg", "throughput.svg", "error.svg"} | {
        "throughput-attention-cpu.svg"
    }
    assert "float32 on cuda" in (tmp_path / "throughput.svg").read_text()
    assert "float32 on cpu" in (tmp_path / "time.svg").read_text()


def test_charts_of_a_contract_that_has_no_rows_any_more_go(both, tmp_path):
    write_charts(tmp_path, both)

    write_charts(tmp_path, recorded({"first": of_attention()}, (FIRST, SECOND)))

    assert not list(tmp_path.glob("*vision*"))
    assert (tmp_path / "time.svg").exists()


# Which run


def test_the_index_has_attention_with_its_charts_and_names_models(both, tmp_path):
    (tmp_path / MACHINE.name).mkdir()
    write_charts(tmp_path / MACHINE.name, both)

    text = write_index(tmp_path, {MACHINE.name: both}).read_text().split("### Benchmark")[1]

    matmul, chart, model = (text.index(each) for each in ("against `matmul`", "time.svg", "\nTimed as well: "))
    assert matmul < chart < model
    assert text[matmul:].startswith("against `matmul`. Measured on 2026-01-01 with torch 2.1.0, commit commit-first.\n")
    assert text[model:].splitlines()[1] == "Timed as well: `vision_transformer`."


def test_a_chart_says_when_its_own_rows_were_measured():
    later = [measured("attention/chunked", device="cpu", workload="ladder/4k", seconds=0.002)]
    earlier = [row for row in of_attention() if row.key != later[0].key]
    of = recorded({"first": earlier, "second": [*later, *of_models()]}, (FIRST, SECOND))
    mixed = material(of)
    attention, model = mixed.views

    found = pictures(attention, mixed)

    assert found["tradeoff"].subtitle.endswith("torch 2.1.0 and 2.2.0 · 2026-01-01 to 2026-01-02")
    assert pictures(model, mixed)["throughput"].subtitle.endswith("torch 2.2.0 · 2026-01-02")
    alone = material(recorded({"first": of_attention(), "second": of_models()}, (FIRST, SECOND)))
    assert pictures(alone.views[0], alone)["time"].subtitle.endswith("2026-01-01")


def test_the_page_tells_what_the_run_took_that_measured_most_and_not_one_of_a_few_rows(tmp_path):
    later = [measured("attention/chunked", device="cpu", workload="ladder/4k", seconds=0.002)]
    earlier = [row for row in of_attention() if row.key != later[0].key]

    text = write_benchmark(tmp_path, recorded({"first": earlier, "second": later}, (FIRST, SECOND)))[0].read_text()

    assert "The run that measured most of this, of the profile quick, took 1 min 0 s" in text


def test_the_page_tells_what_a_run_of_each_contract_took(both, tmp_path):
    text = write_benchmark(tmp_path, both)[0].read_text()

    took = text.split("## How it was measured")[1].split("##")[0]
    assert "The run that measured most of `attention`, of the profile quick, took 1 min 0 s" in took
    assert "The run that measured most of `vision_transformer`, of the profile quick, took 7.0 s" in took
    short = text.split("## In short")[1].split("##")[0]
    assert "against `matmul`. Measured on 2026-01-01 with torch 2.1.0, commit commit-first." in short
    model = short[short.index("\nvision_transformer, float32 on cpu") :]
    assert model.splitlines()[1].endswith("speed against `eager`, and peak memory.")  # the run told of above
    assert "| time, peak memory | vit/b16 |" in model
    assert "| `eager` | **100 ms**, 3.94 MiB |" in model
    assert re.search(r"\| 2026-01-01T03:00:00\+00:00 \| 2.1.0 \| commit-first \| 12 \|", text)


def test_what_one_run_measured_is_told_as_ever(tmp_path):
    text = write_benchmark(tmp_path, recorded({"first": [*of_attention(), *of_models()]}, (FIRST,)))[0].read_text()

    assert "Measured on" not in text
    assert "The run that measured most of this, of the profile quick, took 1 min 0 s" in text


def test_the_index_says_all_days_on_which_was_measured(both, tmp_path):
    checked = run("zeroth", "2025-12-31", {})
    of = dataclasses.replace(
        both, runs={"zeroth": checked, **both.runs}, rows=(("zeroth", outcome("a/b", name="attention/matmul")),)
    )

    text = write_index(tmp_path, {MACHINE.name: of}).read_text()

    assert "Checked on 2025-12-31, measured from 2026-01-01 to 2026-01-02." in text


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ((FIRST,), "Measured on 2026-01-01 with torch 2.1.0, commit commit-first."),
        ((FIRST, SECOND), "Measured from 2026-01-01 to 2026-01-02 with torch 2.1.0 and 2.2.0, commits commit-first and "
         "commit-second."),
        ((replace(FIRST, versions={}, commit="", finished=""),), "Measured on 2026-01-01, commit unknown."),
    ],
)  # fmt: skip
def test_where_numbers_are_from_is_one_sentence(runs, words):
    assert provenance.sentence(runs) == words


def test_a_run_of_a_model_after_one_of_attention_costs_no_table_of_it(tmp_path):
    for new, rows in ((FIRST, of_attention()), (SECOND, of_models())):
        with Results(tmp_path).open_run(new) as writer:
            for row in rows:
                writer.write(row)
            writer.finish(workloads={row.contract: ["vit/b16", *LADDER] for row in rows})
        reporting.report(tmp_path)

    index = (tmp_path / "README.md").read_text()
    assert [f"{MACHINE.name}/{name}.svg" in index for name in ("time", "memory", "tradeoff")] == [True] * 3
    assert "against `matmul`" in index
    page = (tmp_path / MACHINE.name / "benchmark.md").read_text()
    for group in ("attention: vit", "attention: ladder", "vision_transformer: models", "Growth with the length"):
        assert f"\n## {group}\n" in page
