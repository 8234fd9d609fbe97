"""The cases of the contract `recurrent_gradient`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Generator, Inputs, Question, Refused
from suite.contracts.steps.recurrent_gradient import oracle
from suite.contracts.steps.recurrent_gradient.cases.documents import printed
from suite.contracts.steps.recurrent_gradient.cases.randomised import Randomised
from suite.contracts.steps.recurrent_gradient.contract import POSITIONAL, QUANTITIES, THROUGH_TIME
from suite.records import DTYPES

OPTIONS = ("of", "truncate", "keep")
PRECISE = ("float64", "float32")
UNTOUCHED = ("d_w_qh", "d_output")
"""Gradients that neither truncating nor randomising changes."""
FORWARD = ("hidden", "output", "loss")
"""What is no gradient."""


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *quantities(), *truncated(), *randomised(), *sizes(), *numerics(), *layouts(),
        *bad_input(),
    ]  # fmt: skip


def drawn(
    random: Generator,
    *,
    steps: int = 6,
    inputs: int = 3,
    hidden: int = 4,
    outputs: int = 2,
    growth: float = 0.9,
    turning: bool = False,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Weights by which hidden states grow about so much a step. A name with a shape replaces that tensor.

    Where w_hh is `turning` it hands each hidden number on to the next: many steps are well conditioned.
    """
    w_hh = random.normal(size=(hidden, hidden)) / np.sqrt(hidden)
    if turning:
        w_hh = np.roll(np.diag([-1.0, *[1.0] * (hidden - 1)]), 1, axis=0)
    found = {
        "x": random.normal(size=(steps, inputs)),
        "y": random.normal(size=(steps, outputs)) + 0.5,
        "h0": random.normal(size=hidden),
        "w_hx": random.normal(size=(hidden, inputs)) / np.sqrt(inputs),
        "w_hh": growth * w_hh,
        "w_qh": random.normal(size=(outputs, hidden)) / np.sqrt(hidden),
    }
    return found | {name: random.normal(size=shape) for name, shape in shapes.items()}


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    options: dict[str, Any] = {option: unusual.pop(option) for option in OPTIONS if option in unusual}
    return Question(name, why, oracle.recurrent_gradient, partial(drawn, **unusual), POSITIONAL, options, dtypes)


def plain() -> Iterator[Question]:
    """The gradient of w_hh in full."""
    yield question("plain/usual", "several steps; inputs, hidden and outputs of different widths")
    yield question("plain/one_step", "no time to go back through", steps=1)
    yield question("plain/square", "all sizes equal: axes that were swapped still fit", steps=4, inputs=4, outputs=4)
    yield question("plain/scalar", "one of each", inputs=1, hidden=1, outputs=1)


def quantities() -> Iterator[Question]:
    """Every quantity by its name."""
    for of in QUANTITIES:
        yield question(f"quantity/{of}", f"{of} by its name", of=of)
        yield question(f"quantity/{of}_square", "axes that were swapped still fit", of=of, steps=4, inputs=4, outputs=4)
    for of in FORWARD:
        yield question(f"quantity/{of}_truncated", "truncating changes gradients alone", of=of, truncate=2)
        yield question(f"quantity/{of}_randomised", "randomising changes gradients alone", of=of, keep=0.5)


def truncated() -> Iterator[Question]:
    """Gradients that flow back a few steps."""
    for tau in (1, 2, 3):
        yield question(f"truncated/to_{tau}", f"{tau} terms", truncate=tau)
    yield question("truncated/all_but_one", "one step less than all", truncate=5)
    yield question("truncated/all", "as many terms as steps: the full gradient", truncate=6)
    yield question("truncated/more", "more terms than steps: the full gradient", truncate=9)
    for of in ("d_w_hx", "d_hidden"):
        yield question(f"truncated/{of}", f"{of} under truncation", of=of, truncate=2)
    for of in UNTOUCHED:
        yield question(f"truncated/untouched_{of}", f"{of} does not flow through time", of=of, truncate=2)


