"""Chunked attention with tiles so small that every small case has several of them, and ragged ones at its ends."""

from __future__ import annotations

import pytest
import torch

import suite
from implementations.attention import chunked

TILES = [chunked._Chunks(1, 2, 3, 5), chunked._Chunks(2, 3, 8, 16)]
FAMILIES = (
    "plain", "documents", "causal", "bool_mask", "float_mask", "mask_gradient", "empty_row", "empty_row_gradients",
    "scale", "heads", "ranks", "no_keys", "gradients", "dropout",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: "x".join(map(str, tile)))
def test_tiles_of_any_size_keep_the_contract(
    tile: chunked._Chunks, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked, "_chunks", lambda *inputs: tile)

    found = suite.check(chunked.attention, cases=FAMILIES, dtypes=dtype)

    assert [outcome for outcome in found if outcome.status != "passed"] == []


@pytest.mark.parametrize(("scores", "values"), [(1.0, 1.0), (300.0, 1.0), (-300.0, 1.0), (20.0, 1e36), (20.0, 1e-37)])
def test_sums_that_would_overflow_or_vanish_are_those_of_shifted_powers(
    scores: float, values: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half of the queries sees scores that are small, the second these."""
    monkeypatch.setattr(chunked, "_chunks", lambda *inputs: chunked._Chunks(1, 1, 8, 16))
    torch.manual_seed(0)
    query, key, value = torch.randn(16, 4), torch.rand(64, 4) + 0.5, torch.rand(64, 4) * values
    query[8:] = scores / 2
    with torch.enable_grad():
        inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
        output = chunked.attention(*inputs, scale=0.5)
        gradients = torch.autograd.grad(output, inputs, torch.ones_like(output) / values)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    due = torch.softmax(wide[0] @ wide[1].mT * 0.5, -1) @ wide[2]
    due_gradients = torch.autograd.grad(due, wide, torch.ones_like(due) / values)

    torch.testing.assert_close(output.double(), due, rtol=1e-4, atol=0.0)
    for found, expected in zip(gradients, due_gradients, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)
