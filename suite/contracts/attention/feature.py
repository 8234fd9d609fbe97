"""What a feature of attention is, and the five stages in which features take part.

    source       which keys and values a query head reads
    score        what is done to the products of query and key: scaled, biased
    visibility   which keys a query may attend to
    weights      what becomes of the softmax: empty rows, dropout
    output       what is returned

Every file or folder in `features/` declares one `FEATURE`. Signature, vocabulary, oracle, mutants, variants and
workloads are assembled from these declarations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.covering import Contradiction
from attnsuite.contracts.attention.lazily import np

if TYPE_CHECKING:
    import torch

    from attnsuite.cases.case import Traits
    from attnsuite.contracts.attention.computation.call import AttentionCall
    from attnsuite.contracts.attention.oracle import BackwardPass, ForwardPass

STAGES = ("source", "score", "visibility", "weights", "output")
"""In the order in which they are computed."""


@dataclass(frozen=True)
class Argument:
    """An optional argument of the function."""

    name: str
    default: Any
    place: int | None = None
    """Its place among the options of torch's scaled_dot_product_attention; None where that has none."""


@dataclass(frozen=True)
class Grid:
    """Some queries against some keys: their positions, as index arrays of numpy or torch, and how many there are."""

    rows: Any  # l
    columns: Any  # s
    queries: int
    keys: int
    shift: int = 0
    """How far the position of a query lies behind its place."""

    @property
    def i(self) -> Any:
        """The positions of the queries: l 1."""
        return self.rows[:, None] + self.shift if self.shift else self.rows[:, None]

    def aligned(self, corner: str | None) -> Grid:
        """The same grid with positions counted from the first key, or at the `lower_right` back from the last one."""
        return replace(self, shift=self.keys - self.queries if corner == "lower_right" else 0)

    @property
    def j(self) -> Any:
        """The positions of the keys: s."""
        return self.columns

    @property
    def whole(self) -> bool:
        return len(self.rows) == self.queries and len(self.columns) == self.keys

    @staticmethod
    def make(queries: int, keys: int, rows: Any = None) -> Grid:
        """All keys, and all queries or the rows given, in numpy."""
        return Grid(np.arange(queries) if rows is None else np.asarray(rows), np.arange(keys), queries, keys)


Visible = Callable[[Grid, Any, Conventions], Any]
"""Which keys each query of a grid may attend to, given the argument's value: broadcastable to … l s."""


class Step(NamedTuple):
    """What a feature does at one stage of the oracle, and to the gradients on the way back."""

    forward: Callable[[ForwardPass], None]
    backward: Callable[[ForwardPass, BackwardPass], None] | None = None


@dataclass(frozen=True)
class DrawContext:
    """What a feature's arguments are drawn from: random numbers, the sizes of the call, and its dtype."""

    random: Any
    sizes: Any
    dtype: torch.dtype


@dataclass(frozen=True)
class Hooks:
    """What a feature does in the computations that mutants are made of. Each takes the computation first.

    `steps` are the parts of it that a mutant may replace, by name.
    """

    steps: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    source: Callable[..., Any] | None = None
    """(computation, key, value, asked) → key, value"""
    source_gradient: Callable[..., Any] | None = None
    """(computation, gradient of key or value, saved) → the same before the source stage"""
    score: Callable[..., Any] | None = None
    """(computation, scores, asked, grid) → scores"""
    score_gradient: Callable[..., Any] | None = None
    """(computation, gradient of the scores, saved, gradients) → the same before this step"""
    hide: Callable[..., Any] | None = None
    """(computation, scores, asked, grid) → scores, −∞ where a query may not attend"""
    weigh: Callable[..., Any] | None = None
    """(computation, weights, asked) → weights"""
    multiplier: Callable[..., Any] | None = None
    """(weights' shape and dtype, asked) → what weights are multiplied by, or None"""


NO_HOOKS = Hooks()


@dataclass(frozen=True)
class Syntax:
    """How a feature's value is written in a shape that a user types: `window=64:0`, or its name alone."""

    due: str
    """What may stand after the name, in words; empty where the name stands alone."""
    read: Callable[[str], Any]
    """The value of a text. ValueError where it is none."""
    written: Callable[[Any], str] = str
    """The text of a value, the same for the same value."""


def number_within(low: float, high: float) -> Callable[[str], float]:
    """A reader of finite numbers from `low` to `high`."""

    def read(text: str) -> float:
        number = float(text)
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError(text)
        return number

    return read


@dataclass(frozen=True)
class Levels:
    """What the cases that combine features vary: factors, and what each of their levels is; the usual level first."""

    factors: Mapping[str, Mapping[str, Any]]
    given: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """What a case is given, from what the levels of a row are, by factor."""
    contradictions: tuple[Contradiction, ...] = ()
    lacked: str = ""
    """What some implementations lack, in the words of the array; empty for what every implementation has."""

    def __post_init__(self) -> None:
        if lacking := [name for name, levels in self.factors.items() if len(levels) < 2]:
            raise ValueError(f"the factor {lacking[0]} needs the usual level and one more")


