"""README and docs/ say what results/ hold, where things are, and no more than fits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from suite.conformance.coverage import summary, told

HOME = Path(__file__).parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")
TIMING, JUDGING, DOCUMENTS = (
    (HOME / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("timing", "judging", "documents")
)
PAGES = [*HOME.glob("*.md"), *(HOME / "docs").glob("*.md")]


MACHINES = (HOME / "results" / "README.md").read_text(encoding="utf-8").replace("**", "").split("\n## ")[1:]
"""What is said of each."""


def test_the_readme_quotes_the_results_of_every_implementation_it_counts() -> None:
    quoted = set(re.findall(r"^\| `([\w.]+)` \| (\d+/\d+) \|", README, re.MULTILINE))

    assert len(quoted) == 10
    row = re.compile(r"^\| `attention/([\w.]+)` .*?\| (\d+/\d+)(?: \(declined \d+\))? \| \d+ \|", re.MULTILINE)
    assert any(quoted <= set(row.findall(machine)) for machine in MACHINES), "of one machine, all of them"


def test_the_readme_quotes_measured_times() -> None:
    quoted = set(re.findall(r"^\| `([\w.]+)` \| ([\d.,]+ [µm]?s\b[^|]* \| .*) \|$", README, re.MULTILINE))

    assert len(quoted) == 9
    row = re.compile(r"^\| `([\w.]+)` \| [\d.,]+ [µm]?s\b[^|]* \| (.*) \|$", re.MULTILINE)
    assert any(quoted <= set(row.findall(machine)) for machine in MACHINES), "of one machine, all of them"


def test_the_page_on_judging_quotes_the_audit() -> None:
    audit = (HOME / "results" / "audit.md").read_text(encoding="utf-8")

    caught = re.search(r"(\d+ of \d+ deviations caught)", JUDGING)
    strangers = re.search(r"(\d+ correct\s+strangers)", JUDGING)

    row = re.search(r"^\| `attention` \| (\d+) \| (\d+) \|.* (\d+) \| (\d+) \|$", audit, re.MULTILINE)
    assert row is not None
    deviations, found, honest, accused = row.groups()
    assert caught is not None
    assert caught.group(1) == f"{found} of {deviations} deviations caught"
    assert strangers is not None
    assert (" ".join(strangers.group(1).split()), accused) == (f"{honest} correct strangers", "0")


def test_the_page_on_judging_quotes_what_the_audit_found_where_features_meet_and_in_all_contracts() -> None:
    audit = (HOME / "results" / "audit.md").read_text(encoding="utf-8")
    said = " ".join(JUDGING.replace(",", "").split())

    for kind in ("pairs", "fused triples"):
        row = re.search(rf"^\| {kind} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", audit, re.MULTILINE)
        assert row is not None
        possible, met, mistakes, caught = row.groups()
        assert (met, f"{caught} of {mistakes}" in said) == (possible, True)
    rows = re.findall(r"^\| `\w+` \| (\d+) \| \d+ \| \d+ \| (\d+) \| \d+ \| (\d+) \| \d+ \|$", audit, re.MULTILINE)
    deviations, families, strangers = (sum(map(int, column)) for column in zip(*rows, strict=True))
    assert f"{deviations} deviations {strangers} strangers and {families} families" in said


def test_the_page_on_timing_quotes_the_stopwatch_s_audits() -> None:
    _, *quoted = re.split(r"\]\(\.\./results/([\w-]+)/stopwatch\.md\)", TIMING)

    assert len(quoted) == 4, "two machines, and what is said of each"
    for machine, after in zip(quoted[::2], quoted[1::2], strict=True):
        said, *_ = after.split("\n\n")
        audit = (HOME / "results" / machine / "stopwatch.md").read_text(encoding="utf-8")
        due = [
            found
            for threads in ("one thread", "both cores")
            for what in (f"false claims on {threads}", f"slowdowns of 5 % found on {threads}")
            for found in re.findall(rf"^- {what}: (\d+ of \d+) ", audit, re.MULTILINE)
        ]
        assert len(due) == 4
        assert re.findall(r"\d+ of \d+", said) == due
        (apart,) = re.findall(r"^- torch\.utils\.benchmark: ([\d.]+)", audit, re.MULTILINE)
        assert re.search(rf"\b{re.escape(apart)} %", said)


def test_the_documents_page_counts_their_examples() -> None:
    assert f"\n{summary()}\n\n" in DOCUMENTS, "python -m suite.conformance.coverage prints what is due"


def test_the_readme_says_what_the_documents_themselves_give() -> None:
    assert told() in " ".join(README.split()), "python -m suite.conformance.coverage prints what is due"


def test_the_readme_s_example_says_what_a_check_of_it_says(tmp_path: Path) -> None:
    source, command, printed = re.findall(r"```(?:python)?\n(.*?)```", README, re.DOTALL)[:3]
    (tmp_path / "mine.py").write_text(source)
    *_, check = command.splitlines()
    surroundings = {**os.environ, "PYTHONPATH": str(HOME), "ATTNSUITE_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "suite", *check.split()[1:]]

    done = subprocess.run(words, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    lines = done.stdout.replace(str(tmp_path), "/home/me").splitlines()
    walls = [line for line in lines if line.startswith(("walls: ", "operators: "))]  # of this machine, of this PyTorch
    assert len(walls) == 2
    assert _comparable("\n".join(line for line in lines if line not in walls)) == _comparable(printed)


def _comparable(text: str) -> str:
    """The words of a text without its numbers, whose last digits depend on the machine."""
    return re.sub(r"-?\d[\d.]*(e[+-]\d+)?", "0", " ".join(text.split()))


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_paths_of_the_checkout_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = [] if page.name == "CHANGELOG.md" else re.findall(r"`((?:suite|tests|docs)/[\w./]+)`", text)

    assert [path for path in paths if not (HOME / path).exists()] == []
