"""Attention whose answer is right and whose gradient is not, to see whether a loss curve shows it.

The contract `attention` has deviations with a mistake in the backward pass alone. Each is plugged into the model of the
task `digits`, which is trained for few epochs, beside the same computation without a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from attnsuite.contracts import contract
from attnsuite.documents.learning.task import Attention, Task, Training
from attnsuite.documents.learning.tasks import digits
from attnsuite.model import RIGHT_GRADIENT, WRONG_GRADIENTS

CONTROL = "correct_backward"
"""What the contract calls the computation that the deviations are made of."""
MISTAKES = (
    "gradient_lacks_mean", "query_gradient_lacks_scale", "key_gradient_lacks_scale", "negates_key_gradient",
    "stops_gradient_at_weights", "value_gradient_lacks_weights", "swaps_gradients_of_key_and_value",
    "scores_gradient_off_by_one_percent", "rounds_scores_gradient_to_half", "backward_ignores_dropout",
    "backward_drops_anew", "mean_ignores_dropout",
)  # fmt: skip
"""Deviations that this model can show: its attention has no mask, one size, and dropout on its weights. Left out are
those of others' kind, as a query's gradient that is doubled, and `clips_gradients`, for none here exceeds 1."""
CONFIG: Mapping[str, Any] = {**digits.CONFIG} | {
    "width": 32, "mlp_width": 64, "smoothing": 0.0, "learning_rate": 0.005, "epochs": 8
}  # fmt: skip
"""Smaller, faster and shorter than `digits`: a wrong gradient shows while the loss still falls."""


@cache
def attentions() -> Mapping[str, Attention]:
    """The right gradient and the wrong ones, by name."""
    of = contract("attention")
    return {RIGHT_GRADIENT: of.controls()[CONTROL], **{each.name: each.function for each in of.mutants()}}


def _tasks() -> Iterator[Task]:
    for name in (RIGHT_GRADIENT, *MISTAKES):

        def prepare(config: Mapping[str, Any], seed: int, attention: Attention, name: str = name) -> Training:
            return digits.prepare(config, seed, attentions()[name])

        says = "handwritten digits, with attention whose gradient is "
        says += "right" if name == RIGHT_GRADIENT else f"wrong: the deviation {name}"
        yield Task(
            f"{WRONG_GRADIENTS}/{name}",
            says,
            CONFIG,
            prepare,
            own=name,
            table=WRONG_GRADIENTS,
            imports=digits.IMPORTS,
        )


TASKS = tuple(_tasks())
