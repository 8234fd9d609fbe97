"""Cases of dropout: masks are read back, and statistics are fair where chance decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.cases.random_cases import CountedCase, DropoutCase
from attnsuite.contracts import contract, names
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase, oracle_result
from attnsuite.contracts.attention.cases.dropout import BITS, CodedValues, InterleavedPasses, kept
from attnsuite.contracts.attention.cases.dropout import KEPT as SMALL
from attnsuite.contracts.attention.computation.call import as_attention
from attnsuite.contracts.attention.computation.forward import correct
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.steps.recurrent_gradient import Randomised
from attnsuite.judging import compare, shares
from attnsuite.judging.shares import MAX_TESTS
from attnsuite.registry import find
from attnsuite.worker.calling import run_calls

Array = np.ndarray[Any, Any]
correct_dense = as_attention(correct)


FUNCTIONS = {mutant.name: mutant.function for mutant in contract("attention").mutants()} | {"correct": correct_dense}


@pytest.mark.parametrize(("other", "equal"), [("unscaled", True), ("divides_by_width", False), ("correct", False)])
def test_of_two_draws_the_weights_that_both_kept_are_compared(other: str, equal: bool) -> None:
    case = kept("dropout/kept", "", SMALL)
    calls = case.calls("float32")
    ours = run_calls(FUNCTIONS["unscaled"], calls)
    theirs = run_calls(FUNCTIONS[other], tuple(replace(call, seed=7) for call in calls))

    assert case.verdict(calls, ours, {}).output_wrong
    assert case.alike(calls, ours, theirs, {}) == equal


def test_right_weights_of_two_draws_and_of_none_that_is_dropped_tell_nothing() -> None:
    case = kept("dropout/kept", "", SMALL)
    calls = case.calls("float32")
    one, two = (run_calls(correct_dense, tuple(replace(call, seed=seed) for call in calls)) for seed in (1, 7))
    unscaled, whole = (
        run_calls(FUNCTIONS[name], calls) for name in ("does_not_rescale_kept_weights", "ignores_dropout")
    )

    assert not case.alike(calls, one, two, {})
    assert not case.alike(calls, unscaled, whole, {})


def honest_draw(random: np.random.Generator, p: float, *shape: int) -> Array:
    kept: Array = random.random(shape) >= p
    return kept


def dropped(call: Call, kept: Array, factor: float) -> Tensor:
    """Attention whose weights are dropped where `kept` says so and multiplied by `factor` elsewhere."""
    weights = oracle_result(call, {}).weights.astype(np.float64)
    query, value = call.tensors["query"], compare.numbers(call.tensors["value"])
    if query.ndim > 2:
        value = np.repeat(value, query.shape[-3] // value.shape[-3], axis=-3)
    output = (weights * kept * factor @ value).reshape(*query.shape[:-1], -1)
    return torch.from_numpy(output).to(query.dtype)


def inner(case: DropoutCase | CountedCase) -> AttentionCase:
    assert isinstance(case.base, AttentionCase)
    return case.base


def chance(case: CountedCase) -> float:
    return float(inner(case).values["dropout_p"])


def complaint(case: CountedCase, patterns: list[Array]) -> str | None:
    forward = tuple(call for call in calls(case.name) if call.backward_of is None)
    return shares.complaint(case.count(forward, [output_of(case, pattern) for pattern in patterns]))


def output_of(case: CountedCase, pattern: Array) -> Array:
    """An output that shows these weights as kept."""
    if not isinstance(case.base, CodedValues):
        return pattern
    codes = pattern.reshape(*pattern.shape[:-1], -1, BITS) @ 2.0 ** np.arange(BITS)
    return np.asarray(codes / pattern.shape[-1] / (1 - chance(case)))


@cache
def calls(name: str) -> tuple[Call, ...]:
    return STATISTICS[name].calls("float32")


KEPT = {case.name: case for case in cases() if isinstance(case, DropoutCase)}
STATISTICS = {case.name: case for case in cases() if isinstance(case, CountedCase)}


@pytest.mark.parametrize(("share", "says"), [(0.0, "dropped everything"), (1.0, "dropped nothing")])
def test_dropout_that_drops_all_or_nothing_is_wrong(share: float, says: str) -> None:
    case = KEPT["dropout/kept"]
    calls = case.calls("float32")

    verdict = case.verdict(calls, (Reply(dropped(calls[0], np.full((2, 2, 8, 8), share), 1 / 0.6)),), {})

    assert verdict.status == "failed"
    assert says in verdict.detail


def kept_by(case: CountedCase, random: np.random.Generator, *size: int) -> list[Array]:
    """What an honest implementation keeps in each call; the same seed keeps the same."""
    drawn: dict[Any, Array] = {}
    kept = []
    for number, seed in enumerate(case.seeds):
        key = number if seed is None else ("seed", seed)
        kept.append(drawn.setdefault(key, honest_draw(random, chance(case), *size)))
    return kept


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistical_case_never_accuses_an_honest_generator(name: str) -> None:
    case = STATISTICS[name]
    random = np.random.default_rng(7)

    small = [complaint(case, kept_by(case, random, 4, 4, 16, 16)) for _ in range(2000 if of_any_size(case) else 0)]
    large = [complaint(case, kept_by(case, random, *_size(case))) for _ in range(20)]

    assert [text for text in (*small, *large) if text] == []


def of_any_size(case: CountedCase) -> bool:
    """Whether nothing about the case depends on how many weights there are: neither who is hidden, nor a code."""
    return not isinstance(case.base, CodedValues) and not {"mask", "causal", "window"} & set(inner(case).values)


def _size(case: CountedCase) -> tuple[int, ...]:
    inner_case = inner(case)
    return (inner_case.batch, inner_case.heads, inner_case.queries, inner_case.keys)


def test_a_run_of_all_that_ships_runs_no_more_statistical_tests_than_share_the_level() -> None:
    count = 0
    for name in names():
        drawn = [case for case in contract(name).cases() if isinstance(case, CountedCase | DropoutCase | Randomised)]
        count += sum(len(case.dtypes) for case in drawn) * len(find([f"{name}/*"]))

    assert MAX_TESTS / 8 < count <= MAX_TESTS


def alike_for_all_keys(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
    return np.broadcast_to(honest_draw(random, p, *size[:-1], 1), size)


def as_many_in_every_row(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
    return random.random(size).argsort(-1) >= round(p * size[-1])


def none_beyond_992(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
    return np.asarray(honest_draw(random, p, *size) | (np.arange(size[-1]) >= 992))


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        *((f"dropout/{name}_{p}", alike_for_all_keys) for p in (0.1, 0.5) for name in ("variance_rows", "independent")),
        ("dropout/variance_rows_0.5", as_many_in_every_row),
        ("dropout/of_many", none_beyond_992),
    ],
)
def test_a_statistical_case_accuses_a_generator_that_is_no_mutant(name: str, mistake: Callable[..., Array]) -> None:
    case = STATISTICS[name]

    assert complaint(case, [mistake(np.random.default_rng(3), chance(case), _size(case))])


def test_seeds_and_successive_calls_accuse_an_ignored_generator() -> None:
    random = np.random.default_rng(3)
    one, two, three = (honest_draw(random, 0.3, 8, 8, 16, 16) for _ in range(3))
    seeds, successive = STATISTICS["dropout/seeds"], STATISTICS["dropout/successive_calls"]

    assert "differ between two calls with one seed" in str(complaint(seeds, [one, two, three]))
    assert "agree between two draws" in str(complaint(seeds, [one, one, one]))
    assert complaint(seeds, [one, one, two]) is None
    assert "agree between two draws" in str(complaint(successive, [one, one]))
    assert complaint(successive, [one, two]) is None
    shifted = np.roll(one.ravel(), -4).reshape(one.shape)  # one stream, read from four places later on
    assert "places apart" in str(complaint(successive, [one, shifted]))


def test_what_is_hidden_counts_as_neither_kept_nor_dropped() -> None:
    case = STATISTICS["dropout/drawn_causal"]
    draw = honest_draw(np.random.default_rng(3), chance(case), *_size(case))

    assert complaint(case, [draw]) is None
    assert complaint(case, [np.tril(draw)]) is None


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_few_visible_weights_may_all_stay_or_all_fall_out(share: float) -> None:
    """One query that sees one of sixteen keys, whose weight an honest draw drops or keeps."""
    few = kept(
        "dropout/few",
        "one visible key",
        SMALL.but(batch=1, heads=1, queries=1, keys=16, width=16, mask=Mask(pattern="single")),
    )
    calls = few.calls("float32")

    verdict = few.verdict(calls, (Reply(dropped(calls[0], np.full((1, 1, 1, 16), share), 1 / 0.6)),), {})

    assert verdict.status == "passed", verdict.detail


def test_each_of_two_interleaved_draws_is_compared_with_its_own_backward_pass() -> None:
    case = next(case for case in cases() if isinstance(case, InterleavedPasses))
    calls = case.calls("float32")
    honest = run_calls(correct_dense, calls)

    own = case.verdict(calls, honest, {})
    exchanged = case.verdict(
        calls, (*honest[:2], *(replace(honest[2 + i], gradients=honest[3 - i].gradients) for i in (0, 1))), {}
    )

    assert own.status == "passed", own.detail
    assert exchanged.detail.startswith("call 3 of 4: gradient of")
