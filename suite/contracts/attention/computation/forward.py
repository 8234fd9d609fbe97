"""The forward pass in steps that a mutant may replace: the dense formula, and tiles with an online softmax.

`Dense` writes the formula down, `Tiled` streams over tiles of keys, `Whole` is the attention as one step; `Backward`
in gradients.py has gradients of its own. All walk the stages of the features. A mutant is one of
them with one step replaced, either a step of its own or one that a feature names:

    MUTANTS = mutants(
        Dense,
        factor={"unscaled": Mutation("the scores are not divided by √d", lambda call: 1.0)},
    )

    @Dense.instead("softmax", "the largest score is not subtracted")
    def does_not_subtract_largest(scores: Tensor, call: AttentionCall) -> Tensor: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases import Conventions, Mutant
from attnsuite.cases.mutants import Mutation, StepChange, Stepwise, formula
from attnsuite.contracts.attention.computation.call import AttentionCall, Function, as_attention, check
from attnsuite.contracts.attention.feature import Grid, Hooks, Visible, features
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = "attention"
"""The step of `Whole` that is the whole computation."""


@cache
def all_hooks() -> tuple[Hooks, ...]:
    """The hooks of the features, in order."""
    return tuple(feature.hooks for feature in features())


@cache
def named_steps() -> Mapping[str, Function]:
    """The features' own steps that may be replaced, by name."""
    return {name: step for hooks in all_hooks() for name, step in hooks.steps.items()}


