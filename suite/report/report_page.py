"""report.html: conformance, time and memory of each attention for a shape, in one file that loads nothing."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2

from attnsuite.model import (
    FAILURES,
    NO_DOCUMENT,
    RIGHT_GRADIENT,
    WRONG_GRADIENTS,
    ClaimResult,
    ClaimStatus,
    FindingFacts,
    Machine,
    Outcome,
    TrainingRow,
)
from attnsuite.model.statistics import Interval, interval
from attnsuite.report import facts
from attnsuite.report.tally import Count, Group, by_implementation, correctness, count, groups
from attnsuite.report.timed import (
    ATTENTION,
    BASELINE,
    Row,
    TimedTable,
    absence,
    between,
    memory,
    peak,
    setting_words,
    threads,
    verdict,
)
from attnsuite.report.units import significant
from attnsuite.results import MachineRecord

REPORT = "report.html"
"""The page's file, in the folder of results."""
OPENING = "<!doctype html><!-- attnsuite"
"""The first characters of an HTML page of attnsuite."""
ASSETS = Path(__file__).parent / "assets"
DEFAULT_LENGTH = 16384
"""Tokens of the shape that the page opens with: implementations differ most in time and memory there."""
MOST_TIED = 4
"""Implementations that are named as equally fast; further ones are counted."""
MOST_ROWS = 10
"""Rows of the table of one shape; slower implementations are named below it."""
GROUPS: Mapping[str, Sequence[str]] = {
    "shapes, heads": ("plain", "keys", "queries", "widths", "lengths", "items", "ranks", "roles", "no_keys", "heads"),
    "masks": ("bool_mask", "float_mask", "both", "empty_row"),
    "causal, window": ("causal", "window"),
    "scale, range": ("scale", "softcap", "numerics", "half"),
    "dropout, sinks, lse": ("dropout", "sinks", "lse"),
    "gradients": ("gradients", "gradient_sizes", "gradient_numerics", "mask_gradient", "empty_row_gradients"),
    "layout, state": ("layout", "state", "order", "threads", "behaviour", "metamorphic"),
    "combinations": ("combined", "tiles"),
    "documents": ("documents",),
    "bad input": ("bad_input",),
}
"""The columns of the matrix: groups of families of attention's cases. Other families count as combinations."""


def group_of(case: str) -> str:
    """The group of a case's family."""
    family = case.partition("/")[0]
    return next((group for group, families in GROUPS.items() if family in families), "combinations")


TINY = 1e-4
"""Claims' numbers below this have an exponent: rounding errors would be a line of zeros."""
HOW = "Memory is the peak of a call without its inputs. A ratio is the median of the ratios of the single rounds."
"""A note below each timed table."""


def report_text(machines: Mapping[str, MachineRecord], tables: Mapping[str, Sequence[TimedTable]], folder: Path) -> str:
    """The text of report.html. The last section counts from the audits' tables in `folder`, if there are any."""
    pages = [_MachinePage(recorded, tables[name]) for name, recorded in machines.items() if recorded.runs]
    pages.sort(key=lambda page: (not (page.recorded.rows and page.tables), -len(page.tables), -page.rows))
    labels = _labels([machine.recorded.run.machine for machine in pages])
    bugs = _bugs(pages)
    data = {
        "bugs": [bug.key for bug in bugs],
        "machines": [{"label": label, **machine.data} for label, machine in zip(labels, pages, strict=True)],
        "how": HOW,
    }
    return render(
        "report.html.jinja",
        "page.js",
        data,
        machines=list(zip(labels, pages, strict=True)),
        bugs=bugs,
        labels=dict(zip((machine.name for machine in pages), labels, strict=True)),
        groups=list(GROUPS),
        how=HOW,
        audits=_audits(folder),
        claim_value=claim_value,
        query=query,
    )


def render(template: str, script_file: str, data: object, **values: object) -> str:
    """A page from a template, a script and the style of assets/. The template escapes each value not marked as safe."""
    script, style = ((ASSETS / name).read_text(encoding="utf-8") for name in (script_file, "style.css"))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    page = {"style": style, "script": script, "policy": policy(style, script), "data": as_json(data)}
    text = environment.get_template(template).render(**page, **values)
    return text.encode(errors="backslashreplace").decode()


