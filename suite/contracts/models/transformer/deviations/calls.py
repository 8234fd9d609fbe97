"""What is left of earlier calls, and decoding with a cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.models.transformer.deviations.staged import Cache, Transformer


@instead_of(Transformer.keep, "a source of the same shape as the first is not read again")
def stale_states(kept: dict[str, Any], source: Tensor, states: Tensor) -> Tensor:
    found: Tensor = kept.setdefault(str(tuple(states.shape)), states)
    return found


@instead_of(Transformer.keep, "a source that lies where an earlier one lay is not read again")
def remembers_tensors(kept: dict[str, Any], source: Tensor, states: Tensor) -> Tensor:
    before, known = kept.get("source", (None, None))
    if before is source and known is not None:
        found: Tensor = known
        return found
    kept["source"] = source, states
    return states


@instead_of(Transformer.keep, "a source of the same tokens as an earlier one is not read again, whatever its lengths")
def remembers_tokens(kept: dict[str, Any], source: Tensor, states: Tensor) -> Tensor:
    found: Tensor = kept.setdefault(str(source.tolist()), states)
    return found


@instead_of(Transformer.position, "every cached step has position 0", source="documents, E36")
def cached_position_zero(step: int) -> int:
    return 0


@instead_of(Transformer.begin, "the cache is left from one call to the next", source="documents, E37")
def stale_cache(kept: dict[str, Any]) -> Cache:
    found: Cache = kept.setdefault("cache", {})
    return found


@instead_of(Transformer.memory, "cached steps read the first source of that shape")
def stale_memory(kept: dict[str, Any], states: Tensor) -> Tensor:
    found: Tensor = kept.setdefault(str(tuple(states.shape)), states)
    return found


@instead_of(Transformer.remember, "the cache holds the last sixteen positions alone")
def short_cache(cache: Cache, name: str, x: Tensor) -> None:
    cache[name] = torch.cat([cache[name], x], 1)[:, -16:] if name in cache else x
