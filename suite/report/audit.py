"""Audits → audit.md, cheats.md, stopwatch.md: mutants that are killed, verdicts on exploits, errors of the timer."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

from attnsuite.model import (
    EXEMPT,
    EXPECTED_VERDICTS,
    Audit,
    Combinations,
    ExploitAudit,
    ExploitTrial,
    LevelCoverage,
    Machine,
    Run,
)
from attnsuite.model.audit import (
    DISAGREEMENT,
    FALSE_CLAIMS,
    JUDGED_SLOWDOWN,
    MIN_FOUND_SHARE,
    SHARE_LEVEL,
    SLOWDOWNS,
    Share,
    StopwatchAudit,
    Trial,
    percent,
)  # fmt: skip
from attnsuite.model.faster import MARGIN
from attnsuite.model.files import file_errors
from attnsuite.model.statistics import LEVEL
from attnsuite.report import facts, timed
from attnsuite.report.columns import csv_of
from attnsuite.report.files import refuse_foreign, texts, write
from attnsuite.report.page import (
    LONGEST_CODE,
    Cell,
    Page,
    Section,
    Table,
    blocks,
    code,
    file_link,
    joined,
    name_list,
    note,
    plain,
    points,
    section,
    spans,
    table,
)
from attnsuite.report.units import duration, significant, time_unit

TITLE = "The suite against itself"
MOST_NAMED = 4
"""Survivors that a row of combinations names; further ones are counted."""


def write_audit(folder: Path, audits: Sequence[Audit], run: Run) -> Path:
    """Write audit.md and its tables into `folder`, atomically, and return the page's path."""
    return write(folder, texts("audit", audit_page(audits, run)))[0]


def refuse_foreign_audit(folder: Path) -> None:
    """Raise UsageError for an audit.md that attnsuite did not write, before an audit takes minutes."""
    refuse_foreign(folder / "audit.md", lambda text: text.startswith(f"# {TITLE}\n"))


def audit_lines(audits: Sequence[Audit]) -> list[str]:
    """The results of the audits as plain lines: the score of each contract, then every complaint."""
    lines = ((audit, line) for audit in audits for line in (*_score(audit), *_complaints(audit)))
    return [plain(f"{audit.contract}: {line}", LONGEST_CODE) for audit, line in lines]


def audit_page(audits: Sequence[Audit], run: Run) -> Page:
    """A row per contract, then every complaint; families, variants and mutants are CSV files."""
    complaints = points(f"{audit.contract}: {line}" for audit in audits for line in _complaints(audit))
    combined = (section(audit.contract, _combinations(audit.combinations)) for audit in audits if audit.combinations)
    counts = [
        (audit.contract, len(audit.kills), len(audit.kills) - len(audit.survived), len(audit.variants),
         len(audit.accusations))
        for audit in audits
    ]  # fmt: skip
    variants = [(audit.contract, name, style) for audit in audits for name, style in audit.variants.items()]
    data = {
        "audit": csv_of(("contract", "mutants", "killed", "variants", "accused"), counts),
        "audit_families": _families(audits),
        "audit_variants": csv_of(("contract", "variant", "style"), variants),
        "audit_mutants": _mutants(audits),
    }
    content = blocks(
        facts.run_table(run), _contracts(audits), _redrawn(audits), section("Complaints", complaints),
        section("Combinations of features", combined),
        note("Each family, variant and mutant: ", joined([file_link(f"{name}.csv") for name in data]), "."),
    )  # fmt: skip
    return Page(TITLE, content, data)


def _score(audit: Audit) -> Iterator[str]:
    total = len(audit.kills)
    yield f"mutation score: {total - len(audit.survived)} of {total} mutants killed"
    yield f"distinct sets of failing cases: {audit.distinct}"
    yield f"correct variants: {len(audit.variants)}, tests that they fail: {len(audit.accusations)}"
    yield f"families: {len(audit.families)}, unnecessary: {len(audit.unnecessary)}"
    for kind, meetings in _kinds(audit.combinations) if audit.combinations else ():
        yield (
            f"{kind} of features: {meetings.met} of {meetings.possible} are in a case; "
            f"{meetings.killed} of {meetings.mutants} mutants that are wrong for one of them alone are killed"
        )
    for kind, redrawn in (("other numbers", audit.redrawn), ("other combinations", audit.rearranged)):
        if redrawn:
            failed = f"correct variants fail {len(redrawn.accusations)} of {redrawn.results:,} tests"
            yield f"{kind}, {redrawn.seeds} seeds: {failed}"


def _complaints(audit: Audit) -> Iterator[str]:
    """A line for each complaint."""
    yield from (f"survived: {name}: {audit.mistakes[name]}" for name in audit.survived)
    yield from (f"unnecessary: {family} kills no mutant that no other family kills" for family in audit.unnecessary)
    yield from (f"accused: {o.implementation} {o.case} ({o.dtype}): {o.status}: {o.detail}" for o in audit.accusations)
    for redrawn in filter(None, (audit.redrawn, audit.rearranged)):
        for seed, o in redrawn.accusations:
            yield f"accused with seed {seed}: {o.implementation} {o.case} ({o.dtype}): {o.detail}"
    yield from (f"wrong without a mutation: {complaint}" for complaint in audit.controls)
    combined = audit.combinations.survived if audit.combinations else ()
    yield from (f"survived a combination: {name}" for name in combined)


