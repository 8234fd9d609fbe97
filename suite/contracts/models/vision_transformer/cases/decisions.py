"""What the contract decides: a family per decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attnsuite.cases import Call, Case
from attnsuite.cases.backends import BackendCase, ExpectedBackendCall, Script
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.model import two_models
from attnsuite.cases.tensors import PRECISE, Generator, Inputs, dtype_of, generator
from attnsuite.contracts.models.vision_transformer.cases.draws import (
    BASE,
    MANY,
    MEAN,
    SQUARE,
    STATES,
    USUAL,
    WATCHED,
    drawn,
    faint,
    model,
    sharp,
)
from attnsuite.contracts.models.vision_transformer.contract import shapes


def plain() -> Iterator[Case]:
    """Whole models with a class token."""
    yield model("plain/usual", "six patches in two rows, of three channels")
    yield model("plain/square", "as many items and channels as heads; patches, their numbers, classes and network columns as the width",
                SQUARE, batch=4)  # fmt: skip
    yield model("plain/one_patch", "the whole image is a patch", {**USUAL, "image_height": 4, "image_width": 4}, batch=1,
                dtypes=PRECISE)  # fmt: skip
    yield model("plain/single_numbers", "patches of one number each", {**USUAL, "image_height": 2, "image_width": 3,
                "patch": 1, "channels": 1}, dtypes=PRECISE)  # fmt: skip
    yield model("plain/faint", "variances as small as ε, which is added to them before the root", dtypes=PRECISE,
                weights=faint(USUAL, generator("plain/faint")))  # fmt: skip
    yield two_models(model("plain/other_weights", "two models of one config are there at once, each with weights of its own",
                       dtypes=PRECISE))  # fmt: skip


def mean() -> Iterator[Case]:
    """No class token: the mean of the patches is read."""
    yield model("mean/usual", "the mean of six patches", MEAN)
    config = {**MEAN, "image_height": 4, "classes": 1}
    yield model("mean/one_class", "three patches and one class, with batches of 1 and 7", config, PRECISE,
                calls=lambda random: [drawn(random, config=config, batch=batch) for batch in (1, 7)])  # fmt: skip
    yield model("mean/many_patches", "patches beyond the 128th count too", {**MANY, "pooling": "mean"}, batch=1,
                dtypes=PRECISE)  # fmt: skip


def states() -> Iterator[Case]:
    """No classes: the states of all positions are returned."""
    yield model("states/class_token", "the class token's comes first", STATES)
    yield model("states/mean", "no class token, a single item and a single head", {**STATES, "pooling": "mean", "heads": 1},
                PRECISE, batch=1)  # fmt: skip
    yield model("states/no_blocks", "patches and positions alone", {**STATES, "pooling": "mean", "blocks": 0},
                dtypes=PRECISE)  # fmt: skip


def again(random: Generator) -> Sequence[Inputs]:
    """The inputs of two calls."""
    return [drawn(random), drawn(random)]


def sizes() -> Iterator[Case]:
    """Batches, sequences and models of several sizes."""

    def batches(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=batch) for batch in (1, 7, 17)]

    yield model("sizes/again", "other images are written into the same tensor", calls=again, same_storage=True)
    yield model("sizes/batches", "one model with batches of 1, 7 and 17", calls=batches)
    yield model("sizes/many_patches", "keys beyond the 128th", MANY, batch=1, dtypes=PRECISE)
    yield model("sizes/vit_b_16", "ViT-B/16: 86 million weights, twelve blocks", BASE, batch=1, dtypes=("float32",))


def weights() -> Iterator[Case]:
    """The weights of every attention, beside the output."""
    watched = partial(model, making=WATCHED)
    yield watched("weights/usual", "of every block and head, the class token's too")
    yield watched(
        "weights/square", "as many items as heads, and as many patches as the width", SQUARE, PRECISE, batch=4
    )
    yield watched("weights/many_patches", "sums of many terms", MANY, PRECISE, batch=1)
    yield watched("weights/again", "of each call its own", dtypes=PRECISE, calls=again)


def layout() -> Iterator[Case]:
    """Tensors that do not lie in memory row by row."""
    yield out_of_order(model("layout/columns", "weights and images lie column by column, with gaps"))


def numerics() -> Iterator[Case]:
    """Large numbers."""
    yield model("numerics/large_scores", "scores of which a naive exponential overflows", dtypes=("float32",),
                weights=sharp(USUAL, generator("sharp")))  # fmt: skip


def plug() -> Iterator[Case]:
    """An attention that is plugged in."""

    def batches(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, config=MEAN, batch=batch) for batch in (4, 1)]

    why = "the attention that is given computes all heads of a block at once, in the weights' dtype, and gets no more"
    yield BackendCase(model("plug/called", why), scripts)
    yield BackendCase(model("plug/again", "batches of as many as heads and of 1, without a class token", MEAN, PRECISE,
                        calls=batches), scripts)  # fmt: skip
    yield BackendCase(model("plug/weights", "the weights of what is plugged in are read off it, with the identity as values",
                        dtypes=PRECISE, making=WATCHED), scripts)  # fmt: skip


def scripts(call: Call, first: Call) -> list[Script]:
    """The plug is called once in every block; where weights are wanted, those that read them come after each."""
    config = first.config or {}
    positions = shapes(config)["positions"][0]
    tokens = (len(call.tensors["images"]), config["heads"], positions, config["width"] // config["heads"])
    reading = -(-positions // tokens[-1]) if call.need_weights else 0
    return [[ExpectedBackendCall(tokens, tokens, tokens, dtype_of(first))] * config["blocks"] * (1 + reading)]
