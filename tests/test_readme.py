"""The README says what results/ hold: numbers are measured, never typed."""

from __future__ import annotations

import re
from pathlib import Path

from suite.conformance.coverage import summary

HOME = Path(__file__).parent.parent
README = (HOME / "README.md").read_text(encoding="utf-8")


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


def test_the_readme_quotes_the_audit() -> None:
    audit = (HOME / "results" / "audit.md").read_text(encoding="utf-8")

    caught = re.search(r"(\d+ of \d+ deviations caught)", README)
    strangers = re.search(r"(\d+ correct\s+strangers)", README)

    assert caught is not None
    assert caught.group(1) in audit
    assert strangers is not None
    assert " ".join(strangers.group(1).split()) in audit


def test_the_readme_quotes_the_stopwatch_s_audits() -> None:
    _, *quoted = re.split(r"\]\(results/([\w-]+)/stopwatch\.md\)", README)

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


def test_the_readme_counts_the_documents_examples() -> None:
    assert f"\n{summary()}\n\n" in README, "python -m suite.conformance.coverage prints what is due"
