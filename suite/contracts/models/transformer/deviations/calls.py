"""What is left of earlier calls, and decoding with a cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from suite.asking.mistakes import Wrong, mistakes, rows
from suite.contracts.models.transformer.deviations.staged import Cache, Transformer


def first_of_shape(kept: dict[str, Any], states: Tensor) -> Tensor:
    found: Tensor = kept.setdefault(str(tuple(states.shape)), states)
    return found


def of_same_tensor(kept: dict[str, Any], source: Tensor, states: Tensor) -> Tensor:
    before, known = kept.get("source", (None, None))
    if before is source and known is not None:
        found: Tensor = known
        return found
    kept["source"] = source, states
    return states


def last_sixteen(cache: Cache, name: str, x: Tensor) -> None:
    cache[name] = torch.cat([cache[name], x], 1)[:, -16:] if name in cache else x


MISTAKES = mistakes(
    Transformer,
    keep=rows(
        stale_states=Wrong(
            "a source of the same shape as the first is not read again",
            lambda kept, source, states: first_of_shape(kept, states),
        ),
        remembers_tensors=Wrong("a source that lies where an earlier one lay is not read again", of_same_tensor),
        remembers_tokens=Wrong(
            "a source of the same tokens as an earlier one is not read again, whatever its lengths",
            lambda kept, source, states: kept.setdefault(str(source.tolist()), states),
        ),
    ),
    position=rows(
        cached_position_zero=Wrong("every cached step has position 0", lambda step: 0, "documents, E36"),
    ),
    begin=rows(
        stale_cache=Wrong(
            "the cache is left from one call to the next", lambda kept: kept.setdefault("cache", {}), "documents, E37"
        ),
    ),
    memory=rows(stale_memory=Wrong("cached steps read the first source of that shape", first_of_shape)),
    remember=rows(short_cache=Wrong("the cache holds the last sixteen positions alone", last_sixteen)),
)
