"""`attnsuite list`: the implementations, read from their sources without importing them; and the workloads."""

from __future__ import annotations

from collections.abc import Sequence

from attnsuite import registry
from attnsuite.cli.checking import chosen
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry import Declaration
from attnsuite.registry.from_source import listed

WIDEST = 40
"""Characters that names of cases are padded to: those that combine features have longer ones."""


def show(targets: Sequence[str], contract: str | None) -> None:
    """Print the contracts, then each implementation with what it lacks and the conventions it declares.

    Those with an attention plugged in share one line, unless a target asks for them.
    """
    declarations = chosen(targets, (), contract)
    for name in dict.fromkeys(declaration.contract for declaration in declarations):
        members = [declaration for declaration in declarations if declaration.contract == name]
        plugs = [declaration for declaration in members if declaration.plug is not None]
        if not any("+" in target for target in targets):
            members = [declaration for declaration in members if declaration.plug is None]
        print(f"{name}: {len(members)} implementation{'s' * (len(members) > 1)}")
        width = max(len(declaration.full_name) for declaration in members)
        for declaration in members:
            print(f"  {declaration.full_name:{width}}  {_said(declaration)}")
            for line in _lines(declaration):
                print(f"  {'':{width}}  {line}")
        if len(plugs) and plugs[0] not in members:
            print(f"  with an attention plugged in: {', '.join(declaration.name for declaration in plugs)}")


def show_workloads(targets: Sequence[str], contract: str | None) -> None:
    """Print the workloads of the contracts of the targets: shape, the profiles that time it, and its purpose."""
    kept = {declaration.contract for declaration in chosen(targets, (), contract)}
    timed = [known for known in map(contract_named, contract_names()) if known.workloads()]
    if not (found := [known for known in timed if known.name in kept]):
        raise UsageError(
            f"there are no workloads of {listed(sorted(kept))}; there are of {listed(k.name for k in timed)}"
        )
    for known in found:
        workloads = known.workloads()
        print(f"{known.name}: {len(workloads)} workload{'s' * (len(workloads) > 1)}")
        widths = [max(map(len, of)) for of in zip(*((each.name, each.shape) for each in workloads), strict=True)]
        for each in workloads:
            print(f"  {each.name:{widths[0]}}  {each.shape:{widths[1]}}  in {', '.join(each.profiles)}: {each.why}")


def show_cases(targets: Sequence[str], contract: str | None, patterns: Sequence[str]) -> None:
    """Print the cases of the contracts of the targets, or those that match: name, dtypes, and why each is asked.

    Raises UsageError for a pattern that nothing matches.
    """
    from attnsuite.conformance.session import CheckRequest

    kept = {declaration.contract for declaration in chosen(targets, (), contract)}
    request, problems, found = CheckRequest(tuple(patterns)), [], {}
    for name in (name for name in contract_names() if name in kept):
        try:
            found[name] = request.asked(contract_named(name))
        except UsageError as error:
            problems.append(error)
    if problems and not found:
        raise problems[0]
    for name, asked in found.items():
        dtypes: dict[str, list[str]] = {}
        for case, dtype in asked:
            dtypes.setdefault(case.name, []).append(dtype)
        why = {case.name: case.why for case, _ in asked}
        print(f"{name}: {len(dtypes)} case{'s' * (len(dtypes) > 1)}, {len(asked)} questions in all dtypes")
        width = min(max(map(len, dtypes)), WIDEST)
        for case_name, of in dtypes.items():
            print(f"  {case_name:{width}}  {', '.join(of)}: {why[case_name]}")


def _said(declaration: Declaration) -> str:
    if declaration.broken:
        return f"broken: {declaration.broken}"
    if missing := registry.absent(declaration):
        return f"missing: {missing.reason}"
    return declaration.summary


def _lines(declaration: Declaration) -> list[str]:
    if declaration.contract not in contract_names():
        return []
    parameters = contract_named(declaration.contract).parameter_features
    untaken = [] if declaration.parameters is None else [p for p in parameters if p not in declaration.parameters]
    lines = [f"takes no {parameter}: no {', no '.join(parameters[parameter])}" for parameter in untaken]
    lines += [f"lacks {feature}: {reason}" for feature, reason in declaration.lacks.items()]
    lines += [f"{point} is {_chosen(chosen)}" for point, chosen in declaration.conventions.items()]
    return lines


def _chosen(chosen: object) -> str:
    if isinstance(chosen, dict):
        return ", ".join(f"{value} for {kind}" for kind, value in chosen.items())
    return str(chosen)
