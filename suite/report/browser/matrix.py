"""Implementations × families of cases, for each contract: passed/asked with a sign, so that no colour is needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape

from attnsuite.model import EVERY_CASE, Outcome
from attnsuite.report.benchmark.wording import ATTENTION
from attnsuite.report.conformance.tally import Count, count


def family(case: str) -> str:
    """The family of a case, which its name begins with."""
    return case.partition("/")[0]


def matrices(outcomes: Sequence[Outcome], machine: str) -> str:
    """A table for each contract, attention's first. The page's script makes a link of each cell."""
    by_contract: dict[str, list[Outcome]] = defaultdict(list)
    for of in outcomes:
        by_contract[of.contract].append(of)
    ordered = sorted(by_contract, key=lambda name: (name != ATTENTION, name))
    return "".join(_table(name, by_contract[name], machine) for name in ordered)


def _table(contract: str, outcomes: Sequence[Outcome], machine: str) -> str:
    cells: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for of in outcomes:
        cells[of.implementation, family(of.case)].append(of)
    names = sorted({name for name, _ in cells})
    families = sorted({each for _, each in cells} - {family(EVERY_CASE)})
    heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in families)
    rows = "".join(_row(name, families, cells) for name in names if any(count(cells[name, f]).asked for f in families))
    caption = f"{contract}: families of cases, passed/asked"
    return (
        f'<div class="wide matrix" tabindex="0" role="region" aria-label="{escape(caption)}" '
        f'data-m="{escape(machine)}" data-contract="{escape(contract)}"><table>\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
        if rows
        else ""
    )


def _row(name: str, families: Sequence[str], cells: dict[tuple[str, str], list[Outcome]]) -> str:
    found = "".join(map(_cell, (count(cells.get((name, each), ())) for each in families)))
    return f'<tr data-i="{escape(name)}"><th scope="row"><code>{escape(name)}</code></th>{found}</tr>\n'


def _cell(of: Count) -> str:
    if not of.asked:
        return "<td>–</td>" if of.declined or of.missing else "<td></td>"
    kind, sign = ("f", "✗") if of.failures else ("k", "◆") if of.known else ("p", "✓")
    return f"<td class={kind}>{sign} {of.passed}/{of.asked}</td>"


def legend() -> Iterator[tuple[str, str]]:
    """Each sign of the tables, and what it says."""
    yield "✓", "all that was asked passed"
    yield "◆", "known failures alone, which findings record"
    yield "✗", "failures"
    yield "–", "nothing was asked: declined or missing"
