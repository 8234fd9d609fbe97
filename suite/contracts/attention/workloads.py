"""Workloads: the documents' shapes, FlashAttention's grid, the memory ladder, a ViT's layer, decoding, `--shape`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from attnsuite.cases import ALL_CORES
from attnsuite.contracts.attention.feature import features
from attnsuite.contracts.attention.shapes import SIZES, WIDTH, read, typed
from attnsuite.contracts.attention.workload import Workload
from attnsuite.model import PASSES, SHAPE

CPU, HALF = ("float32",), ("float16", "bfloat16")
LARGE = HALF[1:]
"""On a GPU decoding, the grid and the ladder, which take most of the time of `full`, are timed in one half type: in
bfloat16 the baseline's products are of that type, too."""
FORWARD, TOGETHER = ("forward",), ("forward_backward",)
EVERY = {"quick": FORWARD, "standard": FORWARD, "full": FORWARD}


def workloads() -> list[Workload]:
    """All of them, in the order of tables."""
    return [*_documents(), *_vit(), *_decode(), *_ladder(), *_float32(), *_grid()]


def _documents() -> list[Workload]:
    return [
        Workload("documents/one-sentence", "six words in one head: what a call costs when nothing is computed", 6, 6, 2,
            profiles=EVERY, dtypes={"cpu": CPU, "cuda": CPU}),
        Workload("documents/encoder-block", "the encoder block's test: 8 heads share width 24", 100, 100, 3, 8,
            batch=2),
        Workload("documents/translation", "English to French: batch 128, 4 heads share width 256, 10 steps", 10, 10, 64,
            4, batch=128),
        Workload("documents/fashion-vit", "Fashion-MNIST at 96 × 96: 36 patches and a class token, batch 128", 37, 37,
            64, 8, batch=128),
    ]  # fmt: skip


def _vit() -> list[Workload]:
    why = "a layer of ViT-B/16 at 224 × 224: 196 patches and a class token"
    dtypes = {"cpu": ("float32", "bfloat16"), "cuda": HALF}
    trained = {"quick": FORWARD, "standard": PASSES, "gpu": FORWARD, "full": PASSES}
    return [Workload("vit/b16", why, 197, 197, 64, 12, profiles=trained, cores={"standard": (1, ALL_CORES)}),
        Workload("vit/b16-batch8", f"{why}, 8 images", 197, 197, 64, 12, batch=8, dtypes=dtypes)]  # fmt: skip


def _decode() -> list[Workload]:
    why = "one new token reads the cache of"
    usual = {"standard": FORWARD, "gpu": FORWARD, "full": FORWARD}
    large = {"gpu": FORWARD, "full": FORWARD}
    dtypes = {"cpu": CPU, "cuda": LARGE}
    return [
        Workload("decode/1k", f"{why} 1,024", 1, 1024, 64, 16, profiles=EVERY, dtypes=dtypes),
        Workload("decode/8k", f"{why} 8,192", 1, 8192, 64, 16, profiles=usual, dtypes=dtypes),
        Workload("decode/8k-grouped", f"{why} 8,192, 4 query heads to a key head", 1, 8192, 64, 16, key_heads=4,
            dtypes=dtypes),
        Workload("decode/64k", f"{why} 65,536", 1, 2**16, 64, 16, profiles=large, dtypes=dtypes),
    ]  # fmt: skip


def _ladder() -> list[Workload]:
    """On CPUs from 8k on also on all cores, 32k on them alone: one of them would take minutes for a call."""
    trained = {"standard": (*FORWARD, *TOGETHER), "full": (*FORWARD, *TOGETHER)}
    made = []
    for thousands in (1, 2, 4, 8, 16, 32, 64):
        length = thousands * 1024
        why = "one head of width 64: how time and memory grow with the length"
        profiles = EVERY if thousands < 4 else {"full": (*FORWARD, *TOGETHER)} if thousands > 32 else trained
        cores = {"standard": (1,) if thousands < 8 else (ALL_CORES,) if thousands > 16 else (1, ALL_CORES)}
        made.append(Workload(f"ladder/{thousands}k", why, length, length, profiles=profiles, cores=cores,
            dtypes={"cpu": CPU, "cuda": LARGE}))  # fmt: skip
    return made


def _float32() -> list[Workload]:
    """What float32 costs on tensor cores, where kernels add products of TF32 or use none."""
    why = "causal in float32: 16 heads of width 64"
    shared: dict[str, Any] = {"profiles": {"gpu": FORWARD}, "dtypes": {"cuda": CPU}, "causal": True}
    return [Workload(f"float32/{_thousands(n)}", why, n, n, 64, 16, **shared) for n in (2048, 8192)]


def _grid() -> list[Workload]:
    """FlashAttention's grid for GPUs, and one sixty-fourth of its work for CPUs."""
    made = []
    for (batch, length), width, causal in product(
        ((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384)), (64, 128), (False, True)
    ):
        name = f"flash/{_thousands(length)}-e{width}" + "-causal" * causal
        trained = width == 128 and (causal or length == 8192)  # the gradients that ten minutes have time for
        why = "FlashAttention's grid: 16,384 tokens, heads times width 2,048"
        made.append(Workload(name, why, length, length, width, 2048 // width, batch=batch, causal=causal,
            profiles={"gpu": (*FORWARD, *(TOGETHER * trained)), "full": (*FORWARD, *TOGETHER)}, dtypes={"cuda": LARGE}))  # fmt: skip
    for (batch, length), width, causal in product(((4, 512), (2, 1024), (1, 2048)), (64, 128), (False, True)):
        name = f"flash-small/{_thousands(length)}-e{width}" + "-causal" * causal
        why = "FlashAttention's grid made small for CPUs: 2,048 tokens, heads times width 256"
        directions = PASSES if (length, width) == (2048, 64) else FORWARD
        made.append(Workload(name, why, length, length, width, 256 // width, batch=batch, causal=causal,
            profiles={"standard": directions}, dtypes={"cpu": CPU}))  # fmt: skip
    return made


def _thousands(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 else str(length)


def shaped(text: str) -> Workload:
    """The workload that a text names. UsageError, one line, for what it cannot be, with what exists.

    Its name is the canonical text: sizes first, without defaults. The name is enough to make the workload again.
    """
    sizes, values = read(text)
    batch, heads, queries = sizes.get("b", 1), sizes.get("h", 1), sizes["l"]
    key_heads, keys, width = sizes.get("g", heads), sizes.get("s", queries), sizes.get("e", WIDTH)
    arguments = {f.key: values[f.name] for f in features() if f.name in values}
    return Workload(
        SHAPE + _plain(sizes, values),
        "a shape of one's own",
        queries,
        keys,
        width,
        heads,
        batch=batch,
        value_width=sizes.get("v", width),
        profiles=dict.fromkeys(("quick", "standard", "full"), PASSES[:1]),
        **(arguments if key_heads == heads else {"key_heads": key_heads, **arguments}),
    )


def _plain(sizes: Mapping[str, int], values: Mapping[str, Any]) -> str:
    """The text with nothing in it that is usual anyway, always in the same order."""
    every = {"e": WIDTH, **sizes}
    usual = {"b": 1, "h": 1, "g": sizes.get("h", 1), "s": sizes["l"], "v": every["e"]}

    def parts() -> Iterator[str]:
        for name in SIZES:
            if name in every and every[name] != usual.get(name):
                yield f"{name}={every[name]}"
        for name, value in values.items():
            syntax = typed()[name]
            yield f"{name}={syntax.format(value)}" if syntax.expects else name

    return ",".join(parts())
