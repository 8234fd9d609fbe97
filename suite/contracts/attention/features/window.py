"""A sliding window: each query attends to the keys near its own position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.case import Traits
from attnsuite.cases.covering import Contradiction
from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, by_position, in_places, unless
from attnsuite.contracts.attention.computation.gradients import Backward, ignoring
from attnsuite.contracts.attention.feature import Argument, Feature, Grid, Levels, Syntax
from attnsuite.contracts.attention.features.mask import Mask

if TYPE_CHECKING:
    from torch import Tensor

Window = tuple[int | None, int | None]


def visible(grid: Grid, value: Window, conventions: Conventions) -> Any:
    left, right = value if _is_pair(value) else (None, None)  # the check refuses what is no pair
    return _between(grid.aligned(conventions.get("window")).i, grid.j, left, right)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _between(i: Any, j: Any, left: int | None, right: int | None) -> Any:
    """i − left ≤ j ≤ i + right; None is no bound."""
    seen = j == j  # everything, of the right kind and shape
    if left is not None:
        seen = seen & (j >= i - left)
    return seen if right is None else seen & (j <= i + right)


def _complaint(call: AttentionCall) -> str:
    value = call["window"]
    if value is None:
        return ""
    if not _is_pair(value):
        return f"window must be a pair (left, right), not {value!r}"
    fits = all(width is None or (isinstance(width, int) and width >= 0) for width in value)
    return "" if fits else f"the widths of a window must be None or at least 0, not {value!r}"


# Cases


def cases() -> Sequence[Case]:
    """The cases of a window (left, right): query i attends to keys i − left ≤ j ≤ i + right."""
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.case import case, single

    square: dict[str, Any] = {"queries": 48, "keys": 48, "batch": 1}
    return [
        *(case(f"window/left_{n}", f"{n} keys to the left, both ends included", window=(n, 0), **square)
            for n in (0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 53)),
        *(single(f"window/long_left_{n}", f"{n} keys to the left, across tiles", window=(n, 0), length=200, width=16)
            for n in (63, 64, 65, 127, 128, 129)),
        *(single(f"window/long_left_{n}", f"{n} keys to the left, beyond eight bits", window=(n, 0), queries=310,
            keys=320, width=8, gradient_of=gradient, dtypes=("float32",))
            for n, gradient in ((255, ()), (256, INPUTS), (300, ()))),
        *(case(f"window/of_{bits}_bits", "so wide that it hides nothing: no bound, as libraries write it",
            window=(2**bits - 1, 2**bits - 1)) for bits in (31, 62)),
        case("window/right_alone", "the past is unbounded", window=(None, 3), **square),
        case("window/left_alone", "the future is unbounded", window=(3, None), **square),
        case("window/forwards", "no past, some future", window=(0, 5), **square),
        case("window/both", "some past and some future", window=(5, 2), **square),
        case("window/long_both", "some past and some future, across tiles", window=(40, 70), batch=1, heads=2,
            length=180, width=16),
        case("window/causal", "causal and windowed", window=(4, 0), causal=True, **square),
        case("window/causal_right", "causal wins over a window that reaches into the future", window=(4, 6),
            causal=True, **square),
        single("window/causal_unbounded", "causal wins over an unbounded future", window=(40, None), causal=True,
            length=150, width=16),
        case("window/more_keys", "positions count from the first key", window=(3, 1), queries=9, keys=30),
        case("window/more_queries", "positions count from the first key", window=(20, 1), queries=20, keys=12),
        case("window/empty_rows", "queries beyond the last key by more than the window see nothing", window=(2, 1),
            queries=20, keys=9),
        case("window/one_query", "a lone query sees its neighbours, the first keys", window=(4, 2), queries=1, keys=40),
        case("window/one_key", "one key is near the first queries alone", window=(3, 0), queries=7, keys=1),
        single("window/rank_2", "without leading axes", window=(2, 2), rank=2, length=12),
        case("window/rank_3", "with one leading axis", window=(2, 2), rank=3, batch=1, heads=3, length=12),
        case("window/grouped", "with grouped heads", window=(4, 1), heads=6, key_heads=2, length=16),
        case("window/bool_mask", "a mask hides more", window=(6, 4), mask=Mask(pattern="single"), length=16),
        case("window/padded", "lengths per item hide more", window=(20, 2), mask=Mask(axes="b11s", pattern="padding"),
            batch=4, length=20),
        case("window/float_mask", "a bias is added inside the window", window=(5, 3), mask=Mask("float", "everything"),
            length=20),
        case("window/huge_logits", "what is hidden is not the maximum", window=(3, 0), draw="huge_logits", width=16,
            length=20),
        *_backward_and_bad_input(),
    ]  # fmt: skip


def _backward_and_bad_input() -> Sequence[Case]:
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.bad_input import BadInput
    from attnsuite.contracts.attention.cases.case import case, gradients
    from attnsuite.contracts.attention.cases.dropout import KEPT, kept

    return [
        gradients("window/gradient", "hidden keys get no gradient", window=(3, 1), length=14),
        gradients("window/gradient_causal", "the same under causal", window=(3, None), causal=True, length=14),
        gradients("window/gradient_empty_rows", "rows left empty send none", window=(1, 0), queries=14, keys=6),
        gradients("window/gradient_grouped", "with grouped heads", window=(5, 2), heads=4, key_heads=2, length=20),
        case("window/gradient_mask", "a float mask gets a gradient inside alone", window=(3, 2),
            gradient_of=(*INPUTS, "attn_mask"), mask=Mask("float", "everything"), length=12),
        kept("window/dropout", "dropout inside the window", KEPT.but(window=(3, 2))),
        BadInput("bad_input/window_negative_left", "a window of −1 keys to the left", {}, {"window": (-1, 0)}),
        BadInput("bad_input/window_negative_right", "a window of −2 keys to the right", {}, {"window": (3, -2)}),
        BadInput("bad_input/window_of_one_number", "a window that is a number, no pair", {}, {"window": 3}),
        BadInput("bad_input/window_of_three", "a window of three numbers", {}, {"window": (1, 2, 3)}),
    ]  # fmt: skip


# Mutants


def _visible(grid: Grid, call: AttentionCall) -> Tensor:
    return visible(grid, call["window"], call.conventions)  # type: ignore[no-any-return]


def _wide(change: Any) -> Any:
    """A window with the widths change(left, right)."""
    return lambda grid, call: _between(grid.i, grid.j, *change(*call["window"]))


_unless = unless(_visible)


def _less(width: int | None, by: int = 1) -> int | None:
    return None if width is None else width - by


def _in_32_bits(grid: Grid, call: AttentionCall) -> Tensor:
    """The last key of each query's window is counted in a number of 32 bits."""
    left, right = call["window"]
    seen: Tensor = _between(grid.i, grid.j, left, None)
    return seen if right is None else seen & (grid.j <= (grid.i + right + 2**31) % 2**32 - 2**31)


