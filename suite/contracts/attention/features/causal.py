"""Causal attention: no query attends to a key behind its own position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.covering import Contradiction
from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Whole, by_position, correct, unless
from attnsuite.contracts.attention.computation.gradients import Backward, ignoring
from attnsuite.contracts.attention.feature import Argument, Feature, Grid, Levels, Syntax
from attnsuite.contracts.attention.features import scale

if TYPE_CHECKING:
    from torch import Tensor


def visible(grid: Grid, value: bool, conventions: Conventions) -> Any:
    return grid.j <= grid.aligned(conventions.get("causal")).i


def _empties(case: Case, needed: frozenset[str], conventions: Conventions) -> frozenset[str]:
    """Aligned at the lower right, causal attention leaves rows empty where there are more queries than keys."""
    of = getattr(case, "of", case)  # what a case around another one asks
    tall = getattr(of, "queries", 0) > getattr(of, "keys", 0)
    return frozenset({"causal"} & needed if conventions.get("causal") == "lower_right" and tall else ())


# Cases


def cases() -> Sequence[Case]:
    """Query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s."""
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.case import AttentionCase
    from attnsuite.contracts.attention.cases.dropout import KEPT, kept
    from attnsuite.contracts.attention.cases.one_call import affordable, backward
    from attnsuite.contracts.attention.cases.relations import Relation
    from attnsuite.contracts.attention.cases.several_calls import SMALL, CallSequence, modes, one_tensor

    met: dict[str, dict[str, Any]] = {
        "wide": {"queries": 70, "keys": 130},
        "tall": {"queries": 130, "keys": 70},
        "scaled": {"queries": 70, "keys": 70, "scale": 0.4},
    }
    return [
        *(AttentionCase(f"causal/square_{n}", "j ≤ i, the own position included", causal=True, queries=n, keys=n) for n in (1, 2, 5, 16, 33, 65)),
        AttentionCase("causal/more_queries", "later queries see all keys", causal=True, queries=9, keys=4),
        AttentionCase("causal/more_keys", "keys beyond the last query are never seen", causal=True, queries=4, keys=9),
        AttentionCase("causal/one_query", "a lone query sees the first key only", causal=True, queries=1, keys=6),
        AttentionCase("causal/many_more_keys", "upper left across several tiles", causal=True, queries=40, keys=150),
        AttentionCase("causal/repeated_queries", "rows differ by what they see alone", causal=True, queries=12, keys=12, draw="repeated_queries"),
        AttentionCase("causal/grouped", "causal and grouped heads together", causal=True, queries=9, keys=9, heads=4, key_heads=1),
        AttentionCase("causal/rank_2", "causal without leading axes", causal=True, queries=6, keys=6, rank=2, batch=1, heads=1),
        AttentionCase("causal/rank_3", "causal with one leading axis", causal=True, queries=6, keys=6, rank=3, batch=1, heads=3),
        AttentionCase("scale/zero_causal", "scale 0: 0 · −inf must not arise", scale=0.0, causal=True, queries=7),
        AttentionCase("scale/negative_causal", "the maximum is taken after scaling", scale=-0.4, causal=True, queries=7),
        AttentionCase("numerics/huge_logits_causal", "logits of ±10⁴ behind a mask", draw="huge_logits", width=16, queries=7, causal=True),
        *(AttentionCase(f"both/causal_{n}", f"causal, {n} queries and keys", batch=1, heads=1, queries=n, keys=n, width=16, causal=True) for n in (31, 64, 65, 127, 129, 257, 512)),
        AttentionCase("both/causal_long", "a long causal square, its rows sampled", batch=1, heads=1, queries=1025, keys=1025, width=8, causal=True),
        AttentionCase("both/causal_wide", "causal, far more keys than queries", batch=1, heads=1, queries=63, keys=2049, causal=True),
        AttentionCase("both/causal_tall", "causal, far more queries than keys", batch=1, heads=1, queries=2049, keys=63, causal=True),
        AttentionCase("both/causal_many_heads", "causal across tiles, several items and heads", batch=2, heads=3, queries=257, keys=257, width=8, causal=True),
        AttentionCase("widths/value_under_causal", "value width under causal across tiles", width=16, value_width=40, queries=130, keys=130, heads=1, causal=True),
        AttentionCase("gradients/causal", "hidden keys get no gradient", gradient_of=INPUTS, causal=True, queries=7),
        AttentionCase("gradients/causal_wide", "keys beyond the last query get exactly none", gradient_of=INPUTS, causal=True, queries=4, keys=9),
        AttentionCase("gradients/causal_tall", "more queries than keys", gradient_of=INPUTS, causal=True, queries=9, keys=4),
        AttentionCase("gradients/grouped_causal", "grouped and causal", gradient_of=INPUTS, heads=4, key_heads=2, causal=True, queries=9, keys=9),
        *(backward(f"gradient_sizes/causal_{n}", f"causal, {n} queries and keys", queries=n, keys=n, causal=True, dtypes=affordable(n)) for n in (16, 63, 65, 129)),
        *(backward(f"gradient_sizes/causal_{name}", f"backward across tiles: causal {name}", causal=True, **unusual) for name, unusual in met.items()),
        AttentionCase("dropout/zero_causal", "p = 0 is exact under causal", dropout_p=0.0, causal=True, queries=7),
        AttentionCase("dropout/one_causal", "p = 1 gives zeros under causal", dropout_p=1.0, causal=True, queries=7),
        kept("dropout/kept_causal", "the same under causal", KEPT.but(causal=True)),
        kept("dropout/gradient_causal", "the same mask backwards under causal", KEPT.but(causal=True, gradient_of=INPUTS)),
        Relation("metamorphic/future_changed", "under causal no query sees the future", _future_changed, AttentionCase("metamorphic/square", "", queries=10, keys=10, causal=True)),
        CallSequence("behaviour/one_tensor_causal", "the same under causal", one_tensor(SMALL.but(causal=True))),
        CallSequence("behaviour/without_gradients_causal", "no_grad agrees with grad mode under causal", modes(SMALL.but(causal=True))),
    ]  # fmt: skip


def _future_changed(call: Any, random: Any) -> Any:
    from attnsuite.contracts.attention.cases.relations import same, with_tensors

    seen = call.tensors["query"].shape[-2] // 2
    changed = {name: call.tensors[name].clone() for name in ("key", "value")}
    for tensor in changed.values():
        tensor[..., seen:, :] = -7 * tensor[..., seen:, :] - 5
    first = lambda output: output[..., :seen, :]  # noqa: E731
    return (call, with_tensors(call, **changed)), same(first, first)


# Mistakes


def _due(grid: Grid, call: AttentionCall) -> Tensor:
    return grid.j <= grid.i  # type: ignore[no-any-return]


_unless = unless(_due)


VISIBLE = mutants(
    Dense,
    causal={
        "aligns_causal_at_the_end": Mutation(
            "the causal mask is aligned at the lower right: the last query sees the last key; if that is meant, declare "
            'conventions={"causal": "lower_right"}',
            lambda grid, call: visible(grid, True, {"causal": "lower_right"}),
            "flash-attention issue 282, pytorch issue 108108"
        ),
        "excludes_the_diagonal": Mutation("a query does not see its own position", lambda grid, call: grid.j < grid.i, "documents: doc-002 E9"),
        "allows_one_future_key": Mutation("a query sees one key of the future", lambda grid, call: grid.j <= grid.i + 1, "transformers issue 39408 (window off by one)"),
        "ignores_causal": Mutation("is_causal is ignored", _unless(lambda call: True)),
        "looks_ahead": Mutation("a query sees the future instead of the past: upper triangle for lower", lambda grid, call: grid.j >= grid.i),
        "masks_causal_by_four_queries": Mutation("the causal mask is the same for each group of four queries: the future leaks", lambda grid, call: grid.j <= grid.i // 4 * 4 + 3, "pytorch issue 195910"),
        "ignores_causal_beyond_64_queries": Mutation("the causal mask ends with the 64th query", lambda grid, call: _due(grid, call) | (grid.i >= 64)),
        "ignores_causal_with_fewer_queries": Mutation("is_causal is ignored when there are fewer queries than keys", _unless(lambda call: call.queries < call.keys)),
        "ignores_causal_with_more_queries": Mutation("is_causal is ignored when there are more queries than keys", _unless(lambda call: call.queries > call.keys)),
        "ignores_causal_for_one_query": Mutation("is_causal is ignored for a single query", _unless(lambda call: call.queries == 1), "decoding paths: `is_causal and query_length > 1`"),
        "ignores_causal_when_grouped": Mutation("is_causal is ignored when heads are grouped", _unless(lambda call: call.grouped)),
        "ignores_causal_with_dropout": Mutation("is_causal is ignored when there is dropout", _unless(lambda call: call["dropout_p"] > 0)),
        "ignores_causal_in_rank_2": Mutation("is_causal is ignored in rank 2", _unless(lambda call: call.rank == 2)),
        "slides_a_window_of_32": Mutation("only the last 32 keys are seen: a sliding window", lambda grid, call: _due(grid, call) & (grid.j > grid.i - 32), "transformers issue 39408"),
        "forgets_causal_of_one_tensor": Mutation("where one tensor is query, key and value, a fast path forgets the causal mask", _unless(lambda call: call.query is call.key)),
    },
)  # fmt: skip


GENERAL_MUTANTS = [
    *mutants(
        Dense,
        fill={
            "zeroes_future_scores": Mutation("masked scores become 0 instead of −∞", lambda scores, seen: scores.masked_fill(~seen, 0.0), "textbook codes that multiply by a triangle")
        },
        factor={
            "ignores_scale_when_causal": Mutation("a given scale is ignored when the mask is causal", lambda call: scale.default(call) if call["is_causal"] else scale.factor(call))
        },
        receive={
            "ignores_dropout_when_causal": Mutation("dropout is ignored when the mask is causal", lambda call: call.but(dropout_p=0.0) if call["is_causal"] else call)
        },
    ),
    *mutants(
        Backward,
        weights={"backward_ignores_causal": Mutation("the backward ignores is_causal", ignoring("is_causal", False))},
    ),
]  # fmt: skip


@Whole.instead("answer", "the future is hidden after the softmax, without renormalising")
def hides_future_after_softmax(call: AttentionCall) -> Any:
    if not call["is_causal"]:
        return correct(call)
    return Dense(
        causal=lambda grid, call: grid.j >= 0,
        softmax=lambda scores, call: Dense.softmax(scores, call) * visible(call.grid(), True, call.conventions),
    )(call)


LEVELS = Levels(
    {"causal": {"not_causal": False, "causal": True}},
    lambda levels: {"causal": levels["causal"]},
    (
        Contradiction("what a mask and is_causal mean together is not defined", {"causal": ("causal",), "mask": ("bool_mask", "float_mask")}),
    ),
)  # fmt: skip


def _in_torch(scores: str, value: bool | None, call: Call, conventions: Conventions) -> str:
    rows, columns = (call.tensors[name].shape[-2] for name in ("query", "key"))
    shift = Grid.make(rows, columns).aligned(conventions.get("causal")).shift
    triangle = f"torch.ones({rows}, {columns}).tril({shift or ''})"
    return f"({scores}).masked_fill({triangle} < 1, -torch.inf)" if value else scores


FEATURE = Feature(
    "causal",
    "visibility",
    LEVELS,
    Argument("is_causal", False, place=2),
    decisions={
        "is_causal": "query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s",
        "both of them": "undefined: not asked",
    },
    words={"causal": "is_causal"},
    conventions={"causal": ("upper_left", "lower_right")},
    visible=visible,
    hides=("causal",),
    empties=_empties,
    computed=by_position("causal", "is_causal", visible),
    cases=cases,
    aliases={"is_causal": "causal", "autoregressive": "causal", "lower_right": "causal"},
    in_torch=_in_torch,
    traits=lambda value, sizes: {"causal": ("is_causal",)},
    says=lambda value: "causal",
    typed=Syntax("", bool),
    counted=0.5,
)
