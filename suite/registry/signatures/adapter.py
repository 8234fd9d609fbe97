"""A function with the signature of another library, called as the contract calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any

from attnsuite.registry.signatures.catalogue import OWN, signature
from attnsuite.registry.signatures.signature import AttentionCall, Signature

NEEDS_NO_FLAG = "grouped heads need no flag in this signature"
HAS_ALL_AXES = "inputs and mask have all axes in this signature, so that a mask cannot have more of them"


class Adapter:
    """Turns the contract's call into a call of the function, and its answer back. Gradients flow through tensors.

    What the signature has no word for is unsupported: NotImplementedError, with the reason.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        of: Signature,
        own: Sequence[str] | None = None,
        needed: frozenset[str] = frozenset(),
    ) -> None:
        self.function = function
        self.of = replace(of, keywords=partial(of.filled, needed=needed)) if needed else of
        self.own = None if own is None else frozenset(own)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__signature__ = inspect.Signature([*_inputs(), *(_by_keyword(name) for name in of.takes(self.own))])

    def __call__(self, query: Any, key: Any, value: Any, **options: Any) -> Any:
        asked = AttentionCall(query, key, value, options)
        if not self.of.options.get("enable_gqa", ("",)) and _means_groups(asked):
            raise NotImplementedError(NEEDS_NO_FLAG)
        if self.of.adds_axes and asked.mask is not None and asked.mask.dim() > query.dim():
            raise NotImplementedError(HAS_ALL_AXES)
        return self.of.layout(self.of, self.function, asked)

    def laid(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """See `with_layout`."""
        return with_layout(tensors, self.of)


INPUTS = ("query", "key", "value")


def in_contract_signature(
    function: Callable[..., Any], name: str, own: Sequence[str] | None = None, needed: frozenset[str] = frozenset()
) -> Callable[..., Any]:
    """The function in the contract's signature; `own` are its parameters, None where it takes any.

    Those `needed` are given in every call. In the contract's own signature nothing else is changed.
    """
    if name != OWN:
        return Adapter(function, signature(name), own, needed)

    def call(query: Any, key: Any, value: Any, **options: Any) -> Any:
        return function(query, key, value, **signature(OWN).filled(AttentionCall(query, key, value, options), needed))

    return update_wrapper(call, function, (), ()) if needed else function


def with_layout(tensors: Mapping[str, Any], of: Signature) -> dict[str, Any]:
    """Inputs of a call by name, laid out in memory as the signature's axes lie, where they were contiguous.

    Their numbers and axes stay: a function that was written for contiguous inputs is given such.
    """
    inside = INPUTS if of.heads_inside else ()
    return {name: _with_heads_inside(each) if name in inside else each for name, each in tensors.items()}


def _with_heads_inside(tensor: Any) -> Any:
    """… h l e, as … l h e lies in memory."""
    if tensor.dim() < 3 or not tensor.is_contiguous():
        return tensor
    inside = tensor.transpose(-2, -3).contiguous()
    around, first = tensor.untyped_storage().nbytes() // tensor.element_size(), tensor.storage_offset()
    if around > tensor.numel():  # what lies before and behind it stays there
        storage = tensor.detach().as_strided((around,), (1,), 0).clone()
        inside = storage[first : first + tensor.numel()].view(inside.shape).copy_(inside)
    return inside.transpose(-2, -3)


def _means_groups(asked: AttentionCall) -> bool:
    """Whether heads are grouped without the contract's flag, which is bad input there and none here."""
    heads, key_heads = asked.heads, asked.key_heads
    return not asked.options.get("enable_gqa") and key_heads not in (0, heads) and heads % key_heads == 0


def _inputs() -> list[inspect.Parameter]:
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in INPUTS]


def _by_keyword(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
