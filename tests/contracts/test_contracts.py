"""What every contract promises of itself: cases can fail, deviations are caught, and nothing correct is accused.

The contract `attention` has tests of its own for the same, in `attention/` and the audit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from attnsuite import registry
from attnsuite.cases import Case, Contract, Mutant, Reply, Variant
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.conformance import audit
from attnsuite.conformance.audit import failure, shows_the_mistake
from attnsuite.conformance.case_tests import CaseTest, CaseTests
from attnsuite.conformance.request import requested
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract, names
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Outcome
from attnsuite.worker import ask

NAMES = [name for name in names() if name != "attention"]
REGISTERED = registry.find([f"{name}/*" for name in NAMES])
SHIPPED = [declaration for declaration in REGISTERED if declaration.plug is None]
PLUGGED = [each for each in REGISTERED if each.plug is not None and each.plug.name != "flex"]
"""Not FlexAttention, which is compiled for minutes; `attnsuite check` asks it."""
TOO_LARGE = ("sizes/vit_b_16",)
"""Not asked of deviations and of what has a plug, each of which would take seconds for it."""
LOOKED_AT = 2
"""Wrong answers of a deviation that diagnosis has to tell apart from right ones."""
NONE_AMONG = 24
"""Answers that were refused or of another form after which no wrong one is looked for."""
NEVER_LOOKED_AT = {"documents", "bad_input"}
"""Families whose wrong answers are not told from right ones, or that have none."""
APART = 3
"""Bounds by which a wrong answer is off where it can be told from every right one: each may be off by one bound, and
two answers are taken for the same up to two."""
of_every_contract = pytest.mark.parametrize("name", NAMES, scope="module")
"""The tests of one contract run one after the other, so that they share its questions: truths take long."""
LONG = {"multi_head_attention", "recurrent_gradient", "token_masking"}
"""The contracts besides models whose questions, asked of every deviation, take more than five seconds."""
of_every_contract_long_slowly = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (contract(name).is_model or name in LONG)) for name in NAMES],
    scope="module",
)
"""The same where models take tens of seconds."""
IN_PART = {"plain", "padding", "bad_input"}
"""Families of cases that are asked of exports for the older of two sets of operators."""
SIZES = {
    *("source_vocab", "target_vocab", "embedding", "hidden", "width", "heads", "ffn_width", "mlp_width"),
    *("image_height", "image_width", "patch", "channels"),
}
"""Numbers of a config that are constants of the same nodes."""


@cache
def kept(name: str) -> CaseTests:
    """The questions of a contract, whose truths take longer than most answers: made once in this process."""
    return CaseTests(contract(name), keep=True)


class Sharing(Session):
    """Asks the questions that are kept."""

    def questions(self, contract: Contract) -> CaseTests:
        return kept(contract.name)


@cache
def questions(name: str) -> list[CaseTest]:
    """All questions of a contract."""
    cases = contract(name).cases()
    return [kept(name).test(case, dtype, {}) for case in cases for dtype in case.dtypes]


def verdict(asked: CaseTest, function: Any) -> Verdict:
    return asked.case.verdict(asked.calls, ask(function, asked.calls), asked.expected)


@dataclass
class Caught:
    """A deviation, and what it was caught by."""

    deviation: Mutant
    due: list[CaseTest]
    """What it has not been asked, in order."""
    catching: list[CaseTest] = field(default_factory=list)
    """Questions that catch it."""
    wrong: list[CaseTest] = field(default_factory=list)
    """Questions to which its answers are wrong, rather than refused or of another form, and told from right ones."""
    refused: int = 0
    """How many answers were not wrong, but refused or of another form."""

    def ask_until(self, families: int) -> None:
        """Ask on until so many families catch it, or nothing is left."""
        while self.due and len(self.judging) < families:
            self.ask(self.due.pop(0))

    def look(self) -> None:
        """Ask on for wrong answers, first of the families that catch it, where most of them lie."""
        rest = [asked for asked in self.due if asked.case.family not in NEVER_LOOKED_AT]
        rest.sort(key=lambda asked: asked.case.family not in self.judging)
        for asked in rest:
            if self.is_looked_at:
                return
            self.ask(asked)

    def ask(self, asked: CaseTest) -> None:
        failed = failure(asked.case, asked.calls, asked.expected, self.deviation.function)
        if shows_the_mistake(asked.case, asked.expected, failed):
            self.catching.append(asked)
        if failed and failed.output_wrong and self.is_telling(asked, failed):
            self.wrong.append(asked)
        self.refused += failed is not None and not failed.output_wrong

    def is_telling(self, asked: CaseTest, failed: Verdict) -> bool:
        """Whether right and wrong answers lie further apart than both may be off: a document's digits may be failed by
        less than rounding costs.
        """
        own = asked.dtype == self.deviation.dtypes[0] and asked.case.family not in NEVER_LOOKED_AT
        return own and (failed.error_ratio is None or failed.error_ratio > APART)

    @property
    def families(self) -> set[str]:
        """Those whose cases catch it."""
        return {asked.case.family for asked in self.catching}

    @property
    def judging(self) -> set[str]:
        """The families that catch it, but for the documents' own digits."""
        return self.families - {"documents"}

    @property
    def is_looked_at(self) -> bool:
        """Whether there are wrong answers enough, or none among some."""
        return len(self.wrong) >= LOOKED_AT or (not self.wrong and self.refused > NONE_AMONG)


