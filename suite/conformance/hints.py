"""Hints for the author of a submission: how its function is called, which device it wants, what its operators show."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.conformance.check import Check
from attnsuite.conformance.request import CaseDtype
from attnsuite.model import Operators, Outcome, Status
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, names, signature

FOR_GPU = "it raises in every plain test: is it for a GPU? --device cuda tests it there"
GPU = re.compile(r"cuda|triton|nvidia|rocm|\b[GX]PUs?\b|active driver", re.IGNORECASE)
"""Words of errors where a function needs a GPU: `0 active drivers ([]). There should only be one.` is Triton's."""
OTHER_KIND = re.compile(r"(call \d+ of \d+: )?(returned|\w+ is|\w+ has) ")
"""How a detail begins where a result is of another type, dtype or shape."""
NOT_INSTALLED = ("ModuleNotFoundError", "ImportError")
MAX_SAMPLED = 40
"""Tests whose operators are recorded: one of each family, a few milliseconds each."""
MIN_LACKING = 2
"""Failing tests from which a missing feature is concluded."""
EXPONENTIALS = ("exp", "softmax", "attention", "sigmoid", "tanh", "pow")
"""Parts of the names of PyTorch operators with which a softmax can be computed."""


def plain_outcomes(check: Check, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of the plain tests that were run and not unsupported; of all valid input where no plain test was."""
    cases = {key: case for key, case in check.cases.items() if not isinstance(case, BadInputCase)}
    run = [o for o in outcomes if (o.case, o.dtype) in cases and o.status != Status.UNSUPPORTED]
    return [o for o in run if cases[o.case, o.dtype].family == check.implementation.contract.core] or run


def call_hint(check: Check, outcomes: Sequence[Outcome], opened: Callable[[str], Check | None]) -> str:
    """The signature or the device that a function wants, or how it is called; empty where a plain test has a result.

    `opened` returns the check of the same function in the signature of a name; None where it does not fit.
    """
    implementation, plain = check.implementation, plain_outcomes(check, outcomes)
    if implementation.device_kind == "cpu" and _wants_gpu(plain):
        return FOR_GPU
    if implementation.declaration.signature not in ("", OWN) or not plain or not all(map(_has_no_result, plain)):
        return ""
    in_arrays = _in_other_arrays(check, opened) if implementation.contract.name == SIGNATURES_OF else ""
    return in_arrays or _how_it_is_called(check)


def _in_other_arrays(check: Check, opened: Callable[[str], Check | None]) -> str:
    """The signature whose arrays are not PyTorch's and in which the function returns numbers; or empty."""
    case, dtype = _plainest(check)
    for name in sorted(names(), key=lambda name: name != "numpy"):  # the commonest first
        arrays = signature(name).arrays.name
        if arrays == "torch" or importlib.util.find_spec(arrays) is None:
            continue
        other = opened(name)
        outcome = next(other.outcomes([(case, dtype)])) if other else None
        if outcome is not None and (outcome.status == Status.PASSED or outcome.error_ratio is not None):
            return (
                f"no plain test has a result with tensors of PyTorch; with arrays of {arrays} {case.name} has one: "
                f"test it with --signature {name}"
            )
    return ""


def lacks_hint(check: Check, outcomes: Sequence[Outcome]) -> str:
    """The declaration that fits where all tests of a feature, and no others, raise or get no gradient; else empty."""
    tested = [o for o in outcomes if (o.case, o.dtype) in check.cases and not o.validates_input]
    failing = [o for o in tested if o.fails]
    passing = [o for o in tested if o.status == Status.PASSED]
    if len(failing) < MIN_LACKING or not passing or not all(map(_is_refused, failing)):
        return ""
    needs = {o.key: check.inputs.needs(check.cases[o.case, o.dtype], o.dtype) for o in tested}
    for feature, words in check.implementation.contract.features.items():
        if all(feature in needs[o.key] for o in failing) and not any(feature in needs[o.key] for o in passing):
            declared = f'declare lacks={{"{feature}": "the reason"}}'
            return f"every test of {words} fails, and no other: if that is meant, {declared}"
    return ""


def _is_refused(outcome: Outcome) -> bool:
    return outcome.status == Status.ERROR or "no gradient reached" in outcome.detail


def _how_it_is_called(check: Check) -> str:
    """The signature, and the arguments of the plainest test; empty for a model, whose author writes a factory."""
    contract, (case, dtype) = check.implementation.contract, _plainest(check)
    if contract.is_model:
        return ""
    call = case.calls(dtype)[0]
    arguments = [f"{name} {_shape(tensor)}" for name, tensor in call.tensors.items()]
    arguments += [f"{name} {value!r}" for name, value in call.options.items()]
    called = contract.signature.partition(" -> ")[0]
    return f"no plain test has a result; {case.name} calls {called} with {', '.join(arguments)}"


def _plainest(check: Check) -> tuple[Case, str]:
    contract = check.implementation.contract
    case = next(case for case in contract.cases() if case.family == contract.core)
    return case, contract.core_dtypes[check.implementation.device_kind]


def _shape(tensor: Tensor) -> str:
    """`int64 (9,)`."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _wants_gpu(plain: Sequence[Outcome]) -> bool:
    """Whether each plain test raised, and an error mentions a GPU."""
    errors = [outcome.detail for outcome in plain if outcome.status == Status.ERROR]
    mentioned = any(GPU.search(detail) and not detail.startswith(NOT_INSTALLED) for detail in errors)
    return mentioned and len(errors) == len(plain)


def _has_no_result(outcome: Outcome) -> bool:
    unfit = outcome.status == Status.FAILED and outcome.error_ratio is None and OTHER_KIND.match(outcome.detail)
    return outcome.status == Status.ERROR or bool(unfit)


def operators_used(check: Check, outcomes: Sequence[Outcome]) -> Operators | None:
    """The operators that run in the first test of each family that has a result; None without results."""
    with_result = {(o.case, o.dtype) for o in outcomes if o.status in (Status.PASSED, Status.FAILED)}
    families: dict[str, CaseDtype] = {}
    for case, dtype in check.tests:
        if not case.in_worker and (case.name, dtype) in with_result:
            families.setdefault(case.family, (case, dtype))
    ran: Counter[str] = Counter()
    sampled = 0
    for case, dtype in list(families.values())[:MAX_SAMPLED]:
        calls = check.test(case, dtype).calls
        calls = tuple(check.implementation.contract.adapt(call, check.implementation.understood) for call in calls)
        replies = check.implementation.run([replace(call, operators=True) for call in calls])
        if not isinstance(replies, tuple):
            break  # its process has ended: others might end as well, after a minute each
        sampled += 1
        ran.update({name for reply in replies for name in reply.operators})
    return Operators(sampled, dict(ran)) if sampled else None


def operator_hint(check: Check, outcomes: Sequence[Outcome], operators: Operators | None) -> str:
    """A hint for the author of wrong softmax attention that runs no exponential; else empty.

    Code outside PyTorch may compute one, so the hint needs operators of PyTorch alone.
    """
    contract = check.implementation.contract
    wrong = any(o.status == Status.FAILED and o.case.startswith(f"{contract.core}/") for o in outcomes)
    if not wrong or operators is None or not operators.ran or "softmax" not in contract.page:
        return ""
    if any(not name.startswith("aten::") or any(part in name for part in EXPONENTIALS) for name in operators.ran):
        return ""
    return "no exponential ran: is this softmax attention at all?"
