"""The contract `vision_transformer`: a factory of classifiers of images.

    factory(config, weights, *, attention=None, need_weights=False) -> model
    model(images) -> logits

    patches = each patch's numbers times w_patch, plus b_patch           b m d
    x       = class token before the patches, plus positions             b n d, n = m + 1
    x       = blocks(x)                                                  b n d
    logits  = norm(first of x) w_head + b_head                           b k

A block is x ← x + attention(norm1(x)), then x ← x + mlp(norm2(x)). Dosovitskiy et al., "An image is worth 16 × 16
words" (arXiv 2010.11929), as built in the documents, section 11.8.

Axes: `b c h w` images, `b k` logits (b batch, c channels, h rows, w columns, k classes, m patches, d width, f width of
the mlp, p = d/heads).

    config           image_height, image_width, patch, channels, width, heads, mlp_width, blocks, classes, pooling
    weights          plain tensors of one floating dtype by name, as in `shapes(config)`. y = x W + b
    patches          from the upper left, row by row; the rows of w_patch are channel, row, column within a patch
    pooling          "class": the class token, first in the sequence, is classified. "mean": without one, the mean
                     of all positions is classified (documents, 11.8, an exercise)
    heads            head i has columns i·p to (i+1)·p − 1 of w_query, w_key and w_value; scores are divided by √p
    biases           none in the attention
    mlp              two layers with GELU between them, x·Φ(x), exactly
    normalisation    before the attention, before the mlp, and before the head; over the width, ε = 10⁻⁵
    no classes       with classes 0 there is no head and no norm before it: the states of all positions, b n d
    dropout          none: models are built for inference
    calls            a model keeps nothing between calls, and nothing of another model of its config
    rounding         any order, and each step may be rounded to the weights' dtype: the tolerance of a position's vector
                     is twice the largest error of several models that do so
    accuracy         a convention. "bounded": as under rounding. "measured": quantised so coarsely that no error bound
                     is promised; only bad input is judged, and a benchmark reports the errors
    inputs           never modified, nor are the weights; the output shares no memory with them or later outputs
    strides          any, of images and weights
    output           the weights' dtype and device
    need_weights     True: the model returns (output, attention weights), a dictionary of the weights of every block by
                     name, `blocks.N.attention`, each b h n n in the weights' dtype. They multiply the values: rows sum
                     to 1. Later calls do not change them, and the output is the same as without them
    attention        a backend: an implementation of the contract `attention`, called once in every block with tensors
                     b h n p of the weights' dtype, unscaled, without other arguments, which a backend may lack. Its
                     weights are read off it: after each call it is called again with the identity as values, p columns
                     at a time, the last call filled up with zeros
    bad input        raises on weights that are missing, extra, misshapen or of several dtypes; heads that do not divide
                     the width; sizes that patches do not divide; images of other sizes, channels or dtypes than the
                     model's. Nothing is broadcast, and no dtype is converted
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnsuite.cases import declare
from attnsuite.contracts.models import ACCURACY, unbounded

POSITIONAL = ("images",)
LARGE = 64
"""A case with more positions needs the feature `large`."""


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights by name."""
    width, inner, side = config["width"], config["mlp_width"], config["patch"]
    positions = (config["image_height"] // side) * (config["image_width"] // side)
    expected: dict[str, tuple[int, ...]] = {"w_patch": (config["channels"] * side * side, width), "b_patch": (width,)}
    if config["pooling"] == "class":
        positions += 1
        expected["class_token"] = (width,)
    expected["positions"] = (positions, width)
    for number in range(config["blocks"]):
        block = f"blocks.{number}"
        expected |= {f"{block}.attention.w_{role}": (width, width) for role in ("query", "key", "value", "output")}
        expected |= {f"{block}.mlp.w1": (width, inner), f"{block}.mlp.b1": (inner,)}
        expected |= {f"{block}.mlp.w2": (inner, width), f"{block}.mlp.b2": (width,)}
        expected |= {f"{block}.norm{i}.{part}": (width,) for i in (1, 2) for part in ("weight", "bias")}
    if config["classes"]:
        expected |= {"norm.weight": (width,), "norm.bias": (width,)}
        expected |= {"w_head": (width, config["classes"]), "b_head": (config["classes"],)}
    return expected


CONTRACT = declare(
    __name__,
    {"large": "more than 64 positions", "weights": "returned attention weights"},
    {"need_weights": ("weights",)},
    also={"large": lambda call: call.config is not None and shapes(call.config)["positions"][0] > LARGE},
    baseline="eager",
    is_model=True,
    conventions=ACCURACY,
    undefined_reason=unbounded,
    lists={"mutants": "model", "variants": "model.variants", "workloads": "cases.workloads"},
)
