"""results/README.md: each machine with what came out of it, and links to what is there."""

from builders import MACHINE, measured, outcome, without_time
from msgspec.structs import replace
from pages import LATER, TIMED, cells, recorded

from attnsuite.report import write_index
from attnsuite.results.store import Results, read_outcomes


def test_index_shows_conformance_then_times_then_findings(tmp_path):
    facts = replace(TIMED.facts, findings={"pt-1": "SDPA reads past the end"})
    of = recorded(
        ("r1", outcome()),
        ("r1", outcome("a", "wrong", "attention/flex", known="pt-1")),
        *(("r2", row) for row in (measured(), measured("chunked", seconds=0.05))),
        ("r2", without_time("flex", "refused", "it fails", known="pt-1")),
        runs=(replace(TIMED, facts=facts), LATER),
    )

    text = write_index(tmp_path, {MACHINE.name: of}).read_text()

    places = [text.index(title) for title in ("\n### Conformance", "\n### Benchmark", "\n## Findings")]
    assert places == sorted(places)
    assert "Checked on 2026-01-02, measured on 2026-02-02." in text
    assert cells(text, "`chunked`", "### Benchmark")[1] == "**50.0 ms**, 2.00× faster"
    assert "3.94 MiB" in text
    assert "| `pt-1` | `attention/flex` | 2 | SDPA reads past the end |" in text


def test_index_embeds_the_charts_and_links_the_pages_that_are_there(tmp_path):
    of, folder = recorded(measured()), tmp_path / MACHINE.name
    folder.mkdir()
    for name in ("time.svg", "tradeoff.svg", "benchmark.md"):
        (folder / name).write_text("x")

    assert "report.html" not in write_index(tmp_path, {MACHINE.name: of}).read_text()
    (tmp_path / "report.html").write_text("x")
    text = write_index(tmp_path, {MACHINE.name: of}).read_text()

    assert f"![time over sequence length]({MACHINE.name}/time.svg)" in text
    assert "in a browser: [report.html](report.html)" in text
    assert f"({MACHINE.name}/tradeoff.svg)" in text
    assert "memory.svg" not in text
    assert f"[benchmark]({MACHINE.name}/benchmark.md)" in text
    assert "conformance.md" not in text


def test_index_of_a_machine_that_was_only_checked_has_no_benchmark(tmp_path):
    text = write_index(tmp_path, {MACHINE.name: recorded(outcome())}).read_text()

    assert "### Conformance" in text
    assert "### Benchmark" not in text
    assert "## Findings" not in text


def test_index_of_a_machine_that_was_only_timed_has_no_conformance(tmp_path):
    text = write_index(tmp_path, {MACHINE.name: recorded(measured())}).read_text()

    assert "### Benchmark" in text
    assert "### Conformance" not in text


def test_index_names_each_machine_with_its_headline_and_pages(tmp_path):
    for name in ("b-4-cores", "a-2-cores"):
        with Results(tmp_path).open_run(replace(TIMED, machine=replace(MACHINE, name=name))) as writer:
            writer.write(outcome())
            writer.write(outcome("b", "wrong"))
            writer.finish()
    (tmp_path / "a-2-cores" / "conformance.md").write_text("x")

    text = write_index(tmp_path, read_outcomes(tmp_path)).read_text()

    assert (
        text.index("## a-2-cores") < text.index("[conformance](a-2-cores/conformance.md)") < text.index("## b-4-cores")
    )
    assert "(b-4-cores/conformance.md)" not in text
    assert cells(text, "a-2-cores")[2:] == ["abc123", "2.13.0", "1", "1/2", "1", "0"]
    assert text.count("| `attention/loops` | cpu | 1/2 |") == 2
