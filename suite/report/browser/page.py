"""report.html: the parts of the page put together, with a policy by which a browser loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from attnsuite.model import FAILURES
from attnsuite.report import facts
from attnsuite.report.benchmark.overall import ranking
from attnsuite.report.benchmark.views import Material, material
from attnsuite.report.browser import matrix
from attnsuite.report.browser.data import as_json, data
from attnsuite.report.browser.history import Line
from attnsuite.report.browser.overview import MOST_NAMED, overview
from attnsuite.report.cells import Cell, code, listed, said
from attnsuite.report.conformance.page import failure_table, finding, input_validation
from attnsuite.report.conformance.tally import Group, grouped, groups
from attnsuite.report.files import as_html
from attnsuite.report.page import Block, note, section, table
from attnsuite.results.store import Recorded

ASSETS = Path(__file__).parent / "assets"
LOOK = "look.css"
SCRIPTS = ("state.js", "tables.js", "cases.js", "charts.js", "choosing.js", "timing.js", "comparing.js", "start.js")
"""The parts of the script in the order in which they are put together."""
OPENING = "<!doctype html>\n<!-- Written by attnsuite report, never by hand. -->\n"
"""What the page begins with, by which it is known as ours."""


def report_page(machines: Mapping[str, Recorded], there: Sequence[str] = (), past: Sequence[Line] = ()) -> str:
    """The whole page of these machines. `there` are the files beside it that it links to, `past` is their history."""
    named = sorted(
        (name for name in machines if machines[name].runs), key=lambda name: (*_says_less(machines[name]), name)
    )
    shown = {name: material(machines[name]) for name in named}
    look, script = (ASSETS / LOOK).read_text("utf-8"), _script()
    body = "".join(_body(shown, there, bool(past)))
    text = (
        f'{OPENING}<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_policy(look, script))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f"<title>attnsuite: results</title>\n<style>{look}</style></head>\n<body>\n{body}"
        f'<script type="application/json" id="data">{as_json(data(shown, past))}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )
    return text.encode(errors="backslashreplace").decode()


def _says_less(of: Recorded) -> tuple[bool, int]:
    """A key by which machines that were both checked and timed come first, and of these the one with most rows."""
    return not (of.rows and of.measured), -len(of.rows) - len(of.measured)


def _script() -> str:
    parts = "".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _policy(look: str, script: str) -> str:
    """Nothing is loaded, nothing is sent, and only this style and this script are obeyed."""
    return (
        f"default-src 'none'; style-src '{_hash(look)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


PARTS = {
    "overview": "Overview",
    "choose": "What should I use?",
    "conformance": "Conformance",
    "timing": "Timing",
    "compare": "Compare",
    "history": "History",
    "files": "Files",
}
"""The parts of the page, in order, and their headings."""


def _body(shown: Mapping[str, Material], there: Sequence[str], has_past: bool) -> Iterator[str]:
    parts = {name: title for name, title in PARTS.items() if has_past or name != "history"}
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in parts.items())
    yield '<a class="skip" href="#overview">To the results</a>\n<header><h1>attnsuite: results</h1>\n'
    yield f'<nav aria-label="Parts of the page">{links}</nav>\n<div id="machine"></div></header>\n<main>\n'
    if not shown:
        yield "<p>Nothing is recorded yet: <code>attnsuite run</code> makes results.</p>\n"
    for name, title in parts.items():
        yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>\n'
        yield from _MADE[name](shown, there)
        yield "</section>\n"
    yield "</main>\n"


def _of_each(shown: Mapping[str, Material], what: str, of: Mapping[str, str]) -> Iterator[str]:
    """What is said of each machine; the script shows that of one at a time."""
    for name in shown:
        if of.get(name):
            heading = f"<h3>{escape(name)}</h3>\n" if len(shown) > 1 else ""
            yield f'<div class="of" data-m="{escape(name)}" data-what="{what}">{heading}{of[name]}</div>\n'


def _overview(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    yield from _of_each(
        shown, "overview", {name: as_html(overview(of), 4, f"Overview of {name}") for name, of in shown.items()}
    )


def _choose(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    yield '<div id="choosing"></div>\n'
    tables = {name: as_html([ranking(of.tables)], 4, f"Fastest on {name}") for name, of in shown.items() if of.tables}
    inner = "".join(_of_each(shown, "ranking", tables))
    yield (
        f'<details id="ranking"><summary>The fastest of every timed table</summary>\n{inner}</details>\n'
        if inner
        else ""
    )


def _conformance(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    yield '<p class="legend">' + "; ".join(f"{sign} {words}" for sign, words in matrix.legend()) + ".</p>\n"
    yield '<div id="contract"></div>\n'
    tables = {name: matrix.matrices(of.recorded.outcomes, name) for name, of in shown.items()}
    yield from _of_each(shown, "matrix", tables)
    yield '<h3 id="cases-title" tabindex="-1">Cases</h3>\n<div id="cases"><noscript>'
    yield "<p>With scripts allowed, each case is shown here; without them, the failures are:</p></noscript></div>\n"
    failures = {
        name: as_html(_failures(of), 4, f"Failures on {name}") for name, of in shown.items() if of.recorded.outcomes
    }
    yield from _of_each(shown, "failures", failures)


def _failures(of: Material) -> Iterator[Block]:
    declared = facts.declared(of.recorded)
    again = {name: each.again.get(name, ()) for name, each in declared.items()}
    failing = [each for each in of.recorded.outcomes if each.status in FAILURES and not each.lenient]
    new = groups((each for each in failing if not each.known), again)
    yield section("Failures", failure_table(new) if new else note("None that no finding records."))
    by_finding = grouped((each for each in failing if each.known), lambda each: (each.known,))
    if by_finding:
        words = facts.findings(of.recorded)
        rows = [_known(finding(name, words), groups(each, again)) for (name,), each in by_finding.items()]
        yield section("Known failures", table(("finding", "implementations", "count", "ask again"), rows))
    yield section("Input validation", input_validation(of.recorded.outcomes))


def _known(words: Cell, found: Sequence[Group]) -> list[object]:
    """The row of a finding, from the groups of its failures."""
    names = list(dict.fromkeys(each.example.implementation for each in found))
    return [words, said(listed(names, MOST_NAMED)), sum(each.count for each in found), code(found[0].rerun)]


def _timing(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    yield '<div id="times"><noscript><p>With scripts allowed, every timed table is drawn here; without them, the '
    yield "fastest of each stands above, and benchmark.csv has every number.</p></noscript></div>\n"


def _compare(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    yield '<div id="comparison"><noscript><p>With scripts allowed, two machines are compared.</p></noscript></div>\n'


def _history(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    yield '<div id="past"><noscript><p>With scripts allowed, times are drawn here by the day.</p></noscript></div>\n'


def _files(shown: Mapping[str, Material], there: Sequence[str]) -> Iterator[str]:
    links = [f'<li><a href="{escape(name)}">{escape(name)}</a></li>' for name in there]
    yield f"<ul>{''.join(links)}</ul>\n" if links else "<p>There are none beside this page.</p>\n"


_MADE = {
    "overview": _overview,
    "choose": _choose,
    "conformance": _conformance,
    "timing": _timing,
    "compare": _compare,
    "history": _history,
    "files": _files,
}
