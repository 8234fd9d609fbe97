"""A feature of attention, and the five stages in which features take part.

    source       the keys and values that a query head reads
    score        changes of the products of query and key: scaled, biased
    visibility   the keys that a query may attend to
    weights      changes of the softmax: empty rows, dropout
    output       the returned output

Every file in `features/` declares one `FEATURE`. Signature, vocabulary, oracle, mutants, variants and workloads are
assembled from these declarations.
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
    """An optional argument of the function, and its place among the options of torch's scaled_dot_product_attention."""

    name: str
    default: Any
    place: int | None = None
    """None where torch's function has no such option."""


@dataclass(frozen=True)
class Grid:
    """The positions of some queries and keys, as index arrays of numpy or torch, and the numbers of all of them."""

    rows: Any  # l
    columns: Any  # s
    queries: int
    keys: int
    shift: int = 0
    """The difference between the position of a query and its index."""

    @property
    def i(self) -> Any:
        """The positions of the queries: l 1."""
        return self.rows[:, None] + self.shift if self.shift else self.rows[:, None]

    @property
    def j(self) -> Any:
        """The positions of the keys: s."""
        return self.columns

    @property
    def whole(self) -> bool:
        """Whether the grid has all queries and keys."""
        return len(self.rows) == self.queries and len(self.columns) == self.keys

    def aligned(self, corner: str | None) -> Grid:
        """The same grid with query positions that count from the first key, or at `lower_right` from the last."""
        return replace(self, shift=self.keys - self.queries if corner == "lower_right" else 0)

    @staticmethod
    def make(queries: int, keys: int, rows: Any = None) -> Grid:
        """The grid of all keys, and of all queries or these rows, in numpy."""
        return Grid(np.arange(queries) if rows is None else np.asarray(rows), np.arange(keys), queries, keys)


Visible = Callable[[Grid, Any, Conventions], Any]
"""Returns the keys that each query of a grid may attend to, given the argument: broadcastable to … l s."""


class Step(NamedTuple):
    """A feature's step at one stage of the oracle, and the step of its gradients on the way back."""

    forward: Callable[[ForwardPass], None]
    backward: Callable[[ForwardPass, BackwardPass], None] | None = None


@dataclass(frozen=True)
class DrawContext:
    """Random numbers, the sizes of the call and its dtype, from which a feature draws its arguments."""

    random: Any
    sizes: Any
    dtype: torch.dtype


@dataclass(frozen=True)
class Hooks:
    """A feature's part in the computations that mutants are made of. Each hook takes the computation first.

    `steps` are the steps of the hooks that a mutant may replace, by name.
    """

    steps: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    source: Callable[..., Any] | None = None
    """(computation, key, value, call) → key, value"""
    source_gradient: Callable[..., Any] | None = None
    """(computation, gradient of key or value, saved) → the same before the source stage"""
    score: Callable[..., Any] | None = None
    """(computation, scores, call, grid) → scores"""
    score_gradient: Callable[..., Any] | None = None
    """(computation, gradient of the scores, saved, gradients) → the same before this step"""
    hide: Callable[..., Any] | None = None
    """(computation, scores, call, grid) → scores, −∞ where a query may not attend"""
    sink: Callable[..., Any] | None = None
    """(computation, rows … h l x, call) → the scores of a sink in these rows, … h l 1, or None"""
    sink_gradient: Callable[..., Any] | None = None
    """(computation, mean of the weights' gradient … h l 1, saved, gradients): adds the gradient of a sink"""
    weigh: Callable[..., Any] | None = None
    """(computation, weights, call) → weights"""
    multiplier: Callable[..., Any] | None = None
    """(weights' shape and dtype, call) → the factor of the weights, or None"""
    result: Callable[..., Any] | None = None
    """(computation, output, scores of the softmax, call) → what is returned"""
    mean: Callable[..., Any] | None = None
    """(computation, mean of the weights' gradient, the second result's gradient, saved) → the mean, changed by that"""


@dataclass(frozen=True)
class Syntax:
    """How a user writes a feature's value in `--shape`: `window=64:0`, or its name alone."""

    expects: str
    """The text that may follow the name, in words; empty where the name stands alone."""
    parse: Callable[[str], Any]
    """The value of a text. ValueError if it is malformed."""
    format: Callable[[Any], str] = str
    """The text of a value, the same for equal values."""


def number_within(low: float, high: float) -> Callable[[str], float]:
    """A parser of finite numbers from `low` to `high`."""

    def parse(text: str) -> float:
        number = float(text)
        if not (math.isfinite(number) and low <= number <= high):
            raise ValueError(text)
        return number

    return parse


@dataclass(frozen=True)
class Levels:
    """Factors of the combined cases, each with its levels and their values; the usual level comes first."""

    factors: Mapping[str, Mapping[str, Any]]
    arguments: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """The arguments of a case, from the values of a row's levels by factor; by default those of its own factors."""
    contradictions: tuple[Contradiction, ...] = ()
    unsupported: str = ""
    """The array's word for what some implementations do not support; empty for what all support."""


