"""The documents' examples: scalar networks of width 1; recursions and powers as hidden states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.documented import CasePair, DocumentedNumbers
from attnsuite.cases.tensors import Array, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.recurrent_gradient.cases.draws import asked
from attnsuite.contracts.steps.recurrent_gradient.cases.randomised import Expected
from attnsuite.contracts.steps.recurrent_gradient.contract import POSITIONAL
from attnsuite.judging.shares import seeds_that_tell
from attnsuite.model import Figures

LIKELIEST = 3 / 4
"""The probability of the likeliest answer to one of the examples whose mean is given, z_4: 2, unless both draws of
probability 1/2 that it depends on are kept."""
COUNTED = 3
"""What is counted in the answers to it: how often each of its two answers came, and whether a seed repeats its own."""
MEAN_SEEDS = tuple(range(seeds_that_tell(LIKELIEST, COUNTED)))
"""The seeds of the answers that are held against the possible ones, whose mean a document gives: as many as it takes
until who always gives the likeliest answer is accused. At 16 zeros passed for z_3, which is 0 or 1."""


def printed() -> Iterator[Case]:
    """All of them, with every quantity that they give."""
    examples = documents.examples()
    yield from linear(examples["doc-004/9.7.2-linear-rnn"])
    yield from scalar(examples["doc-004/9.7.1-scalar-rnn"])
    yield from expected(examples["doc-004/9.7.1.3-randomised"])
    recursion = examples["doc-004/9.7.1-recursion"]
    yield case(recursion, "a", _recursion(recursion.inputs), recursion.expected["a"], select=_last, of="hidden")
    yield from powers(examples["doc-004/9.7.2-powers"])


def linear(example: Excerpt) -> Iterator[DocumentedNumbers]:
    """Every quantity of one network."""
    inputs = {name: numbers(example.inputs[name]) for name in POSITIONAL}
    words = {"h": "hidden", "o": "output", "dL_do": "d_output", "dL_dh": "d_hidden"}
    for quantity, due in example.expected.items():
        yield case(example, quantity, inputs, due, of=words.get(quantity, quantity.replace("dL_dw", "d_w")))


def scalar(example: Excerpt) -> Iterator[Case]:
    """A network of width 1, its truncated gradients, and the derivatives of its hidden states."""
    inputs, due = _scalar(example.inputs), example.expected
    words = {"h": "hidden", "o": "output", "loss": "loss", "grad_w_h": "d_w_hh", "grad_w_o": "d_w_qh"}
    for quantity, of in words.items():
        select = np.ravel if np.ndim(due[quantity]) else _only
        yield case(example, quantity, inputs, due[quantity], select=select, of=of)
    for tau, gradient in due["truncated_grad_w_h"].items():
        yield case(example, f"truncated_grad_w_h_{tau}", inputs, gradient, select=_only, truncate=int(tau))
    yield from derivatives(example, inputs, due["dh_dw"])


def expected(example: Excerpt) -> Iterator[Case]:
    """Derivatives of hidden states, and the mean of randomised ones."""
    inputs = _scalar({**example.inputs, "w_o": 1.0, "y": example.inputs["x"]})
    yield from derivatives(example, inputs, example.expected["dh_dw"])
    for step, mean in enumerate(example.expected["expected_z"], start=1):
        quantity = f"expected_z_{step}"
        of = asked.given(*example.named(quantity), _sensitive(inputs, step), keep=example.parameters["pi"])
        found = Expected(of, Figures(example.at(quantity), mean), MEAN_SEEDS)
        yield found if mean else _beside(found, example, quantity, inputs, step)


def derivatives(example: Excerpt, inputs: dict[str, Array], due: list[float]) -> Iterator[Case]:
    """dh_t/dw for each step."""
    for step, derivative in enumerate(due, start=1):
        quantity = f"dh_dw_{step}"
        found = case(example, quantity, _sensitive(inputs, step), derivative, select=_only)
        yield found if derivative else _beside(found, example, quantity, inputs, step)


def _beside(found: Case, example: Excerpt, quantity: str, inputs: dict[str, Array], step: int) -> CasePair:
    """A case whose answer is 0, and beside it the same from a first state of 1, which the derivative is made of."""
    begun = _sensitive(inputs | {"h0": np.ones(1)}, step)
    return CasePair(found, asked.given(*example.named(quantity), begun))


def powers(example: Excerpt) -> Iterator[DocumentedNumbers]:
    """The diagonals of powers of w_hh, as hidden states and as their gradients."""
    w_hh, exponents = numbers(example.inputs["w_hh"]), example.inputs["exponents"]
    due, most = example.expected["diagonals"], max(exponents)
    states = partial(_rows, [exponent - 1 for exponent in exponents])
    yield case(example, "diagonals", _powers(w_hh, most), due, select=states, of="hidden")
    gradients = partial(_rows, [-1 - exponent for exponent in exponents])
    yield case(example, "diagonals_backwards", _powers(w_hh, most + 1, True), due, select=gradients, of="d_hidden")


def case(
    example: Excerpt, quantity: str, inputs: Inputs, values: Any, *, select: Any = np.asarray, **options: Any
) -> DocumentedNumbers:
    """What is selected of a quantity, held against a document's numbers."""
    of = asked.given(*example.named(quantity), inputs, **options)
    return DocumentedNumbers(of, Figures(example.at(quantity), values), select)


