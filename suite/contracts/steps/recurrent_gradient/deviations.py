"""Backpropagation through time with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes
from suite.contracts.steps.recurrent_gradient.contract import QUANTITIES

OTHER = Generator().manual_seed(7)
"""A random source that torch.manual_seed does not reach."""


class ThroughTime(Staged):
    """The recursions, step by step. Everything has a row for each step."""

    def __call__(
        self,
        x: Tensor,
        y: Tensor,
        h0: Tensor,
        w_hx: Tensor,
        w_hh: Tensor,
        w_qh: Tensor,
        *,
        of: str = "d_w_hh",
        truncate: int | None = None,
        keep: float | None = None,
    ) -> Tensor:
        of = self.check_of(of)
        truncate, keep = self.check_flow(truncate, keep)
        self.check(x, y, h0, w_hx, w_hh, w_qh)
        dtype, wide = x.dtype, self.wide(x)
        x, y, h0, w_hx, w_hh, w_qh = (tensor.to(wide) for tensor in (x, y, h0, w_hx, w_hh, w_qh))
        states = self.unroll(x, self.start(h0), w_hx, w_hh)  # T+1 h, from h0 on
        output = states[1:] @ w_qh.T
        error = output - y
        d_output = self.d_output(error)
        direct = d_output @ w_qh  # t h
        factors = self.factors(x, keep)
        if keep is not None:
            d_hidden = self.randomised(direct, w_hh, factors)
        elif truncate is not None:
            d_hidden = self.truncated(direct, w_hh, truncate)
        else:
            d_hidden = self.full(direct, w_hh)
        quantities: dict[str, Callable[[], Tensor]] = {
            "d_w_hh": lambda: self.d_w_hh(d_hidden, states),
            "d_w_hx": lambda: self.d_w_hx(d_hidden, x),
            "d_w_qh": lambda: self.d_w_qh(d_output, states),
            "d_hidden": lambda: d_hidden,
            "d_output": lambda: d_output,
            "hidden": lambda: states[1:].clone(),
            "output": lambda: output,
            "loss": lambda: self.loss(error),
        }
        return self.finish(quantities[of]()).to(dtype)

    @staticmethod
    def check_of(of: str) -> str:
        if of not in QUANTITIES:
            raise ValueError(of)
        return of

    @staticmethod
    def check_flow(truncate: int | None, keep: float | None) -> tuple[int | None, float | None]:
        if (truncate is not None and truncate < 1) or (keep is not None and not 0 < keep <= 1):
            raise ValueError("out of range")
        if truncate is not None and keep is not None:
            raise ValueError("both at once")
        return truncate, keep

    @staticmethod
    def check(x: Tensor, y: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor, w_qh: Tensor) -> None:
        if [tensor.dim() for tensor in (x, y, h0, w_hx, w_hh, w_qh)] != [2, 2, 1, 2, 2, 2]:
            raise ValueError("ranks differ")
        (steps, inputs), (outputs, hidden) = x.shape, w_qh.shape
        if not steps or y.shape != (steps, outputs) or h0.shape != (hidden,):
            raise ValueError("lengths or widths differ")
        if w_hx.shape != (hidden, inputs) or w_hh.shape != (hidden, hidden):
            raise ValueError("widths do not chain")

    @staticmethod
    def start(h0: Tensor) -> Tensor:
        return h0

    @staticmethod
    def unroll(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor) -> Tensor:
        states = [h0]
        for row in x:
            states.append(w_hx @ row + w_hh @ states[-1])
        return torch.stack(states)

    @staticmethod
    def d_output(error: Tensor) -> Tensor:
        return error / len(error)

    @staticmethod
    def loss(error: Tensor) -> Tensor:
        return error.square().sum() / (2 * len(error))

    @staticmethod
    def full(direct: Tensor, w_hh: Tensor) -> Tensor:
        return back(direct, w_hh, [1.0] * (len(direct) - 1))

    @staticmethod
    def truncated(direct: Tensor, w_hh: Tensor, truncate: int) -> Tensor:
        found, term = direct.clone(), direct
        for _ in range(1, min(truncate, len(direct))):
            term = term[1:] @ w_hh
            found[: len(term)] += term
        return found

    @staticmethod
    def factors(x: Tensor, keep: float | None) -> list[float]:
        """ξ from the second step on."""
        return [] if keep is None else drawn(torch.rand(len(x) - 1), keep)

    @staticmethod
    def randomised(direct: Tensor, w_hh: Tensor, factors: list[float]) -> Tensor:
        return back(direct, w_hh, factors)

    @staticmethod
    def d_w_hh(d_hidden: Tensor, states: Tensor) -> Tensor:
        return d_hidden.T @ states[:-1]

    @staticmethod
    def d_w_hx(d_hidden: Tensor, x: Tensor) -> Tensor:
        return d_hidden.T @ x

    @staticmethod
    def d_w_qh(d_output: Tensor, states: Tensor) -> Tensor:
        return d_output.T @ states[1:]

    @staticmethod
    def finish(quantity: Tensor) -> Tensor:
        return quantity


def back(direct: Tensor, w_hh: Tensor, factors: list[float]) -> Tensor:
    """dL/dh_t from the last step to the first, each multiplied by its factor on the way."""
    found = [direct[-1]]
    for row, factor in zip(direct[:-1].flip(0), reversed(factors), strict=True):
        found.append(row + factor * (found[-1] @ w_hh))
    return torch.stack(found[::-1])


def drawn(uniform: Tensor, keep: float) -> list[float]:
    """1/π where a number uniform in [0, 1) is below π, else 0."""
    return [1 / keep if number < keep else 0.0 for number in uniform.tolist()]


@instead_of(ThroughTime.unroll, "w_hh is transposed on the way forward")
def transposed_forward(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor) -> Tensor:
    return ThroughTime.unroll(x, h0, w_hx, w_hh.T)


@instead_of(ThroughTime.unroll, "the hidden states are those of a network with tanh")
def squashed(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor) -> Tensor:
    states = [h0]
    for row in x:
        states.append((w_hx @ row + w_hh @ states[-1]).tanh())
    return torch.stack(states)


@instead_of(ThroughTime.start, "the first hidden state starts from zeros, whatever h0")
def starts_from_zeros(h0: Tensor) -> Tensor:
    return torch.zeros_like(h0)


IN_FULL = mistakes(
    ThroughTime.full,
    not_transposed_back=Mistake(
        "w_hh is not transposed on the way back", lambda direct, w_hh: back(direct, w_hh.T, [1.0] * (len(direct) - 1))
    ),
    direct_terms_alone=Mistake("nothing flows back through time: the direct terms alone", lambda direct, w_hh: direct),
    forgets_beyond_64=Mistake(
        "no gradient flows back further than 64 steps", lambda direct, w_hh: ThroughTime.truncated(direct, w_hh, 64)
    ),
)


@instead_of(ThroughTime.full, "the gradient of the last output alone flows back")
def last_output_alone(direct: Tensor, w_hh: Tensor) -> Tensor:
    return back(torch.cat([torch.zeros_like(direct[:-1]), direct[-1:]]), w_hh, [1.0] * (len(direct) - 1))


IN_D_OUTPUT = mistakes(
    ThroughTime.d_output,
    sum_over_steps=Mistake(
        "the gradient is of the sum over steps, not of their mean: 1/T is forgotten", lambda error: error.clone()
    ),
    twice_the_gradient=Mistake(
        "the gradient is of ‖o − y‖² without its half: twice what it should be", lambda error: 2 * error / len(error)
    ),
    mean_over_outputs=Mistake(
        "the mean is over the outputs' numbers too, not over the steps alone", lambda error: error / error.numel()
    ),
    wrong_sign=Mistake("the error is y − o: the gradient climbs", lambda error: -error / len(error)),
)


IN_LOSS = mistakes(
    ThroughTime.loss,
    loss_of_sum=Mistake("the loss is a sum over steps, not their mean", lambda error: error.square().sum() / 2),
    loss_without_half=Mistake("the loss lacks its half", lambda error: error.square().sum() / len(error)),
    loss_with_an_axis=Mistake("the loss has an axis", lambda error: ThroughTime.loss(error)[None]),
)


IN_D_W_HH = mistakes(
    ThroughTime.d_w_hh,
    current_hidden=Mistake(
        "the gradient of w_hh takes h_t where h_{t−1} was", lambda d_hidden, states: d_hidden.T @ states[1:]
    ),
    without_first_step=Mistake(
        "the gradient of w_hh leaves out the first step, whose hidden state was given",
        lambda d_hidden, states: d_hidden[1:].T @ states[1:-1],
    ),
    transposed_gradient=Mistake(
        "the gradient of w_hh is transposed", lambda d_hidden, states: states[:-1].T @ d_hidden
    ),
)


@instead_of(ThroughTime.d_w_hx, "the gradient of w_hx takes the input of the step before")
def previous_input(d_hidden: Tensor, x: Tensor) -> Tensor:
    return d_hidden[1:].T @ x[:-1]


@instead_of(ThroughTime.d_w_qh, "the gradient of w_qh takes h_{t−1} where h_t was")
def previous_hidden(d_output: Tensor, states: Tensor) -> Tensor:
    return d_output.T @ states[:-1]


@instead_of(ThroughTime.finish, "gradients whose norm is above 10,000 are clipped")
def clipped(quantity: Tensor) -> Tensor:
    return quantity / max(1.0, float(quantity.norm()) / 10_000)


IN_TRUNCATED = mistakes(
    ThroughTime.truncated,
    one_term_less=Mistake(
        "truncation keeps one term less",
        lambda direct, w_hh, truncate: ThroughTime.truncated(direct, w_hh, max(1, truncate - 1)),
        source="documents, E42",
    ),
    one_term_more=Mistake(
        "truncation keeps one term more",
        lambda direct, w_hh, truncate: ThroughTime.truncated(direct, w_hh, truncate + 1),
        source="documents, E42",
    ),
    never_truncated=Mistake(
        "truncation is ignored: the full gradient", lambda direct, w_hh, truncate: ThroughTime.full(direct, w_hh)
    ),
)


@instead_of(ThroughTime.truncated, "the steps are cut into pieces of τ, and gradients flow within each alone")
def cut_into_pieces(direct: Tensor, w_hh: Tensor, truncate: int) -> Tensor:
    return torch.cat([ThroughTime.full(piece, w_hh) for piece in direct.split(truncate)])


@instead_of(ThroughTime.truncated, "gradients reach the last τ steps of the sequence alone")
def last_steps_alone(direct: Tensor, w_hh: Tensor, truncate: int) -> Tensor:
    found = ThroughTime.full(direct, w_hh)
    found[:-truncate] = 0
    return found


@instead_of(ThroughTime.truncated, "a truncation to more terms than there are steps gives zeros")
def zeros_beyond_the_steps(direct: Tensor, w_hh: Tensor, truncate: int) -> Tensor:
    found = ThroughTime.truncated(direct, w_hh, truncate)
    return found if truncate <= len(direct) else torch.zeros_like(found)


IN_FACTORS = mistakes(
    ThroughTime.factors,
    kept_as_it_is=Mistake(
        "what is kept is not divided by π: too small in the mean",
        lambda x, keep: [] if keep is None else [keep * factor for factor in ThroughTime.factors(x, keep)],
        source="documents, E42",
    ),
    multiplied_by_probability=Mistake(
        "what is kept is multiplied by π instead of divided",
        lambda x, keep: [] if keep is None else [keep * keep * factor for factor in ThroughTime.factors(x, keep)],
        source="documents, E42",
    ),
    one_draw_for_all_steps=Mistake(
        "one draw decides for all steps",
        lambda x, keep: [] if keep is None else drawn(torch.rand(1), keep) * (len(x) - 1),
    ),
    never_dropped=Mistake("nothing is ever dropped: the full gradient", lambda x, keep: [1.0] * (len(x) - 1)),
    source_of_its_own=Mistake(
        "the random source is not the one that torch.manual_seed governs",
        lambda x, keep: [] if keep is None else drawn(torch.rand(len(x) - 1, generator=OTHER), keep),
    ),
)


@instead_of(ThroughTime.factors, "what is kept is multiplied by π − 1", source="documents, E42")
def probability_less_one(x: Tensor, keep: float | None) -> list[float]:
    return [] if keep is None else [keep * factor * (keep - 1) for factor in ThroughTime.factors(x, keep)]


@instead_of(ThroughTime.factors, "what flows back is dropped with probability π and kept with 1 − π")
def dropped_instead_of_kept(x: Tensor, keep: float | None) -> list[float]:
    if keep is None:
        return []
    return [1 / keep if number >= keep else 0.0 for number in torch.rand(len(x) - 1).tolist()]


@instead_of(ThroughTime.factors, "a step is kept half again as often as π says: too large in the mean")
def kept_too_often(x: Tensor, keep: float | None) -> list[float]:
    return [] if keep is None else [1.5 * factor for factor in drawn(torch.rand(len(x) - 1), min(1.0, 1.5 * keep))]


@instead_of(ThroughTime.factors, "every call draws the same")
def same_draw_every_call(x: Tensor, keep: float | None) -> list[float]:
    return [] if keep is None else drawn(torch.rand(len(x) - 1, generator=Generator().manual_seed(1)), keep)


@instead_of(ThroughTime.randomised, "the direct terms are dropped as well, not what flows back alone")
def direct_terms_dropped(direct: Tensor, w_hh: Tensor, factors: list[float]) -> Tensor:
    scaled = torch.tensor([*factors, 1.0], dtype=direct.dtype)[:, None] * direct
    return back(scaled, w_hh, factors)


@instead_of(ThroughTime.check_of, "an unknown quantity is taken for d_w_hh")
def accepts_any_quantity(of: str) -> str:
    return of if of in QUANTITIES else "d_w_hh"


@instead_of(ThroughTime.check_flow, "a truncation below 1 is taken for 1")
def clamps_truncation(truncate: int | None, keep: float | None) -> tuple[int | None, float | None]:
    return ThroughTime.check_flow(None if truncate is None else max(1, truncate), keep)


CONTROLS = {"correct": ThroughTime()}
OTHERS = [in_memory_order(ThroughTime()), *imprecise(ThroughTime)]
