"""A sample of a contract's tests covers each feature and dtype."""

from __future__ import annotations

from attnsuite import registry
from attnsuite.cases import Case
from attnsuite.cli import campaign
from attnsuite.conformance.request import CheckRequest, sample
from attnsuite.contracts import contract
from attnsuite.model import DTYPES
from attnsuite.registry import Declaration


def all_tests(declaration: Declaration) -> list[tuple[Case, str]]:
    return CheckRequest().tests(contract(declaration.contract))


def sampled(declaration: Declaration) -> list[tuple[Case, str]]:
    of = contract(declaration.contract)
    return sample(declaration, of, all_tests(declaration), campaign._needs_of(of), "cpu")


def features(tests: list[tuple[Case, str]], of: str) -> set[str]:
    needs = campaign._needs_of(contract(of))
    return {feature for case, _ in tests for feature in needs[case.name]} - set(DTYPES)


def test_every_feature_and_every_dtype_is_tested_once() -> None:
    (declaration,) = registry.find(["additive_attention/eager"])
    found, tests = sampled(declaration), all_tests(declaration)

    assert features(found, "additive_attention") == features(tests, "additive_attention")
    assert {dtype for _, dtype in found} == {dtype for _, dtype in tests}
    assert len(found) < len(tests) / 4
    assert [each for each in tests if each in found] == found, "in the order of the tests"


def test_a_feature_that_an_implementation_lacks_is_left_out() -> None:
    (declaration,) = registry.find(["attention/jax_nn"])
    found = sampled(declaration)

    assert not features(found, "attention") & {"value_width", "dropout"}
    assert "float64" not in {dtype for _, dtype in found}
    assert {"causal", "window", "gqa", "gradient"} <= features(found, "attention")


def test_features_are_not_tested_by_bad_input_alone() -> None:
    (declaration,) = registry.find(["attention/flex"])

    assert {case.family for case, _ in sampled(declaration)}.isdisjoint({"bad_input"})


def test_a_request_names_the_sample_and_the_number_of_all_tests() -> None:
    (declaration,) = registry.find(["additive_attention/eager"])
    request = campaign.sampled(CheckRequest(), [declaration])

    assert request.sampled == {declaration.full_name: len(all_tests(declaration))}
    assert request.only[declaration.full_name] == {(case.name, dtype) for case, dtype in sampled(declaration)}
