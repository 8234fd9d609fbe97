"""A row that is lost or altered is noticed: each run says how many rows it has, of which digest."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from stored import RUN, SECOND, folder, measurement, names, outcome, read, record, table

from attnsuite.model import Facts
from attnsuite.results.store import Results, load, read_outcomes
from attnsuite.results.store.files import Damaged

FACTS = Facts(findings={"a": "in words"})


@pytest.fixture
def results(tmp_path):
    """Two runs, of which the older has a row of the newer's implementation as well."""
    chunked = [outcome(case, name="attention/chunked", error_ratio=0.5) for case in ("a", "b")]
    first = [outcome("a", error_ratio=0.25), outcome("b", "declined", detail="no masks"), measurement("a")]
    record(tmp_path, replace(RUN, facts=FACTS), *first, *chunked)
    record(tmp_path, SECOND, outcome("a", error_ratio=0.25), measurement("b"))
    return tmp_path


def damage(results):
    """The one line that everything which reads the folder says."""
    said = set()
    for use in (read, read_outcomes, load, lambda path: Results(path).open_run(RUN)):
        with pytest.raises(Damaged) as refusal:
            use(results)
        said.add(str(refusal.value))
    (line,) = said
    assert "\n" not in line
    assert f"`git checkout HEAD -- {folder(results)}` brings back what was committed" in line
    return line


def without_line(path, number):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:number] + lines[number + 1 :]))


def test_what_was_written_is_not_damaged(results):
    assert [run for run, _ in read(results).rows] == ["r1", "r1", "r2", "r1"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (0, ", line 1: the run r1 wrote 2 rows of attention/chunked on cpu, and 1 are there"),
        (1, ", line 1: the run r1 wrote 2 rows of attention/chunked on cpu, and 1 are there"),
        (2, ": the run r2 wrote 1 row of attention/loops on cpu, and 0 are there"),
        (3, ": the run r1 wrote 1 row of attention/loops on cpu, and 0 are there"),
    ],
)
def test_a_lost_row_is_noticed(results, line, says):
    without_line(table(results), line)

    damaged = damage(results)

    assert f"conformance.jsonl{says}" in damaged


def test_a_lost_measurement_is_noticed(results):
    without_line(table(results, "benchmark"), 0)

    assert "the run r2 wrote 1 row of attention/loops on cpu, and 0 are there" in damage(results)


def test_lost_files_are_noticed(results):
    kept = {name: (folder(results) / name).read_bytes() for name in names(results)}
    assert len(kept) == 7
    for name, content in kept.items():
        (folder(results) / name).unlink()
        assert damage(results)
        (folder(results) / name).write_bytes(content)
    assert read(results).rows


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("conformance.jsonl", '"declined"', '"passed"'),
        ("conformance.jsonl", "no masks", "no mask"),
        ("conformance.jsonl", '["a"]', '["c"]'),
        ("conformance.jsonl", '"run": "r1", ', ""),
        ("benchmark.jsonl", '"threads": 1', '"threads": 2'),
        ("runs.jsonl", '"torch": "2.13.0"', '"torch": "2.14.0"'),
        ("runs.jsonl", '"commit": "abc"', '"commit": "abd"'),
        ("facts.json", "in words", "in other words"),
    ],
)
def test_an_altered_file_is_noticed(results, name, before, after):
    path = folder(results) / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))

    assert f"{name}" in damage(results)


@pytest.mark.parametrize("name", ["conformance.error_ratio.gz", "conformance.seconds.gz", "benchmark.seconds.gz"])
def test_altered_numbers_are_noticed(results, name):
    path = folder(results) / name
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    for altered in (["0.75", *lines[1:]], [*lines, "0.75"], lines[1:], lines[:-1]):
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in altered).encode()))
        assert damage(results)


@pytest.mark.parametrize("keep", [5, 20, -3])
def test_numbers_that_cannot_be_unpacked_are_noticed(results, keep):
    path = folder(results) / "benchmark.seconds.gz"
    path.write_bytes(path.read_bytes()[:keep])

    assert "benchmark.seconds.gz: this cannot be unpacked" in damage(results)


