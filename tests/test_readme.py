"""README and docs/ quote results/, their links lead to files, and they are short."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from attnsuite import load_results
from attnsuite.cases.case import list_tests
from attnsuite.conformance.coverage import given_by_documents, summary
from attnsuite.contracts import contract
from attnsuite.documents.claims import all_claims, claims
from attnsuite.documents.course import index
from attnsuite.documents.figures import FIGURES
from attnsuite.model import NO_DOCUMENT
from attnsuite.report.timed import Setting, tables_of, verdict
from attnsuite.results import read_machine

HOME = Path(__file__).parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")
TIMING, JUDGING, DOCUMENTS = (
    (HOME / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("bench", "judging", "documents")
)
PAGES = [*HOME.glob("*.md"), *(HOME / "docs").rglob("*.md")]


def test_the_readme_quotes_the_counts_of_implementations() -> None:
    quoted = re.findall(r"^\| `([\w.]+)` \| (\d+)/(\d+) \|", README, re.MULTILINE)

    with (HOME / "results" / XEON / "conformance.csv").open(encoding="utf-8", newline="") as file:
        stored = {row["implementation"]: (row["passed"], row["run"]) for row in csv.DictReader(file)}

    assert len(quoted) == 7
    assert {name: counts for name, *counts in quoted} == {name: [*stored[f"attention/{name}"]] for name, *_ in quoted}


SHAPES = ("vit/b16-batch8", "decode/8k", "ladder/16k", "flash-small/2k-e64")
"""The columns of README's table of times."""


def test_the_readme_quotes_measured_times() -> None:
    quoted = {
        name: cells for name, *cells in re.findall(r"^\| `([\w.]+)`" + r" \| ([\d.,]+ [µm]?s\b[^|]*)" * 4, README, re.M)
    }

    setting = Setting("attention", "float32", "cpu", 1, "forward", "hot")
    timed = {
        table.workload: table for table in tables_of(read_machine(HOME / "results", HERE)) if table.setting == setting
    }

    assert len(quoted) == 6
    for place, shape in enumerate(SHAPES):
        table = timed[shape]
        said = {row.name: f"{table.unit.format(row.time.median)}, {verdict(row)}" for row in table.measured if row.time}
        expected = {name: said[name].removesuffix(", baseline") for name in quoted}
        assert {name: cells[place].strip() for name, cells in quoted.items()} == expected


def test_the_page_on_judging_quotes_the_audit() -> None:
    audit = (HOME / "results" / "audit.md").read_text(encoding="utf-8")

    killed = re.search(r"(\d+ of \d+\s+mutants killed)", JUDGING)
    variants = re.search(r"(\d+ correct\s+variants)", JUDGING)

    row = re.search(r"^\| `attention` \| (\d+) \| (\d+) \|.* (\d+) \| (\d+) \|$", audit, re.MULTILINE)
    assert row is not None
    mutants, found, honest, accused = row.groups()
    assert killed is not None
    assert " ".join(killed.group(1).split()) == f"{found} of {mutants} mutants killed"
    assert variants is not None
    assert (" ".join(variants.group(1).split()), accused) == (f"{honest} correct variants", "0")


def test_the_page_on_judging_quotes_the_audit_of_combinations_and_of_all_contracts() -> None:
    audit = (HOME / "results" / "audit.md").read_text(encoding="utf-8")
    said = " ".join(JUDGING.replace(",", "").split())

    for kind in ("pairs", "fused triples"):
        row = re.search(rf"^\| {kind} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", audit, re.MULTILINE)
        assert row is not None
        possible, met, mistakes, killed = row.groups()
        assert (met, f"{killed} of {mistakes}" in said) == (possible, True)
    rows = re.findall(r"^\| `\w+` \| (\d+) \| \d+ \| \d+ \| (\d+) \| \d+ \| (\d+) \| \d+ \|$", audit, re.MULTILINE)
    mutants, families, variants = (sum(map(int, column)) for column in zip(*rows, strict=True))
    assert f"{mutants} mutants {variants} correct variants and {families} families" in said


