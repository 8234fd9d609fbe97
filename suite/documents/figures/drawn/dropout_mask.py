"""Causal weights before and after half of them are dropped."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.contracts.sources.documents import examples
from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.implementations import function
from attnsuite.documents.figures.picture import HeatMaps, heat_map
from attnsuite.documents.figures.sentence import axes, queries_and_keys

TITLE = "Dropout on attention weights"
PRINTED = "doc-003/3.5.2-dropout-weights"
SHARE = 0.5
SEED = 123
"""The document's; it draws another pattern there, since draws depend on platform and version."""


def weights() -> dict[str, Tensor]:
    """Causal weights, what is left of them after our draw, and what the document prints after its own."""
    query, key = queries_and_keys()
    attention, identity = function("attention/matmul"), torch.eye(len(key), dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        dropped = attention(query, key, identity, is_causal=True, dropout_p=SHARE)
    printed = torch.tensor(examples()[PRINTED].expected["output"], dtype=torch.float64)
    return {
        "before": attention(query, key, identity, is_causal=True),
        f"after, seed {SEED} here": dropped,
        "after, as the document prints it": printed,
    }


def picture() -> HeatMaps:
    """The three of them side by side."""
    across, down = axes()
    maps = tuple(heat_map(matrix, title) for title, matrix in weights().items())
    by = f"attention/matmul in float64, dropout {SHARE}: what is kept is doubled, and rows no longer sum to 1"
    return HeatMaps(TITLE, by, maps, columns=3, across=across, down=down, domain=(0.0, 2.0))


FIGURE = DrawnFigure(TITLE, "doc-003, section 3.5.2", picture)
