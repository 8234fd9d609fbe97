"""The first screen: what was asked where, who passed, how fast each is over all, and what is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from attnsuite.model import ContractFacts, Measurement, Outcome, Status
from attnsuite.report import facts, provenance
from attnsuite.report.benchmark.overall import Overall, overall
from attnsuite.report.benchmark.views import Material
from attnsuite.report.benchmark.wording import ATTENTION
from attnsuite.report.cells import NOTHING, Cell, Kind, code, listed, number, said, text
from attnsuite.report.conformance.page import sample_note
from attnsuite.report.conformance.tally import by_implementation, count, pattern
from attnsuite.report.page import Block, Note, Points, Table, note, table

MOST_REASONS = 12
"""The most reasons for which something is missing that are listed; of more, the others are counted."""
MOST_NAMED = 6
"""The most implementations that are named beside a reason; of more, the others are counted."""


def overview(of: Material) -> Iterator[Block]:
    """The sentence, a line per implementation, and what is missing."""
    yield sentence(of)
    yield implementations(of)
    yield sample_note(facts.sampled(of.recorded))
    yield note("Speed-up: the geometric mean over all timed tables of the contract on the device, with the interval "
               "in which the true one lies; beside it in how many of them both were timed.")  # fmt: skip
    yield missing(of)


def sentence(of: Material) -> Note:
    """What was asked, where and when."""
    recorded = of.recorded
    machine, outcomes = recorded.run.machine, recorded.outcomes
    rows: list[Outcome | Measurement] = [*outcomes, *recorded.measurements]
    names, contracts = {each.implementation for each in rows}, {each.contract for each in rows}
    counts = count(outcomes)
    asked = f"{counts.passed:,} of {counts.asked:,} questions answered rightly" if outcomes else "nothing checked"
    timed = f"{len(of.tables):,} tables of times" if of.tables else "nothing timed"
    cores = f"{machine.cores} core{'s' * (machine.cores != 1)}"
    commits = " and ".join(dict.fromkeys(run.commit or "unknown" for run in recorded.runs.values()))
    used = ", ".join(filter(None, (provenance.torch(recorded.runs.values()), f"commit {commits}")))
    return note(
        f"{_plural(len(names), 'implementation')} of {_plural(len(contracts), 'contract')} on {machine.processor}, "
        f"{cores}, {provenance.when(list(recorded.runs.values()))} ({used}): {asked}, {timed}.",
        longest=1000,
    )


def _plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def implementations(of: Material) -> Table:
    """A line for each implementation and device that has something to say here."""
    times = {(each.contract, f"{each.contract}/{each.name}", each.device): each for each in overall(of.tables)}
    checked = by_implementation(of.recorded.outcomes)
    models = facts.contracts(of.recorded)
    keys = {(each.contract, name, device) for (name, device), rows in checked.items() for each in rows[:1]}
    lines = [
        (key, checked.get(key[1:], []), times.get(key))
        for key in sorted(keys | set(times), key=lambda k: _rank(k, models))
    ]
    sampled = facts.sampled(of.recorded)
    rows = [
        _line(name, device, rows, time, name in sampled) for (_, name, device), rows, time in lines if _says(rows, time)
    ]
    return table(("implementation", "device", "passed/asked", "failures", "known", "declined", "speed-up"), rows)


def _rank(key: tuple[str, str, str], known: dict[str, ContractFacts]) -> tuple[object, ...]:
    contract = key[0]
    return contract != ATTENTION, known.get(contract, ContractFacts()).is_model, *key


def _says(rows: Sequence[Outcome], time: Overall | None) -> bool:
    """Whether it was asked anything here, or timed."""
    return bool(count(rows).asked or (time and time.timed))


def _line(name: str, device: str, rows: Sequence[Outcome], time: Overall | None, sample: bool) -> tuple[object, ...]:
    counts = count(rows)
    sign = "✗" if counts.failures else "◆" if counts.known else "✓"
    shown = f"{sign} {counts.passed}/{counts.asked}{' (sample)' * sample}"
    share = number(counts.passed / counts.asked, shown) if counts.asked else text(NOTHING)
    failures = number(counts.failures, f"✗ {counts.failures}" if counts.failures else "")
    return code(name), device, share, failures, number(counts.known), number(counts.declined), _speed(time)


def _speed(of: Overall | None) -> Cell:
    if of is None or not (of.speedup or of.is_baseline):
        return text(NOTHING)
    beside = f", {of.timed if of.is_baseline else of.compared} of {of.due}"
    value = of.speedup.median if of.speedup else 1.0
    return said(of.words, beside, value=value, kind=Kind.NUMBER)


def missing(of: Material) -> Points:
    """Who has no answer here at all, a line for each reason: a library that is absent, a device that it cannot use."""
    who: dict[tuple[str, str], list[str]] = defaultdict(list)
    timed = {row.of.implementation for each in of.tables for row in each.measured}
    for (name, _), rows in by_implementation(of.recorded.outcomes).items():
        if not count(rows).asked and name not in timed:
            who[_why(rows)].append(name)
    checked = {name for names in who.values() for name in names} | {row.implementation for row in of.recorded.outcomes}
    for row in of.recorded.measurements:
        if row.status == Status.MISSING and row.implementation not in checked | timed:
            who["missing", row.detail].append(row.implementation)
            checked.add(row.implementation)
    lines = [_missing(*key, names) for key, names in sorted(who.items(), key=lambda each: (-len(each[1]), each[0]))]
    rest = [note(f"{len(lines) - MOST_REASONS} more reasons")] if len(lines) > MOST_REASONS else []
    return Points((*lines[:MOST_REASONS], *rest))


def _why(rows: Sequence[Outcome]) -> tuple[str, str]:
    """The status and the reason of most of these rows."""
    reasons: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for row in rows:
        reasons[row.status, pattern(row.detail)].append(row)
    (state, _), most = max(reasons.items(), key=lambda each: (len(each[1]), each[0]))
    return state, most[0].detail


def _missing(state: str, reason: str, names: Sequence[str]) -> Note:
    return note(
        f"Not here ({state}): ", listed(names, MOST_NAMED, "implementations"), f": {reason or 'no reason given'}"
    )
