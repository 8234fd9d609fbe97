"""Outcomes → the lines that a check ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from suite.records import FAILURES, Outcome
from suite.report.tally import breakdown, by_implementation, count, devices, groups
from suite.report.text import plain


def summary_lines(outcomes: Sequence[Outcome], targets: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """A line per implementation, its failures below it in groups, and the total: no markup, no control codes.

    `targets` maps implementations to how they were named, where that is not their registered name.
    """
    found = by_implementation(outcomes)
    several = len(devices(outcomes)) > 1
    names = [plain(f"{name} on {device}" if several else name, 60) for name, device in found]
    width = max(map(len, names), default=0)
    lines = []
    for name, members in zip(names, found.values(), strict=True):
        lines.append(f"{name:{width}}  {_said(members)}")
        for group in groups((outcome for outcome in members if outcome.status in FAILURES), targets):
            known = f"known as {group.example.known}, " if group.example.known else ""
            lines.append(f"  {group.count} × {plain(known + group.says, 400)}")
            lines.append(f"      {plain(group.rerun, 1000)}")
    if len(found) > 1:
        lines.append(f"{f'{len(found)} in all':{width}}  {_said(outcomes)}")
    return lines


def _said(outcomes: Sequence[Outcome]) -> str:
    counts = count(outcomes)
    if not counts.asked and not counts.declined:
        reasons = sorted({plain(outcome.detail) for outcome in outcomes if outcome.detail})
        return f"missing: {'; '.join(reasons)}" if reasons else "missing"
    parts = [f"{counts.passed}/{counts.asked} passed"]
    parts += [f"declined {counts.declined}"] if counts.declined else []
    parts += [breakdown(outcomes)] if counts.failures else []
    parts += [f"{counts.known} known to fail"] if counts.known else []
    return ", ".join([*parts, *([f"{counts.missing} missing"] if counts.missing else [])])
