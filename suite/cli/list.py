"""`attnsuite list`: the implementations, read from their sources without importing them; cases and workloads."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from attnsuite import machine, registry
from attnsuite.cases import Case, Contract, list_tests
from attnsuite.cli.requests import List
from attnsuite.cli.targets import chosen
from attnsuite.conformance.known import known_bugs
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.contracts import optional_parameters
from attnsuite.model import DTYPES, UsageError
from attnsuite.registry import Declaration

MOST_WIDTH = 40
"""Characters to which names of cases are padded; cases that combine features have longer names."""


def run(options: List) -> None:
    """Print the chosen list. UsageError for options that exclude each other, and for unknown names."""
    if options.workloads and (options.cases or options.patterns):
        raise UsageError("--cases and --workloads do not go together: choose one")
    declarations = chosen(options.targets, (), options.contract)
    contracts = list(dict.fromkeys(declaration.contract for declaration in declarations))
    if options.workloads:
        show_workloads(contracts)
    elif options.cases or options.patterns:
        show_cases(contracts, options.patterns)
    else:
        if options.contract and not options.targets:
            print(*page_of(contract_named(options.contract)), "", sep="\n")
        for name in contracts:
            with_backends = any("+" in target for target in options.targets)
            show(name, [declaration for declaration in declarations if declaration.contract == name], with_backends)


def show(contract: str, members: list[Declaration], with_backends: bool) -> None:
    """Print the implementations of a contract with the features that they lack and the conventions they declare.

    Without `with_backends`, those with an attention as backend share one line.
    """
    backends = [] if with_backends else [member.name for member in members if member.backend is not None]
    members = [member for member in members if with_backends or member.backend is None]
    print(f"{contract}: {len(members)} implementation{'s' * (len(members) > 1)}")
    width = max(len(member.full_name) for member in members)
    for member in members:
        print(f"  {member.full_name:{width}}  {_description(member)}")
        for line in _gaps(member) if contract in contract_names() else ():
            print(f"  {'':{width}}  {line}")
    if backends:
        print(f"  with an attention as backend: {', '.join(backends)}")


def show_workloads(contracts: list[str]) -> None:
    """Print the workloads of contracts: shape, the profiles that time it, and its purpose."""
    timed = {name: workloads for name in contract_names() if (workloads := contract_named(name).workloads())}
    if not timed.keys() & set(contracts):
        raise UsageError(f"no workloads of {', '.join(contracts)} exist; contracts with workloads: {', '.join(timed)}")
    for name, workloads in timed.items():
        if name in contracts:
            print(f"{name}: {len(workloads)} workload{'s' * (len(workloads) > 1)}")
            wide, shape = (max(len(getattr(workload, name)) for workload in workloads) for name in ("name", "shape"))
            for workload in workloads:
                profiles = ", ".join(workload.profiles)
                print(f"  {workload.name:{wide}}  {workload.shape:{shape}}  in {profiles}: {workload.why}")


def show_cases(contracts: list[str], patterns: tuple[str, ...]) -> None:
    """Print the cases of contracts that match: name, dtypes, and why each is tested. UsageError where none matches."""
    from attnsuite.conformance.request import CheckRequest

    request, problems, tests = CheckRequest(patterns), [], {}
    for name in (name for name in contract_names() if name in contracts):
        try:
            tests[name] = request.tests(contract_named(name))
        except UsageError as error:
            problems.append(error)
    if problems and not tests:
        raise problems[0]
    for name, pairs in tests.items():
        dtypes: dict[tuple[str, str], list[str]] = {}
        for case, dtype in pairs:
            dtypes.setdefault((case.name, case.why), []).append(dtype)
        print(f"{name}: {len(dtypes)} case{'s' * (len(dtypes) > 1)}, {len(pairs)} tests in all dtypes")
        width = min(max(len(case_name) for case_name, _ in dtypes), MOST_WIDTH)
        for (case_name, why), names in dtypes.items():
            print(f"  {case_name:{width}}  {', '.join(names)}: {why}")


def _description(declaration: Declaration) -> str:
    if declaration.broken:
        return f"broken: {declaration.broken}"
    missing = registry.missing_library(declaration)
    return f"missing: {missing.reason}" if missing else declaration.summary


def _gaps(declaration: Declaration) -> Iterator[str]:
    known = declaration.parameters
    missing = frozenset[str]() if known is None else optional_parameters(declaration.contract) - {*known}
    for parameter, features in contract_named(declaration.contract).parameter_features.items() if missing else ():
        if parameter in missing:
            yield f"unsupported: {', '.join(features)} (takes no {parameter})"
    for feature, reason in declaration.lacks.items():
        yield f"unsupported: {feature} ({reason})"
    for point, choice in declaration.conventions.items():
        by_kind = choice.items() if isinstance(choice, dict) else ()
        yield f"convention: {point} is {', '.join(f'{value} for {kind}' for kind, value in by_kind) or choice}"


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
    entries = [
        (mutant.name, mutant.says + (f" [{mutant.source}]" if mutant.source else "")) for mutant in contract.mutants()
    ]
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
