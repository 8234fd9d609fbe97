"""The cases of the contract `recurrent_gradient`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.tensors import PRECISE
from attnsuite.contracts.steps.recurrent_gradient.cases.documents import printed
from attnsuite.contracts.steps.recurrent_gradient.cases.draws import asked
from attnsuite.contracts.steps.recurrent_gradient.cases.randomised import SEEDS, Randomised
from attnsuite.contracts.steps.recurrent_gradient.contract import QUANTITIES, THROUGH_TIME
from attnsuite.judging.patterns import Seeds
from attnsuite.model import DTYPES

UNTOUCHED = ("d_w_qh", "d_output")
"""Gradients that neither truncating nor randomising changes."""
FORWARD = ("hidden", "output", "loss")
"""What is no gradient."""


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *quantities(), *truncated(), *randomised(), *sizes(), *numerics(), *asked.layouts(),
        *asked.again(), *bad_input(),
    ]  # fmt: skip


def plain() -> Iterator[Case]:
    """The gradient of w_hh in full."""
    yield asked("plain/usual", "several steps; inputs, hidden and outputs of different widths")
    yield asked("plain/one_step", "no time to go back through", steps=1)
    yield asked("plain/square", "all sizes equal: axes that were swapped still fit", steps=4, inputs=4, outputs=4)
    yield asked("plain/scalar", "one of each", inputs=1, hidden=1, outputs=1)


def quantities() -> Iterator[Case]:
    """Every quantity by its name."""
    for of in QUANTITIES:
        yield asked(f"quantity/{of}", f"{of} by its name", of=of)
        yield asked(f"quantity/{of}_square", "axes that were swapped still fit", of=of, steps=4, inputs=4, outputs=4)
    for of in FORWARD:
        yield asked(f"quantity/{of}_truncated", "truncating changes gradients alone", of=of, truncate=2)
        yield asked(f"quantity/{of}_randomised", "randomising changes gradients alone", of=of, keep=0.5)


def truncated() -> Iterator[Case]:
    """Gradients that flow back a few steps."""
    for tau in (1, 2, 3):
        yield asked(f"truncated/to_{tau}", f"{tau} terms", truncate=tau)
    yield asked("truncated/all_but_one", "one step less than all", truncate=5)
    yield asked("truncated/all", "as many terms as steps: the full gradient", truncate=6)
    yield asked("truncated/more", "more terms than steps: the full gradient", truncate=9)
    for of in ("d_w_hx", "d_hidden"):
        yield asked(f"truncated/{of}", f"{of} under truncation", of=of, truncate=2)
    for of in UNTOUCHED:
        yield asked(f"truncated/untouched_{of}", f"{of} does not flow through time", of=of, truncate=2)


def randomised() -> Iterator[Case]:
    """Gradients that flow back by chance."""

    def drawn(
        name: str, why: str, dtypes: tuple[str, ...] = DTYPES, seeds: Seeds = SEEDS, **unusual: Any
    ) -> Randomised:
        return Randomised(asked(f"randomised/{name}", why, dtypes, steps=4, **unusual), seeds)

    for of in THROUGH_TIME:
        yield drawn(of, "every answer is a possible one", of=of, keep=0.5)
    yield drawn("mostly_kept", "1/π close to 1", keep=0.8)
    yield drawn("unbiased", "every answer is as likely as it should be, so that the mean is the gradient", ("float32",),
                range(560), keep=0.25)  # fmt: skip
    yield drawn("seeds", "torch.manual_seed governs the draw, and the next call draws anew", ("float32",),
                (*[5] * 8, *[None] * 56), keep=0.5)  # fmt: skip
    for of in THROUGH_TIME:
        yield asked(f"randomised/certain_{of}", "π = 1: the full gradient", of=of, keep=1.0)
    for of in UNTOUCHED:
        yield asked(f"randomised/untouched_{of}", f"{of} does not flow through time", of=of, keep=0.5)


def sizes() -> Iterator[Case]:
    """Many steps, and many features."""
    yield asked("size/steps", "a gradient that flows back through 80 steps", PRECISE, steps=80, growth=1.0,
                   turning=True)  # fmt: skip
    yield asked("size/wide", "widths that tiles do not divide", steps=3, inputs=67, hidden=33, outputs=35)


def numerics() -> Iterator[Case]:
    """Powers of w_hh that diverge."""
    yield asked("numerics/diverging", "gradients of many millions", PRECISE, steps=20, growth=1.8, turning=True)
    yield asked("numerics/diverging_d_hidden", "gradients of hidden states that grow by the step", PRECISE, steps=20,
                   growth=1.8, turning=True, of="d_hidden")  # fmt: skip


def bad_input() -> Iterator[BadInputCase]:
    """What is not defined."""
    return asked.refused(
        ("of", "a quantity that does not exist", {"of": "d_bias"}),
        ("lengths", "6 steps of x and 5 of y", {"y": (5, 2)}),
        ("one_target", "y of one step, which would broadcast", {"y": (1, 2)}),
        ("no_steps", "no steps, of which there is no mean", {"steps": 0}),
        ("x_width", "x of width 4 beside weights for 3", {"x": (6, 4)}),
        ("y_width", "y of width 3 where outputs have 2", {"y": (6, 3)}),
        ("one_output", "y of width 1, which would broadcast", {"y": (6, 1)}),
        ("h0", "an initial state of 5 for 4 hidden", {"h0": (5,)}),
        ("one_h0", "an initial state of 1, which would broadcast", {"h0": (1,)}),
        ("h0_rank", "an initial state of rank 2", {"h0": (4, 1)}),
        ("w_hh", "4 hidden weighed as 5", {"w_hh": (4, 5)}),
        ("w_qh", "outputs from 5 hidden where there are 4", {"w_qh": (2, 5)}),
        ("batch", "a batch", {"x": (2, 6, 3), "y": (2, 6, 2)}),
        ("truncate", "a truncation to 0 terms", {"truncate": 0}),
        ("negative_truncate", "a truncation to −1 terms", {"truncate": -1}),
        ("keep", "a probability of 0", {"keep": 0.0}),
        ("keep_above_one", "a probability of 1.5", {"keep": 1.5}),
        ("both", "truncated and randomised at once", {"truncate": 2, "keep": 0.5}),
    )
