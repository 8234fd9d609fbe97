"""Declarations from the source of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from suite.records import UsageError
from suite.registry.declaration import Declaration
from suite.registry.reading import FunctionSource, ModuleSource, Unreadable, read


def of_file(file: Path, contract: str, name: str, module: str = "") -> list[Declaration]:
    """The decorated functions of a file; what is wrong with it, if there are none."""
    whole = Declaration(contract, name, "", module, str(file))
    try:
        source = read(file)
    except Unreadable as error:
        return [replace(whole, broken=str(error))]
    if not source.decorated:
        return [replace(whole, broken="decorates no function with @implementation")]
    return decorated(source, whole)


def decorated(source: ModuleSource, whole: Declaration) -> list[Declaration]:
    """One declaration for each decorated function, named after `whole` and its variant."""
    found: dict[str, Declaration] = {}
    for function in source.decorated:
        name = ".".join(filter(None, (whole.name, function.variant)))
        declaration = of_function(function, source, replace(whole, name=name))
        for twin in source.decorated:
            if twin is not function and (twin.name == function.name or twin.variant == function.variant):
                lines = " and ".join(map(str, sorted((twin.line, function.line))))
                declaration = replace(declaration, broken=declaration.broken or f"lines {lines} declare the same name")
        found[name] = declaration
    return list(found.values())


def of_function(function: FunctionSource, source: ModuleSource, whole: Declaration) -> Declaration:
    """The declaration of one function, with the name and the place that `whole` gives it."""
    summaries = (function.summary, source.summary) if function.variant else (source.summary, function.summary)
    declared = {key: value for key, value in (function.declared or {}).items() if key != "variant"}
    return replace(
        whole,
        function=function.name,
        parameters=function.parameters,
        summary=summaries[0] or summaries[1],
        broken=function.problem,
        **declared,
    )


def of_source(whole: Declaration) -> Declaration:
    """The declaration of the function that `whole` names, with what its source says of it."""
    try:
        source = read(Path(whole.file))
    except Unreadable as error:
        return replace(whole, broken=str(error))
    functions = [function for function in source.functions if function.name == whole.function]
    if functions:
        return of_function(functions[-1], source, whole)
    if source.names is None or whole.function.partition(".")[0] in source.names:
        return replace(whole, summary=source.summary)  # assigned or imported there: its import will tell more
    raise UsageError(_no_function(Path(whole.file), whole.function, source))


def _no_function(file: Path, function: str, source: ModuleSource) -> str:
    names = [known.name for known in source.public]
    close = get_close_matches(function, names)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{file.name} has no function {function!r}: {hint}it has {listed(names) or 'none'}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """The names in a row, the first dozen of many."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
