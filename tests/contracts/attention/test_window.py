"""Sliding windows: what they mean, what they leave empty, and what of them implementations skip."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnsuite.cases import Call
from attnsuite.contracts.attention.cases.case import AttentionCase, oracle_result
from attnsuite.contracts.attention.contract import needs
from attnsuite.contracts.attention.workload import Workload


def call(**changes: object) -> Call:
    return AttentionCase("contract/any", "", **changes).call("float32")


def seen(made: Call) -> np.ndarray:
    return oracle_result(made, {}).weights[0, 0] > 0


@pytest.mark.parametrize("window", [(0, 0), (2, 0), (0, 3), (2, 1), (None, 1), (3, None), (None, None)])
@pytest.mark.parametrize(("queries", "keys"), [(6, 6), (4, 9), (9, 4)])
def test_a_query_sees_the_keys_between_both_ends(
    window: tuple[int | None, int | None], queries: int, keys: int
) -> None:
    left, right = (10**6 if width is None else width for width in window)

    visible = seen(call(queries=queries, keys=keys, window=window))

    assert visible.tolist() == [[i - left <= j <= i + right for j in range(keys)] for i in range(queries)]


def test_a_workload_counts_the_pairs_inside_its_window() -> None:
    workload = Workload("test/window", "", 100, 100, 4, 2, window=(9, 0))

    assert workload.work("float32", "forward")["attended"] == 4 * 4 * 2 * sum(min(i, 9) + 1 for i in range(100))
    assert "window (9, 0)" in workload.shape
    assert needs((workload.call("float32", device="meta"),)) == {"float32", "window", "large"}


def test_chunked_does_not_read_tiles_that_the_window_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnsuite.implementations.attention import chunked
    from attnsuite.implementations.attention._chunks import Chunks
    from attnsuite.implementations.attention._tiles import Tiles

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
