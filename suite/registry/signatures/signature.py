"""Signatures of other libraries: what describes one, the call that reaches it, and the list of all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite.model import UsageError
from attnsuite.registry.signatures.arrays import Arrays

if TYPE_CHECKING:
    from torch import Tensor

OWN = "sdpa"
"""The contract's own signature, which needs no adapter."""
SIGNATURES_OF = "attention"
"""The contract with most signatures of other libraries, whose functions are recognised among all."""
ADAPTERS = Path(__file__).parent / "adapters"
"""One file for each signature; its name is the signature's."""
ORDER = [
    "sdpa",
    "flash_attn",
    "xformers",
    "jax",
    "flashinfer",
    "flashinfer_decode",
    "triton",
    "huggingface",
    "mlx",
    "numpy",
]
"""The order in which messages list the signatures; others come last."""
INPUTS = ("query", "key", "value")
"""What every signature of attention takes by position."""
BY_USER, BY_AUTHOR = "--signature", "@implementation"
"""What may name a signature, in place of the parameters that identify it."""
Parameters = frozenset[str] | None
"""The names that a function can be given by keyword; None where it takes any."""


@cache
def names(contract: str = "") -> tuple[str, ...]:
    """The names of all signatures, or of those of a contract."""
    files = sorted(file.stem for file in ADAPTERS.glob("[!_]*.py"))
    ordered = sorted(files, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    return tuple(name for name in ordered if not contract or signature(name).contract == contract)


@cache
def signature(name: str) -> Signature:
    """The signature of that name. Raises UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"unknown signature {name!r}; there are: {', '.join(names())}")
    adapter: Signature = import_module(f"{__package__}.adapters.{name}").SIGNATURE
    return replace(adapter, name=name)


@dataclass(frozen=True)
class SignatureCall:
    """One call of the contract, with the options that it gives."""

    query: Tensor  # … h l e
    key: Tensor  # … g s e
    value: Tensor  # … g s v
    options: Mapping[str, Any]

    @property
    def scale(self) -> float:
        """The factor of the products of query and key."""
        scale = self.options.get("scale")
        return 1 / math.sqrt(self.query.shape[-1] or 1) if scale is None else float(scale)

    @property
    def queries(self) -> int:
        """The number of queries, l."""
        return self.query.shape[-2]

    @property
    def keys(self) -> int:
        """The number of keys, s."""
        return self.key.shape[-2]

    @property
    def heads(self) -> int:
        """The number of query heads, h; 1 for tensors without that axis."""
        return self.query.shape[-3] if self.query.dim() > 2 else 1

    @property
    def key_heads(self) -> int:
        """The number of key heads, g; 1 for tensors without that axis."""
        return self.key.shape[-3] if self.key.dim() > 2 else 1

    @property
    def can_group(self) -> bool:
        """Whether several heads of queries can share each head of keys."""
        return self.key_heads not in (0, self.heads) and self.heads % self.key_heads == 0

    @property
    def groups(self) -> int:
        """How many heads of queries share a head of keys; 1 where heads are not grouped."""
        return self.heads // self.key_heads if self.options.get("enable_gqa") and self.can_group else 1

    @property
    def mask(self) -> Tensor | None:
        """The mask, boolean or float, or None."""
        mask: Tensor | None = self.options.get("attn_mask")
        return mask

    @property
    def is_causal(self) -> bool:
        """Whether `is_causal` is given and true."""
        return bool(self.options.get("is_causal"))

    def default(self, option: str) -> Any:
        """The value of an option that is not given; the scale as a number."""
        return {"is_causal": False, "dropout_p": 0.0, "enable_gqa": False, "scale": self.scale}.get(option)

    def renamed(self, **names: str) -> dict[str, Any]:
        """The given options under a library's names, by the contract's."""
        return renamed(self.options, **names)

    @property
    def returns_lse(self) -> bool:
        """Whether the log-sum-exp is requested."""
        return bool(self.options.get("return_lse"))

    @property
    def wants_gradient(self) -> bool:
        """Whether an input wants a gradient."""
        import torch

        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (self.query, self.key, self.value))

    def window(self, unbounded: int | None) -> tuple[int | None, int | None]:
        """Both sides of the window, as the function `sides`."""
        return sides(self.options.get("window"), unbounded)


OtherCall = Callable[[Callable[..., Any], Mapping[str, Any], Parameters], Any]
"""Calls a function of these parameters with a contract's arguments by name, and returns the contract's result."""


def longest(ends: Tensor) -> int:
    """The largest length of packed items; 0 without items."""
    return int(ends.diff().max()) if len(ends) > 1 else 0


def renamed(given: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The given arguments under a library's names, by the contract's."""
    return {theirs: given[ours] for ours, theirs in names.items() if ours in given}


def softcap(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The soft cap under a library's name. NotImplementedError for one that is off there, or undefined."""
    cap = given.get("softcap")
    if cap is not None and cap <= 0:
        raise NotImplementedError(f"a soft cap of {cap} means no cap in this signature, or is undefined")
    return {} if cap is None else {name: cap}


def sides(window: Any, unbounded: int | None) -> tuple[int | None, int | None]:
    """Both sides of a window, which may be None, with a library's value for a side without a bound.

    Raises NotImplementedError for a window that the contract does not define, and a library may.
    """
    if window is None:
        return unbounded, unbounded
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise NotImplementedError(f"a window of {window!r} has no meaning that all signatures share")
    if any(side is not None and side < 0 for side in window):
        raise NotImplementedError("a negative side of a window is unbounded in this signature, or undefined")
    left, right = window
    return unbounded if left is None else left, unbounded if right is None else right


def by_name(**parameters: str) -> dict[str, tuple[str, ...]]:
    """The contract's options, each with the parameters that express it, written with spaces between them."""
    return {ours: tuple(theirs.split()) for ours, theirs in parameters.items()}


def marks(*groups: str) -> tuple[frozenset[str], ...]:
    """Sets of parameters that identify a signature, each written with spaces between them."""
    return tuple(frozenset(group.split()) for group in groups)


Layout = Callable[["Signature", Callable[..., Any], SignatureCall], Any]
"""Calls a function with axes in a library's order, and returns the output with axes in the contract's order."""


@dataclass(frozen=True)
class Signature:
    """The signature of a library's function: its axes, parameters, arrays and conventions.

    The inputs are given by position, whatever their names, and all others by keyword.
    """

    function: str
    """The library's function that has it."""
    axes: str
    """Of query, key, value and output, in the library's letters: `b s h d`."""
    options: Mapping[str, tuple[str, ...]]
    """The contract's options that it can express, each with the alternative parameters that express it."""
    name: str = ""
    """That of its file."""
    contract: str = SIGNATURES_OF
    """The contract whose functions have it."""
    call: OtherCall | None = None
    """The call in a signature of another contract than attention, in place of `keywords` and `layout`."""
    before: tuple[str, ...] = ()
    """The parameters that the layout gives by position before the inputs. They alone identify the signature."""
    others: tuple[str, ...] = ()
    """The library's parameters that correspond to no option of the contract."""
    identifying: tuple[frozenset[str], ...] = ()
    """Sets of parameters; a function with all parameters of one set has this signature."""
    required: frozenset[str] = frozenset()
    """A function has this signature, too, if it has all these parameters without a default."""
    keywords: Callable[[SignatureCall], dict[str, Any]] = lambda call: dict(call.options)
    """The options by the library's names."""
    layout: Layout = lambda signature, function, call: None
    heads_inside: bool = False
    """Whether positions come before heads in its axes."""
    arrays: Arrays = field(default_factory=Arrays)
    inputs: tuple[str, ...] = INPUTS
    """The library's names of the inputs."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """The parameter that a feature needs although its option is supported: `float_mask` needs `bias`."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    phrases: Mapping[str, str] = field(default_factory=dict)
    """What messages write for the contract's arguments, where it is not the one parameter that expresses them."""
    says: str = ""
    """What else a reader should know, in a few words."""

    @property
    def words(self) -> dict[str, str]:
        """The library's words for the contract's arguments, for messages about failures."""
        alone = {ours: theirs[0] for ours, theirs in self.options.items() if len(theirs) == 1 and ours not in INPUTS}
        return {ours: theirs for ours, theirs in {**alone, **self.phrases}.items() if theirs != ours}

    @property
    def template(self) -> str:
        """A function with this signature that computes attention plainly, as Python; a text next to its adapter."""
        return (ADAPTERS / f"{self.name}.txt").read_text(encoding="utf-8")

    @property
    def adds_axes(self) -> bool:
        """Whether inputs of lower ranks get axes of size 1."""
        return not self.axes.startswith("…")

    @property
    def parameters(self) -> frozenset[str]:
        """All its parameters except the first three, by the library's names."""
        return frozenset(self.others).union(*self.options.values())

    @property
    def has_own_names(self) -> bool:
        """Whether its options have the contract's names."""
        return all(theirs == (ours,) for ours, theirs in self.options.items())

    @property
    def tested(self) -> frozenset[str]:
        """Its parameters that tests give."""
        return frozenset(self.needs.values()).union(*self.options.values())

    def with_defaults(self, call: SignatureCall, required: frozenset[str]) -> dict[str, Any]:
        """The options by the library's names, with defaults for `required` ones that the call does not give."""
        keywords = self.keywords(call)
        for ours, theirs in self.options.items():
            for name in required.intersection(theirs) - keywords.keys():
                keywords[name] = self.keywords(replace(call, options={ours: call.default(ours)})).get(name)
        return keywords

    def takes(self, own: Parameters) -> tuple[str, ...]:
        """The contract's options that a function with these parameters takes."""
        return tuple(ours for ours, theirs in self.options.items() if own is None or not theirs or own & set(theirs))

    def gaps(self, own: Parameters) -> dict[str, str]:
        """What a function with these parameters lacks, with the reason."""
        if own is None:
            return dict(self.lacks)
        return {**self.lacks, **{gap: f"takes no {name}" for gap, name in self.needs.items() if name not in own}}
