"""`attnsuite report`: the files of each machine from results/ alone, without torch and without what draws."""

import subprocess
import sys

import pytest
import reporting_on_many_rows
from builders import MACHINE, measured, outcome
from msgspec.structs import replace
from pages import TIMED, ladder

from attnsuite.cli import report as reporting
from attnsuite.report.files import LONGEST_PAGE
from attnsuite.results.store import Results


def written(path, *rows, outcomes=(), of=TIMED):
    """A folder of results with a run of these rows."""
    with Results(path).open_run(of) as writer:
        for row in (*outcomes, *rows):
            writer.write(row)
        writer.finish()


def test_report_writes_what_was_measured_and_says_so(tmp_path, capsys):
    written(tmp_path, measured(), measured("chunked", seconds=0.05), outcomes=[outcome()])

    reporting.report(tmp_path)

    names = [line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()]
    assert {"conformance.md", "benchmark.md", "benchmark.csv", "benchmark.json", "README.md", "report.html"} <= set(
        names
    )
    of_all = {"README.md", "report.html"}
    assert all((tmp_path / (MACHINE.name if name not in of_all else "") / name).exists() for name in names)


def test_paths_go_elsewhere_where_standard_output_is_for_rows(tmp_path, capsys):
    written(tmp_path, measured())

    reporting.report(tmp_path, lines=sys.stderr)

    said = capsys.readouterr()
    assert said.out == ""
    assert "benchmark.md" in said.err


def test_after_a_run_the_pages_of_its_machine_are_written_and_the_index_of_all(tmp_path):
    another = replace(TIMED, id="another", machine=replace(MACHINE, name="another"))
    written(tmp_path, measured())
    written(tmp_path, measured(), of=another)

    reporting.report(tmp_path, "another")

    assert (tmp_path / "another" / "benchmark.md").exists()
    assert not (tmp_path / MACHINE.name / "benchmark.md").exists()
    index = (tmp_path / "README.md").read_text()
    assert "## another\n" in index
    assert f"## {MACHINE.name}\n" in index


def test_report_of_times_alone_makes_no_page_of_conformance_and_leaves_none_that_is_no_more_true(tmp_path):
    written(tmp_path, measured())
    for name, text in (("conformance.md", "# Conformance on here\n"), ("conformance_examples.csv", "id,document\n")):
        (tmp_path / MACHINE.name / name).write_text(text)

    reporting.report(tmp_path)

    names = {path.name for path in (tmp_path / MACHINE.name).iterdir()}
    assert not {"conformance.md", "conformance_examples.csv"} & names
    assert "benchmark.md" in names


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
from attnsuite.cli import report as reporting
from attnsuite.report.files import LONGEST_PAGE
reporting.report(Path({str(path)!r}))
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_pages_of_many_rows_are_short_and_their_tables_whole(tmp_path):
    reporting_on_many_rows.write(tmp_path, 8000)

    assert reporting_on_many_rows.report(tmp_path, None).startswith("exit 0; ")

    pages = [tmp_path / "README.md", *(tmp_path / MACHINE.name).glob("*.md")]
    lengths = {page.name: len(page.read_text().splitlines()) for page in pages}
    assert set(lengths) == {"README.md", "conformance.md", "benchmark.md"}
    assert max(lengths.values()) <= LONGEST_PAGE, lengths
    assert len((tmp_path / MACHINE.name / "benchmark.csv").read_text().splitlines()) == 401
    assert (tmp_path / "report.html").stat().st_size < 8 * 2**20


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
