"""A sample of a contract's tests: every feature and every dtype at least once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attnsuite.cases import Case, Contract
from attnsuite.model import BAD_INPUT, DTYPES
from attnsuite.registry import Declaration

Test = tuple[Case, str]
"""A case and the dtype in which it is tested."""


def sample(
    declaration: Declaration, contract: Contract, tests: Sequence[Test], needs: Mapping[str, Collection[str]], kind: str
) -> list[Test]:
    """The tests of a sample, in the order of `tests`.

    Each feature that the implementation supports on this kind of device and each dtype occurs in at least one of them.
    Of the tests with a feature one with the fewest others is taken, so that a failure says which feature fails, in the
    contract's usual dtype where there is one: each new dtype is compiled anew. Of several such tests it is the middle
    one, because families of cases often begin with sizes of 1. Bad input, which must raise, tests no feature. `needs`
    has the features of each case by its name.
    """
    unsupported = _unsupported(declaration, contract)
    usual = contract.core_dtypes.get(kind, DTYPES[0])
    candidates: dict[str, list[tuple[tuple[bool, int, bool], int]]] = {}
    covers: dict[int, frozenset[str]] = {}
    for place, (case, dtype) in enumerate(tests):
        features = frozenset(needs.get(case.name, ())) - frozenset(DTYPES)
        if (features | {dtype, kind}) & unsupported or case.family == BAD_INPUT:
            continue
        covers[place] = features | {dtype}
        cost = dtype != usual, len(features), case.family != contract.core
        for item in covers[place]:
            candidates.setdefault(item, []).append((cost, place))
    covered: set[str] = set()
    chosen: set[int] = set()
    for item in sorted(candidates, key=lambda each: (min(candidates[each]), each)):
        if item not in covered:
            simplest = min(candidates[item])[0]
            alike = [place for cost, place in candidates[item] if cost == simplest]
            place = alike[len(alike) // 2]
            chosen.add(place)
            covered |= covers[place]
    return [test for place, test in enumerate(tests) if place in chosen]


def _unsupported(declaration: Declaration, contract: Contract) -> frozenset[str]:
    """The features that an implementation does not support, by its declaration or for want of a parameter."""
    untaken = [
        feature
        for parameter, features in contract.parameter_features.items()
        if declaration.parameters is not None and parameter not in declaration.parameters
        for feature in features
    ]
    return frozenset((*untaken, *declaration.lacks))
