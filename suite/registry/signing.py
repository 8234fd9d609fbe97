"""The signature of a function: said by its author, asked for by a command line, or told by its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from attnsuite.contracts import contract
from attnsuite.model import UsageError
from attnsuite.registry.calls import (
    by_place,
    function_parameters,
    parameters,
    refuse_uncallable,
    required_options,
    untested_parameters,
)
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.signatures import (
    OWN,
    SIGNATURES_OF,
    SignatureCall,
    in_contract_signature,
    recognise,
    recognition_note,
    signature,
)

ASKED_FOR, DECLARED = "--signature", "@implementation"
"""Who says which signature it is, in place of the parameters that tell it."""


def with_signature(declaration: Declaration, name: str) -> Declaration:
    """The declaration of what a user asks for in the signature of this name; as it is where none is named.

    Raises UsageError for a signature that does not exist, or that is none of the contract's.
    """
    if not name:
        return declaration
    found = signature(name)
    if declaration.contract != SIGNATURES_OF:
        told = f"{declaration.full_name} is asked as {declaration.contract}"
        raise UsageError(f"signatures are those of {SIGNATURES_OF}; {told}, which has one")
    return replace(declaration, signature=found.name, signature_by=(ASKED_FOR,))


def check_signature(name: str, targets: Sequence[str]) -> None:
    """Raise UsageError for a signature that does not exist, or where no file or module is named that could have it."""
    signature(name)
    if not targets:
        raise UsageError("--signature says what a file or module has: name one")


def check_taken(declaration: Declaration) -> None:
    """Raise UsageError for what is registered: it says itself which signature it has."""
    if declaration.signature_by[:1] != (ASKED_FOR,) and not declaration.broken:
        raise UsageError(
            f"{declaration.full_name} says itself which signature it has; --signature is for files and modules"
        )


def adapt(declaration: Declaration, function: Callable[..., Any]) -> tuple[Declaration, Callable[..., Any]]:
    """What is called, in the contract's signature, and the declaration that says what it takes then.

    Raises `Ambiguous` where the parameters fit several signatures, and `Unfit` for a function that no test can call.
    """
    is_attention = declaration.contract == SIGNATURES_OF
    own = parameters(function)
    if is_attention and not declaration.signature:
        name, by = recognise(
            own, [each.name for each in function_parameters(function) or () if each.default is each.empty]
        )
        declaration = replace(declaration, signature=name, signature_by=by)
    refuse_uncallable(declaration, function)
    called, filled = by_place(function, declaration.contract), required_options(declaration, function)
    declaration = replace(declaration, untested=untested_parameters(declaration, function))
    if called is not function or filled - _always(declaration):
        declaration = replace(declaration, rewrites_calls=True)
    if not is_attention:
        return declaration, called
    return _with_words(declaration, own), in_contract_signature(called, declaration.signature or OWN, own, filled)


def _always(declaration: Declaration) -> frozenset[str]:
    """The parameters that its signature gives in every call."""
    import torch

    nothing = torch.zeros(1, 1, 1, 1)
    return frozenset(signature(declaration.signature or OWN).keywords(SignatureCall(nothing, nothing, nothing, {})))


def library_of(declaration: Declaration) -> str:
    """The library whose arrays its signature takes, as far as that is known; empty for what is always installed."""
    return signature(declaration.signature).arrays.library if declaration.signature else ""


def _with_words(declaration: Declaration, own: Sequence[str] | None) -> Declaration:
    """With the signature's parameters, gaps and conventions; what the author declares comes before those."""
    if declaration.signature in ("", OWN):
        return declaration
    of, names = signature(declaration.signature), None if own is None else frozenset(own)
    return replace(
        declaration,
        parameters=("query", "key", "value", *of.takes(names)),
        lacks={**of.gaps(names), **declaration.lacks},
        conventions={**_known(of.conventions), **declaration.conventions},
    )


def _known(conventions: Any) -> dict[str, Any]:
    """The conventions that the contract knows."""
    return {point: chosen for point, chosen in conventions.items() if point in contract(SIGNATURES_OF).conventions}


def said(declaration: Declaration) -> str:
    """Which signature it was taken to have, and why; empty where it is the contract's own."""
    return recognition_note(declaration.full_name, declaration.signature, declaration.signature_by)
