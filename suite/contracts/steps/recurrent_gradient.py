"""The contract `recurrent_gradient`: backpropagation through time of the linear recurrent network.

    recurrent_gradient(x, y, h0, w_hx, w_hh, w_qh, *, of="d_w_hh", truncate=None, keep=None) -> quantity

    h_t     = w_hx x_t + w_hh h_{t−1}
    o_t     = w_qh h_t
    L       = 1/T Σ_t ‖o_t − y_t‖²/2
    dL/dh_t = w_qhᵀ dL/do_t + ξ_{t+1} w_hhᵀ dL/dh_{t+1}, with ξ = 1 in full

Axes: `t d` x, `t q` y, `h` h0, `h d` w_hx, `h h` w_hh, `q h` w_qh (t steps from 1 to T, d inputs, h hidden, q outputs).
There is no batch. Werbos, "Backpropagation through time" (1990); Tallec and Ollivier, "Unbiasing truncated
backpropagation through time" (arXiv 1705.08209).

    of               d_w_hh, d_w_hx, d_w_qh: Σ_t dL/dh_t h_{t−1}ᵀ, Σ_t dL/dh_t x_tᵀ, Σ_t dL/do_t h_tᵀ
                     d_hidden `t h`, d_output `t q`: dL/dh_t with all that follows from h_t, and dL/do_t
                     hidden `t h`, output `t q`, loss (no axes): h_t, o_t and L
    truncate         τ: the gradient of o_t flows back to h_t and the τ − 1 hidden states before it. 1 keeps the direct
                     term alone; T and more are the full gradient
    keep             π: ξ_t is 1/π with probability π and else 0, one draw for each step, which all gradients through it
                     share, by `torch.manual_seed`; each call draws anew. The mean is the full gradient, as π = 1 gives
    both at once     not defined: raises
    the rest         neither changes d_w_qh and d_output, which do not flow through time, nor hidden, output and loss
    rounding         sums may run in any order, in half types in float32: step by step, of powers of w_hh, or one
                     product of both matrices with input and state. Each step's result may be rounded to
                     the dtype
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           x's dtype and device
    bad input        raises: an unknown quantity, other ranks, widths that do not chain, x and y of different lengths,
                     no steps at all, a truncation below 1, a probability outside (0, 1]

The document's probabilities may differ from step to step; here one serves all.

Not tested:

    other networks   with biases or an activation function: the formula is that of the linear network
    gradient of h0   h0 is given, and no weight
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator as Source
from torch import Tensor

from attnsuite.cases import Calls, Case, CaseWrapper, Conventions, Replies, Reply, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.changes import turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants
from attnsuite.cases.computations import widened as in_wider
from attnsuite.cases.documented import DERIVED, CasePair, DocumentedNumbers
from attnsuite.cases.expected import WithinBounds, judge
from attnsuite.cases.formula import Formula, FormulaCase
from attnsuite.cases.mutants import Mutation, formula, unless_none, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging import compare, shares
from attnsuite.judging.patterns import Seeds
from attnsuite.judging.precision import widened
from attnsuite.judging.running_error import WithError, concatenated, whichever
from attnsuite.judging.shares import Share, exactly, min_seeds
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Figures, Status

SEEDS = (0, 1, 2, 3)
"""The seeds of most cases."""
DISTINCT = 2.0
"""Two possible results this many bounds apart, measured both ways, are distinguishable."""


def outcomes(length: int, keep: float) -> Iterator[tuple[float, tuple[float, ...]]]:
    """Each draw of ξ from the second step on, with its probability."""
    for kept in product((False, True), repeat=length - 1):
        probability = float(np.prod([keep if flag else 1 - keep for flag in kept]))
        yield probability, tuple(1 / keep if flag else 0.0 for flag in kept)


@dataclass(frozen=True)
class Possible:
    """A possible result of a randomised gradient. Results that the bounds cannot distinguish share a number."""

    probability: float
    expected: WithinBounds
    number: int

    def distance(self, values: Array) -> float:
        """The largest error of these numbers, in bounds."""
        return compare.error_ratio(values, self.expected.output.value, self.expected.output.bound)

    def resembles(self, other: Possible) -> bool:
        """Whether the bounds cannot distinguish it from another."""
        values, others = self.expected.output.value, other.expected.output.value
        return min(other.distance(values), self.distance(others)) <= DISTINCT


class Randomised(CaseWrapper):
    """A randomised gradient, once for each seed: each of 2^(T−1) results comes as often as its probability says.

    The seed None continues where the call before left the random source.
    """

    base: FormulaCase

    def __init__(self, base: FormulaCase, seeds: Seeds = SEEDS) -> None:
        super().__init__(base)
        self.seeds = tuple(seeds)

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        return tuple(replace(call, seed=seed) for seed in self.seeds)

    def expected(self, calls: Calls, conventions: Conventions) -> list[Possible]:
        length, keep = len(calls[0].tensors["x"]), calls[0].options["keep"]
        assert isinstance(keep, float)
        results: list[Possible] = []
        for probability, factors in outcomes(length, keep):
            expected = self.base.formula.expected_output(calls[0], conventions, factors=factors)
            result = Possible(probability, expected, len({known.number for known in results}))
            same = (known.number for known in results if result.resembles(known))
            results.append(replace(result, number=next(same, result.number)))
        return results

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Possible]) -> Verdict:
        if unfit := next(filter(None, map(expected[0].expected.form.unfit, replies)), None):
            return unfit
        nearest = _nearest(replies, expected)
        verdict = judge([possible.expected for possible in nearest], replies)
        if verdict.status != Status.PASSED:
            return replace(
                verdict, detail=f"none of the {len(expected)} possible results; the nearest: {verdict.detail}"
            )
        if odd := shares.complaint(self.counted(replies, expected)):
            return Verdict(Status.FAILED, odd, output_wrong=True)
        return verdict

    def counted(self, replies: Replies, expected: Sequence[Possible]) -> list[Share]:
        """Results that differ for one seed, and each possible result."""
        numbers = [possible.number for possible in _nearest(replies, expected)]
        pairs = list(zip(self.seeds, numbers, strict=True))
        first = dict(reversed(pairs))
        differ = [number != first[seed] for seed, number in pairs if seed is not None]
        draws = [number for place, (seed, number) in enumerate(pairs) if seed is None or seed not in self.seeds[:place]]
        probabilities: dict[int, float] = {}
        for possible in expected:
            probabilities[possible.number] = probabilities.get(possible.number, 0.0) + possible.probability
        return [
            exactly("results differ from the first of their seed", sum(differ), len(differ), 0.0),
            *(exactly(f"results are number {kind} of those possible", draws.count(kind), len(draws), min(1.0, share))
                for kind, share in probabilities.items()),
        ]  # fmt: skip

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Sequence[Possible]) -> bool:
        """Whether every result is among theirs, and each possible one comes as often."""
        if any(map(expected[0].expected.form.unfit, (*replies, *theirs))):
            return False
        ours, others = ({_numbers(reply).tobytes(): reply for reply in side}.values() for side in (replies, theirs))
        if not all(any(expected[0].expected.equal(our, their) for their in others) for our in ours):
            return False
        return shares.alike(self.counted(replies, expected), self.counted(theirs, expected))


class DocumentedMean(Randomised):
    """A randomised gradient whose mean a document gives: the mean of all possible results, by their probabilities."""

    def __init__(self, base: FormulaCase, figures: Figures, seeds: Seeds) -> None:
        super().__init__(base, seeds)
        self.figures, self.source, self.dtypes = figures, figures.source, PRECISE

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Possible]) -> Verdict:
        mean = self.mean(expected)
        printed = np.full(mean.shape, self.figures.values)
        if complaint := compare.difference(mean, printed, np.array(DERIVED), name="the mean"):
            return Verdict(Status.FAILED, f"the document has another number: {complaint}")
        return super().verdict(calls, replies, expected)

    def mean(self, expected: Sequence[Possible]) -> Array:
        """The mean of all results."""
        return np.array(sum(possible.probability * possible.expected.numbers for possible in expected))


def _nearest(replies: Replies, expected: Sequence[Possible]) -> list[Possible]:
    """The nearest possible result of each reply. Of hundreds of draws few are distinct."""
    outputs = [_numbers(reply) for reply in replies]
    distinct = {output.tobytes(): output for output in outputs}
    nearest = {key: min(expected, key=lambda possible: possible.distance(output)) for key, output in distinct.items()}
    return [nearest[output.tobytes()] for output in outputs]


def _numbers(reply: Reply) -> Array:
    assert reply.output is not None
    return compare.numbers(reply.output)


POSITIONAL = ("x", "y", "h0", "w_hx", "w_hh", "w_qh")
QUANTITIES = ("d_w_hh", "d_w_hx", "d_w_qh", "d_hidden", "d_output", "hidden", "output", "loss")
CONTRACT = declare(
    __name__,
    {of: f"the quantity {of}" for of in QUANTITIES[1:]}
    | {"truncated": "truncated gradients", "randomised": "randomised gradients"},
    {"of": QUANTITIES[1:], "truncate": ("truncated",), "keep": ("randomised",)},
    by_value=("of",),
)


def oracle(
    x: WithError, y: WithError, h0: WithError, w_hx: WithError, w_hh: WithError, w_qh: WithError, *, of: str = "d_w_hh",
    truncate: int | None = None, keep: float | None = None, factors: Sequence[float] = (),
) -> WithError:  # fmt: skip
    """One quantity. Of a randomised gradient, `factors` are the drawn ξ from the second step on."""
    length = x.shape[0]
    start = h0[:, None]  # h 1; what follows has a column for each step
    terms = w_hx @ x.T
    terms = concatenated([terms[:, :1] + w_hh @ start, terms[:, 1:]])
    summed = _accumulated(terms[:, ::-1], w_hh, length)[:, ::-1]
    both, states = concatenated([w_hx, w_hh]), [start]
    for number in range(length):  # each step is one product of both matrices with input and state
        states.append(both @ concatenated([x[number][:, None], states[-1]], 0))
    hidden = whichever(summed, concatenated(states[1:]))
    output = w_qh @ hidden
    error = output - y.T
    d_output = error * (1 / length)
    if of == "loss":
        return ((error * error).sum().sum(keepdims=True) * 0.5 * (1 / length))[0]
    if of == "d_w_qh":
        return d_output @ hidden.T
    if of in ("hidden", "output", "d_output"):
        return {"hidden": hidden, "output": output, "d_output": d_output}[of].T
    values = np.array(factors, dtype=np.float64)
    factor_row = WithError(widened(values, x.value.dtype.type), x.precision.unit * values, x.precision)
    d_hidden = _accumulated(w_qh.T @ d_output, w_hh.T, min(truncate or length, length), factor_row if factors else None)
    if of == "d_hidden":
        return d_hidden.T
    return d_hidden @ (x if of == "d_w_hx" else concatenated([start, hidden[:, :-1]]).T)


def _accumulated(terms: WithError, matrix: WithError, window: int, factors: WithError | None = None) -> WithError:
    """Σ_k matrixᵏ terms_{t+k} for k below the window; each step from t to t + 1 times its factor.

    An honest computation may go step by step or take powers: the bound is the wider of the two.
    """
    by_steps = by_powers = step = term = terms
    power: WithError | None = None
    for _ in range(1, window):
        power = matrix if power is None else power @ matrix
        step = _later(matrix @ step, factors)
        term = _later(term, factors)
        by_steps = by_steps + step
        by_powers = by_powers + power @ term
    return whichever(by_powers, by_steps)


def _later(columns: WithError, factors: WithError | None) -> WithError:
    """Each step gets the column of the next, the last gets zeros."""
    moved = columns[:, 1:] if factors is None else columns[:, 1:] * factors
    return moved.each(lambda array: np.concatenate([array, np.zeros_like(array, shape=(len(array), 1))], -1))


def draw(
    random: Generator, *, steps: int = 6, inputs: int = 3, hidden: int = 4, outputs: int = 2, growth: float = 0.9,
    turning: bool = False, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Weights by which hidden states grow by about the factor `growth` a step; a name gives a tensor another shape.

    A `turning` w_hh moves each hidden number to the next place: many steps are well conditioned.
    """
    w_hh = random.normal(size=(hidden, hidden)) / np.sqrt(hidden)
    if turning:
        w_hh = np.roll(np.diag([-1.0, *[1.0] * (hidden - 1)]), 1, axis=0)
    usual = {
        "x": random.normal(size=(steps, inputs)),
        "y": random.normal(size=(steps, outputs)) + 0.5,
        "h0": random.normal(size=hidden),
        "w_hx": random.normal(size=(hidden, inputs)) / np.sqrt(inputs),
        "w_hh": growth * w_hh,
        "w_qh": random.normal(size=(outputs, hidden)) / np.sqrt(hidden),
    }
    return usual | {name: random.normal(size=shape) for name, shape in shapes.items()}