def query(**words: str) -> str:
    """The part of an address after #, which selects tests: `i=attention%2Fflash&g=masks`."""
    return urlencode({key: word.encode(errors="backslashreplace") for key, word in words.items()})


def policy(style: str, script: str) -> str:
    """A content security policy: nothing is loaded or sent, and only this style and this script apply."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {digest(style)}; script-src {digest(script)}"


def as_json(data: object) -> str:
    """JSON that cannot end its element of a page."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _labels(machines: Sequence[Machine]) -> list[str]:
    """Short names: the accelerators, or the processor and its cores; equal names get the end of the folder's name."""
    short = [_short(machine) for machine in machines]
    alike = Counter(short)
    return [
        name if alike[name] == 1 else f"{name} ({machine.name.split('-cores')[-1].strip('-') or 'first'})"
        for name, machine in zip(short, machines, strict=True)
    ]


def _short(machine: Machine) -> str:
    if machine.accelerators:
        return ", ".join(machine.accelerators)
    processor = re.sub(r"\((R|TM)\)|\b(Processor|CPU|Authentic)\b", "", machine.processor)
    processor = re.sub(r"\bfamily (\d+), model (\d+)\b", r"\1/\2", processor)
    return f"{' '.join(processor.split()).replace(' ,', ',')}, {machine.cores} cores"


