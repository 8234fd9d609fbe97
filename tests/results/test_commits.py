"""Results at a commit are read from git, even if the folder has changed or is gone."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from processes import committed, git
from stored import MACHINE, RUN, outcome, record

from attnsuite.model import UsageError
from attnsuite.results import read
from attnsuite.results.commits import results_at, results_of, split


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one run in results/, of which archives are to leave out results."""
    (tmp_path / ".gitattributes").write_text("results export-ignore\n")
    record(tmp_path / "results", RUN, outcome("a"))
    committed(tmp_path, "one")
    return tmp_path


def cases(results: Path) -> set[str]:
    """The names of all cases that have outcomes in a folder."""
    return {item.case for recorded in read(results).values() for item in recorded.outcomes}


def test_results_are_those_of_the_commit_and_the_temporary_folder_goes(repository):
    results = repository / "results"
    first = git(repository, "rev-parse", "HEAD")
    record(results, replace(RUN, id="r2", suite="suite-2"), outcome("b"))
    committed(repository, "two")

    with results_at(results, first) as then, results_of(f"{results}@HEAD") as current:
        assert (cases(then), cases(current)) == ({"a"}, {"a", "b"})
        assert then.name == "results"
        assert results not in (then, current)

    assert not then.exists()


def test_one_machine_s_folder_has_its_name(repository):
    machine = repository / "results" / MACHINE.name

    with results_at(machine, "HEAD") as then:
        assert then.name == machine.name
        assert (then / RUN.id / "run.json").is_file()


def test_a_folder_that_is_gone_is_found_where_the_commit_has_it(repository):
    shutil.rmtree(repository / "results")
    committed(repository, "gone")

    with results_at(repository / "results", "HEAD~1") as then:
        assert cases(then) == {"a"}
    with (
        pytest.raises(UsageError, match="no commit 'HEAD', or no results in it"),
        results_at(repository / "results", "HEAD"),
    ):
        pass


@pytest.mark.parametrize("commit", ["nowhere", "", "--output=x", "HEAD~9", "a b", "HEAD:results"])
def test_a_commit_that_the_repository_lacks_is_one_line(repository, commit):
    with (
        pytest.raises(UsageError, match=r"has no commit|git cannot read") as printed,
        results_at(repository / "results", commit),
    ):
        pass

    assert "\n" not in str(printed.value)
    assert not (repository / "x").exists()


def test_a_folder_outside_of_repositories_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(UsageError, match="not a git repository") as printed, results_at(tmp_path / "results", "HEAD"):
        pass

    assert "\n" not in str(printed.value)


def test_without_git_it_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="need git"), results_at(tmp_path, "HEAD"):
        pass


def test_a_word_names_a_folder_or_a_folder_at_a_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("results", "me@host", "odd@name"):
        Path(name).mkdir()

    assert split("results") == (Path("results"), "")
    assert split("results@HEAD@{1}") == (Path("results"), "HEAD@{1}")
    assert split("me@host@v1") == (Path("me@host"), "v1")
    assert split("odd@name") == (Path("odd@name"), "")
    assert split("gone@v1") == (Path("gone"), "v1")