def _contracts(audits: Sequence[Audit]) -> Table:
    """A row of counts per contract."""
    heads = ("contract", "mutants", "killed", "distinct sets of failing cases", "families", "unnecessary",
             "correct variants", "accused")  # fmt: skip
    rows = [
        (code(audit.contract), len(audit.kills), len(audit.kills) - len(audit.survived), audit.distinct,
         len(audit.families), len(audit.unnecessary), len(audit.variants), len(audit.accusations))
        for audit in audits
    ]  # fmt: skip
    return table(heads, rows)


def _redrawn(audits: Sequence[Audit]) -> Section:
    """The results of correct variants on other numbers and other combinations of features."""
    rows = [
        (code(audit.contract), kind, redrawn.seeds, f"{redrawn.results:,}", len(redrawn.accusations),
         f"{redrawn.largest:.2f}")
        for audit in audits
        for kind, redrawn in (("numbers", audit.redrawn), ("combinations of features", audit.rearranged))
        if redrawn
    ]  # fmt: skip
    heads = ("contract", "redrawn", "seeds", "tests", "accused", "largest error (bounds)")
    return section("Drawn from other seeds", table(heads, rows))


def _families(audits: Sequence[Audit]) -> str:
    """A row per family: its cases, the mutants that they kill, and those that no other family kills."""
    rows = [
        (audit.contract, family, count, sum(family in killers for killers in audit.kills.values()),
         " ".join(audit.killed_only_by(family)) or ("exempt" if family in EXEMPT else ""))
        for audit in audits for family, count in audit.families.items()
    ]  # fmt: skip
    return csv_of(("contract", "family", "cases", "killed", "killed_alone"), rows)


def _kinds(combinations: Combinations) -> tuple[tuple[str, LevelCoverage], ...]:
    return ("pairs", combinations.pairs), ("fused triples", combinations.triples)


def _combinations(combinations: Combinations) -> Table:
    """The combinations of features that the cases cover, and the mutants that they kill there."""
    heads = ("features combined", "possible", "in a case", "mutants wrong there alone", "killed", "survivors")
    rows = [
        (kind, meetings.possible, meetings.met, meetings.mutants, meetings.killed,
         Cell(name_list(meetings.survived, MOST_NAMED) or spans("none")))
        for kind, meetings in _kinds(combinations)
    ]  # fmt: skip
    return table(heads, rows)


def _mutants(audits: Sequence[Audit]) -> str:
    """A row per mutant: its mistake, its source, and the number of cases that kill it, by family."""
    rows = [
        (audit.contract, name, audit.mistakes[name], audit.sources[name],
         ", ".join(f"{family} {len(cases)}" for family, cases in families.items()))
        for audit in audits for name, families in audit.kills.items()
    ]  # fmt: skip
    return csv_of(("contract", "mutant", "mistake", "seen_in", "killed_by"), rows)


LONGEST_COMPLAINT = 160
"""Characters of a verdict in a cell."""


def write_cheats(folder: Path, audit: ExploitAudit, run: Run) -> Path:
    """Write cheats.md into `folder`, atomically, and return its path."""
    return write(folder, texts("cheats", cheats_page(audit, run)))[0]


def cheats_lines(audit: ExploitAudit) -> list[str]:
    """A line per trial, unexpected verdicts last, then the totals."""
    ordered = sorted(audit.trials, key=lambda trial: not trial.as_expected)
    submissions = len({trial.cheat.name for trial in audit.trials})
    through = len({trial.cheat.name for trial in audit.unexpected})
    total = f"{submissions} submissions, {through} with an unexpected verdict, in {audit.seconds:.0f} s"
    return [*(plain(_trial_line(trial), LONGEST_CODE) for trial in ordered), total]


def cheats_page(audit: ExploitAudit, run: Run) -> Page:
    """A row per submission and command, by class, after a list of unexpected verdicts."""
    unexpected = points(_trial_line(trial) for trial in audit.unexpected)
    kinds = dict.fromkeys(trial.cheat.kind for trial in audit.trials)
    content = blocks(
        facts.run_table(run),
        note(
            "Each submission is one file, which is checked and timed like a user's file. Timing takes all of them as "
            "correct, so that `bench` shows what it detects without `check`."
        ),
        section("Expected verdicts", points(f"{word}: {says}" for word, says in EXPECTED_VERDICTS.items())),
        section("Unexpected verdicts", unexpected),
        (_class(kind, [trial for trial in audit.trials if trial.cheat.kind == kind]) for kind in kinds),
    )
    return Page("Submissions that try to fool the suite", content)