class _MachinePage:
    """The page's view of one machine."""

    def __init__(self, recorded: MachineRecord, tables: Sequence[TimedTable]) -> None:
        self.recorded = recorded
        self.tables = tables
        tested = by_implementation(recorded.outcomes)
        self.tested = {name: TestSummary(name, outcomes) for (name, _), outcomes in tested.items()}

    @property
    def rows(self) -> int:
        return len(self.recorded.rows) + len(self.recorded.measured)

    @property
    def name(self) -> str:
        return self.recorded.machine

    @property
    def words(self) -> str:
        """The machine and its newest run in one line."""
        run, machine = self.recorded.run, self.recorded.run.machine
        memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
        cores = f"{machine.cores} core{'s' * (machine.cores != 1)}"
        parts = [machine.processor, cores, memory, *machine.accelerators, facts.torch(run)]
        kinds = {"tested": self.recorded.rows, "timed": self.recorded.measured}
        done = " and ".join(kind for kind, rows in kinds.items() if rows)
        words = f"{', '.join(filter(None, parts))}; {done or 'nothing tested or timed'}, last on {facts.date(run)}"
        return "; ".join(filter(None, (words, facts.shards(run))))

    @property
    def default(self) -> TimedTable | None:
        """The table that the page opens with: attention, forward, float32, one thread, the default length."""
        ordered = sorted(self.tables, key=lambda table: (abs(table.facts.length - DEFAULT_LENGTH), table.order))
        attention = [table for table in ordered if table.setting.contract == ATTENTION and table.measured]
        plain = [table for table in attention if table.setting.direction == "forward" and table.setting.threads <= 1]
        return next(iter([*plain, *attention, *ordered]), None)

    @property
    def data(self) -> dict[str, Any]:
        """The data of the page's script: the timed tables."""
        start = self.tables.index(self.default) if self.default else -1
        tables = [self.table(table) for table in self.tables]
        return {"name": self.name, "words": self.words, "start": start, "tables": tables}

    def table(self, table: TimedTable) -> dict[str, Any]:
        """A timed table as the page draws it, with rounded numbers."""
        setting = table.setting
        rows, slowest = table.measured[:MOST_ROWS], ", ".join(row.name for row in table.measured[MOST_ROWS:])
        reasons = "; ".join(f"{row.name}: {absence(row.measurement)}" for row in table.rows if not row.time)
        below = (slowest and f"Slower: {slowest}.", reasons and f"No time: {reasons}.")
        machine, direction = self.recorded.run.machine, setting.direction.replace("_", " and ")
        return {
            "contract": setting.contract, "workload": table.workload, "group": table.facts.group,
            "shape": table.facts.shape, "why": table.facts.why, "length": table.facts.length, "dtype": setting.dtype,
            "device": setting.device, "threads": threads(setting.threads, machine), "direction": direction,
            "cache": setting.cache, "baseline": table.baseline, "recommendation": self.recommendation(table),
            "setting": setting_words(setting), "rows": [self._row(table, row) for row in rows],
            "absent": " ".join(filter(None, below)),
        }  # fmt: skip

    def _row(self, table: TimedTable, row: Row) -> dict[str, Any]:
        assert row.time is not None
        tests = self._tests(row)
        return {
            "name": row.name,
            "time": table.unit.format(row.time.median),
            "between": between(row, table.unit),
            "seconds": [_digits(row.time.median), _digits(row.time.low), _digits(row.time.high)],
            "verdict": BASELINE if row.verdict == BASELINE else verdict(row) or "–",
            "memory": memory(row),
            "tests": tests.words,
            "kind": tests.kind,
            "bugs": tests.bugs,
        }

    def _tests(self, row: Row) -> TestSummary:
        return self.tested.get(row.measurement.implementation) or TestSummary(row.name, ())

    def recommendation(self, table: TimedTable) -> list[str]:
        """Sentences: the fastest implementation without a failure, the fastest of all, and overlapping intervals."""
        if not table.measured:
            return ["Nothing was timed for this shape."]
        first, *others = table.measured
        assert first.time is not None
        clean = next((row for row in table.measured if self._tests(row).kind == "passed"), None)
        if clean is None:
            sentences = ["Each implementation has a known bug, fails a test, or was not tested on this machine."]
        else:
            end = ", and is the fastest." if clean is first else "."
            use = f"Use {self._result(table, clean)}: it passes all {self._tests(clean).count.run:,} tests"
            sentences = [f"{use}{end}"]
        if clean is not first:
            passed = "; the tests of this shape passed before it was timed" if self._tests(first).count.run else ""
            sentences.append(f"Fastest: {self._result(table, first)}; {self._tests(first).words}{passed}.")
        tied = [f"{row.name} ({peak(row)})" for row in others if row.time and row.time.low <= first.time.high]
        more = f" and {len(tied) - MOST_TIED} more" if len(tied) > MOST_TIED else ""
        return [*sentences, *([f"Intervals overlap with: {', '.join(tied[:MOST_TIED])}{more}."] if tied else [])]

    @staticmethod
    def _result(table: TimedTable, row: Row) -> str:
        assert row.time is not None
        return f"{row.name}, {table.unit.format(row.time.median)}, {peak(row)}"

    @property
    def matrix(self) -> list[tuple[str, TestSummary, list[Count]]]:
        """Attention's implementations with their counts by group."""
        names = [name for name in self.tested if name.startswith(f"{ATTENTION}/")]
        return [
            (name.partition("/")[2], self.tested[name], [self.tested[name].by_group[group] for group in GROUPS])
            for name in sorted(names)
            if self.tested[name].count.run
        ]

    @property
    def absent(self) -> list[tuple[str, str]]:
        """Attention's implementations without a test that ran, with the reason."""
        return [
            (name.partition("/")[2], tested.reason)
            for name, tested in sorted(self.tested.items())
            if name.startswith(f"{ATTENTION}/") and not tested.count.run
        ]

    @property
    def others(self) -> list[tuple[str, int, Count]]:
        """The other contracts: the number of implementations, and the sum of their tests."""
        by_contract: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in self.recorded.outcomes:
            by_contract[outcome.contract].append(outcome)
        return [
            (name, len({outcome.implementation for outcome in outcomes}), count(outcomes))
            for name, outcomes in sorted(by_contract.items())
            if name != ATTENTION
        ]

    @property
    def failures(self) -> list[Group]:
        """Failures without a known bug, in groups."""
        again = {name: declared.again.get(name, ()) for name, declared in facts.declared(self.recorded).items()}
        return groups((outcome for outcome in self.recorded.outcomes if outcome.fails), again)

    @property
    def claims(self) -> list[ClaimResult]:
        """The documents' claims; those that do not hold come first."""
        return [claim for claim in self._claims if claim.document != NO_DOCUMENT]

    @property
    def statements(self) -> list[ClaimResult]:
        """Statements that no document makes, measured in the same way."""
        return [claim for claim in self._claims if claim.document == NO_DOCUMENT]

    @property
    def _claims(self) -> list[ClaimResult]:
        holds = ClaimStatus.HOLDS
        return sorted(self.recorded.claimed, key=lambda claim: (claim.holds == holds, claim.document, claim.claim))

    @property
    def learned(self) -> list[dict[str, Any]]:
        """The range of each score over the seeds of a task and implementation."""
        by_task: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for training in self.recorded.learned:
            if training.task == WRONG_GRADIENTS:
                continue
            by_task[training.task, training.implementation].append(training)
        rows = []
        for (task, name), trainings in sorted(by_task.items()):
            values: dict[str, list[float]] = defaultdict(list)
            for score, value in chain.from_iterable(training.scores.items() for training in trainings):
                values[score].append(value)
            scores = ", ".join(f"{score} {_range(numbers)}" for score, numbers in values.items())
            printed = ", ".join(f"{score} {value:.3f}" for score, value in trainings[0].printed.items())
            seeds = len({training.seed for training in trainings})
            rows.append({"task": task, "implementation": name, "seeds": seeds, "scores": scores, "printed": printed})
        return rows

    @property
    def wrong_gradients(self) -> list[Comparison]:
        """Trainings with wrong gradients, compared with the right one seed by seed."""
        return comparisons(self.recorded.learned)


