"""Mistakes of kernels that stream over tiles of keys with an online softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, with_arguments, with_result
from attnsuite.contracts.attention.computation.call import Asked
from attnsuite.contracts.attention.computation.forward import Partial, Tile, Tiled, Whole, shift


def with_padding_keys(asked: Asked, count: int) -> Asked:
    """The call with `count` keys and values of zeros behind the real ones, which no mask hides."""
    pad = torch.nn.functional.pad
    return asked.with_keys(
        pad(asked.key, (0, 0, 0, count)),
        pad(asked.value, (0, 0, 0, count)),
        lambda mask: pad(mask, (0, count), value=1.0 if mask.dtype == torch.bool else 0.0),
    )


MUTANTS = mutants(
    Tiled,
    rescale={
        "does_not_rescale_earlier_tiles": Mutation(
            "earlier tiles are not rescaled when a larger score comes",
            lambda before, largest: before._replace(largest=largest),
        ),
        "does_not_rescale_sum": Mutation(
            "the output is rescaled when a larger score comes, the sum of the powers is not",
            with_result(lambda after, before: after._replace(total=before.total)),
        ),
    },
    running_largest={
        "keeps_first_largest": Mutation(
            "the first tile's largest score is kept, so that later tiles overflow",
            with_result(lambda largest, before: torch.where(before == -math.inf, largest, before)),
        )
    },
    key_bounds={
        "drops_ragged_tile": Mutation(
            "a ragged last tile of keys is dropped",
            with_result(lambda bounds, tile: [each for each in bounds if each[1] - each[0] == tile] or bounds),
        ),
        "counts_ragged_tile_twice": Mutation(
            "a ragged last tile is moved back to be full, so that keys count twice",
            with_result(
                lambda bounds, start, tile: [(min(first, max(last - tile, start)), last) for first, last in bounds]
            ),
            "memory-efficient-attention (clamped slices)",
        ),
        "overlaps_tiles": Mutation(
            "the first key of each tile but the first is counted twice",
            with_result(lambda bounds, start: [(max(first - 1, start), last) for first, last in bounds]),
        ),
        "stops_after_first_tile": Mutation(
            "only the first tile of each half of the keys is read", with_result(lambda bounds: bounds[:1])
        ),
    },
    halves={
        "drops_odd_key": Mutation(
            "an odd last key is dropped when keys are split in halves",
            with_result(lambda halves, count: [(0, count // 2), (count // 2, count // 2 * 2)] if count > 1 else halves),
        )
    },
)
PADDING = mutants(
    Whole,
    answer={
        "attends_to_padding_of_16": Mutation(
            "keys are padded with zeros to a multiple of 16, and the padding is attended to",
            with_arguments(asked=lambda asked: with_padding_keys(asked, -asked.keys % 16) if asked.keys else asked),
        ),
        "attends_to_padding_of_64": Mutation(
            "keys beyond 64 are padded with zeros to a multiple of 64, and the padding is attended to",
            with_arguments(
                asked=lambda asked: with_padding_keys(asked, -asked.keys % 64) if asked.keys > 64 else asked
            ),
        ),
        "attends_to_padding_below_8_keys": Mutation(
            "fewer than 8 keys are padded to 8, and the padding is attended to",
            with_arguments(
                asked=lambda asked: with_padding_keys(asked, 8 - asked.keys) if 0 < asked.keys < 8 else asked
            ),
        ),
    },
)


@Tiled.instead(
    "rescale", "a leading tile in which all keys are masked gives NaN: −∞ minus −∞", source="pytorch issue 127055"
)
def gives_nan_for_leading_empty_tile(before: Partial, largest: Tensor) -> Partial:
    after = Tiled.rescale(before, largest)
    poisoned = (before.total == 0) & (largest == -math.inf)
    return after._replace(output=after.output.masked_fill(poisoned, math.nan))


@Tiled.instead("rescale", "earlier tiles are rescaled in base 2 without the factor log₂ e", source="vllm issue 43919")
def rescales_in_base_two(before: Partial, largest: Tensor) -> Partial:
    shrink = shift(before.largest, largest).exp2()
    return Partial(before.output * shrink, before.total * shrink, largest)


@Tiled.instead("running_largest", "each tile's largest score replaces the running one, so that low tiles overflow")
def forgets_running_largest(before: Tensor, scores: Tensor) -> Tensor:
    largest = scores.detach().amax(-1, keepdim=True) if scores.shape[-1] else before
    return torch.where(largest == -math.inf, before, largest)


@Tiled.instead("accumulate", "the last key of each full tile of 32 is left out")
def drops_last_key_of_full_tiles(before: Partial, tile: Tile) -> Partial:
    if tile.scores.shape[-1] < Tiled.key_tile:
        return Tiled.accumulate(before, tile)
    last = torch.arange(Tiled.key_tile, device=tile.scores.device) == Tiled.key_tile - 1
    return Tiled.accumulate(before, tile._replace(scores=tile.scores.masked_fill(last, -math.inf)))


@Tiled.instead("merge", "two halves of the keys are averaged, whatever their weights", source="split-KV kernels")
def averages_halves(parts: list[Partial]) -> Partial:
    outputs = torch.stack([Tiled.normalise(part) for part in parts])
    count = torch.stack([part.total > 0 for part in parts]).sum(0).clamp(min=1)
    return Partial(outputs.sum(0) / count, torch.ones_like(parts[0].total), parts[0].largest)


@Tiled.instead("merge", "two halves of the keys are merged without their largest scores")
def merges_without_largest(parts: list[Partial]) -> Partial:
    output = torch.stack([part.output for part in parts]).sum(0)
    return Partial(output, torch.stack([part.total for part in parts]).sum(0), parts[0].largest)


@Tiled.instead(
    "merge", "two halves are merged by their log-sum-exp in base 2, though it is in base e", source="vllm issue 43919"
)
def merges_in_base_two(parts: list[Partial]) -> Partial:
    logs = [part.total.log() + part.largest for part in parts]
    largest = torch.stack(logs).amax(0)
    shrinks = [shift(log, largest).exp2() for log in logs]
    output = torch.stack([Tiled.normalise(part) * shrink for part, shrink in zip(parts, shrinks, strict=True)]).sum(0)
    return Partial(output, torch.stack(shrinks).sum(0), largest)


@Tiled.instead(
    "merge",
    "a half of the keys in which nothing may be attended to gives NaN",
    source="xformers (split-KV with an empty split)",
)
def gives_nan_for_empty_half(parts: list[Partial]) -> Partial:
    merged = Tiled.merge(parts)
    empty = torch.stack([part.total == 0 for part in parts]).any(0) & (merged.total > 0)
    return merged._replace(output=merged.output.masked_fill(empty, math.nan))
