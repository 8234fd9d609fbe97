"""`attnsuite list`: the implementations, read from their sources without importing them; cases and workloads."""

from __future__ import annotations

from collections.abc import Iterator

from attnsuite import registry
from attnsuite.cli.contract_page import page_of
from attnsuite.cli.requests import List
from attnsuite.cli.targets import chosen
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.contracts import optional_parameters
from attnsuite.model import UsageError
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
