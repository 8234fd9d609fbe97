"""How a function is called: which parameters it has beside the inputs, which it needs, and which no test gives."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.registry.callables import Uncallable, called
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, names, signature
from attnsuite.registry.signatures.recognition import ANYWHERE
from attnsuite.registry.wrappers import around_function

ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

EXAMPLES = " (attnsuite's documentation has complete ones for packed sequences and pages, under signatures)"


def function_parameters(function: Callable[..., Any], through: bool = True) -> list[inspect.Parameter] | None:
    """The parameters of a function; None where they cannot be read.

    `through` decorators, they are those of the function inside; else those of what decorators made of it.
    """
    function = called(function)
    if (known := _applied(function)) is not None:
        return known
    try:
        return list(inspect.signature(function, follow_wrapped=through).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return None


def _applied(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters of an autograd Function's `apply`, all given by place; None for everything else."""
    torch, home = sys.modules.get("torch"), function.__self__ if inspect.ismethod(function) else None
    if torch is None or not inspect.isclass(home) or not issubclass(home, torch.autograd.Function):
        return None
    of: Any = home
    found = list(inspect.signature(of.forward).parameters.values())
    has_context = of.setup_context is torch.autograd.Function.setup_context
    only = inspect.Parameter.POSITIONAL_ONLY
    return [each if each.kind in ANY_NUMBER else each.replace(kind=only) for each in found[has_context:]]


def parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the parameters; None if it takes any, or if they cannot be known."""
    found = function_parameters(function)
    if found is None or any(each.kind is each.VAR_KEYWORD for each in found):
        return None
    return tuple(each.name for each in found if each.kind not in ANY_NUMBER)


def inputs(contract: str) -> tuple[str, ...]:
    """What the contract gives by position."""
    by_place = contract_named(contract).signature.partition("(")[2].partition(")")[0].partition("*")[0]
    return tuple(re.findall(r"\w+", by_place))


def tested_parameters(declaration: Declaration) -> frozenset[str]:
    """The names of parameters that tests give by keyword, in the function's signature."""
    if declaration.signature not in ("", OWN):
        return signature(declaration.signature).tested
    return frozenset(re.findall(r"\w+", contract_named(declaration.contract).signature))


def untested_parameters(declaration: Declaration, function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of the function that no test of its contract gives."""
    if not _is_called(declaration):
        return ()
    known = tested_parameters(declaration)
    return tuple(
        each.name for each in _others(function_parameters(function) or (), declaration) if each.name not in known
    )


def required_options(declaration: Declaration, function: Callable[..., Any]) -> frozenset[str]:
    """The parameters without a default that tests of attention give, and not always."""
    outside, inside = function_parameters(function, through=False), function_parameters(function)
    if declaration.contract != SIGNATURES_OF or outside is None or inside is None:
        return frozenset()
    taken = {each.name for each in outside}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in outside)
    known = signature(declaration.signature or OWN).tested
    return frozenset(
        each.name
        for each in _others(inside, declaration)
        if each.default is each.empty and each.name in known and (takes_any or each.name in taken)
    )


def refuse_uncallable(declaration: Declaration, function: Callable[..., Any]) -> None:
    """Raise Unfit for a function that no test can call: it needs more than is given, or takes the inputs otherwise.

    Decorators are not looked through: one may give what the function inside needs.
    """
    found = function_parameters(function, through=False)
    if found is None or not _is_called(declaration):
        return
    due = inputs(declaration.contract)
    places = [each for each in found if each.kind in BY_PLACE]
    fewer = len(places) < len(due) and not any(each.kind is each.VAR_POSITIONAL for each in found)
    misplaced = fewer or any(_is_option(each, declaration.contract) for each in places[: len(due)])
    known = tested_parameters(declaration) - {*due}
    missing = any(each.default is each.empty and each.name not in known for each in _others(found, declaration))
    if not misplaced and not missing:
        return
    named = [each for each in found if each.kind not in ANY_NUMBER]
    passed, lines = around_function(declaration, named, due, misplaced)
    name = declaration.function.rpartition(".")[2] or declaration.name
    if misplaced:
        takes = ", ".join(each.name for each in places[: len(due)]) or "nothing by position"
        says = f"{name} takes {takes} where {', '.join(due)} are given"
    else:
        needs = [each for each in passed if each not in due and each not in known]
        homes = [each for each in names() if signature(each).tested.issuperset(needs)]
        others = f" without --signature {' or '.join(homes)}" if homes and declaration.contract == SIGNATURES_OF else ""
        says = f"{name} needs {', '.join(needs)}, which no test of {declaration.contract} gives{others}"
    examples = EXAMPLES if declaration.contract == SIGNATURES_OF else ""
    raise Uncallable(f"{says}; write a function around it{examples}:\n\n" + "\n".join(f"    {line}" for line in lines))


def _is_called(declaration: Declaration) -> bool:
    """Whether tests call the function itself, and not what a factory makes."""
    return declaration.contract in contract_names() and not contract_named(declaration.contract).is_model


def _others(found: Sequence[inspect.Parameter], declaration: Declaration) -> list[inspect.Parameter]:
    """The parameters beside those in the places of the contract's inputs."""
    first = [each for each in found if each.kind in BY_PLACE][: len(inputs(declaration.contract))]
    return [each for each in found if each not in first and each.kind not in ANY_NUMBER]


def _is_option(place: inspect.Parameter, contract: str) -> bool:
    """Whether a parameter in an input's place has the name of an option; `mask` and `bias` need a default as well."""
    is_optional = place.default is not place.empty
    return place.name in _options(contract) and (is_optional or place.name not in ANYWHERE)


def _options(contract: str) -> frozenset[str]:
    """Names of options, of all signatures of attention. A single letter may be anything."""
    known = re.findall(r"\w+", contract_named(contract).signature)
    foreign = frozenset[str]().union(*(signature(each).tested for each in names()))
    found = foreign if contract == SIGNATURES_OF else frozenset(known)
    return frozenset(name for name in found - {*inputs(contract)} if len(name) > 1)


def by_place(function: Callable[..., Any], contract: str) -> Callable[..., Any]:
    """The function with parameters that can be given by place alone taken by keyword; itself where it has none."""
    if contract not in contract_names():
        return function
    found = function_parameters(function, through=False) or []
    later = [each for each in found if each.kind is each.POSITIONAL_ONLY][len(inputs(contract)) :]
    if not later:
        return function

    def call(*arguments: Any, **options: Any) -> Any:
        last = max((place for place, each in enumerate(later) if each.name in options), default=-1)
        defaults = (None if each.default is each.empty else each.default for each in later)
        placed = [options.pop(each.name, default) for each, default in zip(later[: last + 1], defaults, strict=False)]
        return function(*arguments, *placed, **options)

    return update_wrapper(call, function, (), ())
