"""One call of an attention, and which calls the contract refuses."""

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


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of one call. `asked["scale"]` is an option, given or its default."""

    query: Tensor  # ... h l e
    key: Tensor  # ... g s e
    value: Tensor  # ... g s v
    options: Mapping[str, Any]
    conventions: Conventions = field(default_factory=dict)
    """What is declared by who answers."""

    def __getitem__(self, argument: str) -> Any:
        return self.options[argument]

    def but(self, **options: Any) -> AttentionCall:
        """The same call with other options."""
        return replace(self, options={**self.options, **options})

    def with_keys(self, key: Tensor, value: Tensor, change: Callable[[Tensor], Tensor]) -> AttentionCall:
        """The same call with other keys and values; `change` makes masks that have a column for each key fit them."""
        masks = {name: mask for name, mask in self.options.items() if isinstance(mask, torch.Tensor)}
        fitted = {name: change(m) for name, m in masks.items() if m.dim() and m.shape[-1] == self.keys}
        return replace(self.but(**fitted), key=key, value=value)

    def changed(self, change: Callable[[Tensor], Tensor], *names: str) -> AttentionCall:
        """The same call with some of query, key and value changed; with all of them where none is named."""
        inputs: dict[str, Any] = {name: change(getattr(self, name)) for name in names or ("query", "key", "value")}
        return replace(self, **inputs)

    @property
    def unmasked(self) -> AttentionCall:
        """The same call without anything that hides keys or is added to scores."""
        off = [each.argument for each in feature.features() if each.argument and (each.visible or each.added)]
        return self.but(**{argument.name: argument.default for argument in off})

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
        """Half types are computed in float32, the others in their own."""
        return torch.float32 if self.query.dtype.itemsize < 4 else self.query.dtype

    @property
    def wants_gradient(self) -> bool:
        tensors = (self.query, self.key, self.value, *self.options.values())
        return torch.is_grad_enabled() and any(
            isinstance(each, torch.Tensor) and each.requires_grad for each in tensors
        )

    def grid(self, rows: tuple[int, int] | None = None, keys: tuple[int, int] | None = None) -> Grid:
        """The positions of all queries and keys, or of a tile of them."""
        device = self.query.device
        i = torch.arange(*(rows or (0, self.queries)), device=device)
        j = torch.arange(*(keys or (0, self.keys)), device=device)
        return Grid(i, j, self.queries, self.keys)

    def visible(self) -> Tensor | None:
        """Which keys each query may attend to, all features together; None where nothing is hidden."""
        found: Tensor | None = feature.visible(self.options, self.grid(), self.conventions)
        return found


def check(call: AttentionCall) -> None:
    """Raise ValueError for what the contract does not define."""
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
    _check_features(call)


def _check_features(call: AttentionCall) -> None:
    for each in feature.features():
        if complaint := each.refuse(call):
            raise ValueError(complaint)


def as_attention(
    answer: Callable[[AttentionCall], Any],
    takes: Sequence[str] | None = None,
    conventions: Conventions = MappingProxyType({}),
) -> Callable[..., Any]:
    """The answer as a function with the contract's signature, or with only those of its options that it `takes`."""
    defaults = {each.name: each.default for each in feature.arguments()}
    taken = {name: default for name, default in defaults.items() if takes is None or name in takes}

    def attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        if unknown := set(options) - set(taken):
            raise TypeError(f"attention takes no {' and no '.join(sorted(unknown))}")
        return answer(AttentionCall(query, key, value, defaults | options, conventions))

    attention.__signature__ = signature(taken)  # type: ignore[attr-defined]
    return attention


def signature(options: Mapping[str, Any]) -> inspect.Signature:
    """query, key and value, and options by keyword, with their defaults."""
    of = inspect.Parameter
    inputs = [of(name, of.POSITIONAL_OR_KEYWORD) for name in ("query", "key", "value")]
    keywords = [of(name, of.KEYWORD_ONLY, default=default) for name, default in options.items()]
    return inspect.Signature([*inputs, *keywords])
