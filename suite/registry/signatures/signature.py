"""What a signature of the field is, and one call as the contract makes it, on its way to a function that has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite.registry.signatures.arrays import Arrays

if TYPE_CHECKING:
    from torch import Tensor

ADAPTERS = Path(__file__).parent / "adapters"
Parameters = frozenset[str] | None
"""The names that a function can be given by keyword; None where it takes any."""
Words = Mapping[str, Any]


@dataclass(frozen=True)
class AttentionCall:
    """One call of the contract, with the options that it gives."""

    query: Tensor  # … h l e
    key: Tensor  # … g s e
    value: Tensor  # … g s v
    options: Words

    @property
    def scale(self) -> float:
        """What the products of query and key are multiplied by."""
        given = self.options.get("scale")
        return 1 / math.sqrt(self.query.shape[-1] or 1) if given is None else float(given)

    @property
    def queries(self) -> int:
        return self.query.shape[-2]

    @property
    def keys(self) -> int:
        return self.key.shape[-2]

    @property
    def heads(self) -> int:
        return self.query.shape[-3] if self.query.dim() > 2 else 1

    @property
    def key_heads(self) -> int:
        return self.key.shape[-3] if self.key.dim() > 2 else 1

    @property
    def groups(self) -> int:
        """How many heads of queries share a head of keys; 1 where heads are not grouped."""
        heads, key_heads = self.heads, self.key_heads
        grouped = self.options.get("enable_gqa") and key_heads not in (0, heads) and heads % key_heads == 0
        return heads // key_heads if grouped else 1

    def default(self, option: str) -> Any:
        """What an option of the contract is where it is not given; the scale as a number."""
        usual = {"is_causal": False, "dropout_p": 0.0, "enable_gqa": False, "scale": self.scale}
        return usual.get(option)

    def renamed(self, **names: str) -> dict[str, Any]:
        """The options that are given, under a library's names, by the contract's."""
        return {theirs: self.options[ours] for ours, theirs in names.items() if ours in self.options}

    @property
    def mask(self) -> Tensor | None:
        """The mask, boolean or float, or None."""
        found: Tensor | None = self.options.get("attn_mask")
        return found

    @property
    def is_causal(self) -> bool:
        return bool(self.options.get("is_causal"))

    def window(self, unbounded: int | None) -> tuple[int | None, int | None]:
        """The window's two sides, with a library's word for one that is unbounded.

        Raises NotImplementedError for what is no window in the contract, and may be one in the library.
        """
        value = self.options.get("window")
        if value is None:
            return unbounded, unbounded
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise NotImplementedError(f"what a window of {value!r} means is this signature's own affair")
        if any(side is not None and side < 0 for side in value):
            raise NotImplementedError(
                "a negative side of a window is unbounded in this signature, or has no word there"
            )
        left, right = value
        return unbounded if left is None else left, unbounded if right is None else right


Layout = Callable[["Signature", Callable[..., Any], AttentionCall], Any]
"""Calls a function in the order of a library's axes, and returns what it answers in the contract's."""


@dataclass(frozen=True)
class Signature:
    """One signature of the field: its axes, its names, the type of its arrays and its conventions.

    The first three parameters are given by position, whatever they are called, and all others by keyword.
    """

    name: str
    function: str
    """The library's function that has it."""
    axes: str
    """Of query, key, value and output, in the library's letters: `b s h d`."""
    options: Mapping[str, tuple[str, ...]]
    """The contract's options that it can express, each with the parameters that express it, any of which will do."""
    others: tuple[str, ...] = ()
    """The library's parameters that the contract has no word for."""
    identifying: tuple[frozenset[str], ...] = ()
    """Parameters by which alone it is recognised, where a function has all of one set."""
    required: frozenset[str] = frozenset()
    """Parameters by which it is recognised where a function has them all without a default."""
    keywords: Callable[[AttentionCall], dict[str, Any]] = lambda asked: dict(asked.options)
    """The options by the library's names."""
    layout: Layout = lambda signature, function, asked: None
    heads_inside: bool = False
    """Whether positions come before heads in its axes."""
    has_group_axis: bool = False
    """Whether the heads of queries that share a head of keys have an axis of their own, behind that of heads."""
    arrays: Arrays = field(default_factory=Arrays)
    inputs: tuple[str, str, str] = ("query", "key", "value")
    """What the library calls the first three."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """The parameter without which a feature is lacking, although the option is taken: `float_mask` needs `bias`."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    """The contract's words and the library's, for what is said of a failure."""
    says: str = ""
    """What a reader should know beside axes and conventions, in a few words."""

    @property
    def template(self) -> str:
        """A function that has the signature and computes attention plainly, as Python: the text beside its adapter."""
        return (ADAPTERS / f"{self.name}.txt").read_text(encoding="utf-8")

    @property
    def axes_of_groups(self) -> list[str]:
        """Its axes where groups of heads have one of their own: b s g h d."""
        axes = self.axes.split()
        return [*axes[:-2], "g", *axes[-2:]]

    @property
    def adds_axes(self) -> bool:
        """Whether inputs of lower ranks get axes of size 1."""
        return not self.axes.startswith("…")

    @property
    def parameters(self) -> frozenset[str]:
        """All its parameters beside the first three, by the library's names."""
        return frozenset(self.others).union(*self.options.values())

    @property
    def has_own_names(self) -> bool:
        """Whether its options have the contract's names."""
        return all(theirs == (ours,) for ours, theirs in self.options.items())

    @property
    def tested(self) -> frozenset[str]:
        """Its parameters that tests give."""
        return frozenset(self.needs.values()).union(*self.options.values())

    def filled(self, asked: AttentionCall, needed: frozenset[str]) -> dict[str, Any]:
        """The options by the library's names, with defaults for those that a function needs and that are not given."""
        found = self.keywords(asked)
        for ours, theirs in self.options.items():
            for name in needed.intersection(theirs) - found.keys():
                found[name] = self.keywords(replace(asked, options={ours: asked.default(ours)})).get(name)
        return found

    def takes(self, own: Parameters) -> tuple[str, ...]:
        """The contract's options that a function with these parameters takes."""
        return tuple(ours for ours, theirs in self.options.items() if own is None or not theirs or own & set(theirs))

    def gaps(self, own: Parameters) -> dict[str, str]:
        """What a function with these parameters lacks, with the reason."""
        if own is None:
            return dict(self.lacks)
        return {**self.lacks, **{gap: f"takes no {name}" for gap, name in self.needs.items() if name not in own}}
