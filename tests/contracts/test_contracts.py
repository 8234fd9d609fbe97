"""Promises of every contract: cases can fail, mutants are killed, and nothing correct is accused.

The contract `attention` has tests of its own for the same, in `attention/` and the audit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from attnsuite import registry
from attnsuite.cases import Case, Contract, Mutant, Variant
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.conformance import audit
from attnsuite.conformance.audit import failure
from attnsuite.conformance.case_tests import CaseTest, CaseTests
from attnsuite.conformance.request import requested
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract, names
from attnsuite.model import Audit, Outcome
from attnsuite.worker.calling import run_calls

NAMES = [name for name in names() if name != "attention"]
REGISTERED = registry.find([f"{name}/*" for name in NAMES])
SHIPPED = [each for each in REGISTERED if each.backend is None and "cpu" not in each.lacks]
WITH_BACKEND = [each for each in REGISTERED if each.backend is not None and each.backend.name != "flex"]
"""Without FlexAttention, which compiles for minutes."""
TOO_LARGE = ("sizes/vit_b_16",)
"""Tested where an implementation is tested slowly, without a backend: its expected result alone takes five seconds."""
WRONG_RESULTS = 2
"""The wrong results of a mutant that diagnosis has to distinguish from correct ones."""
REMEMBERS = "stale_cache"
"""The mutant that raises when a call is repeated, because it remembers the first one."""
NOT_DIAGNOSED = {"documents", "bad_input"}
"""Families whose wrong results are not distinguished from correct ones, or that have none."""
DISTINCT = 3
"""A wrong result this many bounds off is distinct from every correct one: each may be off by one bound, and two results
count as equal up to two."""
of_every_contract = pytest.mark.parametrize("name", NAMES, scope="module")
"""The tests of one contract run one after the other and share its expected results, which take long."""
LONG = {"kv_cache_attention", "multi_head_attention", "recurrent_gradient", "varlen_attention"}
"""The contracts besides models whose audit takes more than five seconds."""
of_every_contract_long_slowly = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (contract(name).is_model or name in LONG)) for name in NAMES],
    scope="module",
)
"""The same; these tests of models take tens of seconds."""
IN_PART = {"plain", "padding", "bad_input"}
"""The families that exports for the older of two sets of operators are tested on."""
SIZES = {
    *("source_vocab", "target_vocab", "embedding", "hidden", "width", "heads", "ffn_width", "mlp_width"),
    *("image_height", "image_width", "patch", "channels"),
}
"""Numbers of a config that are constants of the same nodes."""


@cache
def shared(name: str) -> CaseTests:
    """The tests of a contract. Their expected results take longer than most calls, and are computed once."""
    return CaseTests(contract(name), keep=True)


class SharingSession(Session):
    def inputs(self, contract: Contract) -> CaseTests:
        return shared(contract.name)


@cache
def audited(name: str) -> Audit:
    return audit.audit(name, jobs=1)


@cache
def outcomes(name: str) -> list[Outcome]:
    (declaration,) = registry.find([name])
    return list(SharingSession(requested(*selected_for(declaration), "cpu")).run(declaration))


def selected_for(declaration: registry.Declaration) -> tuple[list[str], str | None]:
    """Cases and dtypes. Each dtype and configuration is a new export: CI tests a part, the main job all."""
    older, exported = is_older(declaration), "onnx_export" in declaration.name
    part = [case for case in contract(declaration.contract).cases() if not older or case.family in IN_PART]
    few = declaration.backend is not None or not takes_long(declaration)
    part = of_one_size(part) if exported else part
    return [case.name for case in part if not few or case.name not in TOO_LARGE], "float32" if exported else None


def takes_long(declaration: registry.Declaration) -> bool:
    """Whether it takes ten seconds and more: on images, and exports. The quickest of these always runs."""
    name = declaration.full_name
    quick = "vision_transformer/onnx_export.opset18"
    slow = (
        "patch_embedding/loops",
        "vision_transformer/eager",
        "kv_cache_attention/flex.eager",
        "varlen_attention/jax_nn",
        "varlen_attention/flex.eager",
    )
    return name in slow or ("/onnx_export" in name and name != quick)


def is_older(declaration: registry.Declaration) -> bool:
    """Whether it is an export for the older of two sets of operators, which is tested in part."""
    return declaration.name.endswith("opset18")


def of_one_size(cases: Sequence[Case]) -> list[Case]:
    """The cases whose graphs differ in their nodes; of those that differ in sizes alone, those of the usual sizes.

    Each export takes seconds, and would make the same graph once more.
    """
    configs = {case.name: case.calls("float32")[0].config or {} for case in cases if "float32" in case.dtypes}
    counts = Counter(map(repr, configs.values()))
    usual: dict[str, str] = {}
    for name in sorted(configs, key=lambda name: (-counts[repr(configs[name])], name.startswith("documents"))):
        usual.setdefault(nodes(configs[name]), repr(configs[name]))

    def is_chosen(case: Case) -> bool:
        config = configs.get(case.name, {})
        return isinstance(case, BadInputCase) or case.name in TOO_LARGE or usual.get(nodes(config)) == repr(config)

    return [case for case in cases if is_chosen(case)]


def nodes(config: Mapping[str, Any]) -> str:
    """The part of a config that the nodes of a graph depend on: that there are a window and classes, not which."""
    rest = {key: each for key, each in config.items() if key not in SIZES}
    return repr(rest | {"window": rest.get("window") is not None, "classes": bool(rest.get("classes"))})


@of_every_contract_long_slowly
def test_the_audit_passes(name: str) -> None:
    """No control and no correct variant fails; each mutant is killed, and each family needed for that."""
    found = audited(name)

    assert (found.controls, found.accusations, found.survived, found.unnecessary) == ([], [], [], [])
    assert found.passed
    assert len(found.kills) >= 8
    assert len(found.variants) >= 2


def test_a_wrong_variant_fails() -> None:
    ffn = contract("positionwise_ffn")
    (wrong,) = (mutant for mutant in ffn.mutants() if mutant.name == "tanh_gelu")
    changed = replace(ffn, variants=lambda: [Variant(wrong.name, wrong.says, wrong.function)])
    _, accusations = audit.run_correct_variants(changed, ffn.cases(), shared(ffn.name))

    assert {outcome.case.split("/")[0] for outcome in accusations} >= {"gelu"}


@of_every_contract
def test_cases_have_names_and_reasons_of_their_own(name: str) -> None:
    cases = contract(name).cases()

    assert len({case.name for case in cases}) == len(cases)
    assert all(case.why for case in cases)
    assert {case.family for case in cases} >= {contract(name).core}


@pytest.mark.slow
@of_every_contract
def test_every_feature_but_the_devices_is_needed_by_some_case(name: str) -> None:
    tested = contract(name)
    calls = (case.calls(dtype) for case in tested.cases() for dtype in case.dtypes)
    needed = frozenset[str]().union(*map(tested.needs, calls))

    assert needed == set(tested.features) - {"cpu", "cuda"}


@pytest.mark.parametrize(
    "declaration",
    [pytest.param(each, marks=[pytest.mark.slow] * takes_long(each)) for each in SHIPPED],
    ids=lambda declaration: declaration.full_name,
)
def test_shipped_implementations_pass_and_report_bad_input_in_one_line(declaration: registry.Declaration) -> None:
    results = outcomes(declaration.full_name)
    assert [outcome for outcome in results if outcome.fails] == []
    assert sum(outcome.status == "passed" for outcome in results) > len(results) / 3

    cases = {case.name: case for case in contract(declaration.contract).cases() if isinstance(case, BadInputCase)}
    refused = [outcome for outcome in results if outcome.case in cases]
    assert len(refused) == len(cases)
    unsupported = [outcome for outcome in refused if outcome.status == "unsupported"]
    for outcome in unsupported:  # a declared gap, or a signature without an option of the call
        untaken = set(re.findall(r"\bno (\w+)", outcome.detail)) if outcome.detail.startswith("takes no ") else set()
        arguments = {name for call in cases[outcome.case].calls(outcome.dtype) for name in call.arguments}
        assert outcome.detail.startswith("lacks ") or (untaken and untaken <= arguments), outcome
    assert len(unsupported) < len(refused) / 2
    for outcome in refused:
        if outcome not in unsupported:  # one line, with the given value
            assert re.fullmatch(r"ValueError: .*(\d|torch\.).*", outcome.detail), outcome


@pytest.mark.slow
@pytest.mark.parametrize("declaration", WITH_BACKEND, ids=lambda declaration: declaration.full_name)
def test_no_shipped_implementation_fails_with_a_backend(declaration: registry.Declaration) -> None:
    results = outcomes(declaration.full_name)

    assert [outcome for outcome in results if outcome.fails] == []
    assert {outcome.status for outcome in results} <= {"passed", "unsupported", "missing"}


def wrong_results(name: str, mutant: Mutant) -> list[CaseTest]:
    """The first tests that kill a mutant by a wrong result that is distinct from correct ones."""
    dtype, tests = mutant.dtypes[0], []
    killing = {test for tests in audited(name).kills[mutant.name].values() for test in tests}
    for case in contract(name).cases():
        if len(tests) < WRONG_RESULTS and case.family not in NOT_DIAGNOSED and f"{case.name} {dtype}" in killing:
            test = shared(name).test(case, dtype, {})
            verdict = failure(case, test.calls, test.expected, mutant.function)
            if verdict and verdict.output_wrong and (verdict.error_ratio is None or verdict.error_ratio > DISTINCT):
                tests.append(test)
    return tests


@of_every_contract_long_slowly
def test_a_mutant_is_recognised_by_its_results(name: str) -> None:
    """Diagnosis: each mutant's own wrong results are like its own, and unlike the control's."""
    (control,) = list(contract(name).controls().values())[:1]
    results = [(mutant, wrong_results(name, mutant)) for mutant in contract(name).mutants()]

    assert any(tests for _, tests in results)
    for mutant, tests in results:
        for test in tests:
            correct, wrong = (run_calls(function, test.calls) for function in (control, mutant.function))
            if mutant.name == REMEMBERS and any(reply.error for reply in wrong):
                continue
            assert test.case.alike(test.calls, wrong, wrong, test.expected), (mutant.name, test.case.name)
            assert not test.case.alike(test.calls, wrong, correct, test.expected), (mutant.name, test.case.name)
