"""Outcomes → conformance.md and its CSVs, one section per question that a reader has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.records import EVERY_CASE, FAILURES, Example, Outcome, Run
from suite.report.benchmark import origin
from suite.report.conformance import examples as documents
from suite.report.conformance import features
from suite.report.conformance.features import ContractFacts
from suite.report.conformance.tally import COUNTS, Group, breakdown, by_implementation, count, dtypes, groups
from suite.report.text import Row, code, escaped, section, table, write_csv
from suite.store import replace_file

MOST_NAMED = 12
"""So many implementations are named beside an earlier run."""


def write_conformance(
    folder: Path | str,
    outcomes: Sequence[Outcome],
    run: Run,
    *,
    contracts: Mapping[str, ContractFacts] | None = None,
    gaps: Mapping[str, Mapping[str, object]] | None = None,
    conventions: Mapping[str, Mapping[str, object]] | None = None,
    findings: Mapping[str, str] | None = None,
    examples: Sequence[Example] = (),
    again: Mapping[str, Sequence[str]] | None = None,
    earlier: Mapping[str, Run] | None = None,
    runs: Sequence[Run] = (),
) -> list[Path]:
    """Write conformance.md and its CSVs into `folder` and return their paths.

    contracts    by name; without them there is no table of features
    gaps         implementation → feature → why it lacks it
    conventions  implementation → point → what it declares there, as given to `@implementation`
    findings     the name that outcomes carry in `known` → what it records, in words
    again        implementation → the words that ask it again, where that is not its registered name
    earlier      the implementations with rows of an older run than `run`, as in `Recorded`
    runs         all that the outcomes are of, where `run` is but the newest of several

    Raises UsageError when the folder cannot be written.
    """
    folder = Path(folder)
    failures = [outcome for outcome in outcomes if outcome.status in FAILURES]
    every = groups(failures, again or {})
    new = groups((outcome for outcome in failures if not outcome.known), again or {})
    known = groups((outcome for outcome in failures if outcome.known), again or {})
    matrix = features.feature_matrix(outcomes, contracts or {})
    page = [
        *(f"# Conformance on {escaped(run.machine.name)}", ""),
        *provenance(run),
        *_several(runs),
        *headline(outcomes),
        *_earlier(earlier or {}),
        *_failures(new),
        *_known(known, findings or {}),
        *_reasons("Missing", [outcome for outcome in outcomes if outcome.status == "missing"]),
        *features.feature_lines(matrix, contracts or {}),
        *features.gap_lines(gaps or {}, outcomes),
        *features.convention_lines(conventions or {}, outcomes),
        *_reasons("Declined", [outcome for outcome in outcomes if outcome.status == "declined"]),
        *documents.example_lines(examples),
    ]
    replace_file(folder / "conformance.md", "\n".join(page).rstrip("\n") + "\n")
    return [
        folder / "conformance.md",
        write_csv(folder / "conformance.csv", _COUNTS_HEADER, _count_rows(outcomes)),
        write_csv(folder / "conformance_features.csv", features.CSV_HEADER, features.feature_rows(matrix)),
        write_csv(folder / "conformance_failures.csv", _FAILURES_HEADER, map(_failure_row, every)),
        write_csv(folder / "conformance_examples.csv", documents.CSV_HEADER, documents.example_rows(examples)),
    ]


def provenance(run: Run) -> list[str]:
    """Where, when and with what."""
    machine = run.machine
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
    facts = {
        "machine": f"{machine.processor}, {machine.cores} cores, {machine.threads} threads, {memory}",
        "accelerators": ", ".join(machine.accelerators) or "none",
        "system": machine.system,
        "date": run.finished or f"{run.started} (not finished)",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        "commit": run.commit or "unknown",
    }
    return table(("", ""), ((name, escaped(fact, 600)) for name, fact in facts.items()))


def _several(runs: Sequence[Run]) -> list[str]:
    """When and with what all was checked, where that was in more than the one run told of above."""
    if len(runs) < 2:
        return []
    used = " with ".join(filter(None, (origin.when(runs), origin.torch(runs))))
    says = f"Checked in {len(runs)} runs {used}: above is the newest, and below stands what is of an earlier one."
    return [escaped(says, 600), ""]


def headline(outcomes: Sequence[Outcome]) -> list[str]:
    """Implementation × dtype: passed/asked, and beside it what that leaves out."""
    columns = dtypes(outcomes)
    rows = [
        [code(name), escaped(device), *_headline_cells(members, columns)]
        for (name, device), members in by_implementation(outcomes).items()
    ]
    if not rows:
        return ["Nothing is recorded yet.", ""]
    if len(rows) > 1:
        rows.append(["all", "", *_headline_cells(outcomes, columns)])
    header = ("implementation", "device", *columns, "all", "declined", "failures", "known failures")
    legend = "Passed/asked. What was declined or is missing was not asked: it counts as neither."
    return [*table(header, rows), legend, ""]


def _headline_cells(outcomes: Sequence[Outcome], columns: Sequence[str]) -> list[str]:
    total = count(outcomes)
    if not total.asked and not total.declined:
        return ["missing"] * (len(columns) + 1) + ["–"] * 3
    cells = [str(count(outcome for outcome in outcomes if outcome.dtype == dtype)) for dtype in columns]
    return [*cells, str(total), str(total.declined), breakdown(outcomes) or "0", str(total.known)]


def _earlier(earlier: Mapping[str, Run]) -> list[str]:
    whose: dict[str, list[str]] = defaultdict(list)
    for name, run in sorted(earlier.items(), key=lambda of: (of[1].started, of[0])):
        whose[run.id].append(name)
    rows = []
    for names in whose.values():
        run, more = earlier[names[0]], len(names) - MOST_NAMED
        named = ", ".join(map(code, names[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
        rows.append((escaped(run.started), escaped(run.versions.get("torch", "–")), escaped(run.commit or "–"), named))
    header = ("run started", "torch", "commit", "of")
    return section("Rows of an earlier run", table(header, rows))


def _failures(failures: Sequence[Group]) -> list[str]:
    return section("Failures", table(_FAILED, [[*_what(group), code(group.rerun)] for group in failures]))


def _known(failures: Sequence[Group], findings: Mapping[str, str]) -> list[str]:
    rows = []
    for group in failures:
        name = group.example.known
        finding = f"{name}: {findings[name]}" if name in findings else name
        rows.append([*_what(group), code(group.rerun), escaped(finding, 600)])
    return section("Known failures", table((*_FAILED, "finding"), rows))


_FAILED = ("implementation", "count", "what", "for example", "ask again")


def _what(group: Group) -> list[str]:
    return [code(group.example.implementation), str(group.count), escaped(group.says), escaped(group.where)]


def _reasons(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    rows = []
    for group in groups(outcomes):
        reason = group.example.detail or "no reason given"
        if group.others:
            reason = f"{group.others} other reasons, such as {reason}"
        example = group.example
        asked = "every case" if example.case == EVERY_CASE else str(group.count)
        rows.append([code(example.implementation), escaped(example.device), asked, escaped(reason)])
    return section(title, table(("implementation", "device", "questions", "reason"), rows))


_COUNTS_HEADER = ("implementation", "device", "dtype", *COUNTS)
_FAILURES_HEADER = ("implementation", "device", "status", "finding", "count", "detail", "case", "dtype", "ask_again")


def _count_rows(outcomes: Sequence[Outcome]) -> list[Row]:
    return [
        [name, device, dtype, *count(outcome for outcome in members if outcome.dtype == dtype).numbers]
        for (name, device), members in by_implementation(outcomes).items()
        for dtype in sorted({outcome.dtype for outcome in members})
    ]


def _failure_row(group: Group) -> Row:
    one = group.example
    said = (one.implementation, one.device, one.status, one.known, group.count, one.detail, one.case, one.dtype)
    return [*said, group.rerun]
