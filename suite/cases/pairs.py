"""Two things returned at once, `(output, weights)`, as many attentions do: which of them is the output.

The second may be a dictionary that holds the weights under one plain name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor

TOGETHER = (tuple, list)
"""What two things are returned in; a subclass with names for them counts, too."""
NAMES = ("weights", "attention_weights", "attn_weights", "attention", "attn")
"""What the weights may be called in a dictionary, which has one of these names."""
MOST_SHOWN = 3
"""Names in a dictionary that are shown."""


def is_pair(returned: Any) -> bool:
    """Whether this is `(output, weights)`: two tensors, or one and None, as where weights were not wanted."""
    if not _are_two(returned) or not isinstance(returned[0], Tensor):
        return False
    weights = _beside(returned[1])
    return weights is None or isinstance(weights, Tensor)


def output_of(returned: Any) -> Any:
    """The output of what was returned: the first of a pair, else all of it."""
    return returned[0] if is_pair(returned) else returned


def weights_of(returned: Any) -> Tensor | None:
    """The weights that came along, where any did."""
    return _beside(returned[1]) if is_pair(returned) else None


def name_of(returned: Any) -> str:
    """The name of the weights where they came along in a dictionary, else empty."""
    return _name(returned[1]) if is_pair(returned) and isinstance(returned[1], dict) else ""


def unclear(returned: Any) -> str:
    """What was returned, in words, where that is a tensor beside a dictionary of which it is not clear what the weights
    are; else empty.
    """
    if not _are_two(returned) or not isinstance(returned[0], Tensor) or not isinstance(returned[1], dict):
        return ""
    if is_pair(returned):
        return ""
    names = [repr(str(name)) for name in returned[1]]
    shown = ", ".join(names[:MOST_SHOWN]) + (f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else "")
    of = f"a dictionary of {shown}" if names else "an empty dictionary"
    return f"a Tensor beside {of}, which says of no one tensor that it is 'weights'"


def output_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for a caller who expects an output and nothing beside it."""

    @wraps(function)
    def answer(*arguments: Any, **named: Any) -> Any:
        return output_of(function(*arguments, **named))

    return answer


def _are_two(returned: Any) -> bool:
    return isinstance(returned, TOGETHER) and len(returned) == 2


def _beside(second: Any) -> Any:
    """The weights, where the second of two is a dictionary with a name for them; else itself."""
    return second[_name(second)] if isinstance(second, dict) and _name(second) else second


def _name(found: dict[Any, Any]) -> str:
    """The one plain name of weights that a dictionary has; empty where it has none or several."""
    names = [name for name in NAMES if name in found]
    return names[0] if len(names) == 1 else ""
