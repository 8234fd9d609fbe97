"""A release has one version, a section of the changelog, a citation and a policy for reports of weaknesses."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

HOME = Path(__file__).parent.parent
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (HOME / "CHANGELOG.md").read_text(encoding="utf-8")
CITATION = yaml.safe_load((HOME / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_version_is_that_of_the_newest_section_of_the_changelog_and_of_the_citation() -> None:
    version, date = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (.*)$", CHANGELOG, re.MULTILINE)[0]

    assert PROJECT["version"] == version == CITATION["version"]
    assert str(CITATION["date-released"]) == date
    code = [file for file in (HOME / "suite").rglob("*.py") if f'"{version}"' in file.read_text(encoding="utf-8")]
    assert code == [], "the code reads importlib.metadata"


def test_the_newest_section_is_short() -> None:
    assert CHANGELOG.split("\n## ")[2].count("\n") <= 60


def test_the_citation_says_what_is_cited_and_what_its_schema_demands() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["message"]
    assert CITATION["type"] == "software"
    assert CITATION["title"].startswith(f"{PROJECT['name']}: ")
    assert CITATION["license"] == PROJECT["license"]
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert sorted(CITATION["keywords"]) == sorted(PROJECT["keywords"])


@pytest.mark.skipif(shutil.which("cffconvert") is None, reason="cffconvert is not installed")
def test_cffconvert_finds_the_citation_valid() -> None:
    done = subprocess.run(["cffconvert", "--validate"], cwd=HOME, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_changelog_has_a_section_for_each_version_newest_first() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)

    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", each) for each in headings[1:])
    kinds = set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def notes(folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the release workflow on the changelog and the version in a folder."""
    (folder / ".github").mkdir(exist_ok=True)
    shutil.copy(HOME / ".github" / "release_notes.py", folder / ".github")
    shutil.copy(HOME / "pyproject.toml", folder)
    script = str(folder / ".github" / "release_notes.py")
    return subprocess.run([sys.executable, script, tag], capture_output=True, text=True, check=False)


def test_the_notes_of_a_release_are_its_section(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(f"{CHANGELOG}\n## [0.0.1] - 2020-01-01\n\nold\n", encoding="utf-8")

    done = notes(tmp_path, f"v{PROJECT['version']}")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("### Added\n")
    assert "old" not in done.stdout.splitlines()


def test_a_tag_that_is_not_the_version_and_a_version_without_a_section_are_refused(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n", encoding="utf-8")

    other, unwritten = notes(tmp_path, "v9.9.9"), notes(tmp_path, f"v{PROJECT['version']}")

    assert other.returncode == 1
    assert other.stderr == f"the tag v9.9.9 is not v{PROJECT['version']}, the version in pyproject.toml\n"
    assert unwritten.returncode == 1
    assert unwritten.stderr.startswith(f"CHANGELOG.md has no heading `## [{PROJECT['version']}] - YYYY-MM-DD`")


def test_weaknesses_are_reported_in_private() -> None:
    policy = (HOME / "SECURITY.md").read_text(encoding="utf-8")

    assert "Report a vulnerability" in policy
    assert "not as a public issue" in policy
