"""report.html: which attention to use for a shape, is it right, how fast, how much memory; one file, no requests."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2

from attnsuite.model import FAILURES, ClaimResult, ClaimStatus, FindingFacts, Machine, Outcome
from attnsuite.report import facts, provenance
from attnsuite.report.tally import Count, by_implementation, correctness, count, groups
from attnsuite.report.timed import (
    ATTENTION,
    BASELINE,
    Row,
    TimedTable,
    absence,
    between,
    peak,
    setting_words,
    threads,
    verdict,
)
from attnsuite.report.units import significant
from attnsuite.results import Recorded

REPORT = "report.html"
"""The page's file, in the folder of results."""
OPENING = "<!doctype html><!-- attnsuite"
"""How an HTML page of attnsuite begins."""
ASSETS = Path(__file__).parent / "assets"
DEFAULT_LENGTH = 16384
"""Tokens of the shape that the page opens with: there the implementations differ most in time and in memory."""
MOST_TIED = 4
"""Implementations that are named as equally fast; of more, the others are counted."""
MOST_ROWS = 10
"""Rows of the table of one shape; of more, the slowest are named below it."""
GROUPS: Mapping[str, Sequence[str]] = {
    "shapes, heads": ("plain", "keys", "queries", "widths", "lengths", "items", "ranks", "roles", "no_keys", "heads"),
    "masks": ("bool_mask", "float_mask", "both", "empty_row"),
    "causal, window": ("causal", "window"),
    "scale, range": ("scale", "numerics", "half"),
    "dropout": ("dropout",),
    "gradients": (*("gradients", "gradient_sizes", "gradient_numerics", "mask_gradient", "empty_row_gradients"),),
    "layout, state": ("layout", "state", "order", "threads", "behaviour", "metamorphic"),
    "combinations": ("combined",),
    "documents": ("documents",),
    "bad input": ("bad_input",),
}
"""The columns of the matrix: groups of families of attention's cases. Another family counts under the last but two."""


def group_of(case: str) -> str:
    """The group of a case's family."""
    family = case.partition("/")[0]
    return next((group for group, families in GROUPS.items() if family in families), "combinations")


HOW = "Memory: peak of a call without its inputs. Ratios: medians over interleaved rounds, not quotients of medians."
"""How to read the numbers of a timed table."""


def report_text(machines: Mapping[str, Recorded], timed: Mapping[str, Sequence[TimedTable]], folder: Path) -> str:
    """The text of report.html. `folder` may hold the audits' tables, from which the last section counts."""
    shown = [_MachinePage(recorded, timed[name]) for name, recorded in machines.items() if recorded.runs]
    both = [machine for machine in shown if machine.recorded.rows and machine.tables]
    shown.sort(key=lambda machine: (machine not in both, -len(machine.tables), -machine.rows))
    labels = _labels([machine.recorded.run.machine for machine in shown])
    bugs = _bugs(shown)
    data = {
        "bugs": [bug.key for bug in bugs],
        "machines": [{"label": label, **machine.data} for label, machine in zip(labels, shown, strict=True)],
        "groups": list(GROUPS),
        "how": HOW,
    }
    script, style = (_asset(name) for name in ("page.js", "style.css"))
    return render(
        "report.html.jinja",
        machines=list(zip(labels, shown, strict=True)),
        bugs=bugs,
        labels=dict(zip((machine.name for machine in shown), labels, strict=True)),
        groups=list(GROUPS),
        how=HOW,
        audits=_audits(folder),
        claim_value=claim_value,
        query=query,
        style=style,
        script=script,
        policy=policy(style, script),
        data=as_json(data),
    )


def render(template: str, **values: object) -> str:
    """A page from a template of assets/, with every value escaped unless the template marks it as safe."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    text = environment.get_template(template).render(**values)
    return text.encode(errors="backslashreplace").decode()


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def query(**words: str) -> str:
    """The part of an address that chooses: `i=attention%2Fflash&g=masks`."""
    return urlencode({key: word.encode(errors="backslashreplace") for key, word in words.items()})


def policy(style: str, script: str) -> str:
    """A content security policy: nothing is loaded or sent, and only this style and this script apply."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {digest(style)}; script-src {digest(script)}"


