"""Chunked attention with tiles so small that every small case has several of them, and ragged ones at its ends."""

from __future__ import annotations

import pytest
import torch
from builders import case_named

import attnsuite
from attnsuite.implementations.attention import chunked
from attnsuite.implementations.attention._chunks import FLASH_TILE, Chunks, chosen
from attnsuite.implementations.attention._tiles import Tiles
from attnsuite.worker.calling import run_calls

TILES = [Chunks(1, 2, 3, 5, 5, one=False), Chunks(2, 3, 8, 16, 16, one=False)]
FAMILIES = (
    "plain", "documents", "causal", "bool_mask", "float_mask", "mask_gradient", "empty_row",
    "scale", "heads", "ranks", "no_keys", "gradients", "dropout",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: "x".join(map(str, tile)))
def test_tiles_of_any_size_pass(tile: Chunks, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "chosen", lambda *sizes: tile)

    outcomes = attnsuite.check(chunked.attention, cases=FAMILIES, dtypes=dtype)

    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []


@pytest.mark.parametrize(("scores", "values"), [(1.0, 1.0), (300.0, 1.0), (-300.0, 1.0), (20.0, 1e36), (20.0, 1e-37)])
def test_sums_of_powers_that_overflow_or_vanish_are_computed_with_shifts(
    scores: float, values: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of the first half of the queries are small."""
    monkeypatch.setattr(chunked, "chosen", lambda *sizes: Chunks(1, 1, 8, 16, 16, one=False))
    torch.manual_seed(0)
    query, key, value = torch.randn(16, 4), torch.rand(64, 4) + 0.5, torch.rand(64, 4) * values
    query[8:] = scores / 2
    with torch.enable_grad():
        inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
        output = chunked.attention(*inputs, scale=0.5)
        gradients = torch.autograd.grad(output, inputs, torch.ones_like(output) / values)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = torch.softmax(wide[0] @ wide[1].mT * 0.5, -1) @ wide[2]
    expected_gradients = torch.autograd.grad(expected, wide, torch.ones_like(expected) / values)

    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=0.0)
    for actual, reference in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(actual.double(), reference, rtol=1e-3, atol=1e-3)


def test_a_backward_with_other_tiles_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "chosen", lambda *sizes: Chunks(1, 1, 3, 5, 2, one=False))

    outcomes = attnsuite.check(chunked.attention, cases=("gradients", "mask_gradient", "window"), dtypes="float32")

    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []


def test_a_backward_with_other_tiles_fails_with_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "chosen", lambda *sizes: Chunks(1, 1, 3, 5, 2, one=False))

    case = case_named("attention", "dropout/gradient")
    calls = case.calls("float64")

    verdict = case.verdict(calls, run_calls(chunked.attention, calls), case.expected(calls, {}))

    assert verdict.status == "failed"


def sizes(batch: int, heads: int, queries: int, keys: int, width: int = 64) -> list[torch.Size]:
    return [torch.Size((batch, heads, length, width)) for length in (queries, keys, keys)]


@pytest.mark.parametrize("lanes", [1, 2, 7])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("keys", [4096, 5000, 2**15, 2**20])
def test_a_tile_takes_no_more_memory_than_pytorch_s_flash_kernel(keys: int, bounded: bool, lanes: int) -> None:
    cpu = torch.device("cpu")

    tile = chosen(*sizes(1, 1, keys, keys), torch.float32, cpu, lanes, bounded, False)

    assert 4 * tile.queries * tile.keys <= FLASH_TILE * lanes
    upstream = tile.queries * 64
    assert 4 * (2 * tile.queries * tile.backward_keys + upstream) <= 2 * FLASH_TILE * lanes


def test_with_dropout_both_passes_have_the_same_tiles() -> None:
    tile = chosen(*sizes(1, 1, 4096, 4096), torch.float32, torch.device("cpu"), 1, False, True)

    assert tile.keys == tile.backward_keys


@pytest.mark.parametrize(("queries", "one"), [(0, False), (1, True), (4096, False)])
def test_one_tile_holds_all_scores_where_they_are_few(queries: int, one: bool) -> None:
    assert chosen(*sizes(1, 2, queries, 64), torch.float32, torch.device("cpu"), 1, False, False).one == one


def test_tiles_that_a_window_hides_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    tile = Tiles.scores

    def counted(self, block, queries, part):  # type: ignore[no-untyped-def]
        read.append(queries.shape[1] * part.keys.shape[1])
        return tile(self, block, queries, part)

    monkeypatch.setattr(Tiles, "scores", counted)
    monkeypatch.setattr(chunked, "chosen", lambda *_: Chunks(1, 1, 32, 32, 32, one=False))
    inputs = [torch.randn(1, 1, 512, 8) for _ in range(3)]

    chunked.attention(*inputs)
    everything, read[:] = sum(read), []
    chunked.attention(*inputs, window=(16, 0))

    assert sum(read) < everything / 4
