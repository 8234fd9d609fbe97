"""One call of an attention, and the calls that the contract refuses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Conventions
from attnsuite.contracts.attention import feature
from attnsuite.contracts.attention.feature import Grid
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[..., Any]
INPUTS = ("query", "key", "value")


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of one call. `call["scale"]` is an option, passed or its default."""

    query: Tensor  # ... h l e
    key: Tensor  # ... g s e
    value: Tensor  # ... g s v
    options: Mapping[str, Any]
    conventions: Conventions = field(default_factory=dict)
    """The conventions that the implementation declares."""

    def __getitem__(self, argument: str) -> Any:
        return self.options[argument]

    def but(self, **options: Any) -> AttentionCall:
        """The same call with other options."""
        return replace(self, options={**self.options, **options})

    def with_keys(self, key: Tensor, value: Tensor, change: Callable[[Tensor], Tensor]) -> AttentionCall:
        """The same call with other keys and values; `change` adapts masks that have a column for each key."""
        names = {f.argument.name for f in feature.features() if f.argument and f.visible}
        masks = {name: mask for name, mask in self.options.items() if name in names and isinstance(mask, torch.Tensor)}
        fitted = {name: change(m) for name, m in masks.items() if m.dim() and m.shape[-1] == self.keys}
        return replace(self.but(**fitted), key=key, value=value)

    def changed(self, change: Callable[[Tensor], Tensor], *names: str) -> AttentionCall:
        """The same call with the named ones of query, key and value changed; without names, all three."""
        inputs: dict[str, Any] = {name: change(getattr(self, name)) for name in names or INPUTS}
        return replace(self, **inputs)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The inputs that are tensors, by name."""
        options = {name: value for name, value in self.options.items() if isinstance(value, torch.Tensor)}
        return {"query": self.query, "key": self.key, "value": self.value, **options}

    @property
    def rank(self) -> int:
        return self.query.dim()

    @property
    def queries(self) -> int:
        return self.query.shape[-2]

    @property
    def keys(self) -> int:
        return self.key.shape[-2]

    @property
    def width(self) -> int:
        return self.query.shape[-1]

    @property
    def value_width(self) -> int:
        return self.value.shape[-1]

    @property
    def heads(self) -> int:
        return self.query.shape[-3] if self.rank > 2 else 1

    @property
    def key_heads(self) -> int:
        return self.key.shape[-3] if self.rank > 2 else 1

    @property
    def grouped(self) -> bool:
        return self.heads != self.key_heads

    @property
    def scores_shape(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.keys)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.value_width)

    @property
    def accumulator(self) -> torch.dtype:
        """The dtype of the computation: float32 for half types, else the query's."""
        return torch.float32 if self.query.dtype.itemsize < 4 else self.query.dtype

    @property
    def wants_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors.values())

    def grid(self, rows: tuple[int, int] | None = None, keys: tuple[int, int] | None = None) -> Grid:
        """The positions of all queries and keys, or of a tile of them."""
        device = self.query.device
        i = torch.arange(*(rows or (0, self.queries)), device=device)
        j = torch.arange(*(keys or (0, self.keys)), device=device)
        return Grid(i, j, self.queries, self.keys)

    def visible(self) -> Tensor | None:
        """The keys that each query may attend to, all features together; None where nothing is hidden."""
        seen: Tensor | None = feature.visible(self.options, self.grid(), self.conventions)
        return seen


def check(call: AttentionCall) -> None:
    """Raise ValueError for a call that the contract does not define."""
    query, key, value = call.query, call.key, call.value
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not 2 <= query.dim() <= 4 or not query.dim() == key.dim() == value.dim():
        raise ValueError(f"the ranks must be equal, from 2 to 4: {shapes}")
    if not query.dtype.is_floating_point or not query.dtype == key.dtype == value.dtype:
        raise ValueError(f"the dtypes must be one floating type: {query.dtype}, {key.dtype}, {value.dtype}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query and key must be equally wide: {shapes}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"key and value must have the same length, heads and leading axes: {shapes}")
    if query.shape[:-3] != key.shape[:-3]:
        raise ValueError(f"query and key must have the same leading axes: {shapes}")
    for complaint in (f.complaint(call) for f in feature.features()):
        if complaint:
            raise ValueError(complaint)


def as_attention(
    attention: Callable[[AttentionCall], Any],
    takes: Sequence[str] | None = None,
    conventions: Conventions = MappingProxyType({}),
) -> Function:
    """A function with the contract's signature, or with only those of its options that it `takes`."""
    defaults = {option.name: option.default for option in feature.arguments()}
    taken = {name: default for name, default in defaults.items() if takes is None or name in takes}

    def with_signature(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        if unknown := set(options) - set(taken):
            raise TypeError(f"attention() got an unexpected keyword argument {min(unknown)!r}")
        return attention(AttentionCall(query, key, value, defaults | options, conventions))

    kind = inspect.Parameter
    inputs = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in INPUTS]
    keywords = [kind(name, kind.KEYWORD_ONLY, default=default) for name, default in taken.items()]
    with_signature.__signature__ = inspect.Signature([*inputs, *keywords])  # type: ignore[attr-defined]
    with_signature.__name__ = "attention"
    return with_signature