def as_json(data: object) -> str:
    """JSON that cannot end the element of a page in which it stands."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _labels(machines: Sequence[Machine]) -> list[str]:
    """Short names: the accelerators, or the processor and its cores; folders' names where these are alike."""
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
    """What the page shows of one machine."""

    def __init__(self, recorded: Recorded, tables: Sequence[TimedTable]) -> None:
        self.recorded = recorded
        self.tables = tables
        self.tested = {
            name: TestSummary(name, outcomes) for (name, _), outcomes in by_implementation(recorded.outcomes).items()
        }

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
        parts = [machine.processor, cores, memory, *machine.accelerators, provenance.torch([run])]
        done = " and ".join(
            word for word, rows in (("tested", self.recorded.rows), ("timed", self.recorded.measured)) if rows
        )
        words = f"{', '.join(filter(None, parts))}; {done or 'nothing tested or timed'}, last on {provenance.date(run)}"
        return "; ".join(filter(None, (words, provenance.shards(run))))

    @property
    def default(self) -> TimedTable | None:
        """The table that the page opens with: attention's, forward, float32, one thread, of the default length."""
        ordered = sorted(self.tables, key=lambda table: (abs(table.facts.length - DEFAULT_LENGTH), table.order))
        attention = [table for table in ordered if table.setting.contract == ATTENTION and table.measured]
        plain = [table for table in attention if table.setting.direction == "forward" and table.setting.threads <= 1]
        return next(iter([*plain, *attention, *ordered]), None)

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script needs: the timed tables, and what is known of each implementation."""
        default = self.default
        return {
            "name": self.name,
            "words": self.words,
            "start": self.tables.index(default) if default else -1,
            "tables": [self.table(table) for table in self.tables],
        }

    def table(self, of: TimedTable) -> dict[str, Any]:
        """A timed table as the page draws it; each number is rounded once, here."""
        at = of.setting
        rows, slowest = of.measured[:MOST_ROWS], ", ".join(row.name for row in of.measured[MOST_ROWS:])
        reasons = "; ".join(f"{row.name}: {absence(row.measurement)}" for row in of.rows if not row.time)
        below = (slowest and f"Slower: {slowest}.", reasons and f"No time: {reasons}.")
        return {
            "contract": at.contract, "workload": of.workload, "group": of.facts.group, "shape": of.facts.shape,
            "why": of.facts.why, "length": of.facts.length, "dtype": at.dtype, "device": at.device,
            "threads": threads(at.threads, self.recorded.run.machine), "direction": at.direction.replace("_", " and "),
            "cache": at.cache, "baseline": of.baseline, "answer": self.answer(of), "setting": setting_words(at),
            "rows": [self._row(of, row) for row in rows],
            "absent": " ".join(filter(None, below)),
        }  # fmt: skip

    def _row(self, of: TimedTable, row: Row) -> dict[str, Any]:
        assert row.time is not None
        tested = self.tested.get(row.measurement.implementation)
        return {
            "name": row.name,
            "time": of.unit.format(row.time.median),
            "between": between(row, of.unit),
            "seconds": [_digits(row.time.median), _digits(row.time.low), _digits(row.time.high)],
            "verdict": BASELINE if row.verdict == BASELINE else verdict(row) or "–",
            "memory": peak(row),
            "bytes": row.reported_peak,
            "right": tested.words if tested else "not tested on this machine",
            "kind": tested.kind if tested else "none",
            "bugs": tested.bugs if tested else [],
        }

    def answer(self, of: TimedTable) -> list[str]:
        """Two sentences: the fastest implementation without a known bug or failure, and the fastest of all."""
        if not of.measured:
            return ["Nothing was timed for this shape."]
        first, *others = of.measured
        assert first.time is not None
        tied = [f"{row.name} ({peak(row)})" for row in others if row.time and row.time.low <= first.time.high]
        more = f" and {len(tied) - MOST_TIED} more" if len(tied) > MOST_TIED else ""
        equally = f" Intervals overlap with: {', '.join(tied[:MOST_TIED])}{more}." if tied else ""
        clean = next((row for row in of.measured if self._is_clean(row)), None)
        if clean is None:
            known = "Each implementation has a known bug, fails a test, or was not tested on this machine."
            return [known, f"Fastest: {self._result(of, first)}; {self._doubt(first)}.{equally}"]
        number = self.tested[clean.measurement.implementation].count.run
        use = f"Use {self._result(of, clean)}: it passes all {number:,} tests"
        if clean is first:
            return [f"{use}, and is the fastest.", *filter(None, [equally.strip()])]
        return [f"{use}.", f"Fastest: {self._result(of, first)}; {self._doubt(first)}.{equally}"]

    @staticmethod
    def _result(of: TimedTable, row: Row) -> str:
        assert row.time is not None
        return f"{row.name}, {of.unit.format(row.time.median)}, {peak(row)}"

    def _is_clean(self, row: Row) -> bool:
        tested = self.tested.get(row.measurement.implementation)
        return tested is not None and tested.kind == "passed"

    def _doubt(self, row: Row) -> str:
        tested = self.tested.get(row.measurement.implementation)
        if tested is None or tested.kind == "none":
            return "not tested on this machine"
        return f"{tested.words}, none in what this shape uses: these tests passed before it was timed"

    @property
    def matrix(self) -> list[tuple[str, TestSummary, list[Count]]]:
        """Attention's implementations: the tests of each by group."""
        names = [name for name in self.tested if name.startswith(f"{ATTENTION}/")]
        return [
            (name.partition("/")[2], self.tested[name], [self.tested[name].by_group[group] for group in GROUPS])
            for name in sorted(names)
            if self.tested[name].count.run
        ]

    @property
    def absent(self) -> list[tuple[str, str]]:
        """Attention's implementations that no test ran on, with the reason."""
        return [
            (name.partition("/")[2], tested.reason)
            for name, tested in sorted(self.tested.items())
            if name.startswith(f"{ATTENTION}/") and not tested.count.run
        ]

    @property
    def others(self) -> list[tuple[str, int, Count]]:
        """The other contracts: implementations that were tested, and the sum of their tests."""
        by_contract: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in self.recorded.outcomes:
            by_contract[outcome.contract].append(outcome)
        return [
            (name, len({outcome.implementation for outcome in outcomes}), count(outcomes))
            for name, outcomes in sorted(by_contract.items())
            if name != ATTENTION
        ]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Failures without a known bug, in groups."""
        again = {name: each.again.get(name, ()) for name, each in facts.declared(self.recorded).items()}
        failing = [outcome for outcome in self.recorded.outcomes if outcome.fails]
        return [
            {"count": of.count, "name": of.example.implementation, "says": of.says, "rerun": of.rerun}
            for of in groups(failing, again)
        ]

    @property
    def claims(self) -> list[ClaimResult]:
        """The documents' claims, those that do not hold first."""
        return sorted(
            self.recorded.claimed, key=lambda claim: (claim.holds == ClaimStatus.HOLDS, claim.document, claim.claim)
        )

    @property
    def learned(self) -> list[dict[str, Any]]:
        """The trainings: the median of each score over seeds, by task and implementation."""
        by_task: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for of in self.recorded.learned:
            by_task[of.task, of.implementation].append(of)
        return [
            {
                "task": task,
                "implementation": name,
                "seeds": len({of.seed for of in trained}),
                "scores": ", ".join(
                    f"{score} {_range([of.scores[score] for of in trained if score in of.scores])}"
                    for score in dict.fromkeys(score for of in trained for score in of.scores)
                ),
                "printed": ", ".join(f"{score} {value:.3f}" for score, value in trained[0].printed.items()),
            }
            for (task, name), trained in sorted(by_task.items())
        ]


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
        """How many tests passed, failed, and failed for known bugs: "3,367 of 3,367 tests passed"."""
        if not self.count.run:
            return self.reason
        passed = f"{self.count.passed:,} of {self.count.run:,} tests passed"
        failures = f"{self.count.failures:,} failed" if self.count.failures else ""
        number = self.count.known
        known = f"{number:,} failure{'s' * (number != 1)} of known bugs" if number else ""
        return ", ".join(filter(None, (passed, failures, known)))

    @property
    def reason(self) -> str:
        """Why no test ran."""
        return next((outcome.detail or str(outcome.status) for outcome in self.outcomes), "not tested")


