"""The cases of the contract `patch_embedding`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Generator, Inputs, Printed, Question, Refused, Shaped, numbers
from suite.contracts.blocks.patch_embedding.contract import POSITIONAL
from suite.contracts.blocks.patch_embedding.oracle import patch_embedding
from suite.records import DTYPES
from suite.sources import documents


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *sizes(), *layouts(), *bad_input()]


def drawn(
    random: Generator,
    *,
    batch: int = 2,
    channels: int = 3,
    height: int = 6,
    width: int = 8,
    side: int = 2,
    features: int = 5,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Images with a mean of their own. A name with a shape replaces that tensor."""
    sizes = {
        "image": (batch, channels, height, width),
        "weight": (features, channels, side, side),
        "bias": (features,),
    }
    inputs = {name: random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    return inputs | {"image": inputs["image"] + 0.5}


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    return Question(name, why, patch_embedding, partial(drawn, **unusual), POSITIONAL, dtypes=dtypes)


def plain() -> Iterator[Question]:
    """Images of several patches."""
    yield question("plain/usual", "wider than high")
    yield question("plain/square", "as many rows of patches as columns, and as many channels as the patch is wide",
                   channels=2, height=4, width=4, features=2)  # fmt: skip
    yield question("plain/high", "higher than wide", height=8, width=4)


def sizes() -> Iterator[Question]:
    """Patches of a pixel, of the whole image, and many of them."""
    yield question("size/pixels", "patches of one pixel", side=1, height=3, width=4)
    yield question("size/images", "a last image among many", batch=19)
    yield question("size/whole", "one patch, the whole image", side=6, height=6, width=6)
    yield question("size/many", "a last patch among many", batch=1, height=24, width=24)
    yield question(
        "size/large_patches", "patches whose sums show in float16 and bfloat16", side=16, height=16, width=32
    )
    yield question("size/no_images", "nothing to cut", batch=0)


def layouts() -> Iterator[asking.Case]:
    """Images and weights that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))


def bad_input() -> Iterator[Refused]:
    """What cannot be cut or mapped."""
    for name, why, unusual in (
        ("height", "a height of 7 in patches of 2", {"height": 7}),
        ("width", "a width of 9 in patches of 2", {"width": 9}),
        ("channels", "images of 4 channels beside weights for 3", {"image": (2, 4, 6, 8)}),
        ("bias", "a bias of 4 for 5 features", {"bias": (4,)}),
        ("one_bias", "a bias of 1, which would broadcast", {"bias": (1,)}),
        ("oblong", "patches of 2 by 4", {"weight": (5, 3, 2, 4)}),
        ("smaller", "an image smaller than a patch", {"height": 2, "width": 2, "side": 4}),
        ("rank", "an image without items", {"image": (3, 6, 8)}),
    ):
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' examples."""
    for id, example in documents.of("vision_transformer").items():
        inputs, parameters, expected = example["inputs"], example["parameters"], example["expected"]
        why = f"{example['document']}, section {example['section']}: "
        if parameters.get("part") != "patch embedding":
            continue
        if example["kind"] == "values":
            yield Printed(
                f"documents/{id}/output", f"{why}output", patch_embedding, partial(_given, inputs), POSITIONAL,
                printed=expected["output"], decimals=example["printed_decimals"]["output"],
            )  # fmt: skip
        else:
            sizes = dict(zip(("batch", "channels", "height", "width"), inputs["image_shape"], strict=True))
            draw = partial(drawn, side=parameters["patch_size"], features=parameters["num_hiddens"], **sizes)
            shape = tuple(expected["output_shape"])
            yield Shaped(f"documents/{id}", f"{why}shape", patch_embedding, draw, POSITIONAL, shape=shape)


def _given(inputs: dict[str, Any], random: Generator) -> Inputs:
    return {name: np.asarray(numbers(inputs[name])) for name in POSITIONAL}
