"""`attnsuite verify`: a folder of results held against itself, from the command line, and corrupted at random."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corrupting import CHECKED, REAL, TIMED, Corrupter, copied, remembered
from msgspec import structs

from attnsuite.__main__ import main
from attnsuite.cli import reporting, sources, verifying
from attnsuite.report import stamps
from attnsuite.results.store import Results, replace_file

AT_ONCE = 100
"""Random corruptions of each kind of file."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A small copy of the project's own results."""
    return copied(tmp_path_factory.mktemp("small") / "results")


@pytest.fixture
def results(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "results"))


def said(monkeypatch, capsys, *arguments):
    """The exit status, and the lines that the command line prints."""
    monkeypatch.setattr(sys, "argv", ["attnsuite", "verify", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr().out.splitlines()


def test_what_is_good_is_one_line_that_says_what_was_verified_and_what_not(results, monkeypatch, capsys):
    status, lines = said(monkeypatch, capsys, results)

    assert status == 0
    (line,) = lines
    assert line.startswith(f"{results}: verified: 2 machines, 2 runs, ")
    assert "4 trainings, 3 claims" in line
    assert "not checked: the sources of the run" in line
    assert "what runs before these there were, for there is no" in line
    assert line.endswith(verifying.UNPROVEN)


def test_a_machine_s_folder_or_one_file_can_be_verified(results, monkeypatch, capsys):
    for path in (results / CHECKED, results / TIMED / "benchmark.seconds.gz", results / "README.md"):
        status, lines = said(monkeypatch, capsys, path)

        assert (status, len(lines)) == (0, 1), lines
        assert lines[0].startswith(f"{path}: verified: ")


def test_each_refusal_names_file_place_and_reason_and_all_are_listed(results, monkeypatch, capsys):
    table = results / CHECKED / "conformance.csv"
    head, first, *others = table.read_text().splitlines(keepends=True)
    table.write_text("".join([head, first.replace("attention", "attenti0n", 1), *others]))
    page = results / TIMED / "benchmark.md"
    page.write_text(page.read_text().replace("# Benchmark on", "# Benchmarks on", 1))
    (results / CHECKED / "claims.csv").unlink()

    status, lines = said(monkeypatch, capsys, results)

    assert status == 1
    assert any(line.startswith(f"{table}, row 2, column ") and "attenti0n" in line for line in lines)
    assert any(line.startswith(f"{page}, line 1: '# Benchmarks on") for line in lines)
    assert any(line.startswith(f"{results / CHECKED / 'claims.csv'}: there is no such file") for line in lines)
    assert lines[-1] == f"{results}: refused: 3 in 3 files"


def test_a_page_without_charts_is_good_but_names_no_other_package_than_those_that_draw(results, monkeypatch, capsys):
    page = results / TIMED / "benchmark.md"
    for chart in page.parent.glob("*.svg"):
        chart.unlink()
    with monkeypatch.context() as without:
        without.setattr("attnsuite.report.charts.files.absent", lambda: ["altair"])
        reporting.report(results)
    capsys.readouterr()
    assert said(monkeypatch, capsys, results)[0] == 0

    table = page.with_name("benchmark.csv")
    before = table.read_text()
    table.write_text(before.replace("attention", "attenti0n", 1))
    status, lines = said(monkeypatch, capsys, results)
    assert (status, len(lines)) == (1, 2), "and no word of charts that were left out"
    assert lines[0].startswith(f"{table}, row 2, column ")

    table.write_text(before)
    page.write_text(page.read_text().replace("pip install altair ", "pip install evil-package "))

    status, lines = said(monkeypatch, capsys, results)
    assert status == 1
    assert any("evil-package" in line for line in lines)


def test_one_file_answers_for_itself_alone(results, monkeypatch, capsys):
    page = results / CHECKED / "conformance.md"
    page.write_text(page.read_text() + "more\n")

    assert said(monkeypatch, capsys, results / CHECKED / "claims.md")[0] == 0
    assert said(monkeypatch, capsys, page)[0] == 1


def test_what_is_no_folder_of_results_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "file.csv").write_text("")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "file.csv"):
        monkeypatch.setattr(sys, "argv", ["attnsuite", "verify", str(path)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_rows_of_runs_that_are_gone_are_one_line_that_counts_them(results, monkeypatch, capsys):
    (results / CHECKED / "runs.jsonl").unlink()
    count = len((results / CHECKED / "conformance.jsonl").read_text().splitlines())

    status, lines = said(monkeypatch, capsys, results / CHECKED)

    (line,) = (line for line in lines if "no run says" in line and "conformance.jsonl" in line)
    assert status == 1
    assert f"lines 1 to {count}: no run says that it holds rows of " in line
    assert f", nor any of {count:,} such lines" in line


def test_a_row_that_is_there_twice_is_refused_in_words(results, monkeypatch, capsys):
    table = results / CHECKED / "conformance.jsonl"
    table.write_text(table.read_text() + table.read_text().splitlines(keepends=True)[-1])

    status, lines = said(monkeypatch, capsys, results / CHECKED)

    assert status == 1
    assert not any("zip()" in line for line in lines)
    assert any("the files beside it hold no numbers of this row" in line for line in lines)


def test_control_characters_are_shown_escaped(results, monkeypatch, capsys):
    table = results / CHECKED / "conformance.jsonl"
    table.write_text(table.read_text() + '{"implementation": "\x1b[2J", "device": "cpu"}\n'.replace("\x1b", "\\u001b"))

    status, lines = said(monkeypatch, capsys, results)

    assert status == 1
    assert any("\\x1b[2J" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_page_that_no_row_is_behind_is_refused(results, monkeypatch, capsys):
    shutil.copy(results / CHECKED / "learning.md", results / TIMED / "learning.md")

    status, lines = said(monkeypatch, capsys, results / TIMED)

    assert (status, lines[0]) == (
        1,
        f"{results / TIMED / 'learning.md'}: no rows give such a page; `attnsuite report` makes it of the rows",
    )


@pytest.mark.parametrize("name", ["notes.txt", "benchmark.ratios.gz", "conformance (1).csv", "mine.svg", "old"])
def test_a_file_that_attnsuite_does_not_write_is_named_in_one_line(name, results, monkeypatch, capsys):
    place = results / TIMED / name
    place.mkdir() if name == "old" else place.write_text("mine\n")

    status, lines = said(monkeypatch, capsys, results)

    assert (status, len(lines)) == (1, 2)
    assert lines[0].startswith(f"{place}: ")
    assert "attnsuite" in lines[0]
    assert lines[0].endswith("; move it away")


@pytest.mark.parametrize("name", ["notes.txt", "README (1).md", "old/notes.txt", "empty/"])
def test_what_attnsuite_does_not_write_beside_the_machines_is_named_in_one_line(name, results, monkeypatch, capsys):
    place, _, inside = name.partition("/")
    if "/" in name:
        (results / place).mkdir()
    if not name.endswith("/"):
        (results / place / inside).write_text("mine\n")

    status, lines = said(monkeypatch, capsys, results)

    assert (status, len(lines)) == (1, 2)
    what = "folder" if "/" in name else "file"
    assert lines[0] == (
        f"{results / place}: attnsuite writes no such {what}, so nothing says what is in it; move it away"
    )


def test_shards_and_environments_of_a_sweep_are_said_not_to_be_checked(results, monkeypatch, capsys):
    shutil.copytree(results / TIMED, results / "shard-1-of-2" / TIMED)
    (results / "versions.md").write_text("# Versions\n")

    status, (line,) = said(monkeypatch, capsys, results)

    assert status == 0
    assert f"{results / 'shard-1-of-2'}, a folder of results of its own: `attnsuite verify " in line
    assert f"{results / 'versions.md'}, which no rows here give" in line


def test_words_of_whoever_sent_results_and_what_systems_leave_are_no_matter(results, monkeypatch, capsys):
    for name in ("README.md", ".gitkeep", ".DS_Store"):
        (results / TIMED / name).write_text("mine\n")
    (results / ".gitattributes").write_text("*.gz binary\n")

    assert said(monkeypatch, capsys, results)[0] == 0


def test_another_machine_s_rows_are_one_line_for_each_file(results, monkeypatch, capsys):
    moved = ("conformance.jsonl", "conformance.error_ratio.gz", "conformance.seconds.gz")
    for name in moved:
        shutil.copy(results / CHECKED / name, results / TIMED / name)

    status, lines = said(monkeypatch, capsys, results / TIMED)

    of_rows = [line for line in lines if "conformance.jsonl" in line]
    assert status == 1
    assert len(of_rows) == 1, of_rows
    assert "no run says that it holds rows of " in of_rows[0]
    assert not any("0 rows are there" in line for line in lines)


def test_a_verdict_of_the_stopwatch_that_its_interval_does_not_give_is_refused(results, monkeypatch, capsys):
    folder = results / TIMED
    table, page = folder / "stopwatch.csv", folder / "stopwatch.md"
    head, first, *others = table.read_text().splitlines(keepends=True)
    table.write_text("".join([head, first.replace("slower", "faster"), *others]))
    texts = {page.name: stamps.unstamped(page.read_text()), table.name: table.read_text()}
    replace_file(page, stamps.stamped(texts)[page.name])  # with a stamp that fits

    status, lines = said(monkeypatch, capsys, folder)

    assert status == 1
    assert lines[0].startswith(f"{table}, row 2: the verdict is 'faster', and the interval gives slower")


def test_counts_on_the_page_of_the_stopwatch_that_its_table_does_not_give_are_refused(results, monkeypatch, capsys):
    page, table = results / TIMED / "stopwatch.md", results / TIMED / "stopwatch.csv"
    text = stamps.unstamped(page.read_text()).replace(
        "false claims on one thread: 0 of", "false claims on one thread: 9 of"
    )
    replace_file(page, stamps.stamped({page.name: text, table.name: table.read_text()})[page.name])

    status, lines = said(monkeypatch, capsys, results / TIMED)

    assert status == 1
    assert "stopwatch.csv gives '- false claims on one thread: 0 of" in lines[0]


def test_an_audit_without_a_stamp_is_refused_and_migrate_stamps_it(results, monkeypatch, capsys):
    page = results / "audit.md"
    page.write_text(stamps.unstamped(page.read_text()))

    status, lines = said(monkeypatch, capsys, results)
    assert status == 1
    assert lines[0].startswith(f"{page}: it has no stamp, which is its last line; `attnsuite audit` writes it anew")

    assert list(stamps.stamp_all(results)) == [f"{page}: stamped as it stands, so that a change is noticed from now on"]
    assert said(monkeypatch, capsys, results)[0] == 0


def test_a_report_that_could_not_draw_is_as_good(results, monkeypatch, capsys):
    from attnsuite.cli import reporting
    from attnsuite.report.charts import files

    for chart in results.glob("*/*.svg"):
        chart.unlink()
    with monkeypatch.context() as without:
        without.setattr(files, "absent", lambda: ["altair", "vl-convert-python"])
        reporting.report(results)

    assert said(monkeypatch, capsys, results)[0] == 0


def git(folder, *arguments):
    identity = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with a suite of one file, two implementations, and one that has an attention plugged in."""
    folder = tmp_path_factory.mktemp("repository")
    for name, text in {
        "suite/__init__.py": "",
        "implementations/attention/mine.py": "from _shared import *\n",
        "implementations/attention/_shared.py": "x = 1\n",
        "implementations/transformer/eager.py": "y = 2\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "x")
    return folder


def run_of(repository, **changed):
    from dataclasses import replace

    from stored import RUN

    from attnsuite.machine import suite_hash
    from attnsuite.registry import source_hash
    from attnsuite.registry.declaration import Declaration

    mine, eager = (
        Declaration("x", "x", "", file=str(repository / "implementations" / name))
        for name in ("attention/mine.py", "transformer/eager.py")
    )
    hashes = {
        "attention/mine.variant": source_hash(mine),
        "transformer/eager+mine": source_hash(replace(eager, plug=mine)),
    }
    commit = git(repository, "rev-parse", "--short=12", "HEAD")
    return structs.replace(RUN, commit=commit, sources=hashes, suite=suite_hash(repository / "suite"), **changed)


def test_hashes_are_held_against_the_sources_of_their_commit(repository):

    run = run_of(repository)
    (repository / "implementations/attention/_shared.py").write_text("changed = 'since'\n")

    assert sources.held([run], [repository]) == sources.Held(alike=3)
    other = structs.replace(run, suite="0" * 12, sources={**run.sources, "transformer/eager+mine": "1" * 12})
    amiss = sources.held([other], [repository])
    assert [why.partition(" is ")[0] for _, why in amiss.amiss] == [
        "the hash of suite",
        "the hash of transformer/eager+mine",
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"commit": ""}, "which names no commit"),
        ({"commit": "0123456789ab"}, "no repository here has the commit 0123456789ab"),
        ({"commit": "0123456789ab-dirty"}, "they were not committed"),
        ({"commit": "--help"}, "no repository here has the commit --help"),
        ({"sources": {"attention/gone": "0" * 12}}, "attention/gone of the run r1, for it is no file of its commit"),
        ({"sources": {"../../../etc/passwd": "0" * 12}}, "for it is no file of its commit"),
    ],
)
def test_sources_that_cannot_be_held_against_a_commit_are_named(repository, changed, says):

    found = sources.held([structs.replace(run_of(repository), **changed)], [repository])

    assert found.amiss == []
    assert len(found.not_checked) == 1
    assert says in found.not_checked[0]


@pytest.mark.parametrize(
    ("commit", "keeps"),
    [(None, False), ("HEAD~1", None), ("0123456789ab", None), ("", None)],
    ids=["of a version that keeps none", "of no commit's name", "of a commit elsewhere", "of no commit"],
)
def test_whether_a_run_is_kept_is_told_by_the_sources_of_its_version(repository, commit, keeps):

    from attnsuite.machine import suite_hash

    run = run_of(repository)
    run = run if commit is None else structs.replace(run, commit=commit)

    assert sources.keeps_runs([repository])(run) is keeps
    assert sources.keeps_runs([repository])(structs.replace(run, suite=suite_hash())) is True, (
        "this very version keeps its runs"
    )


def test_a_version_with_the_file_that_keeps_runs_keeps_them_and_declares_its_cheats(repository, tmp_path):
    folder = Path(shutil.copytree(repository, tmp_path / "later"))
    for name, text in {
        sources.HISTORY: "",
        sources.VERDICTS: '[zeros]\nclass = "control"\ncheck = "caught"\nbench = "caught"\n',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "y")
    run = run_of(folder)

    assert sources.keeps_runs([folder])(run) is True
    assert sources.musts([folder])(run.commit) == {"zeros": ("control", "caught", "caught")}
    assert sources.musts([folder])("0123456789ab") is None
    assert sources.musts([repository])(git(repository, "rev-parse", "HEAD")) is None


KINDS = {
    "runs": ["runs.jsonl"],
    "facts": ["facts.json"],
    "rows": ["conformance.jsonl", "benchmark.jsonl", "learning.jsonl", "claims.jsonl"],
    "numbers": [".gz"],
    "pages": [".md"],
    "tables": [".csv"],
    "charts": [".svg"],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_corruptions_that_change_what_is_shown_are_found_and_nothing_crashes(results, kind, monkeypatch):
    remembered(monkeypatch)
    corrupter = Corrupter(results, seed=sorted(KINDS).index(kind))
    names = [name for name in corrupter.files if name.name.endswith(tuple(KINDS[kind]))]
    assert names or kind == "charts"

    found = [(name, *corrupter.missed(name)) for name in corrupter.random.choices(names, k=AT_ONCE)] if names else []

    assert [(name, what) for name, what, _, changed in found if changed] == []
    assert not names or sum(noticed for _, _, noticed, _ in found) > AT_ONCE / 2


@pytest.mark.slow
def test_the_project_s_own_results_are_verified(monkeypatch, capsys):
    status, lines = said(monkeypatch, capsys, REAL)

    assert status == 0, lines


def test_the_loader_s_line_names_file_and_line(results):
    table = results / CHECKED / "conformance.jsonl"
    table.write_text("?\n" + table.read_text())

    with pytest.raises(Exception, match=r"conformance\.jsonl, line 1: this is no row of results"):
        Results(results).read(CHECKED)