@dataclass(frozen=True)
class Feature:
    """One feature. A field is left out where the feature has nothing of the kind."""

    name: str
    stage: str
    levels: Levels
    """What its cases combine with other features."""
    argument: Argument | None = None
    place: int = 0
    """The order within its stage."""
    called: str = ""
    """What a case and a workload call its value, where that is not the feature's name."""
    decisions: Mapping[str, str] = field(default_factory=dict)
    """Its rows in the contract's table of decisions."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What a case may need, and each in words."""
    needed: Callable[[Call], Iterable[str]] | None = None
    """Which of these words a call needs: the feature's name where its argument is given, unless said otherwise."""
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where libraries honestly differ; the first choice is the contract's own."""
    adapt: Callable[[Call, Conventions], Call] = lambda call, conventions: call
    """The same question in the words of a declared convention."""
    undefined_reason: Callable[[Case, frozenset[str], Conventions], str] = lambda case, needed, conventions: ""
    """Why a question has no defined answer under these conventions, or empty."""
    given: Callable[[Any, DrawContext], Mapping[str, Any]] | None = None
    """The arguments for a case's value; the value itself under the argument's name, unless said otherwise."""
    visible: Visible | None = None
    hides: tuple[str, ...] = ()
    """Which of its words may leave a query without any key."""
    empties: Callable[[Case, frozenset[str], Conventions], frozenset[str]] | None = None
    """Which of `hides` really do in a question: those that it needs beside `empty_row`, unless said otherwise."""
    added: Callable[[Grid, Any], Any] | None = None
    """What is added to the scores of a grid, given the argument's value; None where nothing is."""
    oracle: Mapping[str, Step] = field(default_factory=dict)
    """By stage."""
    computed: Hooks = NO_HOOKS
    seeded: bool = False
    """Whether a call with it needs a seed, because it draws random numbers."""
    refuse: Callable[[AttentionCall], str] = lambda call: ""
    """What is wrong with its argument, or empty."""
    cases: Callable[[], Sequence[Case]] = tuple
    aliases: Mapping[str, str] = field(default_factory=dict)
    """What a user may call it, in small letters, each with the family of cases that is meant by that."""
    in_torch: Callable[[str, Any, Call, Conventions], str | None] | None = None
    """What it makes of an expression of plain torch at its stage (of keys and values, scores or weights), given its
    argument's value or None and what is declared; None where that cannot be said."""
    traits: Callable[[Any, Any], Traits] | None = None
    """What is unusual about its value in a case of some sizes, in words by factor: its name, unless said otherwise."""
    says: Callable[[Any], str] = lambda value: ""
    """Its value in a workload, in words for tables."""
    typed: Syntax | None = None
    """How a user types its value in a shape; None where a shape cannot have it, or says it by its sizes."""
    counted: float = 1.0
    """Which share of the pairs FlashAttention's convention counts where the feature is on."""

    @property
    def key(self) -> str:
        """What a case and a workload call its value."""
        return self.called or self.name

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """What is given for its argument; None where it is off or not given."""
        found = arguments.get(self.argument.name) if self.argument else None
        return None if found is False else found

    def needs(self, call: Call) -> Iterable[str]:
        if self.needed:
            return self.needed(call)
        return (self.name,) if self.argument and self.argument.name in call.arguments else ()


@cache
def features() -> tuple[Feature, ...]:
    """All features, in the order in which they are computed."""
    names = {path.stem for path in (Path(__file__).parent / "features").iterdir() if path.name[0] not in "_."}
    found = [_declared(name) for name in sorted(names)]
    return tuple(sorted(found, key=lambda each: (STAGES.index(each.stage), each.place, each.name)))


def _declared(name: str) -> Feature:
    """The feature of a file or folder. TypeError, which names the file, where it declares none, or not all of it."""
    try:
        found = import_module(f"{__package__}.features.{name}").FEATURE
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"suite/contracts/attention/features/{name} declares no whole FEATURE: {error}") from error
    if not isinstance(found, Feature):
        raise TypeError(f"suite/contracts/attention/features/{name}: FEATURE is {found!r}, no Feature")
    if not isinstance(found.levels, Levels):
        raise TypeError(f"suite/contracts/attention/features/{name}: its levels are {found.levels!r}, not Levels")
    return found


def arguments() -> tuple[Argument, ...]:
    """All options, those of torch's scaled_dot_product_attention first and in its order."""
    found = [each.argument for each in features() if each.argument]
    return tuple(sorted(found, key=lambda each: len(found) if each.place is None else each.place))


def given(values: Mapping[str, Any], drawing: DrawContext) -> dict[str, Any]:
    """The arguments for the values that a case or a workload gives to features. TypeError for what no feature knows."""
    if unknown := set(values) - {each.key for each in features()}:
        raise TypeError(f"no feature takes {' or '.join(sorted(unknown))}")
    found: dict[str, Any] = {}
    for each in features():
        value = values.get(each.key)
        if value is None or value is False:
            continue
        if each.given:
            found |= each.given(value, drawing)
        elif each.argument:
            found[each.argument.name] = value
    return found


def adapted(call: Call, conventions: Conventions) -> Call:
    """The same question in the words of a declared convention."""
    for each in features():
        call = each.adapt(call, conventions)
    return call


def visible(arguments: Mapping[str, Any], grid: Grid, conventions: Conventions) -> Any:
    """Which keys each query may attend to, all features together; None where nothing is hidden."""
    found = None
    for each in features():
        value = each.value(arguments)
        if each.visible and value is not None:
            seen = each.visible(grid, value, conventions)
            found = seen if found is None else found & seen
    return found


def hiding(call: Call) -> tuple[str, ...]:
    """Which words of a call hide keys, in the order of the stages."""
    return tuple(word for each in features() for word in each.needs(call) if word in each.hides)
