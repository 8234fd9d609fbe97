"""How the cost of three layers grows with the length n and the width d: in FLOPs, and in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from attnsuite.documents.claims.claim import Claim, Measured, number, power
from attnsuite.documents.claims.counting import flops
from attnsuite.documents.claims.layers import LAYERS, WORDS, Sizes, inputs
from attnsuite.documents.claims.timing import power_of, raced
from attnsuite.model import Evidence
from attnsuite.model.statistics import exponent

POWERS = {
    "convolution": {"length": 1, "width": 2, "kernel": 1},
    "recurrence": {"length": 1, "width": 2},
    "self_attention": {"length": 2, "width": 1},
}
"""The powers of the document's table: k n d², n d² and n² d."""
LETTERS = {"length": "n", "width": "d", "kernel": "k"}
COUNTED = {"length": (32, 64, 128, 256), "width": (32, 64, 128, 256), "kernel": (3, 5, 9, 17)}
"""The sizes at which FLOPs are counted; the others are those of `Sizes`."""
TIMED = {
    ("convolution", "length"): (Sizes(width=128), (512, 1024, 2048, 4096)),
    ("convolution", "width"): (Sizes(length=512), (64, 128, 256, 512)),
    ("convolution", "kernel"): (Sizes(length=1024, width=128), (3, 7, 15, 31)),
    ("recurrence", "length"): (Sizes(width=256), (16, 32, 64, 128)),
    ("recurrence", "width"): (Sizes(length=16), (192, 384, 768)),
    ("self_attention", "length"): (Sizes(width=128), (256, 512, 1024, 2048)),
    ("self_attention", "width"): (Sizes(length=768), (128, 256, 512, 1024)),
}
"""The sizes that are timed: so large that products, and not the calls themselves, take the time, and so small that the
largest call takes some tens of milliseconds and its weights, of 5 MB at most, stay in a cache."""


def counted(layer: str, variable: str) -> Measured:
    """The power by which the FLOPs of products grow."""
    sizes, found = COUNTED[variable], []
    for size in sizes:
        of = replace(Sizes(), **{variable: size})
        x, call = inputs(of), LAYERS[layer](of)
        found.append(flops(partial(call, x)))
    value = exponent(sizes, found)
    assert value is not None
    said = ", ".join(f"{count:,}" for count in found)
    return number(value, f"{said} FLOPs at {LETTERS[variable]} = {', '.join(map(str, sizes))}")


def timed(layer: str, variable: str) -> Measured:
    """The power by which the time of a forward pass grows."""
    base, sizes = TIMED[layer, variable]
    calls = {}
    for size in sizes:
        of = replace(base, **{variable: size})
        calls[str(size)] = partial(LAYERS[layer](of), inputs(of))
    with torch.no_grad():
        return power_of(sizes, raced(calls, budget=0.4))


def _claims() -> Iterator[Claim]:
    for layer, powers in POWERS.items():
        for variable, due in powers.items():
            letter = LETTERS[variable]
            says = f"the cost of {WORDS[layer]} grows with {letter}" + ("²" if due == 2 else "")
            for evidence, of, measure in (
                (Evidence.EXACT, "FLOPs of products", counted),
                (Evidence.TIMED, "time of a forward pass", timed),
            ):
                name = f"complexity/{layer}_{variable}_{'flops' if measure is counted else 'time'}"
                quantity = f"power of {letter} in the {of}"
                measured = partial(measure, layer, variable)
                yield Claim(name, "doc-004", "11.6.2", says, quantity, power(due), evidence, measured)


CLAIMS = tuple(_claims())
