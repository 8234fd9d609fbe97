"""Recognises a function's signature by the names of its parameters, where these are unambiguous."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache

from attnsuite.registry.signatures.signature import INPUTS, OWN, SIGNATURES_OF, names, signature

ANYWHERE = frozenset({"mask", "bias"})
"""Names of arguments in all textbooks, which alone indicate no signature."""


class AmbiguousSignature(Exception):
    """The parameters fit several signatures; the message lists them, and what to write."""


def recognise(parameters: Sequence[str] | None, required: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The signature of a function with these parameters, and the parameters that identify it.

    `required` are the parameters without a default; some signatures are identified by these. The result is `("", ())`
    where no parameter is foreign to the contract's own signature. Raises `AmbiguousSignature` where foreign names fit
    several signatures, or one and the contract's own, or where identifying names of two meet.
    """
    for described in map(signature, names(SIGNATURES_OF)):
        if described.before and tuple(parameters or ())[: len(described.before)] == described.before:
            return described.name, described.before
    options = frozenset((parameters or ())[len(INPUTS) :])
    own = signature(OWN).parameters
    foreign = (options & _known()) - own
    fitting = [name for name in _others() if foreign | (options & own) <= signature(name).parameters]
    if not fitting:
        return _mixed(options, foreign - ANYWHERE)
    if not foreign:
        return "", ()
    for name in fitting:
        if (needs := signature(name).required) and needs <= frozenset(required):
            return name, tuple(sorted(needs))
    if len(fitting) == 1 and (identifying := _identifying(fitting[0], options)):
        return fitting[0], identifying
    if foreign <= ANYWHERE:
        return "", ()
    fits = "fits" if len(foreign) == 1 else "fit"
    raise _ambiguous(f"{_and(foreign)} {fits} several signatures", [*fitting, OWN] if len(fitting) == 1 else fitting)


def recognise_other(
    contract: str, own: Collection[str], inputs: Sequence[str], parameters: Sequence[str], required: Collection[str]
) -> tuple[str, tuple[str, ...]] | None:
    """The signature of a function of another contract than attention, and the parameters that identify it.

    `inputs` are the contract's, `own` all its parameters. `("", ())` for the contract's own signature; None for a
    function whose parameters do not show that it is of the contract.
    """
    options, marks = frozenset(parameters[len(inputs) :]), frozenset(inputs) - frozenset(INPUTS)
    is_own = marks <= frozenset(required)
    for described in map(signature, names(contract)):
        known = not described.identifying or any(group <= frozenset(parameters) for group in described.identifying)
        differs = (options - frozenset(own)) & described.parameters or options.intersection(required)
        if known and described.required <= frozenset(required) and (differs or not is_own):
            return described.name, tuple(sorted(described.required))
    return ("", ()) if is_own else None


def _mixed(options: frozenset[str], foreign: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """The signature of parameters that no signature has completely; empty where most are the contract's own.

    Raises `AmbiguousSignature` where two may be meant.
    """
    identified = [name for name in _others() if _identifying(name, options)]
    if not identified:
        return "", ()
    likeliest = max(identified, key=lambda name: len(foreign & signature(name).parameters))
    own = (options & signature(OWN).parameters) - signature(likeliest).parameters
    if len(own) > len(foreign):
        return "", ()
    if own or foreign - signature(likeliest).parameters:
        others = (foreign - signature(likeliest).parameters) or own
        homes = [name for name in names(SIGNATURES_OF) if others & signature(name).parameters and name != "numpy"]
        raise _ambiguous(f"no signature has {_and(foreign | own)}", [likeliest, *homes])
    return likeliest, _identifying(likeliest, options)


def _ambiguous(problem: str, candidates: Collection[str]) -> AmbiguousSignature:
    choice = " or ".join(f"--signature {name} ({signature(name).axes})" for name in candidates)
    own = f", or --signature {OWN} for the contract's own" if OWN not in candidates else ""
    return AmbiguousSignature(f"{problem}: say {choice}{own}")


def _and(words: Iterable[str]) -> str:
    return " and ".join(sorted(words))


def _others() -> list[str]:
    return [name for name in names(SIGNATURES_OF) if name != OWN and not signature(name).before]


def _identifying(name: str, options: frozenset[str]) -> tuple[str, ...]:
    """The given parameters that identify a signature; empty where they may be of any."""
    return tuple(sorted(frozenset[str]().union(*(word for word in signature(name).identifying if word <= options))))


@cache
def _known() -> frozenset[str]:
    """The parameters of all signatures."""
    return frozenset[str]().union(*(signature(name).parameters for name in (OWN, *_others())))