def _digits(value: float) -> float | None:
    """Four digits, which suffice to draw; None for what has no place on an axis."""
    return float(f"{value:.4g}") if 0 < value < float("inf") else None


def _range(values: Sequence[float]) -> str:
    low, high = (f"{value:.3f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


@dataclass
class Bug:
    """A card of the page: a known bug, the implementations that have it, and its failures by machine."""

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
        """The address of the report to the library, if it is one, and what is said of it."""
        address, _, words = self.facts.upstream.partition(" ")
        return (address, words) if address.startswith("https://") else ("", self.facts.upstream)

    @property
    def rerun(self) -> str:
        """A command that shows one failure."""
        return groups([self.example])[0].rerun


def _bugs(shown: Sequence[_MachinePage]) -> list[Bug]:
    """The known bugs that failed on any machine, by name."""
    bugs: dict[str, Bug] = {}
    for machine in shown:
        known = facts.findings(machine.recorded)
        for outcome in machine.recorded.outcomes:
            if outcome.known and outcome.status in FAILURES:
                noted = known.get(outcome.known, FindingFacts(""))
                bug = bugs.setdefault(outcome.known, Bug(outcome.known, outcome, noted))
                bug.facts = max(bug.facts, noted, key=lambda of: (bool(of.reproduction), len(of.words)))
                bug.names.add(outcome.implementation)
                bug.machines[machine.name] += 1
    return [bugs[key] for key in sorted(bugs)]


def _audits(folder: Path) -> list[str]:
    """How far to trust the suite: counts from the audits' tables; without a table its sentences are left out."""
    sentences = []
    contracts = list(csv.DictReader(_lines(folder / "audit.csv")))
    if contracts:
        total = {key: sum(int(row[key]) for row in contracts) for key in ("mutants", "killed", "variants", "accused")}
        sentences += [
            f"{total['killed']:,} of {total['mutants']:,} known mistakes are detected by the test cases",
            f"{total['accused']:,} of {total['variants']:,} correct implementations in other styles fail a test",
        ]
    files = sorted(folder.glob("*/stopwatch.csv"))
    trials = [row for file in files for row in csv.DictReader(_lines(file)) if row["threads"] == "1"]
    same, slowed = ([row["verdict"] for row in trials if row["injected"] == share] for share in ("0.0", "0.05"))
    if same and slowed:
        claims = sum(verdict in ("faster", "slower") for verdict in same)
        sentences += [
            f"{claims:,} of {len(same):,} comparisons of identical code claim a difference (one thread)",
            f"{slowed.count('slower'):,} of {len(slowed):,} slow-downs of 5 % are found (one thread)",
        ]
    return sentences


def _lines(file: Path) -> Iterator[str]:
    if file.is_file():
        yield from file.read_text(encoding="utf-8", errors="replace").splitlines()


def claim_value(of: ClaimResult) -> str:
    """The number of a claim with its interval: "1.98 (1.95 to 2.03)"."""
    if of.value is None or of.low is None or of.high is None:
        return of.detail
    value = significant(of.value)
    return value if of.low == of.high else f"{value} ({significant(of.low)} to {significant(of.high)})"