def _class(kind: str, trials: Sequence[ExploitTrial]) -> Section:
    heads = ("submission", "description", "command", "expected", "actual")
    rows = [
        (code(trial.cheat.name), trial.cheat.says, code(trial.command), trial.must,
         plain(trial.happened, LONGEST_COMPLAINT))
        for trial in trials
    ]  # fmt: skip
    return section(kind, table(heads, rows))


def _trial_line(trial: ExploitTrial) -> str:
    prefix = "" if trial.as_expected else "unexpected verdict: "
    return f"{prefix}{trial.cheat.kind}: {trial.cheat.name}: {trial.command}: expected {trial.must}; {trial.happened}"


STOPWATCH = "stopwatch"
"""The file name of the page and its table, without the ending."""


def write_stopwatch(folder: Path, audit: StopwatchAudit, run: Run) -> list[Path]:
    """Write stopwatch.md and its CSV into `folder`, atomically, and return their paths. UsageError if it cannot."""
    with file_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    return write(folder, texts(STOPWATCH, stopwatch_page(audit, run)))


def stopwatch_page(audit: StopwatchAudit, run: Run) -> Page:
    """A summary, the other timers, and the method; the CSV file has every comparison."""
    machine = run.machine
    content = blocks(
        facts.run_table(run),
        points(stopwatch_lines(audit, machine)),
        section("Other timers", _agreements(audit)),
        section("How it was measured", points(_method(audit))),
    )
    names = [field.name for field in fields(Trial)]
    trials = csv_of(names, map(attrgetter(*names), audit.trials))
    return Page(f"The stopwatch against itself on {machine.name}", content, {STOPWATCH: trials})


def stopwatch_lines(audit: StopwatchAudit, machine: Machine) -> list[str]:
    """The summary as plain lines: false claims, slow-downs, other timers, then every complaint."""
    lines = [*_shares(audit, machine)]
    lines += [_agreement(audit, tool) for tool in audit.tools]
    lines += [f"missing: {tool}: {reason}" for tool, reason in audit.absent.items()]
    return [*lines, *(f"complaint: {complaint}" for complaint in audit.complaints)]


def _agreement(audit: StopwatchAudit, tool: str) -> str:
    """The difference between another timer and ours: the median, and the largest."""
    worst = max((check for check in audit.agreements if check.tool == tool), key=lambda check: check.off)
    middle, most = percent(audit.disagreement(tool), 1), percent(worst.off, 1)
    where = f"{worst.implementation}, {worst.workload}"
    return f"{tool}: times differ by {middle} in the median and {most} at most ({where})"


def _shares(audit: StopwatchAudit, machine: Machine) -> Iterator[str]:
    for threads in audit.threads:
        claims, tables, where = audit.claimed(0.0, threads), audit.tables(threads), timed.threads(threads, machine)
        subject = f"false claims on {where}: {claims.count} of {claims.total} ({_share(claims)})"
        yield f"{subject}, in {tables.count} of {tables.total} tables"
        for injected in SLOWDOWNS:
            detected = audit.claimed(injected, threads)
            if detected.total:
                subject = f"slowdowns of {percent(injected)} found on {where}: {detected.count} of {detected.total}"
                yield f"{subject} ({_share(detected)})"


def _agreements(audit: StopwatchAudit) -> Table:
    heads = ("timer", "workload", "implementation", "device", "our time", "pairs", "ours / theirs", "difference")
    rows = [
        (check.tool, code(check.workload), code(check.implementation), check.device,
         time_unit([check.seconds]).format(check.seconds), check.pairs, significant(check.ratio, 4),
         percent(check.off, 1))
        for check in audit.agreements
    ]  # fmt: skip
    return table(heads, rows)


def _method(audit: StopwatchAudit) -> Iterator[str]:
    tables = len({trial.table for trial in audit.trials})
    yield (
        f"{tables} tables, each in its own processes. A table compares the baseline with itself and with slowed "
        "copies, which busy-wait for a share of their own time after each call."
    )
    yield (
        f"A claim is the verdict faster or slower: the {percent(LEVEL)} interval of the ratio, corrected for all "
        f"comparisons of the table, excludes 1, and the median differs by more than {percent(MARGIN)}."
    )
    yield (
        f"Limits on one thread: at most {percent(FALSE_CLAIMS)} false claims, at least {percent(MIN_FOUND_SHARE)} of "
        f"slowdowns of {percent(JUDGED_SLOWDOWN)} found, at most {percent(DISAGREEMENT)} of difference to other timers."
    )
    yield f"Shares have exact {percent(SHARE_LEVEL)} intervals. The audit took {duration(audit.seconds)}."


def _share(share: Share) -> str:
    """A share with its interval: "1.0 %, 95 % interval 0.3 to 2.4 %"."""
    low, high = share.interval
    return f"{percent(share.value, 1)}, {percent(SHARE_LEVEL)} interval {100 * low:.1f} to {percent(high, 1)}"
