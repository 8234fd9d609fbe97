"""Which signature a function has, told by the names of its parameters, where they leave no doubt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from suite.signatures.catalogue import OWN, names, signature

INPUTS = 3
"""Query, key and value come first, whatever they are called."""
ANYWHERE = frozenset({"mask", "bias"})
"""Names that are given to arguments in all textbooks, and that point to no signature by themselves."""


class Ambiguous(Exception):
    """The parameters fit several signatures; the message says which, and what to write."""


def recognised(parameters: Sequence[str] | None) -> tuple[str, tuple[str, ...]]:
    """The signature that a function with these parameters has, and the parameters that tell; or two empty ones.

    It is empty where nothing points away from the contract's own. Raises `Ambiguous` where names of other libraries fit
    several signatures, or one and the contract's own.
    """
    given = frozenset((parameters or ())[INPUTS:])
    foreign = (given & _known()) - signature(OWN).foreign
    fitting = [name for name in names() if name != OWN and foreign <= signature(name).foreign and _fits(name, given)]
    if not foreign or not fitting:
        return "", ()
    if len(fitting) == 1 and (telling := _telling(fitting[0], given)):
        return fitting[0], telling
    if foreign <= ANYWHERE:
        return "", ()
    raise Ambiguous(_says(sorted(foreign), fitting))


def _fits(name: str, given: frozenset[str]) -> bool:
    """Whether the parameters that the contract's own signature has are those of this one, too."""
    return given & signature(OWN).foreign <= signature(name).foreign


def _telling(name: str, given: frozenset[str]) -> tuple[str, ...]:
    """The parameters by which it is known; none where they might be anybody's."""
    found = [each for each in signature(name).telling if each <= given]
    return tuple(sorted(frozenset[str]().union(*found)))


@cache
def _known() -> frozenset[str]:
    """The parameters of all signatures."""
    return frozenset[str]().union(*(signature(name).foreign for name in names()))


def _says(foreign: Sequence[str], fitting: Sequence[str]) -> str:
    candidates = [*fitting, OWN] if len(fitting) == 1 else fitting
    choice = " or ".join(f"--signature {name}" for name in candidates)
    own = f", or --signature {OWN} for the contract's own" if OWN not in candidates else ""
    fits = "fits" if len(foreign) == 1 else "fit"
    return f"{' and '.join(foreign)} {fits} the signatures {' and '.join(candidates)}: say {choice}{own}"