BAD_INPUT: list[Row] = [
    ("of", "a quantity that does not exist", {"of": "d_bias"}),
    ("lengths", "6 steps of x and 5 of y", {"y": (5, 2)}),
    ("one_target", "y of one step, which would broadcast", {"y": (1, 2)}),
    ("no_steps", "no steps, which have no mean", {"steps": 0}),
    ("x_width", "x of width 4 with weights for 3", {"x": (6, 4)}),
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
]
case = Formula(oracle, POSITIONAL, draw, options=("of", "truncate", "keep"))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    square: dict[str, Any] = {"steps": 4, "inputs": 4, "outputs": 4}
    diverging: dict[str, Any] = {"steps": 20, "growth": 1.8, "turning": True}
    return [
        case("plain/usual", "several steps; inputs, hidden and outputs of different widths"),
        case("plain/one_step", "no time to go back through", steps=1),
        case("plain/square", "all sizes equal: axes that were swapped still fit", **square),
        *documented(),
        *(case(f"quantity/{of}", f"{of} by its name", of=of) for of in QUANTITIES),
        *(case(f"quantity/{of}_square", "axes that were swapped still fit", of=of, **square) for of in QUANTITIES),
        *(case(f"truncated/to_{terms}", f"{terms} terms", truncate=terms) for terms in (1, 2, 3)),
        case("truncated/more", "more terms than steps: the full gradient", truncate=9),
        case("truncated/d_w_hx", "d_w_hx under truncation", of="d_w_hx", truncate=2),
        case("truncated/untouched_d_w_qh", "d_w_qh does not flow through time", of="d_w_qh", truncate=2),
        *randomised(),
        case("size/steps", "80 steps", PRECISE, steps=80, growth=1.0, turning=True),
        case("size/wide", "widths that tiles do not divide", steps=3, inputs=67, hidden=33, outputs=35),
        case("numerics/diverging", "gradients of many millions", PRECISE, **diverging),
        case("numerics/diverging_d_hidden", "gradients that grow by the step", PRECISE, of="d_hidden", **diverging),
        *case.layouts(),
        *case.repeated(),
        *case.bad_input(*BAD_INPUT),
    ]


