"""How tests call a function: its parameters, its signature, and what it is adapted to."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import update_wrapper
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import signature_of
from attnsuite.model import UsageError
from attnsuite.registry.callables import is_module
from attnsuite.registry.declaration import Declaration, Uncallable
from attnsuite.registry.roles import ANY_NUMBER
from attnsuite.registry.signatures import (
    OWN,
    SIGNATURES_OF,
    Adapter,
    SignatureCall,
    in_contract_signature,
    names,
    recognise,
    recognise_other,
    signature,
)
from attnsuite.registry.signatures.recognition import ANYWHERE
from attnsuite.registry.signatures.signature import BY_USER

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
Parameter = inspect.Parameter

# The signature that a user names


def with_signature(declaration: Declaration, name: str) -> Declaration:
    """The declaration with the signature that a user names; unchanged where none is named.

    Raises UsageError for a signature that does not exist, or that the contract does not have.
    """
    if not name:
        return declaration
    known = signature(name)
    if declaration.contract != known.contract:
        own = f"{declaration.full_name} is tested as {declaration.contract}, which has "
        own += f"the signatures {', '.join(others)}" if (others := names(declaration.contract)) else "one signature"
        raise UsageError(f"--signature {name} is for functions of {known.contract}; {own}")
    return replace(declaration, signature=known.name, signature_by=(BY_USER,))


# Adapting a function to the contract


def adapt(declaration: Declaration, function: Callable[..., Any]) -> tuple[Declaration, Callable[..., Any]]:
    """The function in the contract's signature, and the declaration with its parameters, gaps and conventions.

    Raises `AmbiguousSignature`, and `Uncallable` for a function that no test can call.
    """
    own = parameters(function)
    if not declaration.signature:
        declared = [parameter for parameter in function_parameters(function) or () if parameter.kind not in ANY_NUMBER]
        required = [parameter.name for parameter in declared if parameter.default is parameter.empty]
        name, by = recognised(declaration.contract, [parameter.name for parameter in declared], required)
        declaration = replace(declaration, signature=name, signature_by=by)
    refuse_uncallable(declaration, function)
    called, required_names = accepting_keywords(function, declaration.contract), required_options(declaration, function)
    declaration = replace(declaration, untested=untested_parameters(declaration, function))
    if called is not function or required_names - _always_given(declaration):
        declaration = replace(declaration, rewrites_calls=True)
    if declaration.contract == SIGNATURES_OF:
        called = in_contract_signature(called, declaration.signature or OWN, own, required_names)
    elif declaration.signature:
        called = Adapter(called, signature(declaration.signature), input_names(declaration.contract), own)
    return _with_their_gaps(declaration, own), called


def recognised(contract: str, parameters: Sequence[str], required: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The signature of a function of the contract, empty for its own, and the parameters that identify it.

    Raises `AmbiguousSignature` where several fit.
    """
    if contract == SIGNATURES_OF:
        return recognise(parameters, required)
    if not names(contract):
        return "", ()
    return recognise_other(contract, _words(contract), input_names(contract), parameters, required) or ("", ())


def contract_of(parameters: Sequence[str], required: Sequence[str]) -> str:
    """The contract other than attention that the parameters of a function identify; empty for none."""
    others = dict.fromkeys(contract for name in names() if (contract := signature(name).contract) != SIGNATURES_OF)
    inputs = {contract: (_words(contract), input_names(contract)) for contract in others}
    return next((name for name in others if recognise_other(name, *inputs[name], parameters, required)), "")


def _words(contract: str) -> frozenset[str]:
    """All names in the signature of a contract."""
    return frozenset(re.findall(r"\w+", signature_of(contract)))


def library_of(declaration: Declaration) -> str:
    """The library whose arrays its signature takes; empty for a library that is always installed, or not known yet."""
    return signature(declaration.signature).arrays.library if declaration.signature else ""


def _always_given(declaration: Declaration) -> frozenset[str]:
    """The parameters that its signature gives in every call."""
    import torch

    blank = torch.zeros(1, 1, 1, 1)
    return frozenset(signature(declaration.signature or OWN).keywords(SignatureCall(blank, blank, blank, {})))


