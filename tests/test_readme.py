"""The README says what results/ hold: numbers are measured, never typed."""

from __future__ import annotations

import re
from pathlib import Path

from suite.documents.coverage import summary

HOME = Path(__file__).parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")


def test_the_readme_quotes_the_results_of_every_implementation_it_counts() -> None:
    recorded = (HOME / "results" / "README.md").read_text(encoding="utf-8")
    measured = dict(
        re.findall(r"^\| `attention/([\w.]+)` .*?\| (\d+/\d+)(?: \(declined \d+\))? \| \d+ \|", recorded, re.M)
    )

    quoted = dict(re.findall(r"^\| `([\w.]+)` \| (\d+/\d+) \|", README, re.MULTILINE))

    assert len(quoted) == 10
    assert quoted == {name: count for name, count in measured.items() if name in quoted}


def test_the_readme_quotes_measured_times() -> None:
    recorded = (HOME / "results" / "README.md").read_text(encoding="utf-8").replace("**", "")
    measured = dict(re.findall(r"^\| `([\w.]+)` \| [\d.,]+ [µm]?s\b[^|]* \| (.*) \|$", recorded, re.MULTILINE))

    quoted = dict(re.findall(r"^\| `([\w.]+)` \| ([\d.,]+ [µm]?s\b[^|]* \| .*) \|$", README, re.MULTILINE))

    assert len(quoted) == 9
    assert quoted == {name: measured[name] for name in quoted}


def test_the_readme_quotes_the_audit() -> None:
    audit = (HOME / "results" / "audit.md").read_text(encoding="utf-8")

    caught = re.search(r"(\d+ of \d+ deviations caught)", README)
    strangers = re.search(r"(\d+ correct\s+strangers)", README)

    assert caught is not None
    assert caught.group(1) in audit
    assert strangers is not None
    assert " ".join(strangers.group(1).split()) in audit


def test_the_readme_counts_the_documents_examples() -> None:
    assert f"\n{summary()}\n\n" in README, "python -m suite.documents.coverage prints what is due"
