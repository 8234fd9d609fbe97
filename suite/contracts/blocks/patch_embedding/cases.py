"""The cases of the contract `patch_embedding`."""

from __future__ import annotations

from collections.abc import Iterator

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Generator, Inputs, numbers
from attnsuite.contracts.blocks.patch_embedding.contract import POSITIONAL
from attnsuite.contracts.blocks.patch_embedding.oracle import patch_embedding
from attnsuite.contracts.sources import documents


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *sizes(), *asked.layouts(), *asked.again(), *bad_input()]


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


asked = Formula(patch_embedding, POSITIONAL, drawn)


def plain() -> Iterator[Case]:
    """Images of several patches."""
    yield asked("plain/usual", "wider than high")
    yield asked("plain/square", "as many rows of patches as columns, and as many channels as the patch is wide",
                   channels=2, height=4, width=4, features=2)  # fmt: skip
    yield asked("plain/as_many_features", "as many features as patches: axes that were swapped still fit", features=12)
    yield asked("plain/high", "higher than wide", height=8, width=4)


def sizes() -> Iterator[Case]:
    """Patches of a pixel, of the whole image, and many of them."""
    yield asked("size/pixels", "patches of one pixel", side=1, height=3, width=4)
    yield asked("size/images", "a last image among many", batch=19)
    yield asked("size/whole", "one patch, the whole image", side=6, height=6, width=6)
    yield asked("size/many", "a last patch among many", batch=1, height=24, width=24)
    yield asked("size/large_patches", "patches whose sums show in float16 and bfloat16", side=16, height=16, width=32)
    yield asked("size/no_images", "nothing to cut", batch=0)


def bad_input() -> Iterator[BadInputCase]:
    """What cannot be cut or mapped."""
    return asked.refused(
        ("height", "a height of 7 in patches of 2", {"height": 7}),
        ("width", "a width of 9 in patches of 2", {"width": 9}),
        ("channels", "images of 4 channels beside weights for 3", {"image": (2, 4, 6, 8)}),
        ("bias", "a bias of 4 for 5 features", {"bias": (4,)}),
        ("one_bias", "a bias of 1, which would broadcast", {"bias": (1,)}),
        ("oblong", "patches of 2 by 4", {"weight": (5, 3, 2, 4)}),
        ("smaller", "an image smaller than a patch", {"height": 2, "width": 2, "side": 4}),
        ("rank", "an image without items", {"image": (3, 6, 8)}),
    )


def printed() -> Iterator[Case]:
    """The documents' examples."""
    for example in documents.of("vision_transformer"):
        inputs, parameters = example.inputs, example.parameters
        if parameters.get("part") != "patch embedding":
            continue
        if example.kind == "values":
            given = {name: numbers(inputs[name]) for name in POSITIONAL}
            yield DocumentedNumbers(asked.given(*example.named("output"), given), example.gives("output"))
        else:
            sizes = dict(zip(("batch", "channels", "height", "width"), inputs["image_shape"], strict=True))
            sizes |= {"side": parameters["patch_size"], "features": parameters["num_hiddens"]}
            yield DocumentedShape(asked(*example.named(), **sizes), example.at(), example.output_shape)