def randomised() -> Iterator[Case]:
    """Gradients that flow back by chance."""
    anew = (*[5] * 8, *[None] * 56)
    for of in ("d_w_hh", "d_w_hx", "d_hidden"):
        name = f"randomised/{of}"
        yield Randomised(case(name, "every result is a possible one", steps=4, of=of, keep=0.5))
    unbiased = case("randomised/unbiased", "each possible result by its probability", ("float32",), steps=4, keep=0.25)
    yield Randomised(unbiased, range(560))
    yield Randomised(
        case("randomised/seeds", "torch.manual_seed governs the draw", ("float32",), steps=4, keep=0.5), anew
    )
    yield case("randomised/certain_d_w_hh", "π = 1: the full gradient", keep=1.0)
    yield case("randomised/untouched_d_w_qh", "d_w_qh does not flow through time", of="d_w_qh", keep=0.5)


MEAN_SEEDS = tuple(range(min_seeds(3 / 4, 3)))
"""As many seeds as reject a constant. The likeliest result of an example whose mean is given has the probability 3/4:
z_4 is 2 unless both draws that it depends on are kept. Two results and repeated seeds are counted."""


def documented() -> Iterator[Case]:
    """The documents' examples, with every quantity that they give."""
    linear, scalar, randomised, recursion, powers = (
        documents.examples()[f"doc-004/9.7.{name}"]
        for name in ("2-linear-rnn", "1-scalar-rnn", "1.3-randomised", "1-recursion", "2-powers")
    )
    words = {"h": "hidden", "o": "output", "dL_do": "d_output", "dL_dh": "d_hidden"}
    for quantity, values in linear.expected.items():
        of = words.get(quantity, quantity.replace("dL_dw", "d_w"))
        yield numeric(linear, quantity, linear.numbers(POSITIONAL), values, of=of)
    inputs, printed = _scalar(scalar.inputs), scalar.expected
    words |= {"loss": "loss", "grad_w_h": "d_w_hh", "grad_w_o": "d_w_qh"}
    for quantity in filter(words.__contains__, printed):
        yield numeric(scalar, quantity, inputs, printed[quantity], of=words[quantity])
    for tau, gradient in printed["truncated_grad_w_h"].items():
        yield numeric(scalar, f"truncated_grad_w_h_{tau}", inputs, gradient, truncate=int(tau))
    yield from derivatives(scalar, inputs, printed["dh_dw"])
    inputs = _scalar({**randomised.inputs, "w_o": 1.0, "y": randomised.inputs["x"]})
    yield from derivatives(randomised, inputs, randomised.expected["dh_dw"])
    for step, mean in enumerate(randomised.expected["expected_z"], start=1):
        quantity = f"expected_z_{step}"
        base = case.with_inputs(*randomised.named(quantity), _sensitive(inputs, step), keep=randomised.parameters["pi"])
        mean_case = DocumentedMean(base, Figures(randomised.at(quantity), mean), MEAN_SEEDS)
        yield mean_case if mean else _with_other_start(mean_case, inputs, step)
    b, c = recursion.numbers("bc").values()  # a_t = b_t + c_t a_{t−1}: h = b + C h, C with c below its diagonal, is a
    all_at_once = _named(
        np.ones((4, 1)), np.zeros((4, 1)), np.zeros(4), b[:, None], np.diag(c[1:], -1), np.ones((1, 4))
    )
    yield numeric(recursion, "a", all_at_once, recursion.expected["a"], lambda output: output[-1], of="hidden")
    # No inputs: from a state of ones come the diagonals of the powers of w_hh.
    w_hh, exponents = numbers(powers.inputs["w_hh"]), numbers(powers.inputs["exponents"]).astype(int)
    steps = np.zeros((exponents.max(), 1))
    alone = _named(steps, np.zeros((len(steps), 2)), np.ones(2), np.zeros((2, 1)), w_hh, np.eye(2))
    yield numeric(powers, "diagonals", alone, powers.expected["diagonals"], lambda x: x[exponents - 1], of="hidden")