def _accepted(change: Any) -> Any:
    """Bad widths that are changed to valid ones, not refused."""
    return lambda call: call if call["window"] is None else call.but(window=change(call["window"]))


BACKWARD = mutants(
    Backward, weights={"backward_ignores_window": Mutation("the backward ignores the window", ignoring("window", None))}
)


def _without_negatives(value: Window) -> Window:
    left, right = (None if width is not None and width < 0 else width for width in value)
    return left, right


ACCEPTED = mutants(
    Dense,
    window={
        **in_places("ignores_window", "the window is ignored", _unless, "with_mask", "when_causal", "for_one_query",
            "when_grouped", "with_dropout"),
        "counts_window_with_own_position": Mutation("a window of w keys to the left sees w keys, not w + 1",
            _wide(lambda left, right: (_less(left), right)), "transformers issue 39408"),
        "sees_one_key_left_of_window": Mutation("a window sees one key too many to the left",
            _wide(lambda left, right: (_less(left, -1), right)), "flash-attention issue 1133"),
        "sees_one_key_right_of_window": Mutation("a window sees one key too many to the right",
            _wide(lambda left, right: (left, _less(right, -1)))),
        "swaps_sides_of_window": Mutation("left and right of a window are exchanged",
            _wide(lambda left, right: (right, left))),
        "aligns_window_at_the_end": Mutation(
            "a window is aligned at the lower right: the last query is near the last key",
            lambda grid, call: visible(grid, call["window"], {"window": "lower_right"}), "FlashAttention's alignment"),
        "ignores_window_without_mask": Mutation("the window is ignored without a mask",
            _unless(lambda call: call["attn_mask"] is None), "jax issue 32300"),
        "ignores_window": Mutation("the window is ignored", _unless(lambda call: True)),
        "ignores_right_of_window": Mutation("the right side of a window is ignored: the future is unbounded",
            _wide(lambda left, right: (left, None)), "jax pull request 39576"),
        "ignores_left_of_window": Mutation("the left side of a window is ignored: the past is unbounded",
            _wide(lambda left, right: (None, right))),
        "overflows_at_end_of_window": Mutation("the end of a window is counted in 32 bits, which overflow",
            _in_32_bits, "INT_MAX as no bound"),
        "reads_zero_width_as_unbounded": Mutation("a width of 0 is read as no bound",
            _wide(lambda left, right: (left or None, right or None)), "the idiom `left or None`"),
        "attends_to_all_beyond_the_window": Mutation("a query whose window holds no key attends to all keys",
            lambda grid, call: _visible(grid, call) | ~_visible(grid, call).any(-1, keepdim=True)),
    },
    receive={
        "reads_negative_width_as_unbounded": Mutation("a negative width is accepted as no bound",
            _accepted(lambda value: _without_negatives(value) if _is_pair(value) else value),
            "flash-attention and onnx: −1 is unbounded"),
        "accepts_window_of_one_number": Mutation("a number is accepted as a window on both sides",
            _accepted(lambda value: (value, value) if isinstance(value, int) else value),
            "jax.nn: an int is symmetric"),
        "reads_first_two_of_window": Mutation("of a window of three numbers the first two are read",
            _accepted(lambda value: tuple(value[:2]) if isinstance(value, tuple) else value)),
    },
)  # fmt: skip


