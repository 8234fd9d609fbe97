"""Recognising handwritten digits: the Vision Transformer of documents, section 11.8, on the images of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu, layer_norm

from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.contracts.models.vision_transformer.deviations import VisionTransformer
from attnsuite.documents.learning.models import Drop, dropout, initial
from attnsuite.documents.learning.task import Attention, Batch, Task, Training, generator
from attnsuite.model import UsageError

Images = tuple[Tensor, Tensor]
"""Images b 1 h w, and their labels b."""
EVERY = 5
"""Of so many images in a row the last is held out: 359 of 1,797, of the same writers as the others."""


class _Dropping(VisionTransformer):
    """The contract's model with dropout where documents, section 11.8, has it; its `drop` leaves all as it is."""

    drop = staticmethod(lambda x: x)

    def feed_forward(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        dropped: Tensor = self.drop(super().feed_forward(x, weights))
        return dropped


def vision_transformer(
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    attention: Attention,
    p: float = 0.0,
    random: torch.Generator | None = None,
) -> Callable[[Tensor], Tensor]:
    """The model `vision_transformer`. Dropout follows the positions and both layers of each mlp.

    On the weights of attention the attention that is plugged in has it. With p = 0 the model is the contract's.
    """
    drop: Drop = dropout(p, random)
    options = {"dropout_p": p} if random is not None and p > 0 else {}
    made = _Dropping(
        drop=drop,
        place=lambda x, positions: drop(x + positions),
        activate=lambda features: drop(gelu(features)),
        needed=lambda allowed: options,
        norm=lambda x, weights: layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"], 1e-5),
    )
    model: Callable[[Tensor], Tensor] = made(config, weights, attention=attention)
    return model


@cache
def digits() -> tuple[Images, Images]:
    """The images to train on, of mean 0 and spread 1, and those held out.

    Raises UsageError where scikit-learn is absent.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError(
            "the task digits needs the images of scikit-learn, which is not installed: pip install 'attnsuite[learn]'"
        ) from None
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32)[:, None]
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(found.target, dtype=torch.int64)
    out = torch.arange(len(labels)) % EVERY == EVERY - 1
    mean, spread = images[~out].mean(), images[~out].std()
    return (((images[~out] - mean) / spread, labels[~out]), ((images[out] - mean) / spread, labels[out]))


def prepare(config: Mapping[str, Any], seed: int, attention: Attention) -> Training:
    """The training of a Vision Transformer."""
    there, held_out = digits()
    made = {name: config[name] for name in MODEL}
    weights = beginning(made, seed)

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        images, labels = batch
        logits = vision_transformer(made, weights, attention, config["dropout"], random)(images)
        return cross_entropy(logits, labels, label_smoothing=config["smoothing"])

    def scores() -> dict[str, float]:
        return {ACCURACY: accuracy(vision_transformer(made, weights, attention), held_out)}

    return Training(weights, partial(batches, there, config["batch"]), loss, scores, logistic_regression)


def beginning(config: Mapping[str, Any], seed: int) -> dict[str, Tensor]:
    """The weights to begin with: those of positions are standard normal and the class token is 0, as the documents
    have it.
    """
    random = generator(seed, "weights")
    found = initial(shapes(config), random)
    with torch.no_grad():
        found["class_token"].zero_()
        found["positions"].normal_(generator=random)
    return found


def batches(of: Images, size: int, random: torch.Generator) -> Iterator[Batch]:
    """All images in a random order."""
    images, labels = of
    for rows in torch.randperm(len(labels), generator=random).split(size):
        yield shifted(images[rows], random), labels[rows]


def shifted(images: Tensor, random: torch.Generator) -> Tensor:
    """Each image b 1 h w as it is, or moved by a pixel to the left or to the right; the outermost columns repeat."""
    by = torch.randint(-1, 2, (len(images), 1, 1, 1), generator=random)
    columns = (torch.arange(images.shape[-1]) + by).clamp(0, images.shape[-1] - 1)
    return images.gather(-1, columns.expand_as(images))


def accuracy(model: Callable[[Tensor], Tensor], of: Images) -> float:
    """The share of images whose likeliest class is theirs."""
    images, labels = of
    return float((model(images).argmax(-1) == labels).double().mean())


@cache
def logistic_regression() -> dict[str, float]:
    """What logistic regression reaches on the same images, as scikit-learn has it by default."""
    from sklearn.linear_model import LogisticRegression

    (images, labels), (others, due) = digits()
    fitted = LogisticRegression(max_iter=1000).fit(images.flatten(1).numpy(), labels.numpy())
    return {"logistic regression": float(fitted.score(others.flatten(1).numpy(), due.numpy()))}


ACCURACY = "accuracy held out"
"""The name of the score: of 359 images that are not trained on, the share that is recognised."""
MODEL = (
    "image_height", "image_width", "patch", "channels", "width", "heads", "mlp_width", "blocks", "classes", "pooling"
)  # fmt: skip
"""What of a task's config its model is made of."""
CONFIG: Mapping[str, Any] = {
    "image_height": 8,
    "image_width": 8,
    "patch": 2,
    "channels": 1,
    "width": 64,
    "heads": 4,
    "mlp_width": 128,
    "blocks": 2,
    "classes": 10,
    "pooling": "class",
    "dropout": 0.1,
    "smoothing": 0.1,
    "batch": 64,
    "learning_rate": 0.002,
    "rate_falls": True,
    "epochs": 50,
}
IMPORTS = ("sklearn.datasets", "sklearn.linear_model")
"""What takes seconds to import: the images, and what is fitted to them beside."""
DIGITS = Task(
    "digits",
    "handwritten digits of 8 × 8 pixels, by the Vision Transformer of documents, section 11.8",
    CONFIG,
    prepare,
    needs=frozenset({"gradient"}),
    imports=IMPORTS,
    uses=frozenset({"dropout"}),
)
TASKS = (DIGITS,)