def _with_their_gaps(declaration: Declaration, own: Sequence[str] | None) -> Declaration:
    """With the signature's parameters, gaps and conventions; the author's declarations come first."""
    if declaration.signature in ("", OWN):
        return declaration
    theirs, own_names = signature(declaration.signature), None if own is None else frozenset(own)
    points = contract_named(declaration.contract).conventions
    conventions = {point: choice for point, choice in theirs.conventions.items() if point in points}
    return replace(
        declaration,
        parameters=(*input_names(declaration.contract), *theirs.takes(own_names)),
        lacks={**theirs.gaps(own_names), **declaration.lacks},
        conventions={**conventions, **declaration.conventions},
    )


# The parameters of a function


def function_parameters(function: Callable[..., Any], through: bool = True) -> list[Parameter] | None:
    """The parameters of a function; None where they cannot be read.

    Decorators are looked through by default; else the parameters are those of the decorated function.
    """
    function = function.forward if is_module(function) else function  # type: ignore[attr-defined]
    torch, home = sys.modules.get("torch"), function.__self__ if inspect.ismethod(function) else None
    if torch is not None and inspect.isclass(home) and issubclass(home, torch.autograd.Function):
        return _parameters_of_apply(home)
    try:
        return list(inspect.signature(function, follow_wrapped=through).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return None


def _parameters_of_apply(autograd_function: Any) -> list[Parameter]:
    """The parameters of an autograd Function's `apply`, all positional."""
    import torch

    forward = list(inspect.signature(autograd_function.forward).parameters.values())
    has_context = autograd_function.setup_context is torch.autograd.Function.setup_context
    only = Parameter.POSITIONAL_ONLY
    return [
        parameter if parameter.kind in ANY_NUMBER else parameter.replace(kind=only)
        for parameter in forward[has_context:]
    ]


def parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the parameters; None if it takes any, or if they cannot be known."""
    declared = function_parameters(function)
    if declared is None or any(parameter.kind is parameter.VAR_KEYWORD for parameter in declared):
        return None
    return tuple(parameter.name for parameter in declared if parameter.kind not in ANY_NUMBER)


def input_names(contract: str) -> tuple[str, ...]:
    """The parameters that the contract gives by position."""
    return tuple(re.findall(r"\w+", signature_of(contract).partition("(")[2].partition(")")[0].partition("*")[0]))


def tested_parameters(declaration: Declaration) -> frozenset[str]:
    """The names of parameters that tests give by keyword, in the function's signature."""
    if declaration.signature not in ("", OWN):
        return signature(declaration.signature).tested
    return _words(declaration.contract)


def positional_names(declaration: Declaration) -> tuple[str, ...]:
    """The parameters that tests give by position: the signature's where they differ from the contract's in number."""
    own = input_names(declaration.contract)
    if declaration.signature in ("", OWN):
        return own
    theirs = signature(declaration.signature)
    return own if (theirs.contract, theirs.before) == (SIGNATURES_OF, ()) else (*theirs.before, *theirs.inputs)


def untested_parameters(declaration: Declaration, function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of the function that no test of its contract gives."""
    if not _is_called(declaration):
        return ()
    known = tested_parameters(declaration)
    others = _options(function_parameters(function) or (), declaration)
    return tuple(parameter.name for parameter in others if parameter.name not in known)


def required_options(declaration: Declaration, function: Callable[..., Any]) -> frozenset[str]:
    """The parameters without a default that some tests of attention give, so that the others have to give them, too."""
    outside, inside = function_parameters(function, through=False), function_parameters(function)
    if declaration.contract != SIGNATURES_OF or outside is None or inside is None:
        return frozenset()
    taken = {parameter.name for parameter in outside}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in outside)
    known = signature(declaration.signature or OWN).tested
    return frozenset(
        parameter.name
        for parameter in _options(inside, declaration)
        if parameter.default is parameter.empty and parameter.name in known and (takes_any or parameter.name in taken)
    )


def _is_called(declaration: Declaration) -> bool:
    """Whether tests call the function itself, and not what a factory makes."""
    return not contract_named(declaration.contract).is_model


def _options(declared: Iterable[Parameter], declaration: Declaration) -> list[Parameter]:
    """The parameters that are not in the places of the contract's inputs."""
    declared = list(declared)
    first = [parameter for parameter in declared if parameter.kind in POSITIONAL][: len(positional_names(declaration))]
    return [parameter for parameter in declared if parameter not in first and parameter.kind not in ANY_NUMBER]


def accepting_keywords(function: Callable[..., Any], contract: str) -> Callable[..., Any]:
    """The function with its positional-only options accepted by keyword; unchanged where it has none."""
    declared = function_parameters(function, through=False) or []
    later = [parameter for parameter in declared if parameter.kind is parameter.POSITIONAL_ONLY][
        len(input_names(contract)) :
    ]
    if not later:
        return function

    def call(*arguments: Any, **options: Any) -> Any:
        last = max((place for place, parameter in enumerate(later) if parameter.name in options), default=-1)
        defaults = {
            parameter.name: None if parameter.default is parameter.empty else parameter.default
            for parameter in later[: last + 1]
        }
        return function(*arguments, *(options.pop(name, value) for name, value in defaults.items()), **options)

    return update_wrapper(call, function, (), ())


# Functions that no test can call


def refuse_uncallable(declaration: Declaration, function: Callable[..., Any]) -> None:
    """Raise Uncallable for a function that needs more than tests give, or takes the inputs in other places.

    Decorators are not looked through: one may give what the function inside needs.
    """
    declared = function_parameters(function, through=False)
    if declared is None or not _is_called(declaration):
        return
    expected = positional_names(declaration)
    places = [parameter for parameter in declared if parameter.kind in POSITIONAL]
    fewer = len(places) < len(expected) and not any(
        parameter.kind is parameter.VAR_POSITIONAL for parameter in declared
    )
    own = expected == input_names(declaration.contract)  # a signature of its own may give options by position
    misplaced = fewer or (
        own and any(_is_option(parameter, declaration.contract) for parameter in places[: len(expected)])
    )
    known = tested_parameters(declaration) - {*expected}
    missing = any(
        parameter.default is parameter.empty and parameter.name not in known
        for parameter in _options(declared, declaration)
    )
    if not misplaced and not missing:
        return
    named = [parameter for parameter in declared if parameter.kind not in ANY_NUMBER]
    passed, lines = _around_function(declaration, named, expected, misplaced)
    is_attention = declaration.contract == SIGNATURES_OF
    name = declaration.function.rpartition(".")[2] or declaration.name
    if misplaced:
        actual = ", ".join(parameter.name for parameter in places[: len(expected)]) or "nothing by position"
        says = f"{name} takes {actual}; {declaration.contract} gives {', '.join(expected)} by position"
    else:
        needs = [word for word in passed if word not in expected and word not in known]
        homes = [name for name in names(declaration.contract) if signature(name).tested.issuperset(needs)]
        others = f" without --signature {' or '.join(homes)}" if homes and is_attention else ""
        says = f"{name} needs {', '.join(needs)}, which no test of {declaration.contract} gives{others}"
    code = "\n".join(f"    {line}" for line in lines)
    raise Uncallable(f"{says}; write a function around it:\n\n{code}")


def _is_option(parameter: Parameter, contract: str) -> bool:
    """Whether a parameter in an input's place has the name of an option; `mask` and `bias` need a default as well."""
    options = set(re.findall(r"\w+", signature_of(contract)))
    if contract == SIGNATURES_OF:
        options = set().union(*(signature(name).tested for name in names(contract)))
    options -= {*input_names(contract)}
    is_optional = parameter.default is not parameter.empty
    # a single letter may have any meaning
    return len(parameter.name) > 1 and parameter.name in options and (is_optional or parameter.name not in ANYWHERE)


def _around_function(
    declaration: Declaration, parameters: Sequence[Parameter], inputs: Sequence[str], misplaced: bool
) -> tuple[list[str], list[str]]:
    """The arguments that a function gets, and the lines of a function of the contract around it.

    `inputs` are the contract's. A parameter corresponds to an input by its name or its first letter, else by its place,
    unless places are `misplaced`.
    """
    letters = {name[0]: name for name in inputs} if declaration.contract == SIGNATURES_OF else {}
    roles = letters | {name: name for name in inputs}
    if not {*inputs} <= {roles.get(parameter.name) for parameter in parameters}:
        places = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        roles = dict(zip(places * (not misplaced), inputs, strict=False))
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty or parameter.name in roles]
    passed = [roles.get(parameter.name, parameter.name) for parameter in needed]
    arguments = [
        f"{parameter.name}={value}" if parameter.kind is parameter.KEYWORD_ONLY else value
        for parameter, value in zip(needed, passed, strict=True)
    ]
    home = declaration.module or Path(declaration.file).stem
    name, dot, attribute = declaration.function.partition(".")
    return passed, [
        f"from {home} import {name} as mine" if home and name else f"mine = {declaration.name}",
        "",
        f"def {declaration.contract}({', '.join(inputs)}):",
        *(f"    {value} = ...  # fill in" for value in passed if value not in inputs),
        f"    return mine{dot}{attribute}({', '.join(arguments)})",
    ]