def derivatives(example: Excerpt, inputs: Inputs, values: list[float]) -> Iterator[Case]:
    """dh_t/dw for each step."""
    for step, derivative in enumerate(values, start=1):
        scalar = numeric(example, f"dh_dw_{step}", _sensitive(inputs, step), derivative)
        yield scalar if derivative else _with_other_start(scalar, inputs, step)


def _with_other_start(base: Case, inputs: Inputs, step: int) -> CasePair:
    """A case whose result is 0, with the same from a first state of 1."""
    return CasePair(base, case.with_inputs(base.name, base.why, _sensitive({**inputs, "h0": np.ones(1)}, step)))


def numeric(
    example: Excerpt, quantity: str, inputs: Inputs, values: Any, select: Any = np.asarray, **options: Any
) -> DocumentedNumbers:
    """A part of a quantity, compared with a document's numbers, which have fewer axes for a network of width 1."""
    base = case.with_inputs(*example.named(quantity), inputs, **options)
    alone = np.ndim(values) < 2 and select is np.asarray
    values, select = (np.ravel(values), np.ravel) if alone else (values, select)
    return DocumentedNumbers(base, Figures(example.at(quantity), values), select)


def _named(*arrays: Array) -> Inputs:
    return dict(zip(POSITIONAL, arrays, strict=True))


