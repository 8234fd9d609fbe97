"""Declarations from the source of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.naming import INPUTS
from attnsuite.registry.reading import FunctionSource, ModuleSource, read
from attnsuite.registry.signatures import SIGNATURES_OF
from attnsuite.registry.signing import signed

MOST_LISTED = 12
"""The most names in a message: more would not be read."""
NUMPY_ALONE = "the file imports numpy and not torch: say --signature numpy for a function of its arrays"
"""What is added where the parameters fit several signatures."""


def of_file(file: Path, contract: str, name: str, module: str = "") -> list[Declaration]:
    """The decorated functions of a file; if it has none, one declaration that says what is wrong with the file."""
    whole, source = Declaration(contract, name, "", module, str(file)), read(file)
    if not source.decorated:
        return [replace(whole, broken=source.problem or "decorates no function with @implementation")]
    return decorated(source, lambda function: _registered(whole, function.contract))


def _registered(whole: Declaration, said: str | None) -> Declaration:
    """What is registered under its contract, which is broken where its decorator says another."""
    if said in (None, whole.contract):
        return whole
    return replace(whole, broken=f"it is registered as {whole.contract}, and its decorator says {said}")


def decorated(source: ModuleSource, placed: Callable[[FunctionSource], Declaration]) -> list[Declaration]:
    """One declaration for each decorated function, named after what it is `placed` as and its variant."""
    found: dict[str, Declaration] = {}
    for function in source.decorated:
        whole = placed(function)
        name = ".".join(filter(None, (whole.name, function.variant)))
        declaration = of_function(function, source, replace(whole, name=name))
        for twin in source.decorated:
            if twin is not function and (twin.name == function.name or twin.variant == function.variant):
                lines = " and ".join(map(str, sorted((twin.line, function.line))))
                says = f"lines {lines} both declare {name!r}: keep one, or give each a variant"
                declaration = replace(declaration, broken=declaration.broken or says)
        found[name] = declaration
    return list(found.values())


def of_function(function: FunctionSource, source: ModuleSource, whole: Declaration) -> Declaration:
    """The declaration of one function, with the name and the place of `whole`."""
    summaries = (function.summary, source.summary) if function.variant else (source.summary, function.summary)
    declared = {key: value for key, value in (function.declared or {}).items() if key not in ("variant", "contract")}
    if whole.signature:  # asked for, which counts more
        declared |= {"signature": whole.signature, "signature_by": whole.signature_by}
    found = replace(
        whole,
        function=function.name,
        parameters=None if function.is_class and makes_models(whole.contract) else function.parameters,
        required=function.required,
        summary=summaries[0] or summaries[1],
        broken=function.problem or whole.broken or _too_few(function, whole.contract),
        **declared,
    )
    found = signed(found)
    if found.ambiguous and "numpy" in source.imports and "torch" not in source.imports:
        found = replace(found, ambiguous=f"{found.ambiguous}; {NUMPY_ALONE}")
    return found


def _too_few(function: FunctionSource, contract: str) -> str:
    """Why a function that nobody calls an attention, and that has no place for the inputs of one, is none; or empty."""
    said = function.declared is not None or function.name == contract
    if said or function.is_class or contract != SIGNATURES_OF or function.most is None or function.most >= len(INPUTS):
        return ""
    takes = f"{function.name} takes {function.most} argument{'s'[: function.most != 1]} by place"
    others = ", ".join(name for name in contract_names() if name != contract)
    given = f"an attention is given {', '.join(INPUTS)}"
    return f"{takes}, and {given}; what computes something else needs --contract: {others}"


def makes_models(name: str) -> bool:
    """Whether the contract asks for a factory: of a class, that takes what the class is made with."""
    return name in contract_names() and contract_named(name).is_model


def of_source(source: ModuleSource, whole: Declaration) -> Declaration:
    """The declaration of the function that `whole` names, completed from its source. UsageError if it is not there."""
    functions = [function for function in source.functions if function.name == whole.function]
    if functions:
        return of_function(functions[-1], source, whole)
    if source.is_open or whole.function.partition(".")[0] in source.bound:
        return replace(whole, summary=source.summary, broken=source.problem)  # its import will tell more
    names = [known.name for known in source.public]
    names += [each.name for each in source.assigned if each.of]  # instances of its classes
    close = get_close_matches(whole.function, names)
    hint = f"did you mean {close[0]}? " if close else ""
    has = f"{hint}it has {listed(names) or 'none'}"
    raise UsageError(f"{Path(whole.file).name} has no function {whole.function!r}: {has}")


def listed(names: Iterable[str]) -> str:
    """The names, separated by commas: the first MOST_LISTED, and how many more there are."""
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more
