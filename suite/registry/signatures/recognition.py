"""Which signature a function has, told by the names of its parameters, where they leave no doubt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache

from attnsuite.registry.signatures.catalogue import OWN, names, signature

INPUTS = 3
"""Query, key and value come first, whatever they are called."""
ANYWHERE = frozenset({"mask", "bias"})
"""Names that are given to arguments in all textbooks, and that point to no signature by themselves."""


class AmbiguousSignature(Exception):
    """The parameters fit several signatures; the message says which, and what to write."""


def recognise(parameters: Sequence[str] | None, required: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The signature that a function with these parameters has, and the parameters that tell; or two empty ones.

    `required` are those without a default, by which a signature is known whose library gives none either.

    Both are empty where nothing points away from the contract's own signature. Raises `AmbiguousSignature` where
    foreign names fit several signatures, or one and the contract's own, or where identifying names of two meet.
    """
    given = frozenset((parameters or ())[INPUTS:])
    foreign = (given & _known()) - signature(OWN).parameters
    fitting = [name for name in names() if name != OWN and foreign <= signature(name).parameters and _fits(name, given)]
    if not fitting:
        return _mixed(given, foreign - ANYWHERE)
    if not foreign:
        return "", ()
    for name in fitting:
        if (needs := signature(name).required) and needs <= frozenset(required):
            return name, tuple(sorted(needs))
    if len(fitting) == 1 and (telling := _telling(fitting[0], given)):
        return fitting[0], telling
    if foreign <= ANYWHERE:
        return "", ()
    raise AmbiguousSignature(_says(sorted(foreign), fitting))


def _fits(name: str, given: frozenset[str]) -> bool:
    """Whether the parameters that the contract's own signature has are those of this one, too."""
    return given & signature(OWN).parameters <= signature(name).parameters


def _mixed(given: frozenset[str], foreign: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """The signature of parameters of which no signature has all. Raises `AmbiguousSignature` where two may be meant.

    Where most are the contract's own, the others are additions to it.
    """
    told = [name for name in names() if name != OWN and _telling(name, given)]
    if not told:
        return "", ()
    likeliest = max(told, key=lambda name: len(foreign & signature(name).parameters))
    own = (given & signature(OWN).parameters) - signature(likeliest).parameters
    if len(own) > len(foreign):
        return "", ()
    if own or foreign - signature(likeliest).parameters:
        raise AmbiguousSignature(_says_of_both(foreign | own, likeliest))
    return likeliest, _telling(likeliest, given)


def _says_of_both(given: frozenset[str], likeliest: str) -> str:
    """`softmax_scale is a parameter of flash_attn, attn_bias of xformers: …`."""
    theirs = given & signature(likeliest).parameters
    others = given - theirs
    foreign = others - signature(OWN).parameters
    homes = [name for name in names() if foreign & signature(name).parameters] or [OWN]
    told = f"{_and(theirs)} {'is' if len(theirs) == 1 else 'are'} of the signature {likeliest}"
    candidates = [likeliest, *homes]
    own = f", or --signature {OWN} for the contract's own" if OWN not in candidates else ""
    choice = " or ".join(f"--signature {name}" for name in candidates)
    return f"{told}, {_and(others)} of {_and(homes)}, and none has all: say {choice}{own}"


def _and(words: Iterable[str]) -> str:
    return " and ".join(sorted(words))


def _telling(name: str, given: frozenset[str]) -> tuple[str, ...]:
    """The parameters by which it is known; none where they might be anybody's."""
    found = [each for each in signature(name).identifying if each <= given]
    return tuple(sorted(frozenset[str]().union(*found)))


@cache
def _known() -> frozenset[str]:
    """The parameters of all signatures."""
    return frozenset[str]().union(*(signature(name).parameters for name in names()))


def _says(foreign: Sequence[str], fitting: Sequence[str]) -> str:
    candidates = [*fitting, OWN] if len(fitting) == 1 else fitting
    choice = " or ".join(f"--signature {name} ({signature(name).axes})" for name in candidates)
    own = f", or --signature {OWN} for the contract's own" if OWN not in candidates else ""
    fits = "fits" if len(foreign) == 1 else "fit"
    return f"{' and '.join(foreign)} {fits} several signatures: say {choice}{own}"
