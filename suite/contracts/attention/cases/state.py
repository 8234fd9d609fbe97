"""What is around a call and must not matter: modes, the default dtype, and what the caller does with an output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnsuite.cases import Call, Case
from attnsuite.cases.layouts import INPUTS, LayoutCase
from attnsuite.contracts.attention.cases.behaviour import SMALL, InARow, Making, modes
from attnsuite.contracts.attention.cases.case import AttentionCase
from attnsuite.contracts.attention.features.mask import Mask

MET: dict[str, dict[str, Any]] = {
    "masked": {"mask": Mask()},
    "biased": {"mask": Mask("float")},
    "causal": {"causal": True},
    "windowed": {"window": (2, 1)},
    "grouped": {"heads": 4, "key_heads": 2},
    "scaled": {"scale": 0.7},
}
"""What a path for evaluation, or numbers made in the default dtype, may forget."""


def state() -> list[Case]:
    """The answer depends on the arguments alone."""
    learning = SMALL.but(gradient_of=INPUTS)
    empty = SMALL.but(keys=0)
    hidden = SMALL.but(mask=Mask(pattern="nothing", axes="b11s"))
    return [
        *(InARow(f"state/no_grad_{name}", f"no_grad agrees with grad mode: {name}", modes(SMALL.but(**unusual))) for name, unusual in MET.items()),
        *(_under(f"state/default_{dtype}", f"torch's default dtype is {dtype}", SMALL, dtype) for dtype in ("bfloat16", "float64")),
        *(_under(f"state/default_{dtype}_{name}", f"the same: {name}", SMALL.but(**unusual), dtype) for name, unusual in MET.items() for dtype in ("bfloat16", "float64")),
        *(_under(f"state/default_{dtype}_gradient", "the same with gradients", learning, dtype) for dtype in ("bfloat16", "float64")),
        LayoutCase(SMALL.but(name="state/inference", why="under inference_mode"), lambda call: replace(call, inference=True)),
        LayoutCase(SMALL.but(name="state/inference_masked", why="the same with a mask", mask=Mask()), lambda call: replace(call, inference=True)),
        InARow("state/written_output", "an output is written to, and the call made again", written(SMALL)),
        InARow("state/written_zeros", "zeros for no keys are written to, and the call made again", written(empty)),
        InARow("state/written_empty_rows", "zeros for empty rows are written to, and the call made again", written(hidden)),
        InARow("state/written_mean", "one key answers every query, each in a place of its own", written(SMALL.but(keys=1))),
    ]  # fmt: skip


def _under(name: str, why: str, of: AttentionCase, default: str) -> Case:
    """In every dtype but the default one, where nothing would show."""
    dtypes = ("float32", "float16") if default == "bfloat16" else ("float32", "bfloat16")

    def laid(call: Call) -> Call:
        return replace(call, default_dtype=default)

    return LayoutCase(of.but(name=name, why=why, dtypes=dtypes), laid)


def written(case: AttentionCase) -> Making:
    return lambda draw: (replace(draw(case), written=True), draw(case))