class TestSummary:
    """The tests of one implementation on one machine."""

    def __init__(self, name: str, outcomes: Sequence[Outcome]) -> None:
        self.name = name
        self.outcomes = outcomes
        self.count = count(correctness(outcomes))
        self.bugs = sorted({outcome.known for outcome in outcomes if outcome.known and outcome.status in FAILURES})
        by_group: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            by_group[group_of(outcome.case)].append(outcome)
        self.by_group = {group: count(by_group.get(group, ())) for group in GROUPS}

    @property
    def kind(self) -> str:
        """`failed`, `known` (all failures are known bugs), `passed`, or `none` where no test ran."""
        if not self.count.run:
            return "none"
        return "failed" if self.count.failures else "known" if self.count.known else "passed"

    @property
    def words(self) -> str:
        """The number of tests that passed and failed: "3,366 of 3,367 tests passed, 1 failure of known bugs"."""
        if not self.count.run:
            return self.reason
        passed = f"{self.count.passed:,} of {self.count.run:,} tests passed"
        failures = f"{self.count.failures:,} failed" if self.count.failures else ""
        number = self.count.known
        known_bugs = f"{number:,} failure{'s' * (number != 1)} of known bugs" if number else ""
        return ", ".join(filter(None, (passed, failures, known_bugs)))

    @property
    def reason(self) -> str:
        """The reason why no test ran."""
        return next((outcome.detail or str(outcome.status) for outcome in self.outcomes), "not tested on this machine")


def _digits(value: float) -> float | None:
    """Four digits, enough to draw; None for a number without a place on an axis."""
    return float(f"{value:.4g}") if 0 < value < float("inf") else None