def _scalar(given: Mapping[str, Any]) -> dict[str, Array]:
    """A network of width 1, to which inputs go as they are."""
    return {
        "x": numbers(given["x"])[:, None],
        "y": numbers(given["y"])[:, None],
        "h0": numbers([given["h0"]]),
        "w_hx": np.ones((1, 1)),
        "w_hh": numbers([[given["w_h"]]]),
        "w_qh": numbers([[given["w_o"]]]),
    }


def _sensitive(scalar: dict[str, Array], step: int) -> dict[str, Array]:
    """The steps up to one, with a loss that grows as the last hidden state: its gradient is dh/dw there."""
    hidden = [float(scalar["h0"][0])]
    for number in scalar["x"][:step, 0]:
        hidden.append(float(scalar["w_hh"][0, 0]) * hidden[-1] + number)
    y = np.array(hidden[1:])[:, None]
    y[-1] -= step  # an error of T, of which dL/do is a Tth
    return scalar | {"x": scalar["x"][:step], "y": y, "w_qh": np.ones((1, 1))}


def _recursion(given: Mapping[str, Any]) -> dict[str, Array]:
    """a_t = b_t + c_t a_{t−1} for all t at once: h = b + C h with c below C's diagonal stands still at h = a."""
    b, c = numbers(given["b"]), numbers(given["c"])
    size = len(b)
    return {
        "x": np.ones((size, 1)),
        "y": np.zeros((size, 1)),
        "h0": np.zeros(size),
        "w_hx": b[:, None],
        "w_hh": np.diag(c[1:], k=-1),
        "w_qh": np.ones((1, size)),
    }


def _powers(w_hh: Array, steps: int, backwards: bool = False) -> dict[str, Array]:
    """No inputs: from a state of ones come powers of w_hh, forwards; backwards from a last error of ones alone."""
    size = len(w_hh)
    y = np.zeros((steps, size))
    y[-1] = -steps if backwards else 0
    return {
        "x": np.zeros((steps, 1)),
        "y": y,
        "h0": np.full(size, 0.0 if backwards else 1.0),
        "w_hx": np.zeros((size, 1)),
        "w_hh": w_hh,
        "w_qh": np.eye(size),
    }


def _only(output: Array) -> Array:
    return output.reshape(())


def _last(output: Array) -> Array:
    chosen: Array = output[-1]
    return chosen


def _rows(rows: list[int], output: Array) -> Array:
    chosen: Array = output[rows]
    return chosen
