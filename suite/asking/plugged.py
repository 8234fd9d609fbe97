"""Cases whose function is given an attention to call in place of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from suite.asking.call import Call, Calls, Conventions
from suite.asking.case import Changed

if TYPE_CHECKING:
    from torch import Tensor

OF_VALUES = ("w_value", "b_value")
"""How the names of what maps values end."""


class Plugged(Changed):
    """Another case, given an attention that answers zeros: due is the answer where all values are mapped to zeros."""

    def calls(self, dtype: str) -> Calls:
        return tuple(replace(call, probed=True) for call in self.of.calls(dtype))

    def truth(self, calls: Calls, conventions: Conventions) -> Any:
        return self.of.truth(tuple(map(_without_values, calls)), conventions)


def _without_values(call: Call) -> Call:
    return replace(call, tensors=_silenced(call.tensors), weights=_silenced(call.weights))


def _silenced(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: 0 * tensor if name.endswith(OF_VALUES) else tensor for name, tensor in tensors.items()}