def _scalar(arguments: Mapping[str, Any]) -> Inputs:
    """A network of width 1, to which inputs go as they are."""
    x, y = numbers(arguments["x"])[:, None], numbers(arguments["y"])[:, None]
    h0, w_h, w_o = (numbers([arguments[name]]) for name in ("h0", "w_h", "w_o"))
    return _named(x, y, h0, np.ones((1, 1)), w_h[None], w_o[None])


def _sensitive(scalar: Inputs, step: int) -> Inputs:
    """The steps up to one, with a loss that grows as the last hidden state: its gradient is dh/dw there."""
    x, w_hh = scalar["x"][:step], scalar["w_hh"]
    y = np.array(list(accumulate(x, lambda h, row: w_hh[0] * h + row, initial=scalar["h0"])))[1:]
    y[-1] -= step  # an error of T, so that dL/do is 1
    return {**scalar, "x": x, "y": y, "w_qh": np.ones((1, 1))}


OTHER = Source().manual_seed(7)
"""A random source that torch.manual_seed does not reach."""


def back(direct: Tensor, w_hh: Tensor, factors: list[float]) -> Tensor:
    """dL/dh_t from the last step to the first, each multiplied by its factor on the way."""
    rows = [direct[-1]]
    for row, factor in zip(direct[:-1].flip(0), reversed(factors), strict=True):
        rows.append(row + factor * (rows[-1] @ w_hh))
    return torch.stack(rows[::-1])


