"""Chunked attention with tiles so small that every small case has several of them, and ragged ones at its ends."""

from __future__ import annotations

import pytest

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
    monkeypatch.setattr(chunked, "_chunks", lambda query, key, value: tile)

    found = suite.check(chunked.attention, cases=FAMILIES, dtypes=dtype)

    assert [outcome for outcome in found if outcome.status != "passed"] == []