def test_the_page_on_timing_quotes_the_audits_of_the_timer() -> None:
    quoted = re.findall(r"\]\(\.\./results/([\w-]+)/stopwatch\.md\) \| (.*) \|$", TIMING, re.MULTILINE)

    assert len(quoted) == 3
    for machine, cells in quoted:
        audit = (HOME / "results" / machine / "stopwatch.md").read_text(encoding="utf-8")
        counts = [
            re.findall(rf"^- {what} on {threads}: (\d+ of \d+) ", audit, re.MULTILINE)[0]
            for threads in ("one thread", "both cores")
            for what in ("false claims", "slowdowns of 5 % found")
        ]
        (median,) = re.findall(r"^- torch\.utils\.benchmark: .*?([\d.]+) % ", audit, re.MULTILINE)
        largest = max(re.findall(r"^\| torch\.utils\.benchmark \|.* ([\d.]+) % \|$", audit, re.MULTILINE), key=float)
        assert cells == " | ".join([*counts, f"{median} %, {largest} %"])


def test_the_documents_page_counts_their_examples() -> None:
    assert f"\n{summary()}\n\n" in DOCUMENTS, "python -m attnsuite.conformance.coverage prints the expected sentence"


def test_the_course_page_has_the_index_of_the_documents() -> None:
    page = (HOME / "docs" / "grading.md").read_text(encoding="utf-8")

    assert f"\n{index()}\n\n" in page, "python -m attnsuite.documents.course prints the expected table"
    for figure in FIGURES:
        assert f"`{figure}`" in index()
    for claim in all_claims():
        assert claim.document == NO_DOCUMENT or f"`{claim.topic}`" in index()


def test_the_readme_quotes_the_coverage_of_the_documents() -> None:
    assert given_by_documents() in " ".join(README.split()), (
        "python -m attnsuite.conformance.coverage prints the expected sentence"
    )


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_paths_of_the_checkout_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = [] if page.name == "CHANGELOG.md" else re.findall(r"`((?:suite|tests|docs)/[\w./]+)`", text)

    assert [path for path in paths if not (HOME / path).exists()] == []


def test_the_architecture_is_short_and_names_files_that_exist() -> None:
    page = (HOME / "ARCHITECTURE.md").read_text(encoding="utf-8")

    assert len(page.splitlines()) <= 130
    assert [path for path in re.findall(r"`(\w+/\w+\.py)`", page) if not (HOME / "suite" / path).exists()] == []


# Numbers in docs/, compared with the rows in results/

HERE = "amd-epyc-family-25-model-17-2-cores"
"""The machine of the README's times, and of all claims but the newest."""
NEWEST = "intel-xeon-family-6-model-106-2-cores"
"""The machine that measured claims last."""
MODELS = ("transformer", "vision_transformer")
XEON, OTHER_XEON = "intel-xeon-family-6-model-167-2-cores", "intel-xeon-family-6-model-207-2-cores"
"""Two more machines; the first is that of the README's counts of tests."""