@dataclass(frozen=True)
class Feature:
    """One feature. A field keeps its default where the feature has nothing of the kind."""

    name: str
    stage: str
    levels: Levels
    """The levels that combined cases use."""
    argument: Argument | None = None
    place: int = 0
    """The order within its stage."""
    case_key: str = ""
    """The name of its value in cases and workloads, where that is not the feature's name."""
    decisions: Mapping[str, str] = field(default_factory=dict)
    """Its rows in the contract's table of decisions."""
    vocabulary: Mapping[str, str] = field(default_factory=dict)
    """The features of the contract that a case may need of it, each in words."""
    read_needs: Callable[[Call], Iterable[str]] | None = None
    """Returns the words of `vocabulary` that a call needs; by default its name where its argument is passed."""
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The points on which honest libraries differ; the first choice is the contract's own."""
    adapt: Callable[[Call, Conventions], Call] = lambda call, conventions: call
    """The same call under declared conventions."""
    undefined_reason: Callable[[Case, frozenset[str], Conventions], str] = lambda case, needed, conventions: ""
    """Why a test has no defined result under these conventions, or empty."""
    draw: Callable[[Any, DrawContext], Mapping[str, Any]] | None = None
    """Draws the arguments for a case's value; by default that value is the argument."""
    visible: Visible | None = None
    hides: tuple[str, ...] = ()
    """The words of its vocabulary that may leave a query without any key."""
    empties: Callable[[Case, frozenset[str], Conventions], frozenset[str]] | None = None
    """Returns the words of `hides` that leave rows empty in a test; by default those that it needs with `empty_row`."""
    added: Callable[[Grid, Any], Any] | None = None
    """Returns the numbers that are added to the scores of a grid, given the argument; None without any."""
    oracle: Mapping[str, Step] = field(default_factory=dict)
    """By stage."""
    hooks: Hooks = field(default_factory=Hooks)
    seeded: bool = False
    """Whether a call with it draws random numbers and so needs a seed."""
    complaint: Callable[[AttentionCall], str] = lambda call: ""
    """The error in its argument, or empty."""
    cases: Callable[[], Sequence[Case]] = tuple
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names that users write, in small letters, each with the family of cases that is meant."""
    in_torch: Callable[[str, Any, Call, Conventions], str | None] | None = None
    """Changes an expression of plain torch at its stage (of keys and values, scores or weights), given its argument or
    None and the declared conventions; None where torch cannot say it."""
    traits: Callable[[Any, Any], Traits] | None = None
    """The unusual properties of its value in a case of some sizes, in words by factor; by default its name."""
    label: Callable[[Any], str] = lambda value: ""
    """Its value in a workload, in words for tables."""
    syntax: Syntax | None = None
    """None where a shape cannot have it, or says it by its sizes."""
    flash_share: float = 1.0
    """The share of the pairs of queries and keys that FlashAttention's convention counts with the feature on."""

    @property
    def key(self) -> str:
        """The name of its value in cases and workloads."""
        return self.case_key or self.name

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """The value of its argument; None where it is off or missing."""
        value = arguments.get(self.argument.name) if self.argument else None
        return None if value is False else value

    def needs(self, call: Call) -> Iterable[str]:
        """The words of its vocabulary that a call needs."""
        if self.read_needs:
            return self.read_needs(call)
        return (self.name,) if self.argument and self.argument.name in call.arguments else ()


@cache
def features() -> tuple[Feature, ...]:
    """All features, in the order in which they are computed."""
    names = {path.stem for path in (Path(__file__).parent / "features").iterdir() if path.name[0] not in "_."}
    declared: list[Feature] = [import_module(f"{__package__}.features.{name}").FEATURE for name in sorted(names)]
    return tuple(sorted(declared, key=lambda feature: (STAGES.index(feature.stage), feature.place, feature.name)))


def arguments() -> tuple[Argument, ...]:
    """All options, those of torch's scaled_dot_product_attention first and in its order."""
    options = [feature.argument for feature in features() if feature.argument]
    return tuple(sorted(options, key=lambda option: len(options) if option.place is None else option.place))


def draw_arguments(values: Mapping[str, Any], context: DrawContext) -> dict[str, Any]:
    """The arguments for the values of a case or a workload. TypeError for a value that belongs to no feature."""
    if unknown := set(values) - {feature.key for feature in features()}:
        raise TypeError(f"no feature takes {' or '.join(sorted(unknown))}")
    drawn: dict[str, Any] = {}
    for feature in features():
        value = values.get(feature.key)
        if value is None or value is False:
            continue
        if feature.draw:
            drawn |= feature.draw(value, context)
        elif feature.argument:
            drawn[feature.argument.name] = value
    return drawn


def adapted(call: Call, conventions: Conventions) -> Call:
    """The same call under declared conventions."""
    for feature in features():
        call = feature.adapt(call, conventions)
    return call


def visible(arguments: Mapping[str, Any], grid: Grid, conventions: Conventions) -> Any:
    """The keys that each query may attend to, all features together; None where nothing is hidden."""
    seen = None
    for feature in features():
        value = feature.value(arguments)
        if feature.visible and value is not None:
            allowed = feature.visible(grid, value, conventions)
            seen = allowed if seen is None else seen & allowed
    return seen