def randomised() -> Iterator[Question]:
    """Gradients that flow back by chance."""

    def asked(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, seeds: tuple[int | None, ...] = (0, 1, 2, 3),
              **unusual: Any) -> Randomised:  # fmt: skip
        of = question(f"randomised/{name}", why, dtypes, **unusual)
        return Randomised(of.name, of.why, of.oracle, of.draw, of.positional, of.options, dtypes, seeds)

    for of in THROUGH_TIME:
        yield asked(of, "every answer is a possible one", of=of, steps=4, keep=0.5)
    yield asked("mostly_kept", "1/π close to 1", steps=4, keep=0.8)
    yield asked("unbiased", "every answer is as likely as it should be, so that the mean is the gradient", ("float32",),
                tuple(range(400)), steps=4, keep=0.25)  # fmt: skip
    yield asked("seeds", "torch.manual_seed governs the draw, and the next call draws anew", ("float32",),
                (*[5] * 8, *[None] * 40), steps=4, keep=0.5)  # fmt: skip
    for of in THROUGH_TIME:
        yield question(f"randomised/certain_{of}", "π = 1: the full gradient", of=of, keep=1.0)
    for of in UNTOUCHED:
        yield question(f"randomised/untouched_{of}", f"{of} does not flow through time", of=of, keep=0.5)


def sizes() -> Iterator[Question]:
    """Many steps, and many features."""
    yield question("size/steps", "a gradient that flows back through 80 steps", PRECISE, steps=80, growth=1.0,
                   turning=True)  # fmt: skip
    yield question("size/wide", "widths that tiles do not divide", steps=3, inputs=67, hidden=33, outputs=35)


def numerics() -> Iterator[Question]:
    """Powers of w_hh that diverge."""
    yield question("numerics/diverging", "gradients of many millions", PRECISE, steps=20, growth=1.8, turning=True)
    yield question("numerics/diverging_d_hidden", "gradients of hidden states that grow by the step", PRECISE, steps=20,
                   growth=1.8, turning=True, of="d_hidden")  # fmt: skip


def layouts() -> Iterator[asking.Case]:
    """Inputs and weights that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))


def bad_input() -> Iterator[Refused]:
    """What is not defined."""
    asked: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("of", "a quantity that does not exist", {}, {"of": "d_bias"}),
        ("lengths", "6 steps of x and 5 of y", {"y": (5, 2)}, {}),
        ("one_target", "y of one step, which would broadcast", {"y": (1, 2)}, {}),
        ("no_steps", "no steps, of which there is no mean", {"steps": 0}, {}),
        ("x_width", "x of width 4 beside weights for 3", {"x": (6, 4)}, {}),
        ("y_width", "y of width 3 where outputs have 2", {"y": (6, 3)}, {}),
        ("one_output", "y of width 1, which would broadcast", {"y": (6, 1)}, {}),
        ("h0", "an initial state of 5 for 4 hidden", {"h0": (5,)}, {}),
        ("one_h0", "an initial state of 1, which would broadcast", {"h0": (1,)}, {}),
        ("h0_rank", "an initial state of rank 2", {"h0": (4, 1)}, {}),
        ("w_hh", "4 hidden weighed as 5", {"w_hh": (4, 5)}, {}),
        ("w_qh", "outputs from 5 hidden where there are 4", {"w_qh": (2, 5)}, {}),
        ("batch", "a batch", {"x": (2, 6, 3), "y": (2, 6, 2)}, {}),
        ("truncate", "a truncation to 0 terms", {}, {"truncate": 0}),
        ("negative_truncate", "a truncation to −1 terms", {}, {"truncate": -1}),
        ("keep", "a probability of 0", {}, {"keep": 0.0}),
        ("keep_above_one", "a probability of 1.5", {}, {"keep": 1.5}),
        ("both", "truncated and randomised at once", {}, {"truncate": 2, "keep": 0.5}),
    ]
    for name, why, unusual, options in asked:
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)
