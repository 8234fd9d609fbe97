"""The weights of dot products and of a small network, for ten keys of which the first few may be seen."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.implementations import function, weights_of
from attnsuite.documents.figures.picture import HeatMaps, heat_map, numbered

TITLE = "Scaled dot products and additive scores"
LENGTHS = (2, 6)
"""How many keys each item may see."""
ITEMS, KEYS, WIDTH, QUERY_WIDTH, FEATURES = 2, 10, 2, 20, 8
"""The document's sizes: items, keys, the width of keys, that of the second example's queries, and hidden units."""
SEED = 0
"""The document draws without a seed."""


def weights() -> tuple[Tensor, Tensor]:
    """The weights of both, items by keys."""
    draw = torch.Generator().manual_seed(SEED)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    query, key, wide = normal(ITEMS, 1, WIDTH), normal(ITEMS, KEYS, WIDTH), normal(ITEMS, 1, QUERY_WIDTH)
    maps = normal(QUERY_WIDTH, FEATURES), normal(WIDTH, FEATURES), normal(FEATURES)
    seen = torch.arange(KEYS) < torch.tensor(LENGTHS)[:, None, None]
    dots = weights_of(function("attention/matmul"), query, key, attn_mask=seen)
    identity = torch.eye(KEYS, dtype=torch.float64).expand(ITEMS, KEYS, KEYS)
    network: Tensor = function("additive_attention/eager")(wide, key, identity, *maps, attn_mask=seen)
    return dots[:, 0], network[:, 0]


def picture() -> HeatMaps:
    """A map for each way to score."""
    dots, network = weights()
    return HeatMaps(
        TITLE,
        f"attention/matmul and additive_attention/eager in float64; lengths {list(LENGTHS)}, drawn with seed {SEED}",
        (heat_map(dots, "scaled dot products"), heat_map(network, "additive scores")),
        columns=1,
        across=numbered("key", range(KEYS), 1),
        down=numbered("item", range(ITEMS), 1),
        cell=36,
    )


FIGURE = DrawnFigure(TITLE, "doc-004, sections 11.3.3 and 11.3.4", picture)
