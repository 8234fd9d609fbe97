"""How many products of a layer have to wait for each other: O(1) or O(n)."""

from __future__ import annotations

from functools import partial

from attnsuite.documents.claims.claim import Claim, Measured, number, power
from attnsuite.documents.claims.counting import longest_chain
from attnsuite.documents.claims.layers import LAYERS, WORDS, Sizes, inputs
from attnsuite.model import Evidence
from attnsuite.model.statistics import exponent

LENGTHS = (8, 16, 32, 64)
POWERS = {"convolution": 0, "recurrence": 1, "self_attention": 0}
"""The powers of n in the document's table."""


def steps(layer: str, length: int) -> int:
    """The longest chain of products in autograd's graph of a layer."""
    of = Sizes(length, width=8)
    return longest_chain(LAYERS[layer](of)(inputs(of).requires_grad_()))


def grown(layer: str) -> Measured:
    """The power of n by which that chain grows."""
    found = [steps(layer, length) for length in LENGTHS]
    value = exponent(LENGTHS, found)
    assert value is not None
    return number(value, f"{', '.join(map(str, found))} products in a row at n = {', '.join(map(str, LENGTHS))}")


CLAIMS = tuple(
    Claim(
        f"sequential_steps/{layer}",
        "doc-004",
        "11.6.2",
        f"{WORDS[layer]} takes O({'n' if due else '1'}) sequential operations",
        "power of n in the longest chain of products that wait for each other",
        power(due),
        Evidence.EXACT,
        partial(grown, layer),
    )
    for layer, due in POWERS.items()
)
