"""Backpropagation through time with exactly one named mistake each."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Generator, Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import (
    Mutation,
    StepChange,
    formula,
    mutants,
    turned,
    unless_none,
    with_arguments,
    with_result,
)
from attnsuite.contracts.steps.recurrent_gradient.contract import QUANTITIES

OTHER = Generator().manual_seed(7)
"""A random source that torch.manual_seed does not reach."""


def back(direct: Tensor, w_hh: Tensor, factors: list[float]) -> Tensor:
    """dL/dh_t from the last step to the first, each multiplied by its factor on the way."""
    found = [direct[-1]]
    for row, factor in zip(direct[:-1].flip(0), reversed(factors), strict=True):
        found.append(row + factor * (found[-1] @ w_hh))
    return torch.stack(found[::-1])


class ThroughTime(Steps):
    """The recursions, step by step. Everything has a row for each step."""

    axes = Axes(x="t d", y="t q", h0="h", w_hx="h d", w_hh="h h", w_qh="q h")
    choices: ClassVar = {"of": QUANTITIES}

    def compute(
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
    def check(given: Arguments, sizes: Sizes) -> None:
        truncate, keep = given["truncate"], given["keep"]
        if not sizes["t"]:
            raise ValueError("no steps")
        if (truncate is not None and truncate < 1) or (keep is not None and not 0 < keep <= 1):
            raise ValueError("out of range")
        if truncate is not None and keep is not None:
            raise ValueError("both at once")

    @staticmethod
    def unroll(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor) -> Tensor:
        states = [h0]
        for row in x:
            states.append(w_hx @ row + w_hh @ states[-1])
        return torch.stack(states)

    d_output = formula(lambda error: error / len(error))
    loss = formula(lambda error: error.square().sum() / (2 * len(error)))
    full = formula(lambda direct, w_hh: back(direct, w_hh, [1.0] * (len(direct) - 1)))

    @staticmethod
    def truncated(direct: Tensor, w_hh: Tensor, truncate: int) -> Tensor:
        found, term = direct.clone(), direct
        for _ in range(1, min(truncate, len(direct))):
            term = term[1:] @ w_hh
            found[: len(term)] += term
        return found

    factors = staticmethod(lambda steps, keep: drawn(torch.rand(steps - 1), keep))  # ξ from the second step on

    randomised = formula(back)
    d_w_hh = formula(lambda d_hidden, states: d_hidden.T @ states[:-1])
    d_w_hx = formula(lambda d_hidden, x: d_hidden.T @ x)
    d_w_qh = formula(lambda d_output, states: d_output.T @ states[1:])
    finish = formula(lambda quantity: quantity)


def drawn(uniform: Tensor, keep: float) -> list[float]:
    """1/π where a number uniform in [0, 1) is below π, else 0."""
    return [1 / keep if number < keep else 0.0 for number in uniform.tolist()]


def squashed(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor) -> Tensor:
    states = [h0]
    for row in x:
        states.append((w_hx @ row + w_hh @ states[-1]).tanh())
    return torch.stack(states)


def the_last_alone(direct: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(direct[:-1]), direct[-1:]])


def zeros_before(found: Tensor, truncate: int) -> Tensor:
    found[:-truncate] = 0
    return found


def times(change: Callable[[float], float]) -> StepChange:
    """Each factor is multiplied by `change(π)`."""
    return with_result(lambda factors, keep: [change(keep) * factor for factor in factors])


def dropped_instead_of_kept(steps: int, keep: float) -> list[float]:
    return [1 / keep if number >= keep else 0.0 for number in torch.rand(steps - 1).tolist()]


def same_draw_every_call(steps: int, keep: float) -> list[float]:
    return drawn(torch.rand(steps - 1, generator=Generator().manual_seed(1)), keep)


def dropped_too(direct: Tensor, factors: list[float]) -> Tensor:
    return torch.tensor([*factors, 1.0], dtype=direct.dtype)[:, None] * direct


CONTROLS = {"correct": ThroughTime()}
GENERAL_MUTANTS = usual_mutants(ThroughTime)
MUTANTS = mutants(
    ThroughTime,
    whole={
        "accepts_any_quantity": Mutation(
            "an unknown quantity is taken for d_w_hh",
            with_arguments(of=lambda of: of if of in QUANTITIES else "d_w_hh"),
        ),
        "one_matrix_for_both": Mutation(
            "w_hh serves the inputs too where its shape allows it",
            with_arguments(w_hx=lambda w_hx, w_hh: w_hh if w_hh.shape == w_hx.shape else w_hx),
        ),
        "inputs_for_targets": Mutation(
            "x is taken for y where they have one shape", with_arguments(y=lambda y, x: x if x.shape == y.shape else y)
        ),
        "transposed_input": Mutation(
            "w_hx is transposed where it is square, as linear layers do not need", with_arguments(w_hx=turned)
        ),
        "transposed_output": Mutation("w_qh is transposed where it is square", with_arguments(w_qh=turned)),
        "swapped_steps": Mutation(
            "steps and numbers of x are swapped where there are as many", with_arguments(x=turned)
        ),
        "clamps_truncation": Mutation(
            "a truncation below 1 is taken for 1",
            with_arguments(truncate=unless_none(lambda truncate: max(1, truncate))),
        ),
    },
    unroll={
        "transposed_forward": Mutation("w_hh is transposed on the way forward", with_arguments(w_hh=torch.t)),
        "squashed": Mutation("the hidden states are those of a network with tanh", squashed),
        "starts_from_zeros": Mutation(
            "the first hidden state starts from zeros, whatever h0", with_arguments(h0=torch.zeros_like)
        ),
    },
    full={
        "not_transposed_back": Mutation("w_hh is not transposed on the way back", with_arguments(w_hh=torch.t)),
        "direct_terms_alone": Mutation(
            "nothing flows back through time: the direct terms alone", lambda direct, w_hh: direct
        ),
        "forgets_beyond_64": Mutation(
            "no gradient flows back further than 64 steps", lambda direct, w_hh: ThroughTime.truncated(direct, w_hh, 64)
        ),
        "last_output_alone": Mutation(
            "the gradient of the last output alone flows back", with_arguments(direct=the_last_alone)
        ),
    },
    d_output={
        "sum_over_steps": Mutation(
            "the gradient is of the sum over steps, not of their mean: 1/T is forgotten", torch.clone
        ),
        "twice_the_gradient": Mutation(
            "the gradient is of ‖o − y‖² without its half: twice what it should be",
            lambda error: 2 * error / len(error),
        ),
        "mean_over_outputs": Mutation(
            "the mean is over the outputs' numbers too, not over the steps alone", lambda error: error / error.numel()
        ),
        "wrong_sign": Mutation("the error is y − o: the gradient climbs", with_arguments(error=torch.neg)),
    },
    loss={
        "loss_of_sum": Mutation("the loss is a sum over steps, not their mean", lambda error: error.square().sum() / 2),
        "loss_without_half": Mutation("the loss lacks its half", lambda error: error.square().sum() / len(error)),
        "loss_with_an_axis": Mutation("the loss has an axis", with_result(lambda loss: loss[None])),
    },
    d_w_hh={
        "current_hidden": Mutation(
            "the gradient of w_hh takes h_t where h_{t−1} was", lambda d_hidden, states: d_hidden.T @ states[1:]
        ),
        "without_first_step": Mutation(
            "the gradient of w_hh leaves out the first step, whose hidden state was given",
            lambda d_hidden, states: d_hidden[1:].T @ states[1:-1],
        ),
        "transposed_gradient": Mutation(
            "the gradient of w_hh is transposed", lambda d_hidden, states: states[:-1].T @ d_hidden
        ),
    },
    d_w_hx={
        "previous_input": Mutation(
            "the gradient of w_hx takes the input of the step before", lambda d_hidden, x: d_hidden[1:].T @ x[:-1]
        )
    },
    d_w_qh={"previous_hidden": Mutation("the gradient of w_qh takes h_{t−1} where h_t was", ThroughTime.d_w_hh)},
    finish={
        "clipped": Mutation(
            "gradients whose norm is above 10,000 are clipped",
            lambda quantity: quantity / max(1.0, float(quantity.norm()) / 10_000),
        )
    },
    truncated={
        "one_term_less": Mutation(
            "truncation keeps one term less",
            with_arguments(truncate=lambda truncate: max(1, truncate - 1)),
            "documents, E42",
        ),
        "one_term_more": Mutation(
            "truncation keeps one term more", with_arguments(truncate=lambda truncate: truncate + 1), "documents, E42"
        ),
        "never_truncated": Mutation(
            "truncation is ignored: the full gradient", lambda direct, w_hh, truncate: ThroughTime.full(direct, w_hh)
        ),
        "cut_into_pieces": Mutation(
            "the steps are cut into pieces of τ, and gradients flow within each alone",
            lambda direct, w_hh, truncate: torch.cat(
                [ThroughTime.full(piece, w_hh) for piece in direct.split(truncate)]
            ),
        ),
        "last_steps_alone": Mutation(
            "gradients reach the last τ steps of the sequence alone",
            lambda direct, w_hh, truncate: zeros_before(ThroughTime.full(direct, w_hh), truncate),
        ),
        "zeros_beyond_the_steps": Mutation(
            "a truncation to more terms than there are steps gives zeros",
            with_result(lambda found, truncate: found if truncate <= len(found) else torch.zeros_like(found)),
        ),
    },
    factors={
        "kept_as_it_is": Mutation(
            "what is kept is not divided by π: too small in the mean", times(lambda keep: keep), "documents, E42"
        ),
        "multiplied_by_probability": Mutation(
            "what is kept is multiplied by π instead of divided", times(lambda keep: keep * keep), "documents, E42"
        ),
        "probability_less_one": Mutation(
            "what is kept is multiplied by π − 1",
            with_result(lambda factors, keep: [keep * factor * (keep - 1) for factor in factors]),
            "documents, E42",
        ),
        "one_draw_for_all_steps": Mutation(
            "one draw decides for all steps", lambda steps, keep: drawn(torch.rand(1), keep) * (steps - 1)
        ),
        "never_dropped": Mutation(
            "nothing is ever dropped: the full gradient", lambda steps, keep: [1.0] * (steps - 1)
        ),
        "source_of_its_own": Mutation(
            "the random source is not the one that torch.manual_seed governs",
            lambda steps, keep: drawn(torch.rand(steps - 1, generator=OTHER), keep),
        ),
        "dropped_instead_of_kept": Mutation(
            "what flows back is dropped with probability π and kept with 1 − π", dropped_instead_of_kept
        ),
        "kept_too_often": Mutation(
            "a step is kept half again as often as π says: too large in the mean",
            lambda steps, keep: [1.5 * each for each in ThroughTime.factors(steps, min(1.0, 1.5 * keep))],
        ),
        "same_draw_every_call": Mutation("every call draws the same", same_draw_every_call),
    },
    randomised={
        "direct_terms_dropped": Mutation(
            "the direct terms are dropped as well, not what flows back alone", with_arguments(direct=dropped_too)
        )
    },
)