def rows(machine: str, **wanted: str) -> list[dict[str, str]]:
    """The rows of a machine's benchmark.csv that have these values."""
    with (HOME / "results" / machine / "benchmark.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if wanted.items() <= row.items()]


def row(machine: str, **wanted: str) -> dict[str, str]:
    (found,) = rows(machine, **wanted)
    return found


def assert_numbers(text: str, expected: list[float]) -> None:
    """Assert the numbers of a text, each rounded to the decimals of the text."""
    actual = re.findall(r"\d+(?:\.\d+)?", text)

    decimals = [len(number.partition(".")[2]) for number in actual]
    assert actual == [f"{value:.{places}f}" for places, value in zip(decimals, expected, strict=True)]


def milliseconds(machine: str, implementation: str, workload: str) -> float:
    return 1000 * float(row(machine, implementation=implementation, workload=workload)["median"])


def test_the_page_on_contracts_quotes_the_times_of_models() -> None:
    page = (HOME / "docs" / "contracts.md").read_text(encoding="utf-8")
    names = ("eager", "eager+torch_sdpa.automatic", "torch_nn", "onnx_export.opset23")
    export = row(XEON, implementation="transformer/onnx_export.opset23", workload="translator/128")
    faster = [
        (name, result["speedup"])
        for name in names
        if (result := row(XEON, implementation=f"vision_transformer/{name}", workload="vit/b16"))["verdict"] == "faster"
    ]

    times = re.findall(r"^\| (?:Transformer|ViT)[^|]*" + r"\| ([\d.]+) ms " * 4 + r"\|$", page, re.MULTILINE)
    seconds, size, speedup = re.findall(r"export took ([\d.]+) s and has ([\d.]+) MiB.*\(([\d.]+)×\)", page)[0]

    for quoted, model, workload in zip(times, MODELS, ("translator/128", "vit/b16"), strict=True):
        assert_numbers(" ".join(quoted), [milliseconds(XEON, f"{model}/{name}", workload) for name in names])
    assert_numbers(f"{seconds} {size}", [float(export["making_export"]), float(export["making_file"]) / 2**20])
    assert [name for name, _ in faster] == ["onnx_export.opset23"]
    assert_numbers(speedup, [float(faster[0][1])])


def test_the_page_on_timing_quotes_times_and_memory_at_16_384_tokens() -> None:
    quoted = re.findall(r"^\| (\d+) \| `([\w.]+)` \| ([\w ]+) \| (.* s \(.*\)) \| (.*) MiB \|$", TIMING, re.MULTILINE)

    assert len(quoted) == 9
    for model, name, call, time, peak in quoted:
        measured = row(
            {"167": XEON, "207": OTHER_XEON}[model],
            implementation=f"attention/{name}",
            workload="ladder/16k",
            threads="2",
            direction=call.replace(" and ", "_"),
        )
        median, low, high = (f"{float(measured[column]):.2f}" for column in ("median", "low", "high"))
        assert (time, peak) == (f"{median} s ({low} to {high})", f"{float(measured['net_peak']) / 2**20:,.1f}")


def test_the_page_on_claims_counts_those_that_hold() -> None:
    page = " ".join(DOCUMENTS.split())
    quoted = re.findall(r"of (\d+) claims (\d+) hold and (\d+) do not", page)

    rows = load_results(HOME / "results", "claims")
    rows = rows[rows["claim"].isin([claim.name for claim in claims()])]  # earlier versions had claims about seconds
    for machine, counts in zip((NEWEST, HERE), quoted, strict=True):
        holds = Counter(map(str, rows[rows["machine"] == machine]["holds"]))
        assert (holds.total(), holds["holds"], holds["does not hold"]) == tuple(map(int, counts))


def test_the_readme_quotes_the_commit_of_its_table_and_the_number_of_tests() -> None:
    commit, tests = re.findall(r"at\s+commit (\w+)\. Of ([\d,]+) tests,", README, re.DOTALL)[0]
    runs = [json.loads(path.read_text("utf-8")) for path in (HOME / "results" / XEON).glob("*/run.json")]
    with (HOME / "results" / XEON / "conformance.csv").open(encoding="utf-8", newline="") as file:
        of_all = sum(int(of["run"]) for of in csv.DictReader(file) if of["implementation"] == "attention/matmul")

    assert any(run["commit"].startswith(commit) for run in runs)
    assert int(tests.replace(",", "")) == of_all == len(list_tests(contract("attention").cases(), "cpu"))


def test_the_readme_quotes_unsupported_tests() -> None:
    with (HOME / "results" / XEON / "conformance.csv").open(encoding="utf-8", newline="") as file:
        unsupported: Counter[str] = Counter()
        for of in csv.DictReader(file):
            unsupported[of["implementation"]] += int(of["unsupported"])
    quoted = re.findall(r"^\| `([\w.]+)` \| \d+/\d+ \| (\d+) \|", README, re.MULTILINE)

    assert len(quoted) == 7
    assert quoted == [(name, str(unsupported[f"attention/{name}"])) for name, _ in quoted]
