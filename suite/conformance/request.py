"""What a check tests: a request, the cases that a pattern selects, and a sample of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from attnsuite.cases import Case, Contract, list_tests
from attnsuite.cases.contract import PROFILES, QUICK
from attnsuite.conformance.known import Xfail, read_xfails
from attnsuite.conformance.selection import matches, nothing_matches
from attnsuite.machine import cuda
from attnsuite.model import BAD_INPUT, DTYPES, Shard, UsageError
from attnsuite.model.limits import (
    TIME_LIMIT,
    check_dtypes,
    check_name_of_device,
    check_profile,
    check_seconds,
    check_seed,
)
from attnsuite.registry import Declaration

CaseDtype = tuple[Case, str]
"""A test: a case and the dtype in which it is run."""


@dataclass(frozen=True)
class CheckRequest:
    """Which cases to test, in which dtypes, on which device; with `isolate`, each implementation in its own process."""

    cases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    device: str = "cpu"
    isolate: bool = False
    time_limit: float = TIME_LIMIT
    profile: str = QUICK
    """Which of the cases that combine features."""
    seed: int = 0
    """Of the numbers in inputs, and of the covering array."""
    only: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """The cases and dtypes to test, by the full name of an implementation; one that is not named is tested in full."""
    sampled: Mapping[str, int] = field(default_factory=dict)
    """The implementations for which `only` has a sample, each with the number of its tests in all."""
    shard: Shard | None = None
    xfails: tuple[Xfail, ...] = ()
    """The failures that are expected of submissions."""
    strict: bool = False
    """Whether submissions fail for bad input that they accept; shipped implementations always do."""

    def __post_init__(self) -> None:
        check_dtypes(self.dtypes)
        check_device(self.device)
        check_seconds("time limit", self.time_limit)
        check_profile(self.profile, PROFILES)
        check_seed(self.seed)

    @property
    def device_kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def isolates_shipped(self) -> bool:
        """Whether shipped implementations run in processes of their own, too.

        They do on a GPU: a kernel that fails there may cost its process all further use of the device.
        """
        return self.isolate or self.device != "cpu"

    def all_cases(self, contract: Contract) -> Sequence[Case]:
        """The cases of the contract; those that combine features are of this profile and seed."""
        cases = contract.cases()
        if contract.array is None or (self.profile, self.seed) == (QUICK, 0):
            return cases
        array = contract.array()
        named = array.named(self.cases) if self.cases else None  # drawing an array takes seconds
        combined = array.cases(self.profile, self.seed) if named is None else named
        families = {case.family for case in combined}
        return [*(case for case in cases if case.family not in families), *combined]

    def tests(self, contract: Contract) -> list[CaseDtype]:
        """The cases and dtypes that the patterns select, in the order of cases. UsageError if they select no test."""
        cases = self.all_cases(contract)
        for pattern in self.cases:
            if not any(matches(case.name, pattern) for case in cases):
                families = list(dict.fromkeys(case.family for case in cases))
                names = [case.name for case in cases]
                raise UsageError(nothing_matches(pattern, names, families, contract.name, contract.aliases))
        selected = [case for case in cases if not self.cases or any(matches(case.name, p) for p in self.cases)]
        tests = list_tests(selected, self.device_kind, self.dtypes or DTYPES)
        if not tests:
            where = f"in {', '.join(self.dtypes or DTYPES)} on {self.device}"
            known = [dtype for dtype in DTYPES if any(dtype in case.dtypes for case in selected)]
            tested = f"they are tested in {', '.join(known)}"
            raise UsageError(f"the cases {', '.join(self.cases)} are not tested {where}; {tested}")
        return tests


def check_device(device: str) -> None:
    """Raise UsageError if this machine has no such device, or if PyTorch cannot use it."""
    check_name_of_device(device)
    try:
        kind, index = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:  # an index that torch does not accept
        raise UsageError(f"unknown device {device!r}; there are: cpu, cuda, cuda:N") from None
    if kind == "cuda" and (problem := cuda.problem(index)):
        raise UsageError(f"no device {device}: {problem}")


def requested(
    cases: str | Iterable[str],
    dtypes: str | torch.dtype | Iterable[str | torch.dtype] | None,
    device: str | torch.device,
    xfails: str | Path | None = None,
    strict: bool = False,
) -> CheckRequest:
    """A request from the arguments of Python functions: one name or several, "float32" or torch.float32."""
    if dtypes is None or isinstance(dtypes, str | torch.dtype):
        dtypes = () if dtypes is None else (dtypes,)
    names = tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)
    patterns = (cases,) if isinstance(cases, str) else tuple(cases)
    read = read_xfails(xfails) if xfails is not None else ()
    return CheckRequest(patterns, names, str(device), xfails=read, strict=strict)


def sample(
    declaration: Declaration,
    contract: Contract,
    tests: Sequence[CaseDtype],
    needs: Mapping[str, Collection[str]],
    kind: str,
) -> list[CaseDtype]:
    """A sample of `tests`, in their order: each feature that the implementation supports and each dtype at least once.

    `needs` has the features of each case by its name; `kind` is that of the device. Bad input tests no feature.
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
        # few features, so that a failure says which one fails; the usual dtype, because each new one is compiled anew
        cost = dtype != usual, len(features), case.family != contract.core
        for item in covers[place]:
            candidates.setdefault(item, []).append((cost, place))
    covered: set[str] = set()
    chosen: set[int] = set()
    for item in sorted(candidates, key=lambda item: (min(candidates[item]), item)):
        if item not in covered:
            least = min(candidates[item])[0]
            places = [place for cost, place in candidates[item] if cost == least]
            place = places[len(places) // 2]  # families of cases often begin with sizes of 1
            chosen.add(place)
            covered |= covers[place]
    return [test for place, test in enumerate(tests) if place in chosen]


def _unsupported(declaration: Declaration, contract: Contract) -> frozenset[str]:
    """The features that an implementation does not support, by its declaration or for lack of a parameter."""
    untaken = [
        feature
        for parameter, features in contract.parameter_features.items()
        if declaration.parameters is not None and parameter not in declaration.parameters
        for feature in features
    ]
    return frozenset((*untaken, *declaration.lacks))