@cache
def caught(name: str) -> dict[str, Caught]:
    """What catches each deviation, as far as it has to be known: two families, or one that catches another alone."""
    order = [asked for asked in in_turn(questions(name)) if asked.case.name not in TOO_LARGE]
    found = {
        each.name: Caught(each, [asked for asked in order if asked.dtype in each.dtypes])
        for each in contract(name).mutants()
    }
    catches = Counter[tuple[str, str]]()
    for each in found.values():
        each.due.sort(key=lambda asked: -catches[asked.case.name, asked.dtype])  # first what has caught most others
        each.ask_until(1)
        catches.update((asked.case.name, asked.dtype) for asked in each.catching)
    # Those that are caught last are the likeliest to be caught by nothing else. What one family has caught alone, it
    # need not be shown to catch alone again.
    alone = set[str]()
    for each in sorted(found.values(), key=lambda each: len(each.due)):
        if not each.judging & alone:
            each.ask_until(2)
        if len(each.judging) == 1:
            alone |= each.judging
    for each in found.values():
        each.look()
    return found


def in_turn(asked: list[CaseTest]) -> list[CaseTest]:
    """One question of each family, then a second of each, and so on; the smallest of each first."""
    place: dict[str, int] = defaultdict(int)
    order = []
    for each in sorted(asked, key=size):
        place[each.case.family] += 1
        order.append((place[each.case.family], each))
    return [each for _, each in sorted(order, key=lambda pair: pair[0])]


def size(asked: CaseTest) -> int:
    """How many numbers a question has, but for weights: the more, the longer an answer takes."""
    return sum(tensor.numel() for call in asked.calls for tensor in call.tensors.values())


@cache
def outcomes(name: str) -> list[Outcome]:
    """All that is asked of an implementation, in this process."""
    (declaration,) = registry.find([name])
    return list(Sharing(requested(*asked_of(declaration), "cpu")).run(declaration))


def asked_of(declaration: registry.Declaration) -> tuple[list[str], str | None]:
    """Cases and dtypes. Each dtype and configuration is exported anew: CI asks a part, the main job all."""
    older, exported = is_older(declaration), "onnx_export" in declaration.name
    part = [case for case in contract(declaration.contract).cases() if not older or case.family in IN_PART]
    few = older or declaration.plug is not None
    part = of_one_size(part) if exported else part
    return [case.name for case in part if not few or case.name not in TOO_LARGE], "float32" if exported else None


def takes_long(declaration: registry.Declaration) -> bool:
    """Whether it takes ten seconds and more: on images, and exports. The quickest of these is asked always."""
    name = declaration.full_name
    quick = "vision_transformer/onnx_export.opset18"
    return name in ("patch_embedding/loops", "vision_transformer/eager") or ("/onnx_export" in name and name != quick)


def is_older(declaration: registry.Declaration) -> bool:
    """Whether it is an export for the older of two sets of operators, which is asked in part."""
    return declaration.name.endswith("opset18")


def of_one_size(cases: Sequence[Case]) -> list[Case]:
    """The cases whose graphs differ in their nodes: of those that differ in sizes alone, the ones of the usual sizes.

    Each export takes seconds, and would make the same graph once more.
    """
    configs = {case.name: case.calls("float32")[0].config or {} for case in cases if "float32" in case.dtypes}
    counts = Counter(map(repr, configs.values()))
    usual: dict[str, str] = {}
    for name in sorted(configs, key=lambda name: (-counts[repr(configs[name])], name.startswith("documents"))):
        usual.setdefault(nodes(configs[name]), repr(configs[name]))

    def is_asked(case: Case) -> bool:
        config = configs.get(case.name, {})
        return isinstance(case, BadInputCase) or case.name in TOO_LARGE or usual.get(nodes(config)) == repr(config)

    return [case for case in cases if is_asked(case)]


def nodes(config: Mapping[str, Any]) -> str:
    """What of a config the nodes of a graph depend on: a window, but not which, and classes, but not how many."""
    rest = {key: each for key, each in config.items() if key not in SIZES}
    return repr(rest | {"window": rest.get("window") is not None, "classes": bool(rest.get("classes"))})


