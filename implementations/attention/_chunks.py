"""How large the tiles of chunked attention are: as large as caches allow, and no larger than PyTorch's own kernel's."""

import math
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

# PyTorch's flash kernel for CPUs keeps the scores of 256 queries and 512 keys in float32 for each core.
FLASH_TILE = 256 * 512 * 4


class Chunks(NamedTuple):
    """The largest tile: its batch items, its key heads, its queries of each head, its keys, and those of a backward."""

    batches: int
    heads: int
    queries: int
    keys: int
    backward_keys: int
    one: bool
    """Whether there are scores, and one tile holds them all."""


@lru_cache
def chosen(
    query: torch.Size,
    key: torch.Size,
    value: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    lanes: int,
    bounded: bool,
    drops: bool,
) -> Chunks:
    """Choose chunks so that a tile's scores, over which several passes go, stay in the caches at work.

    Measured on a CPU: a core's share of a tile is best eight times as high as wide, for fewer and larger products, and
    twice as wide as high where queries see few keys, because each is given all that its block's others see.
    Where there are few queries a tile takes more keys, or the reverse. Whole heads, for which a step is short, are
    joined into one tile until they fill twice as much. What half types are widened to counts as well, because it is a
    copy. A backward holds two tiles and the upstream gradient's rows, so its tiles are narrower; with dropout those
    of a forward are as narrow, because both draw the same numbers.
    """
    wide = wide_dtype(dtype)
    cells = _tile_bytes(device) * lanes // wide.itemsize
    (batch, heads, length, width), (_, key_heads, every, _), value_width = _four(query), _four(key), value[-1]
    group = heads // max(1, key_heads)
    operands = 0 if wide == dtype else width + value_width
    whole = group * length * every + (group * length + every) * operands
    pairs = 2 * cells // max(1, whole)
    rows = math.isqrt(cells // lanes // 2 if bounded else cells // lanes * 8) * lanes
    if pairs > 0 and not (bounded and group * length > rows):
        heads = math.ceil(key_heads / math.ceil(key_heads / pairs)) if key_heads else 1  # evenly
        batches = max(1, min(batch, pairs // heads)) if heads == key_heads else 1
        one = heads == key_heads and batches == batch and length > 0
        return Chunks(batches, heads, max(1, length), max(1, every), max(1, every), one)
    rows = min(group * length, rows)
    keys = _rounded(min(every, cells // (rows + operands)), every, 64)
    rows = max(group, _rounded(min(group * length, cells // (keys + operands)), group * length, lanes))
    narrow = _rounded(keys - value_width // 2, every, 32)
    return Chunks(1, 1, max(1, rows // group), narrow if drops else keys, narrow, False)


def _rounded(number: int, whole: int, step: int) -> int:
    """Down to a multiple of the step, unless that leaves nothing or the number is the whole; 1 at least."""
    return max(1, number if number in (whole, number % step) else number - number % step)


def lanes_of(device: torch.device) -> int:
    """The number of cores that PyTorch uses; 1 on a GPU, which spreads a product over its cores by itself."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def _tile_bytes(device: torch.device) -> int:
    """A core's share of a tile: half of its level-2 cache, and no more than PyTorch's flash kernel takes for scores.

    Twice the level-2 cache of a GPU, to which each step costs more.
    """
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size) * 2
    return min(FLASH_TILE, _core_cache_bytes() // 2)


@cache
def _core_cache_bytes() -> int:
    """Bytes of the level-2 cache of a core; 1 MiB if the system does not say."""
    try:
        size = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()  # such as 2048K
        return int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
    except (OSError, ValueError, LookupError):
        return 2**20


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums are taken in: float32 for half types."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _four(shape: torch.Size) -> tuple[int, ...]:
    return (*(1,) * (4 - len(shape)), *shape)
