"""The page of a contract, `attnsuite list --contract NAME`: its docstring, and what its file declares and tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from attnsuite import machine
from attnsuite.cases import Case, Contract, list_tests
from attnsuite.conformance.known import known_bugs
from attnsuite.model import DTYPES

WIDTH = 120
"""The longest line in characters, as in the docstrings that pages begin with."""
INDENT, SHORTEST, LONGEST = 4, 17, 36
"""Characters before an entry, and the least and the most that the column of its term takes; docstrings have 17."""
Entries = Iterable[tuple[str, str]]
"""Terms and their descriptions."""


def page_of(contract: Contract) -> Iterator[str]:
    """The lines of the page: the docstring of the contract's file, then the sections that are generated."""
    yield from contract.page.strip().splitlines()
    for section in (_conventions, _features, _cases, _known_bugs, _mutants, _variants):
        heading, entries = section(contract)
        if lines := list(_columns(list(entries))):
            yield from ("", f"{heading}:", "", *lines)


def _conventions(contract: Contract) -> tuple[str, Entries]:
    heading = "Conventions, declared as `conventions={point: choice}`; the first choice is the default"
    return heading, [(point, ", ".join(choices)) for point, choices in contract.conventions.items()]


def _features(contract: Contract) -> tuple[str, Entries]:
    parameters: dict[str, list[str]] = defaultdict(list)
    for parameter, features in contract.parameter_features.items():
        for feature in features:
            parameters[feature].append(parameter)
    needed = {feature: f" (parameter {', '.join(names)})" for feature, names in parameters.items()}
    entries = [
        (feature, f"{description}{needed.get(feature, '')}")
        for feature, description in contract.features.items()
        if feature not in DTYPES or feature != description
    ]
    dtypes = [dtype for dtype in DTYPES if contract.features.get(dtype) == dtype]
    heading = "Features; one that an implementation declares as `lacks={feature: reason}` is unsupported, not wrong"
    return heading, [*entries, *([("dtypes", ", ".join(dtypes))] if dtypes else [])]


def _cases(contract: Contract) -> tuple[str, Entries]:
    cases = contract.cases()
    families: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        families[case.family].append(case)
    entries = []
    for family, members in families.items():
        shortest = min(members, key=lambda case: len(case.name))
        example = f"{shortest.name}: {shortest.why}"
        entries.append((family, f"{len(members)}, such as {example}" if len(members) > 1 else f"1, {example}"))
    total = f"{len(cases)} cases in {len(families)} families, {len(list_tests(cases, 'cpu'))} tests in all dtypes"
    return f"{total}; `attnsuite list --cases --contract {contract.name}` lists them", entries


def _known_bugs(contract: Contract) -> tuple[str, Entries]:
    entries = []
    for bug in known_bugs(contract.known_bugs, machine.versions()):
        versions = " and ".join(f"{library} {versions}" for library, versions in bug.versions.items())
        entries.append((bug.id, f"{bug.says} [{versions}{f'; {bug.upstream}' if bug.upstream else ''}]"))
    return "Known bugs of the installed libraries, which do not fail a run", entries


def _mutants(contract: Contract) -> tuple[str, Entries]:
    entries = [(each.name, each.says + (f" [{each.source}]" if each.source else "")) for each in contract.mutants()]
    return f"{len(entries)} mutants: mistakes that the cases detect and a diagnosis names; sources in brackets", entries


def _variants(contract: Contract) -> tuple[str, Entries]:
    entries = [(variant.name, variant.says) for variant in contract.variants()]
    return f"{len(entries)} correct variants: implementations in other styles, which pass every case", entries


def _columns(entries: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Terms and descriptions as two columns. A term that is too long for its column has a line of its own."""
    width = min(max((len(term) + 1 for term, _ in entries), default=0), LONGEST)
    start = INDENT + max(width, SHORTEST)
    for term, description in entries:
        lines = wrap(description, WIDTH - start, break_long_words=False, break_on_hyphens=False)
        if INDENT + len(term) >= start:
            yield " " * INDENT + term
            lines.insert(0, "")
        else:
            yield f"{' ' * INDENT + term:{start}}{lines[0]}"
        yield from (" " * start + line for line in lines[1:])
