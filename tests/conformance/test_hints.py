"""A function that answers no plain question is told the arrays in which it does, or how it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite import registry
from attnsuite.conformance.parallel import ParallelSession
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import Explanation

FILE = Path(__file__).parents[1] / "submissions" / "other_arrays.py"
IN_NUMPY = (
    "no plain test has a result with tensors of PyTorch; with arrays of numpy plain/small has one: "
    "test it with --signature numpy"
)


def hint(function: str, *cases: str, of: type[Session] = Session, signature: str = "") -> str:
    return explained(function, *cases, of=of, signature=signature).hint


def explained(function: str, *cases: str, of: type[Session] = Session, signature: str = "") -> Explanation:
    (declaration,) = registry.find([f"{FILE}:{function}"], signature=signature)
    with of(CheckRequest(cases, ("float32",)), keep_inputs=False, explains=True) as session:
        list(session.run(declaration))
    return session.explanations[declaration.full_name]


@pytest.mark.parametrize(
    ("function", "cases", "of", "signature"),
    [
        ("of_numpy", ("plain", "causal/square_5", "bad_input/more_keys_than_values"), Session, ""),
        ("returns_numpy", ("plain",), ParallelSession, ""),
        ("unscaled_of_numpy", ("keys/31",), Session, ""),
        ("of_numpy", ("plain",), Session, "sdpa"),
    ],
    ids=["other arguments", "other results", "wrong numbers", "where sdpa is given"],
)
def test_a_function_of_numpy_gets_a_hint_of_its_signature(
    function: str, cases: tuple[str, ...], of: type[Session], signature: str
) -> None:
    assert hint(function, *cases, of=of, signature=signature) == IN_NUMPY


def test_a_function_for_a_gpu_gets_a_hint_and_no_smallest_input() -> None:
    explanation = explained("wants_a_gpu", "plain")

    assert explanation.hint == "it raises in every plain test: is it for a GPU? --device cuda tests it there"
    assert explanation.reproductions == ()


def test_without_a_passing_plain_test_no_features_are_reported() -> None:
    assert explained("raises_if_plain", "plain", "causal/square*").where == ()


@pytest.mark.parametrize(
    ("function", "cases", "signature"),
    [
        ("raises_if_plain", ("causal/square_5",), ""),
        ("of_numpy", ("plain",), "numpy"),
        ("scales_in_place", ("plain",), ""),
        ("drops_scores", ("dropout/kept",), ""),
    ],
)
def test_a_result_or_a_named_signature_needs_no_hint(function: str, cases: tuple[str, ...], signature: str) -> None:
    assert hint(function, *cases, signature=signature) == ""


def test_where_no_arrays_help_a_hint_shows_the_call() -> None:
    said = hint("raises", "plain")

    given = "query float32 (2, 2, 5, 8), key float32 (2, 2, 7, 8), value float32 (2, 2, 7, 8)"
    assert said.startswith("no plain test has a result; plain/small calls attention(query, key, value, *, attn_mask")
    assert said.endswith(f") with {given}")


def test_a_hint_shows_the_call_of_another_contract(write: Callable[[str, str], Path]) -> None:
    file = write("spoken.py", "def bleu(prediction, reference, k):\n    return prediction.split(' ')\n")
    (declaration,) = registry.find([f"{file}:bleu"], "bleu")
    with Session(CheckRequest(("plain", "bad_input"), ("float32",)), keep_inputs=False, explains=True) as session:
        list(session.run(declaration))

    said = "plain/usual calls bleu(prediction, reference, *, k) with prediction int64 (7,), reference int64 (9,), k 2"
    assert session.explanations["bleu/spoken"].hint == f"no plain test has a result; {said}"
