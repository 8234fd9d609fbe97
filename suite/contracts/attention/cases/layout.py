"""The same numbers behind other strides, offsets and expansions, one tensor at a time."""

from __future__ import annotations

from attnsuite.cases.layouts import INPUTS
from attnsuite.contracts.attention.cases.case import AttentionCase

STRANGE = {
    "transposed_heads": "(b, s, h, e) in memory",
    "column_major": "last axes exchanged in memory",
    "strided": "every second element",
    "sliced": "a slice of a larger tensor",
    "offset": "a view that starts at an odd place",
    "expanded": "stride 0 along batch and heads",
    "expanded_rows": "stride 0 along rows",
}


def layout() -> list[AttentionCase]:
    """Strides, offsets and stride-0 expansions are honoured."""
    forward = [
        AttentionCase(f"layout/{name}_{layout}", f"{name}: {words}", queries=6, layout={name: layout})
        for name in INPUTS
        for layout, words in STRANGE.items()
    ]
    backward = [
        AttentionCase(f"layout/output_gradient_{layout}", f"output gradient: {words}", queries=6, gradient_of=INPUTS, layout={"output_gradient": layout})
        for layout, words in STRANGE.items()
    ]  # fmt: skip
    together = [
        AttentionCase(f"layout/all_{layout}", f"all inputs: {STRANGE[layout]}", queries=6, gradient_of=INPUTS, layout=dict.fromkeys(INPUTS, layout))
        for layout in ("transposed_heads", "sliced", "offset", "column_major", "expanded", "expanded_rows")
    ]  # fmt: skip
    tiled = [
        AttentionCase(f"layout/long_{name}_transposed", f"{name} transposed, across tiles", queries=130, keys=140, layout={name: "transposed_heads"})
        for name in INPUTS
    ]  # fmt: skip
    backward.append(
        AttentionCase("layout/output_gradient_of_a_sum", "stride 0 along every axis", queries=6, gradient_of=INPUTS, layout={"output_gradient": "expanded_everywhere"})
    )  # fmt: skip
    return [*forward, *backward, *together, *tiled]
