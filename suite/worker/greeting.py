"""The first that a worker says: what became of the import, and what the implementation declares of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from attnsuite.registry import Declaration
from attnsuite.registry.declaration import checked
from attnsuite.registry.signatures import names
from attnsuite.registry.signing import ASKED_FOR, DECLARED
from attnsuite.worker.replies import MOST_NAMES, is_names, shortened
from attnsuite.worker.wire import Garbage

SAID = (ASKED_FOR, DECLARED)
"""Who says a signature, where no parameter tells it."""


class Import(StrEnum):
    """What became of the import of an implementation."""

    READY = "ready"
    MISSING = "missing"
    """A library that it requires is not installed."""
    BROKEN = "broken"
    """It raised."""
    UNUSABLE = "unusable"
    """The function that the user named is not there or cannot be called."""


@dataclass(frozen=True)
class Greeting:
    """How the import ended, the reason where not well, and the parts of the declaration that only it could tell."""

    ended: Import
    reason: str
    parameters: tuple[str, ...] | None
    requires: tuple[str, ...]
    lacks: Mapping[str, str]
    conventions: Mapping[str, Any]
    style: str
    unasked: tuple[str, ...] = ()
    rewritten: bool = False
    signature: str = ""
    signature_by: tuple[str, ...] = ()


def _are_parameters(found: Any) -> bool:
    """Whether these are names that parameters can have, and no more than a function may have."""
    return is_names(found) and len(found) <= MOST_NAMES and all(name.isidentifier() for name in found)


def greeting(ended: Import, reason: str, declaration: Declaration) -> Greeting:
    """The greeting of an implementation with this declaration."""
    of = declaration
    told = of.style, of.unasked, of.rewritten, of.signature, of.signature_by
    return Greeting(ended, reason, of.parameters, of.requires, of.lacks, of.conventions, *told)


def greeting_from(data: Any) -> Greeting:
    """The greeting that came from another process. Raises `Garbage` for anything else."""
    try:
        found = {field.name: data[field.name] for field in fields(Greeting)}
        if found["parameters"] is not None and not _are_parameters(found["parameters"]):
            raise TypeError("parameters without names")
        if not _are_parameters(found["unasked"]) or not isinstance(found["rewritten"], bool):
            raise TypeError("no parameters")
        for key in ("requires", "lacks", "conventions"):
            found[key] = shortened(found[key])
        declared = checked(**{key: found[key] for key in ("requires", "lacks", "conventions")})
        for key in ("variant", "contract", "compiles", "signature", "signature_by"):
            del declared[key]
        ended, reason, style = Import(found["ended"]), *(shortened(str(found[key])) for key in ("reason", "style"))
        signature, by = found["signature"], tuple(found["signature_by"])
        if not isinstance(signature, str) or (signature and signature not in names()):
            raise TypeError("an unknown signature")
        if not all(isinstance(each, str) and (each in SAID or each.isidentifier()) for each in by):
            raise TypeError("parameters without names")
        return Greeting(
            ended,
            reason,
            found["parameters"],
            **declared,
            style=style,
            unasked=found["unasked"],
            rewritten=found["rewritten"],
            signature=signature,
            signature_by=by,
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Garbage(str(error)) from error
