"""Causal attention: no query attends to a key behind its own position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Whole, by_position, correct, in_places, unless
from attnsuite.contracts.attention.computation.gradients import Backward, ignoring
from attnsuite.contracts.attention.feature import Argument, Feature, Grid, Levels, Syntax
from attnsuite.contracts.attention.features.mask import Mask

if TYPE_CHECKING:
    from torch import Tensor


def visible(grid: Grid, value: bool, conventions: Conventions) -> Any:
    """The keys that each query of a grid may attend to: l s."""
    return grid.j <= grid.aligned(conventions.get("causal")).i


def causal_mask(queries: int, keys: int, arange: Callable[[int], Any], corner: str = "upper_left") -> Any:
    """True where a query sees a key, l s, as an array of numpy or torch, whichever `arange` makes."""
    return visible(Grid(arange(queries), arange(keys), queries, keys), True, {"causal": corner})


def _empties(case: Case, needed: frozenset[str], conventions: Conventions) -> frozenset[str]:
    """Aligned at the lower right, causal attention leaves rows empty if there are more queries than keys."""
    inner = getattr(case, "base", case)  # of a case that wraps another one
    tall = getattr(inner, "queries", 0) > getattr(inner, "keys", 0)
    return frozenset({"causal"} & needed if conventions.get("causal") == "lower_right" and tall else ())


# Cases


def cases() -> Sequence[Case]:
    """Query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s."""
    from attnsuite.contracts.attention.cases.case import AttentionCase

    case, single = partial(AttentionCase, causal=True), partial(AttentionCase, causal=True, batch=1, heads=1)
    return [
        *(case(f"causal/square_{n}", "j ≤ i, the own position included", length=n) for n in (1, 2, 5, 16, 33, 65)),
        case("causal/more_queries", "later queries see all keys", queries=9, keys=4),
        case("causal/more_keys", "keys beyond the last query are never seen", queries=4, keys=9),
        case("causal/one_query", "a lone query sees the first key only", queries=1, keys=6),
        case("causal/many_more_keys", "upper left across several tiles", queries=40, keys=150),
        case("causal/repeated_queries", "rows differ by what they see alone", length=12, draw="repeated_queries"),
        *(case(f"causal/with_{kind}_mask", "the mask and is_causal both hold", queries=queries, keys=8, mask=Mask(kind))
            for kind, queries in (("bool", 12), ("float", 5))),
        case("causal/with_padding", "each item has its length, under causal", batch=4, length=70,
            mask=Mask(axes="b11s", pattern="padding")),
        case("causal/grouped", "causal and grouped heads together", length=9, heads=4, key_heads=1),
        single("causal/rank_2", "causal without leading axes", length=6, rank=2),
        case("causal/rank_3", "causal with one leading axis", length=6, rank=3, batch=1, heads=3),
        case("scale/zero_causal", "scale 0: 0 · −inf must not arise", scale=0.0, queries=7),
        case("scale/negative_causal", "the maximum is taken after scaling", scale=-0.4, queries=7),
        case("numerics/huge_logits_causal", "logits of ±10⁴ behind a mask", draw="huge_logits", width=16, queries=7),
        *(single(f"both/causal_{n}", f"causal, {n} queries and keys", length=n, width=16)
            for n in (31, 64, 65, 127, 129, 257, 512)),
        single("both/causal_long", "a long causal square, its rows sampled", length=1025, width=8),
        single("both/causal_wide", "causal, far more keys than queries", queries=63, keys=2049),
        single("both/causal_tall", "causal, far more queries than keys", queries=2049, keys=63),
        case("both/causal_many_heads", "causal across tiles, several items and heads", length=257, width=8, heads=3),
        case("widths/value_under_causal", "value width under causal across tiles", width=16, value_width=40, length=130,
            heads=1),
        *_backward_and_behaviour(),
    ]  # fmt: skip


def _backward_and_behaviour() -> Sequence[Case]:
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.case import AttentionCase
    from attnsuite.contracts.attention.cases.dropout import KEPT, kept
    from attnsuite.contracts.attention.cases.one_call import affordable, backward
    from attnsuite.contracts.attention.cases.several_calls import SMALL, CallSequence, followed_by, modes, one_tensor

    case, tiles, small = partial(AttentionCase, causal=True), partial(backward, causal=True), SMALL.but(causal=True)
    gradients = partial(case, gradient_of=INPUTS)
    return [
        case("gradients/causal_with_mask", "the mask and is_causal both hold backwards", queries=7, mask=Mask("float"),
            gradient_of=(*INPUTS, "attn_mask")),
        gradients("gradients/causal", "hidden keys get no gradient", queries=7),
        gradients("gradients/causal_wide", "keys beyond the last query get exactly none", queries=4, keys=9),
        gradients("gradients/causal_tall", "more queries than keys", queries=9, keys=4),
        gradients("gradients/grouped_causal", "grouped and causal", heads=4, key_heads=2, length=9),
        *(tiles(f"gradient_sizes/causal_{n}", f"causal, {n} queries and keys", length=n, dtypes=affordable(n))
            for n in (16, 63, 65, 129)),
        tiles("gradient_sizes/causal_wide", "backward across tiles: causal wide", queries=70, keys=130),
        tiles("gradient_sizes/causal_tall", "backward across tiles: causal tall", queries=130, keys=70),
        tiles("gradient_sizes/causal_scaled", "backward across tiles: causal scaled", length=70, scale=0.4),
        case("dropout/zero_causal", "p = 0 is exact under causal", dropout_p=0.0, queries=7),
        case("dropout/one_causal", "p = 1 gives zeros under causal", dropout_p=1.0, queries=7),
        kept("dropout/kept_causal", "the same under causal", KEPT.but(causal=True)),
        kept("dropout/gradient_causal", "the same mask backwards under causal",
            KEPT.but(causal=True, gradient_of=INPUTS)),
        CallSequence("metamorphic/future_changed", "under causal no query sees the future",
            followed_by(case("", "", length=10), _future_changed)),
        CallSequence("behaviour/one_tensor_causal", "the same under causal", one_tensor(small)),
        CallSequence("behaviour/without_gradients_causal", "no_grad agrees with grad mode under causal", modes(small)),
    ]  # fmt: skip


def _future_changed(call: Call) -> Call:
    from attnsuite.contracts.attention.cases.several_calls import with_tensors

    changed = {name: call.tensors[name].clone() for name in ("key", "value")}
    for tensor in changed.values():
        tensor[..., tensor.shape[-2] // 2 :, :] *= -7
    return with_tensors(call, **changed)


# Mutants


def _visible(grid: Grid, call: AttentionCall) -> Tensor:
    return grid.j <= grid.i  # type: ignore[no-any-return]


def _by_shown_keys(grid: Grid, call: AttentionCall) -> Tensor:
    """Positions of keys are counted among those that a boolean mask shows."""
    mask = call["attn_mask"]
    shown = None if mask is None or mask.is_floating_point() else mask.expand(*mask.shape[:-1], grid.keys)
    return _visible(grid, call) if shown is None else shown.cumsum(-1) - 1 <= grid.i


def _before(grid: Grid, call: AttentionCall) -> Tensor:
    return grid.j < grid.i  # type: ignore[no-any-return]


def _after(grid: Grid, call: AttentionCall) -> Tensor:
    return grid.j > grid.i  # type: ignore[no-any-return]


def _plain(scores: Tensor, call: AttentionCall) -> Tensor:
    """The softmax as most write it, NaN where a query sees nothing, if only is_causal hides keys."""
    return scores.softmax(-1) if call["is_causal"] and call["attn_mask"] is None else Dense.softmax(scores, call)


_unless = unless(_visible)
GROUPS_OF_FOUR = "the causal mask is the same for each group of four queries: the future leaks"
VISIBLE = mutants(
    Dense,
    causal={
        "aligns_causal_at_the_end": Mutation(
            "the causal mask is aligned at the lower right: the last query sees the last key; if that is meant, "
            'declare conventions={"causal": "lower_right"}',
            lambda grid, call: visible(grid, True, {"causal": "lower_right"}),
            "flash-attention issue 282, pytorch issue 108108"),
        "allows_one_future_key": Mutation("a query sees one key of the future", lambda grid, call: grid.j <= grid.i + 1,
            "transformers issue 39408 (window off by one)"),
        "ignores_causal": Mutation("is_causal is ignored", _unless(lambda call: True)),
        "looks_ahead": Mutation("a query sees the future instead of the past: upper triangle for lower",
            lambda grid, call: grid.j >= grid.i),
        "masks_causal_by_four_queries": Mutation(GROUPS_OF_FOUR, lambda grid, call: grid.j <= grid.i // 4 * 4 + 3,
            "pytorch issue 195910"),
        "ignores_causal_beyond_64_queries": Mutation("the causal mask ends with the 64th query",
            lambda grid, call: _visible(grid, call) | (grid.i >= 64)),
        **in_places("ignores_causal", "is_causal is ignored", _unless, "with_mask", "with_fewer_queries",
            "with_more_queries", "for_one_query", "when_grouped", "with_dropout", "in_rank_2"),
        "counts_causal_among_shown_keys": Mutation(
            "the mask comes before causal: hidden keys are removed, and positions are counted among the others",
            _by_shown_keys, "padding removed before a kernel of packed sequences"),
        "slides_a_window_of_32": Mutation("only the last 32 keys are seen: a sliding window",
            lambda grid, call: _visible(grid, call) & (grid.j > grid.i - 32), "transformers issue 39408"),
    },
    fill={"zeroes_future_scores": Mutation("masked scores become 0 instead of −∞",
        lambda scores, seen: scores.masked_fill(~seen, 0.0), "textbook codes that multiply by a triangle")},
) + mutants(
    Whole,
    attention={
        "inverts_causal_mask": Mutation(
            "the causal mask is inverted: a query sees what comes after it, and nothing else",
            Dense(causal=_after), "LLMs-from-scratch issue 1062", others=(Dense(causal=_after, softmax=_plain),)),
        "excludes_the_diagonal": Mutation("a query does not see its own position", Dense(causal=_before),
            "documents: doc-002 E9", others=(Dense(causal=_before, softmax=_plain),)),
    },
)  # fmt: skip
BACKWARD = mutants(Backward, weights={"backward_ignores_causal": Mutation("the backward ignores is_causal",
    ignoring("is_causal", False))})  # fmt: skip


@Whole.instead("attention", "the future is hidden after the softmax, without renormalising")
def hides_future_after_softmax(call: AttentionCall) -> Any:
    if not call["is_causal"]:
        return correct(call)
    return Dense(
        causal=lambda grid, call: grid.j >= 0,
        softmax=lambda scores, call: Dense.softmax(scores, call) * visible(call.grid(), True, call.conventions),
    )(call)


LEVELS = Levels({"causal": {"not_causal": False, "causal": True}}, unsupported="causal")


def _in_torch(scores: str, value: bool | None, call: Call, conventions: Conventions) -> str:
    rows, columns = (call.tensors[name].shape[-2] for name in ("query", "key"))
    shift = Grid.make(rows, columns).aligned(conventions.get("causal")).shift
    triangle = f"torch.ones({rows}, {columns}).tril({shift or ''})"
    return f"({scores}).masked_fill({triangle} < 1, -torch.inf)" if value else scores


FEATURE = Feature(
    "causal", "visibility", LEVELS, Argument("is_causal", False, place=2),
    decisions={
        "is_causal": "query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s",
        "both of them":
            "is_causal and a mask both hold, whatever their order; raising NotImplementedError is unsupported",
    },
    vocabulary={"causal": "is_causal"},
    conventions={"causal": ("upper_left", "lower_right")},
    visible=visible,
    hides=("causal",),
    empties=_empties,
    hooks=by_position("causal", "is_causal", visible),
    cases=cases,
    aliases={"is_causal": "causal", "autoregressive": "causal", "lower_right": "causal"},
    in_torch=_in_torch,
    traits=lambda value, sizes: {"causal": ("is_causal",)},
    label=lambda value: "causal",
    syntax=Syntax("", bool),
    flash_share=0.5,
)  # fmt: skip