class ThroughTime(Steps):
    """The recursions, step by step. Everything has a row for each step."""

    axes = Axes(x="t d", y="t q", h0="h", w_hx="h d", w_hh="h h", w_qh="q h")
    choices: ClassVar = {"of": QUANTITIES}

    def compute(
        self, x: Tensor, y: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor, w_qh: Tensor, *, of: str = "d_w_hh",
        truncate: int | None = None, keep: float | None = None,
    ) -> Tensor:  # fmt: skip
        dtype, wide = x.dtype, self.wide(x)
        x, y, h0, w_hx, w_hh, w_qh = (tensor.to(wide) for tensor in (x, y, h0, w_hx, w_hh, w_qh))
        states = self.unroll(x, h0, w_hx, w_hh)  # T+1 h, from h0 on
        output = states[1:] @ w_qh.T
        error = output - y
        d_output = self.d_output(error)
        direct = d_output @ w_qh  # t h
        if keep is not None:
            d_hidden = self.randomised(direct, w_hh, self.factors(len(x), keep))
        elif truncate is not None:
            d_hidden = self.truncated(direct, w_hh, truncate)
        else:
            d_hidden = self.full(direct, w_hh)
        quantities = {"d_hidden": d_hidden, "d_output": d_output, "hidden": states[1:].clone(), "output": output}
        quantities |= {"loss": self.loss(error), "d_w_hh": self.d_w_hh(d_hidden, states)}
        quantities |= {"d_w_hx": self.d_w_hx(d_hidden, x), "d_w_qh": self.d_w_qh(d_output, states)}
        return self.finish(quantities[of]).to(dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        truncate, keep = arguments["truncate"], arguments["keep"]
        if not sizes["t"]:
            raise ValueError("no steps")
        if (truncate is not None and truncate < 1) or (keep is not None and not 0 < keep <= 1):
            raise ValueError("out of range")
        if truncate is not None and keep is not None:
            raise ValueError("both at once")

    @staticmethod
    def unroll(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor) -> Tensor:
        return torch.stack(list(accumulate(x, lambda h, row: w_hx @ row + w_hh @ h, initial=h0)))

    d_output = formula(lambda error: error / len(error))
    loss = formula(lambda error: error.square().sum() / (2 * len(error)))
    full = formula(lambda direct, w_hh: back(direct, w_hh, [1.0] * (len(direct) - 1)))

    @staticmethod
    def truncated(direct: Tensor, w_hh: Tensor, truncate: int) -> Tensor:
        total, term = direct.clone(), direct
        for _ in range(1, min(truncate, len(direct))):
            term = term[1:] @ w_hh
            total[: len(term)] += term
        return total

    factors = staticmethod(lambda steps, keep: drawn(torch.rand(steps - 1), keep))  # ξ from the second step on

    randomised = formula(back)
    d_w_hh = formula(lambda d_hidden, states: d_hidden.T @ states[:-1])
    d_w_hx = formula(lambda d_hidden, x: d_hidden.T @ x)
    d_w_qh = formula(lambda d_output, states: d_output.T @ states[1:])
    finish = formula(lambda quantity: quantity)


def drawn(uniform: Tensor, keep: float) -> list[float]:
    """1/π where a number uniform in [0, 1) is below π, else 0."""
    return [1 / keep if number < keep else 0.0 for number in uniform.tolist()]


def zeros_before(gradients: Tensor, truncate: int) -> Tensor:
    """Zeros, except in the last steps."""
    return torch.cat([torch.zeros_like(gradients[:-truncate]), gradients[-truncate:]])


CONTROLS = {"correct": ThroughTime()}
MUTANTS = all_mutants(
    ThroughTime,
    whole={
        "accepts_any_quantity": Mutation("an unknown quantity is taken for d_w_hh",
            with_arguments(of=lambda of: of if of in QUANTITIES else "d_w_hh")),
        "one_matrix_for_both": Mutation("w_hh serves the inputs too where its shape allows it",
            with_arguments(w_hx=lambda w_hx, w_hh: w_hh if w_hh.shape == w_hx.shape else w_hx)),
        "transposed_input": Mutation("w_hx is transposed where it is square", with_arguments(w_hx=turned)),
        "swapped_steps": Mutation("steps and numbers of x are swapped if equal", with_arguments(x=turned)),
        "clamps_truncation": Mutation("a truncation below 1 becomes 1",
            with_arguments(truncate=unless_none(lambda tau: max(1, tau)))),
    },
    unroll={
        "transposed_forward": Mutation("w_hh is transposed on the way forward", with_arguments(w_hh=torch.t)),
        "squashed": Mutation("the hidden states are those of a network with tanh", lambda x, h0, w_hx, w_hh:
            torch.stack(list(accumulate(x, lambda h, row: (w_hx @ row + w_hh @ h).tanh(), initial=h0)))),
        "starts_from_zeros": Mutation("h0 is ignored: states start from zeros", with_arguments(h0=torch.zeros_like)),
    },
    full={
        "not_transposed_back": Mutation("w_hh is not transposed on the way back", with_arguments(w_hh=torch.t)),
        "direct_terms_alone": Mutation("nothing flows back: direct terms alone", lambda direct, w_hh: direct),
        "forgets_beyond_64": Mutation("gradients flow back 64 steps at most",
            lambda x, w_hh: ThroughTime.truncated(x, w_hh, 64)),
        "last_output_alone": Mutation("only the last output has a gradient",
            with_arguments(direct=lambda x: zeros_before(x, 1))),
    },
    d_output={
        "sum_over_steps": Mutation("the loss is the sum over steps, not their mean: 1/T is forgotten", torch.clone),
        "wrong_sign": Mutation("the error is y − o: the gradient climbs", with_arguments(error=torch.neg)),
    },
    loss={"loss_without_half": Mutation("the loss lacks its half", lambda error: error.square().sum() / len(error))},
    d_w_hh={"current_hidden": Mutation("h_t is taken in place of h_{t−1}",
        lambda d_hidden, states: d_hidden.T @ states[1:])},
    d_w_hx={"previous_input": Mutation("the input of the step before is taken",
        lambda d_hidden, x: d_hidden[1:].T @ x[:-1])},
    d_w_qh={"previous_hidden": Mutation("the gradient of w_qh takes h_{t−1} where h_t was", ThroughTime.d_w_hh)},
    finish={"clipped": Mutation("norms above 10,000 are clipped", lambda x: x / max(1.0, float(x.norm()) / 10_000))},
    truncated={
        "one_term_less": Mutation("one term too few is kept", with_arguments(truncate=lambda tau: max(1, tau - 1)),
            "documents, E42"),
        "one_term_more": Mutation("one term too many is kept", with_arguments(truncate=lambda tau: tau + 1),
            "documents, E42"),
        "cut_into_pieces": Mutation("the steps are cut into pieces of τ, and gradients flow within each alone",
            lambda direct, w_hh, truncate:
            torch.cat([ThroughTime.full(piece, w_hh) for piece in direct.split(truncate)])),
        "last_steps_alone": Mutation("gradients reach the last τ steps of the sequence alone",
            lambda direct, w_hh, truncate: zeros_before(ThroughTime.full(direct, w_hh), truncate)),
        "zeros_beyond_the_steps": Mutation("a truncation to more terms than there are steps gives zeros",
            with_result(lambda found, truncate: found if truncate <= len(found) else torch.zeros_like(found))),
    },
    factors={
        "kept_as_it_is": Mutation("what is kept is not divided by π: too small in the mean",
            with_result(lambda factors, keep: [keep * factor for factor in factors]), "documents, E42"),
        "probability_less_one": Mutation("what is kept is multiplied by π − 1",
            with_result(lambda factors, keep: [keep * factor * (keep - 1) for factor in factors]), "documents, E42"),
        "one_draw_for_all_steps": Mutation("all steps share a draw",
            lambda steps, keep: drawn(torch.rand(1), keep) * (steps - 1)),
        "source_of_its_own": Mutation("the random source is not the one that torch.manual_seed governs",
            lambda steps, keep: drawn(torch.rand(steps - 1, generator=OTHER), keep)),
        "dropped_instead_of_kept": Mutation("π is the probability of dropping",
            lambda steps, keep: [1 / keep - factor for factor in ThroughTime.factors(steps, keep)]),
    },
    randomised={"direct_terms_dropped": Mutation("the direct terms are dropped as well", with_arguments(
        direct=lambda direct, factors: torch.tensor([*factors, 1.0], dtype=direct.dtype)[:, None] * direct))},
)  # fmt: skip


def variants() -> list[Variant]:
    """One recursion, several ways through it."""
    in_float64 = ThroughTime(
        wide=lambda x: torch.float64, full=lambda direct, w_hh: ThroughTime.truncated(direct, w_hh, len(direct))
    )
    return [
        Variant("autograd", "torch's own differentiation of fused steps", in_wider(ThroughTime, _autograd)),
        Variant("float64", "gradients term by term, in float64", in_float64),
    ]


def _autograd(*tensors: Tensor, of: str = "d_w_hh") -> Tensor:
    """Torch's own differentiation; each step is one product of both matrices with input and state."""
    x, y, h0, *matrices = tensors
    with torch.enable_grad():
        weights = {name: w.detach().clone().requires_grad_() for name, w in zip(POSITIONAL[3:], matrices, strict=True)}
        both = torch.cat([weights["w_hx"], weights["w_hh"]], 1).mT
        states = list(accumulate(x, lambda h, row: torch.cat([row, h]) @ both, initial=h0.detach()))
        output = torch.stack([torch.mv(weights["w_qh"], state) for state in states[1:]])
        loss = torch.nn.functional.mse_loss(output, y, reduction="sum") / (2 * len(x))
        if of == "d_hidden":
            return torch.stack(torch.autograd.grad(loss, states[1:]))
        if of.startswith("d_"):
            return torch.autograd.grad(loss, output if of == "d_output" else weights[of.removeprefix("d_")])[0]
    return {"hidden": torch.stack(states[1:]), "output": output, "loss": loss}[of].detach()