def _reach(levels: Mapping[str, Any]) -> Mapping[str, Any]:
    """A window of shares of the keys, so that it hides some of them at every size."""
    if levels["window"] is None:
        return {}
    left, right = (None if share is None else int(share * levels["size"][1]) for share in levels["window"])
    return {"window": (left, right)}


SHARES: Mapping[str, tuple[float | None, float | None] | None] = {"no_window": None, "window_left": (0.3, 0),
    "window_right": (0, 0.3), "window_both": (0.4, 0.2), "window_past": (0.1, None), "window_own": (0, 0)}  # fmt: skip
"""The shares of the keys to the left and to the right."""
LEVELS = Levels(
    {"window": SHARES},
    _reach,
    (
        Contradiction("a window may leave the lowest scores alone, which overflow where they are multiplied by log₂ e",
            {"window": tuple(SHARES)[1:], "mask_pattern": ("lowest",)}),
    ),
    unsupported="windows",
)  # fmt: skip


def _traits(value: Window, sizes: Any) -> Traits:
    sides = zip(("left", "right"), value, strict=True)
    return {
        "window": ("a window", *(f"a window that is unbounded on the {side}" for side, width in sides if width is None))
    }


def _in_torch(scores: str, value: Window | None, call: Call, conventions: Conventions) -> str:
    left, right = value or (None, None)
    rows, columns = (call.tensors[name].shape[-2] for name in ("query", "key"))
    shift = Grid.make(rows, columns).aligned(conventions.get("window")).shift
    sides = (
        f".triu({shift - left})" if left is not None else "",
        f".tril({shift + right})" if right is not None else "",
    )
    return (
        f"({scores}).masked_fill(torch.ones({rows}, {columns}){''.join(sides)} < 1, -torch.inf)"
        if any(sides)
        else scores
    )


def _read_sides(text: str) -> tuple[int | None, int | None]:
    """The sides in a text, `64:0` or `64:`. ValueError for any other text, or if neither side is bounded."""
    sides = [int(part) if part else None for part in text.split(":")]
    if len(sides) != 2 or not any(side is not None for side in sides) or any(side and side < 0 for side in sides):
        raise ValueError(text)
    return sides[0], sides[1]


FEATURE = Feature(
    "window", "visibility", LEVELS, Argument("window", None),
    decisions={
        "window": "(left, right): query i attends keys i − left ≤ j ≤ i + right, both included; None is unbounded; "
        "the position of query i is i, also when l ≠ s; what is_causal or a mask hides stays hidden; it may leave "
        "queries nothing to attend to"
    },
    vocabulary={"window": "sliding windows"},
    conventions={"window": ("upper_left", "lower_right")},
    visible=visible,
    hides=("window",),
    hooks=by_position("window", "window", visible),
    complaint=_complaint,
    cases=cases,
    aliases={"sliding": "window", "sliding_window": "window", "swa": "window", "local": "window"},
    traits=_traits,
    in_torch=_in_torch,
    label=lambda value: f"window {value}".replace("None", "∞"),
    syntax=Syntax("LEFT:RIGHT, numbers of keys, nothing for no bound", _read_sides,
        lambda value: ":".join("" if side is None else str(side) for side in value)),
)  # fmt: skip