@of_every_contract_long_slowly
def test_the_correct_computations_pass_every_case(name: str) -> None:
    for says, function in contract(name).controls().items():
        for asked in questions(name):
            given = verdict(asked, function)
            assert given.status == "passed", f"{says} on {asked.case.name} ({asked.dtype}): {given}"


@of_every_contract_long_slowly
def test_no_correct_stranger_is_accused(name: str) -> None:
    asked = [case for case in contract(name).cases() if case.name not in TOO_LARGE]
    present, absent, accusations = audit.run_correct_variants(contract(name), asked, kept(name))

    assert accusations == []
    assert len(present) >= 2
    assert absent == {}


def test_a_stranger_that_is_wrong_is_accused() -> None:
    of = contract("positionwise_ffn")
    (wrong,) = (each for each in of.mutants() if each.name == "tanh_gelu")
    stranger = Variant(wrong.name, wrong.says, wrong.function)
    _, _, accusations = audit.run_correct_variants(replace(of, variants=lambda: [stranger]), of.cases(), kept(of.name))

    assert {outcome.case.split("/")[0] for outcome in accusations} >= {"gelu"}


@of_every_contract_long_slowly
def test_deviations_are_all_caught_and_every_family_catches_what_no_other_does(name: str) -> None:
    deviations = contract(name).mutants()
    assert len(deviations) >= 8
    assert [each.deviation.name for each in caught(name).values() if not each.families] == []

    families = {case.family for case in contract(name).cases()} - audit.exempt(contract(name))
    alone = {next(iter(each.judging)) for each in caught(name).values() if len(each.judging) == 1}
    assert families <= alone


@of_every_contract
def test_cases_have_names_and_reasons_of_their_own(name: str) -> None:
    cases = contract(name).cases()

    assert len({case.name for case in cases}) == len(cases)
    assert all(case.why for case in cases)
    assert {case.family for case in cases} >= {contract(name).core}


@pytest.mark.slow
@of_every_contract
def test_every_feature_but_the_devices_is_needed_by_some_case(name: str) -> None:
    of = contract(name)
    needed = frozenset[str]().union(*(of.needs(case.calls(dtype)) for case in of.cases() for dtype in case.dtypes))

    assert needed == set(of.features) - {"cpu", "cuda"}


@pytest.mark.parametrize(
    "declaration",
    [pytest.param(each, marks=[pytest.mark.slow] * takes_long(each)) for each in SHIPPED],
    ids=lambda declaration: declaration.full_name,
)
def test_what_ships_passes_and_refuses_bad_input_in_one_line_that_says_what_came(
    declaration: registry.Declaration,
) -> None:
    found = outcomes(declaration.full_name)
    assert [outcome for outcome in found if outcome.fails] == []
    assert sum(outcome.status == "passed" for outcome in found) > len(found) / 3

    cases = {case.name for case in contract(declaration.contract).cases() if isinstance(case, BadInputCase)}
    refused = [outcome for outcome in found if outcome.case in cases]
    assert len(refused) == len(cases)
    unsupported = [outcome for outcome in refused if outcome.status == "unsupported"]
    assert all(outcome.detail.startswith("lacks ") for outcome in unsupported), unsupported
    assert len(unsupported) < len(refused) / 2
    for outcome in (each for each in refused if each not in unsupported):
        assert outcome.detail.startswith("ValueError: "), outcome
        assert any(character.isdigit() for character in outcome.detail) or "torch." in outcome.detail, outcome
        assert "\n" not in outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("declaration", PLUGGED, ids=lambda declaration: declaration.full_name)
def test_what_is_plugged_in_fails_nothing(declaration: registry.Declaration) -> None:
    found = outcomes(declaration.full_name)

    assert [outcome for outcome in found if outcome.fails] == []
    assert {outcome.status for outcome in found} <= {"passed", "unsupported", "missing"}


@of_every_contract_long_slowly
def test_a_deviation_is_recognised_by_its_answers(name: str) -> None:
    """Diagnosis names the mistake: each deviation's own wrong answers are like its own, and unlike the control's."""
    of = contract(name)
    (control,) = list(of.controls().values())[:1]
    rights = dict[tuple[str, str], tuple[Reply, ...]]()
    for each in caught(name).values():
        for asked in each.wrong[:LOOKED_AT]:
            question = asked.case.name, asked.dtype
            if question not in rights:
                rights[question] = ask(control, asked.calls)
            wrong, right = ask(each.deviation.function, asked.calls), rights[question]
            assert asked.case.alike(asked.calls, wrong, wrong, asked.expected), (each.deviation.name, asked.case.name)
            assert not asked.case.alike(asked.calls, wrong, right, asked.expected), (
                each.deviation.name,
                asked.case.name,
            )