def test_a_run_that_is_gone_is_noticed(results):
    without_line(folder(results) / "runs.jsonl", 0)

    assert "no run says that it holds rows of attention/chunked on cpu" in damage(results)


def test_how_much_more_is_amiss_is_said(results):
    text = table(results).read_text()
    table(results).write_text(text.replace('"passed"', '"raised"'))

    assert "what is there is not the same, and 1 more implementations are amiss" in damage(results)


def git(results, *arguments):
    identity = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(results), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


OURS = (Path(__file__).parents[3] / ".gitattributes").read_text().replace("results/", "")
"""What git is told of results/ here, for a repository that holds nothing else."""
BRANCHES = {"main": (), "one": (outcome("a", "wrong", seconds=0.25),), "two": (outcome("b", "died"),)}


@pytest.mark.parametrize("attributes", ["", OURS, "*.jsonl merge=union\n"], ids=["plain", "ours", "union"])
def test_what_git_makes_of_two_branches_is_noticed_and_either_can_be_taken_whole(tmp_path, attributes):
    (tmp_path / ".gitattributes").write_text(attributes)
    record(tmp_path, RUN, outcome("a", seconds=0.5), outcome("b"), measurement("a"))
    git(tmp_path, "init", "-b", "main")
    for branch, found in BRANCHES.items():
        git(tmp_path, "checkout", "main")
        git(tmp_path, "checkout", "-b", branch)
        if found:
            record(tmp_path, replace(SECOND, id=branch), *found)
        git(tmp_path, "add", "-A")
        assert git(tmp_path, "commit", "-m", branch).returncode == 0
    assert git(tmp_path, "merge", "one").returncode != 0

    if attributes == OURS:
        assert [of.status for of in read(tmp_path).outcomes] == ["passed", "died"], "it leaves all of ours"
    else:
        with pytest.raises(Damaged):
            read(tmp_path)
    for commit, due in (("HEAD", ["passed", "died"]), ("MERGE_HEAD", ["wrong", "passed"])):
        assert git(tmp_path, "checkout", commit, "--", ".").returncode == 0
        assert [of.status for of in read(tmp_path).outcomes] == due


def test_rows_that_no_run_file_speaks_of_are_noticed(tmp_path):
    record(tmp_path, RUN, outcome())
    (folder(tmp_path) / "runs.jsonl").unlink()

    with pytest.raises(Damaged, match="no run says that it holds rows of attention/loops on cpu"):
        read_outcomes(tmp_path)


def test_each_run_says_what_it_holds_of_each_implementation(results):
    held = [json.loads(line)["rows"] for line in (folder(results) / "runs.jsonl").read_text().splitlines()]

    assert [sorted(of["conformance"]["cpu"]) for of in held] == [
        ["attention/chunked", "attention/loops"],
        ["attention/loops"],
    ]
    assert held[0]["conformance"]["cpu"]["attention/chunked"][0] == 2
    assert all(len(digest) == 16 for of in held for _, digest in of["conformance"]["cpu"].values())


def test_a_row_of_the_journal_that_a_finished_run_did_not_write_is_noticed(results):
    row = {"run": RUN.id, "implementation": "attention/loops", "contract": "attention", "case": "a", "dtype": "float32"}
    (folder(results) / "journal.jsonl").write_text(json.dumps({**row, "device": "cpu", "status": "passed"}) + "\n")

    with pytest.raises(Damaged, match=f"line 1: the run '{RUN.id}' is finished, so this row is not its own"):
        read(results)


def test_a_finished_run_that_stands_twice_is_noticed(results):
    runs = folder(results) / "runs.jsonl"
    first, *others = runs.read_text().splitlines(keepends=True)
    runs.write_text("".join([first, *others, first]))

    assert f"line 3: the run '{RUN.id}' stands here twice" in damage(results)


def test_a_folder_that_is_refused_stays_as_it_is(results):
    runs = folder(results) / "runs.jsonl"
    cut = runs.read_bytes()[:-3]
    runs.write_bytes(cut)

    damage(results)

    assert runs.read_bytes() == cut