class Computation(Stepwise):
    """Attention in steps. `Dense(softmax=other)` has one step replaced: its own, or one that a feature names."""

    own_gradient = False
    """Whether its mutants have a right forward pass and a wrong gradient."""

    def __init__(self, **replaced: Function) -> None:
        self.replaced = replaced

    def __getattribute__(self, name: str) -> Any:
        replaced = object.__getattribute__(self, "__dict__").get("replaced", {})
        return replaced[name] if name in replaced else object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in named_steps():
            raise AttributeError(f"{type(self).__name__} has no step {name}")
        return named_steps()[name]

    def __call__(self, call: AttentionCall) -> Any:
        raise NotImplementedError

    def spread(self, key: Tensor, value: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
        """The keys and values that each query head reads."""
        for hooks in all_hooks():
            if hooks.source:
                key, value = hooks.source(self, key, value, call)
        return key, value

    def score(self, products: Tensor, call: AttentionCall, grid: Grid) -> Tensor:
        """The scores of the queries and keys of a grid, −∞ where a query may not attend."""
        for hook in (*(hooks.score for hooks in all_hooks()), *(hooks.hide for hooks in all_hooks())):
            if hook:
                products = hook(self, products, call, grid)
        return products

    def result(self, output: Any, scores: Tensor, call: AttentionCall) -> Any:
        """The result of a call, from its output and the scores that its softmax is taken of."""
        for hooks in all_hooks():
            if hooks.result:
                output = hooks.result(self, output, scores, call)
        return output

    fill = formula(lambda scores, seen: scores.masked_fill(~seen, -math.inf))  # hidden by position

    @classmethod
    def instead(
        cls, step: str, says: str, *, source: str = "", dtypes: Sequence[str] = ("float32",)
    ) -> Callable[[Function], Mutant]:
        """Turn a replacement of `step` into the mutant that has the replacement's name."""
        return lambda function: Mutant(function.__name__, says, cls.wrong(step, function), tuple(dtypes), source)

    @classmethod
    def wrong(cls, step: str, replacement: Function | StepChange) -> Function:
        """The computation with a step replaced or changed, made at its first call, when all features are loaded."""
        return MutatedComputation(cls, {step: replacement})


@dataclass(frozen=True, eq=False)
class MutatedComputation:
    """A computation with steps replaced, called with the contract's signature."""

    kind: type[Computation]
    replacements: Mapping[str, Function | StepChange]
    wrappers: tuple[StepChange, ...] = ()
    """Changes of the computation as a whole."""
    conventions: Conventions = field(default_factory=dict)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.function(*inputs, **options)

    @cached_property
    def function(self) -> Function:
        attention: Any = self.kind(**{step: self._step(step, how) for step, how in self.replacements.items()})
        for change in self.wrappers:
            attention = change.applied_to(attention)
        return as_attention(attention, conventions=self.conventions)

    def _step(self, step: str, replacement: Function | StepChange) -> Function:
        own = getattr(self.kind(), step)
        assert callable(own), step
        return replacement.applied_to(own) if isinstance(replacement, StepChange) else replacement

    def joined(self, other: Any) -> MutatedComputation | None:
        """The computation with the mistakes of both; None if both replace one step.

        A step of a feature is the same in every computation, so it joins steps of another.
        """
        if not isinstance(other, MutatedComputation) or (self.replacements.keys() & other.replacements.keys()):
            return None
        if self.whole or other.whole:
            return other.within(self) if self.whole else self.within(other)
        own_gradient = self.kind.own_gradient or other.kind.own_gradient
        if self.kind is not other.kind and (own_gradient or not self.of_features):
            return other.joined(self) if other.of_features and not self.of_features else None
        replacements = {**self.replacements, **other.replacements}
        return replace(other, replacements=replacements, wrappers=self.wrappers + other.wrappers)

    def is_used(self, run: Callable[[Function], object]) -> bool:
        """Whether calls use a step with a mistake; else their results are right. `run` makes them with a function."""
        used = _used_steps(self.kind, run)  # type: ignore[arg-type]  # mypy takes its __getattribute__ for the class's
        return bool(self.wrappers) or not used.isdisjoint(self.replacements)

    def within(self, whole: MutatedComputation) -> MutatedComputation | None:
        """This computation with a change of the whole around it."""
        changes = [change for change in whole.replacements.values() if isinstance(change, StepChange)]
        return None if self.whole or not changes else replace(self, wrappers=(*self.wrappers, *changes))

    def under(self, conventions: Conventions) -> MutatedComputation:
        """The same mistakes with these declared conventions of positions."""
        return replace(self, conventions=conventions)

    @property
    def whole(self) -> bool:
        """Whether its mistake changes the attention as a whole."""
        return WHOLE in self.replacements

    @property
    def of_features(self) -> bool:
        """Whether all its mistakes are in steps that features name, in the forward pass."""
        return self.replacements.keys() <= named_steps().keys()


@lru_cache(maxsize=16)
def _used_steps(kind: type[Computation], run: Callable[[Function], object]) -> frozenset[str]:
    """The steps of a computation that some calls use."""
    used: set[str] = set()

    class Recorded(kind):  # type: ignore[misc, valid-type]
        def __getattribute__(self, name: str) -> Any:
            used.add(name)
            return super().__getattribute__(name)

    run(as_attention(Recorded()))
    return frozenset(used)


Condition = Callable[[AttentionCall], Any]


def _beyond(size: str, count: int) -> Condition:
    return lambda call: getattr(call, size) > count


PLACES: Mapping[str, tuple[str, Condition]] = {
    "when_causal": ("under causal", lambda call: call["is_causal"]),
    "in_window": ("in a window", lambda call: call["window"] is not None),
    "with_mask": ("with a mask", lambda call: call["attn_mask"] is not None),
    "with_scale": ("with a given scale", lambda call: call["scale"] is not None),
    "with_dropout": ("with dropout", lambda call: call["dropout_p"] > 0),
    "when_grouped": ("with grouped heads", lambda call: call.grouped),
    "in_groups": ("with enable_gqa", lambda call: call["enable_gqa"]),
    "for_one_query": ("for a single query", lambda call: call.queries == 1),
    "with_fewer_queries": ("with fewer queries than keys", lambda call: call.queries < call.keys),
    "with_more_queries": ("with more queries than keys", lambda call: call.queries > call.keys),
    "in_rank_2": ("in rank 2", lambda call: call.rank == 2),
    "in_rank_3": ("in rank 3", lambda call: call.rank == 3),
    "without_grad_mode": ("without grad mode", lambda call: not torch.is_grad_enabled()),
    "without_gradient": ("if no gradient is wanted", lambda call: not call.wants_gradient),
    "at_whole_tiles": ("where queries and keys are multiples of 64",
        lambda call: bool(call.queries and call.keys) and call.queries % 64 == 0 == call.keys % 64),
    **{f"beyond_{n}_keys": (f"beyond {n} keys", _beyond("keys", n)) for n in (4096, 8192, 32768)},
    **{f"beyond_{n}_queries": (f"beyond {n} queries", _beyond("queries", n)) for n in (4096, 32768)},
    "beyond_64_heads": ("with more than 64 heads", lambda call: call.heads > 64),
    "beyond_32_items": ("with more than 32 items", lambda call: call.rank == 4 and call.query.shape[0] > 32),
    "beyond_the_grid": ("with more than 65,535 matrices", lambda call: call.query.shape[:-2].numel() > 65535),
    **{f"on_{n}_threads": (f"on {n} threads", partial(lambda n, call: torch.get_num_threads() == n, n))
        for n in (4, 6, 8)},
    **{
        f"in_groups_of_{n}{name}": (f"with {n} query heads to a key head{words}",
            partial(lambda n, keys, call: call.heads == n * call.key_heads and call.keys > keys, n, keys))
        for n in (3, 5, 6, 7, 12, 16)
        for name, words, keys in (("", "", 0), ("_over_16_keys", " and more than 16 keys", 16))
    },
    "of_numpy": ("if it is a number of numpy", lambda call: type(call["scale"]).__module__ == "numpy"),
    "that_is_a_parameter": ("if it is a parameter", lambda call: isinstance(call["attn_mask"], torch.nn.Parameter)),
    "without_keys": ("without keys", lambda call: not call.keys),
    "without_queries": ("without queries", lambda call: not call.queries),
    "without_items": ("without items", lambda call: 0 in call.query.shape[:-2]),
}  # fmt: skip
"""The calls for which implementations have paths of their own, each in words."""


def _place(name: str) -> tuple[str, Condition]:
    """A place in words, and whether a call is there; `when_causal_and_without_keys` is where both are."""
    parts = [PLACES[part] for part in name.split("_and_")]
    return " and ".join(words for words, _ in parts), lambda call: all(here(call) for _, here in parts)


def in_places(
    name: str, says: str, mistake: Callable[[Condition], Function | StepChange], *places: str
) -> dict[str, Mutation]:
    """One mistake in several places; each place completes the name and the sentence."""
    sources = dict.fromkeys(("without_keys", "without_queries"), "flash-attention issue 2470")
    found = {place: _place(place) for place in places}
    return {f"{name}_{place}": Mutation(f"{says} {words}", mistake(here), sources.get(place, ""), family=name)
        for place, (words, here) in found.items()}  # fmt: skip


def unless(seen: Callable[[Grid, AttentionCall], Any]) -> Callable[[Condition], Function]:
    """A mistake that ignores a rule of visibility: `unless(seen)(ignored)` shows everything where `ignored(call)`."""
    return lambda ignored: lambda grid, call: seen(grid, call) | bool(ignored(call))


def by_position(name: str, argument: str, visible: Visible) -> Hooks:
    """The hooks of a feature that hides keys by position. Its step `name` returns the visible keys of (grid, call).

    The positions of the grid are aligned by the convention of that name.
    """

    def hide(computation: Computation, scores: Tensor, call: AttentionCall, grid: Grid) -> Tensor:
        value = call[argument]
        if value is None or value is False:
            return scores
        return computation.fill(scores, getattr(computation, name)(grid.aligned(call.conventions.get(name)), call))

    return Hooks(hide=hide, steps={name: lambda grid, call: visible(grid, call[argument], call.conventions)})


class Dense(Computation):
    """Attention as it is written down. Scores are ... h l s."""

    def __call__(self, call: AttentionCall) -> Any:
        call = self.receive(call)
        self.check(call)
        query, key, value = self.widen(call)
        key, value = self.spread(key, value, call)
        scores = self.with_sinks(self.score(self.products(query, key), call, call.grid()), call)
        weights = self.softmax(scores, call)[..., : call.keys]
        for hooks in all_hooks():
            if hooks.weigh:
                weights = hooks.weigh(self, weights, call)
        return self.result(self.finish(self.combine(weights, value, call), call), scores, call)

    def with_sinks(self, scores: Tensor, call: AttentionCall) -> Tensor:
        """The scores that the softmax is taken of: those of the keys, and of sinks, which have no value."""
        return torch.cat([scores, *sinks(self, scores, call)], dim=-1)

    receive = staticmethod(lambda call: call)

    @staticmethod
    def check(call: AttentionCall) -> None:
        check(call)

    @staticmethod
    def widen(call: AttentionCall) -> tuple[Tensor, Tensor, Tensor]:
        wide = call.accumulator
        return call.query.to(wide), call.key.to(wide), call.value.to(wide)

    products = formula(lambda query, key: query @ key.transpose(-1, -2))  # ... h l s
    softmax = formula(lambda scores, call: normalised((scores - largest_of(scores)).exp()))
    combine = formula(lambda weights, value, call: weights @ value)  # ... h l v
    finish = staticmethod(lambda output, call: output.to(call.query.dtype))


def sinks(computation: Computation, rows: Tensor, call: AttentionCall) -> list[Tensor]:
    """The scores of all sinks in each of some rows: ... h l 1."""
    columns = (hooks.sink(computation, rows, call) for hooks in all_hooks() if hooks.sink)
    return [column for column in columns if column is not None]


def largest_of(scores: Tensor) -> Tensor:
    """The largest score of each row, without gradient; 0 where no key is visible: ... l 1."""
    if scores.shape[-1] == 0:
        return scores.new_zeros(*scores.shape[:-1], 1)
    largest = scores.detach().amax(-1, keepdim=True)
    return largest.masked_fill(largest == -math.inf, 0.0)


def normalised(exponentials: Tensor) -> Tensor:
    """Rows that sum to 1; an empty row is 0 / 1."""
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / total.masked_fill(total == 0, 1.0)


correct = Dense()


class Whole(Computation):
    """Attention as one step, for mistakes around the formula. The step returns the output alone."""

    def __call__(self, call: AttentionCall) -> Any:
        check(call)
        if not call["return_lse"]:
            return self.attention(call)
        return self.attention(call.but(return_lse=False)), correct(call)[1]

    attention = staticmethod(correct)


Inputs = tuple["Tensor", "Tensor", "Tensor"]
Bounds = tuple[int, int]


class Partial(NamedTuple):
    """The state of a stream over keys."""

    output: Tensor  # ... l v, not normalised
    total: Tensor  # ... l 1
    largest: Tensor  # ... l 1


class Tile(NamedTuple):
    """Scores of some queries with some keys, and those keys' values."""

    scores: Tensor  # ... l s
    value: Tensor  # ... s v
    keep: Tensor | float  # ... l s, the factors of the weights


class Tiled(Computation):
    """Attention as kernels stream it."""

    query_tile = 128
    key_tile = 32

    def __call__(self, call: AttentionCall) -> Any:
        check(call)
        query, key, value = Dense.widen(call)
        key, value = self.spread(key, value, call)
        keep = multiplier(query.new_empty(call.scores_shape), call)
        rows, logarithms = [], []
        for bounds in self.query_bounds(call.queries, self.query_tile):
            parts = [self.stream(call, (query, key, value), keep, bounds, part) for part in self.parts(call.keys)]
            whole = self.merge(self.join_sinks(parts, query[..., slice(*bounds), :], call))
            rows.append(self.normalise(whole))
            logarithms.append(self.logarithm(whole))
        return self.result(torch.cat(rows, dim=-2).to(call.query.dtype), torch.cat(logarithms, dim=-2), call)

    def stream(self, call: AttentionCall, inputs: Inputs, keep: Tensor | float, rows: Bounds, keys: Bounds) -> Partial:
        """A tile of queries over some of the keys, one tile after another."""
        (query, key, value), (first, last) = inputs, rows
        part = self.begin(query[..., first:last, :], call.value_width)
        for start, stop in self.key_bounds(*keys, self.key_tile):
            products = Dense.products(query[..., first:last, :], key[..., start:stop, :])
            scores = self.score(products, call, call.grid(rows, (start, stop)))
            factors = keep if isinstance(keep, float) else keep[..., first:last, start:stop]
            part = self.step(part, Tile(scores, value[..., start:stop, :], factors))
        return part

    def join_sinks(self, parts: list[Partial], rows: Tensor, call: AttentionCall) -> list[Partial]:
        """The parts of the keys, and those of sinks, whose outputs are 0."""
        zeros = torch.zeros_like(parts[0].output)
        alone = [Partial(zeros, (column > -math.inf).to(zeros), column) for column in sinks(self, rows, call)]
        return [*parts, *alone]

    def step(self, before: Partial, tile: Tile) -> Partial:
        largest = self.running_largest(before.largest, tile.scores)
        return self.accumulate(self.rescale(before, largest), tile)

    parts = staticmethod(lambda count: ((0, count // 2), (count // 2, count)))
    query_bounds = staticmethod(lambda count, tile: tiles(0, count, tile))
    key_bounds = staticmethod(lambda start, stop, tile: tiles(start, stop, tile))

    @staticmethod
    def begin(query: Tensor, value_width: int) -> Partial:
        zeros = query.new_zeros(*query.shape[:-1], 1)
        return Partial(zeros.repeat(*[1] * (zeros.dim() - 1), value_width), zeros, torch.full_like(zeros, -math.inf))

    @staticmethod
    def running_largest(before: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(before, scores.detach().amax(-1, keepdim=True)) if scores.shape[-1] else before

    @staticmethod
    def rescale(before: Partial, largest: Tensor) -> Partial:
        shrink = shift(before.largest, largest).exp()
        return Partial(before.output * shrink, before.total * shrink, largest)

    @staticmethod
    def accumulate(before: Partial, tile: Tile) -> Partial:
        exponentials = shift(tile.scores, before.largest).exp()
        output = before.output + (exponentials * tile.keep) @ tile.value
        return Partial(output, before.total + exponentials.sum(-1, keepdim=True), before.largest)

    @staticmethod
    def merge(parts: list[Partial]) -> Partial:
        largest = torch.stack([part.largest for part in parts]).detach().amax(0)
        shrinks = [shift(part.largest, largest).exp() for part in parts]
        output = torch.stack([part.output * shrink for part, shrink in zip(parts, shrinks, strict=True)]).sum(0)
        total = torch.stack([part.total * shrink for part, shrink in zip(parts, shrinks, strict=True)]).sum(0)
        return Partial(output, total, largest)

    # of the sum of the exponentials: ... l 1
    logarithm = formula(
        lambda part: (part.largest + part.total.masked_fill(part.total == 0, 1.0).log()).masked_fill(
            part.total == 0, -math.inf
        )
    )
    normalise = formula(lambda part: part.output / part.total.masked_fill(part.total == 0, 1.0))


def multiplier(weights: Tensor, call: AttentionCall) -> Tensor | float:
    """The product of the features' factors of the weights; 1 without any."""
    keep: Tensor | float = 1.0
    for hooks in all_hooks():
        factor = hooks.multiplier(weights, call) if hooks.multiplier else None
        keep = keep if factor is None else keep * factor
    return keep


def tiles(start: int, stop: int, tile: int) -> list[tuple[int, int]]:
    """The bounds of tiles; an empty range is one empty tile, so that the output still depends on its inputs."""
    return [(first, min(first + tile, stop)) for first in range(start, stop, tile)] or [(start, start)]


def shift(scores: Tensor, largest: Tensor) -> Tensor:
    """Scores minus the largest, where −inf minus −inf is −inf."""
    return scores - largest.masked_fill(largest == -math.inf, 0.0)
