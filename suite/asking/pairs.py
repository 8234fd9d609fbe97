"""Two things returned at once, `(output, weights)`, as many attentions do: which of them is the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor

TOGETHER = (tuple, list)
"""What two things are returned in; a subclass with names for them counts, too."""


def is_pair(returned: Any) -> bool:
    """Whether this is `(output, weights)`: two tensors, or one and None, as where weights were not wanted."""
    if not isinstance(returned, TOGETHER) or len(returned) != 2:
        return False
    output, weights = returned
    return isinstance(output, Tensor) and (weights is None or isinstance(weights, Tensor))


def output_of(returned: Any) -> Any:
    """The output of what was returned: the first of a pair, else all of it."""
    return returned[0] if is_pair(returned) else returned


def weights_of(returned: Any) -> Tensor | None:
    """The weights that came along, where any did."""
    return returned[1] if is_pair(returned) else None


def output_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for a caller who expects an output and nothing beside it."""

    @wraps(function)
    def answer(*arguments: Any, **named: Any) -> Any:
        return output_of(function(*arguments, **named))

    return answer