def _range(values: Sequence[float]) -> str:
    low, high = (f"{value:.3f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


@dataclass
class Bug:
    """A card of the page: a known bug, the affected implementations, and its failures by machine."""

    key: str
    example: Outcome
    facts: FindingFacts
    names: set[str] = field(default_factory=set)
    machines: Counter[str] = field(default_factory=Counter)

    @property
    def id(self) -> str:
        """The anchor of its card."""
        return f"bug-{re.sub(r'[^A-Za-z0-9_-]+', '-', self.key)}"

    @property
    def upstream(self) -> tuple[str, str]:
        """The address of the library's issue, or empty, and the words after it."""
        address, _, words = self.facts.upstream.partition(" ")
        return (address, words) if address.startswith("https://") else ("", self.facts.upstream)

    @property
    def rerun(self) -> str:
        """A command that shows one failure."""
        return groups([self.example])[0].rerun


def _bugs(pages: Sequence[_MachinePage]) -> list[Bug]:
    """The known bugs that failed on any machine, by name."""
    bugs: dict[str, Bug] = {}
    for machine in pages:
        findings = facts.findings(machine.recorded)
        for outcome in machine.recorded.outcomes:
            if outcome.known and outcome.status in FAILURES:
                noted_facts = findings.get(outcome.known, FindingFacts(""))
                bug = bugs.setdefault(outcome.known, Bug(outcome.known, outcome, noted_facts))
                bug.facts = max(bug.facts, noted_facts, key=lambda card: (bool(card.reproduction), len(card.words)))
                bug.names.add(outcome.implementation)
                bug.machines[machine.name] += 1
    return [bugs[key] for key in sorted(bugs)]


def _audits(folder: Path) -> list[str]:
    """Sentences on the suite's reliability, counted from the audits' tables. A missing table has no sentences."""
    sentences = []
    contracts = list(csv.DictReader(_lines(folder / "audit.csv")))
    if contracts:
        total = {key: sum(int(row[key]) for row in contracts) for key in ("mutants", "killed", "variants", "accused")}
        sentences += [
            f"{total['killed']:,} of {total['mutants']:,} implementations with one known mistake fail a test",
            f"{total['accused']:,} of {total['variants']:,} correct implementations in various styles fail a test",
        ]
    files = sorted(folder.glob("*/stopwatch.csv"))
    trials = [row for file in files for row in csv.DictReader(_lines(file)) if row["threads"] == "1"]
    same, slowed = ([row["verdict"] for row in trials if row["injected"] == share] for share in ("0.0", "0.05"))
    if same and slowed:
        claims = sum(verdict in ("faster", "slower") for verdict in same)
        sentences += [
            f"{claims:,} of {len(same):,} comparisons of an implementation with itself differ (one thread)",
            f"{slowed.count('slower'):,} of {len(slowed):,} slow-downs by 5 % are reported as slower (one thread)",
        ]
    return sentences


def _lines(file: Path) -> Iterator[str]:
    if file.is_file():
        yield from file.read_text(encoding="utf-8", errors="replace").splitlines()


def claim_value(claim: ClaimResult) -> str:
    """The number of a claim with its interval: "1.98 (1.95 to 2.03)", "4.44e-16"."""
    if claim.value is None or claim.low is None or claim.high is None:
        return claim.detail
    value, low, high = (
        f"{number:.3g}" if 0 < abs(number) < TINY else significant(number)
        for number in (claim.value, claim.low, claim.high)
    )
    return value if claim.low == claim.high else f"{value} ({low} to {high})"


LOSS = "last loss"
"""The quantity that each training has; scores have their own names."""
PAIRS = 8
"""The fewest seeds for an interval: all of seven pairs have one sign by chance with a probability of 1.6 %."""


@dataclass(frozen=True)
class Comparison:
    """A mistake's trainings, each minus the right gradient's from the same seed: initial weights and data are equal."""

    mistake: str
    pairs: int
    differences: Mapping[str, Interval]
    """The median difference of each quantity with its interval."""

    @property
    def verdict(self) -> str:
        """Which quantities show the mistake, "shows in nothing", or the number of missing seeds."""
        if self.pairs < PAIRS:
            return f"unknown: {self.pairs} of {PAIRS} seeds are trained"
        shown = [name for name, change in self.differences.items() if change.low > 0 or change.high < 0]
        return f"shows in {' and '.join(shown)}" if shown else "shows in nothing"

    @property
    def words(self) -> str:
        """The differences: "last loss +0.012 (−0.003 to +0.020)"; without an interval for too few seeds."""
        return "; ".join(
            f"{name} {_signed(change.median)}"
            + (f" ({_signed(change.low)} to {_signed(change.high)})" if self.pairs >= PAIRS else "")
            for name, change in self.differences.items()
        )


def comparisons(trainings: Sequence[TrainingRow]) -> list[Comparison]:
    """A comparison for each mistake, by name. Seeds and configs without a right gradient are ignored."""
    by_name: dict[str, dict[str, TrainingRow]] = defaultdict(dict)
    for training in trainings:
        if training.task == WRONG_GRADIENTS:
            by_name[training.implementation][f"{training.seed} {sorted(training.config.items())}"] = training
    right = by_name.pop(RIGHT_GRADIENT, {})
    return [
        _compared_seeds(name, [(rows[seed], right[seed]) for seed in rows if seed in right])
        for name, rows in sorted(by_name.items())
    ]


def _compared_seeds(name: str, pairs: Sequence[tuple[TrainingRow, TrainingRow]]) -> Comparison:
    changes: dict[str, list[float]] = defaultdict(list)
    for wrong, right in pairs:
        changes[LOSS].append(wrong.curve[-1] - right.curve[-1])
        for score in wrong.scores.keys() & right.scores.keys():
            changes[score].append(wrong.scores[score] - right.scores[score])
    return Comparison(name, len(pairs), {quantity: interval(values) for quantity, values in changes.items()})


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
