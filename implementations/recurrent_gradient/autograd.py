"""PyTorch's automatic differentiation of the network, unrolled."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

WEIGHTS = ("d_w_hh", "d_w_hx", "d_w_qh")
QUANTITIES = (*WEIGHTS, "d_hidden", "d_output", "hidden", "output", "loss")


@implementation
def recurrent_gradient(
    x: Tensor,  # t d
    y: Tensor,  # t q
    h0: Tensor,  # h
    w_hx: Tensor,  # h d
    w_hh: Tensor,  # h h
    w_qh: Tensor,  # q h
    *,
    of: str = "d_w_hh",
    truncate: int | None = None,
    keep: float | None = None,
) -> Tensor:
    """Return one quantity of the linear recurrent network or of its gradient, in x's dtype.

    Raises ValueError for unknown quantities, sizes that do not fit, and options out of range.
    """
    check_choice("of", of, QUANTITIES)
    if truncate is not None and (truncate < 1 or keep is not None):
        raise ValueError(f"truncate should be 1 or more and without keep, not {truncate} with keep {keep}")
    if keep is not None and not 0 < keep <= 1:
        raise ValueError(f"keep should be a probability above 0 and at most 1, not {keep}")
    maps = {"w_hx": (w_hx, "h d"), "w_hh": (w_hh, "h h"), "w_qh": (w_qh, "q h")}
    steps = check_axes(x=(x, "t d"), y=(y, "t q"), h0=(h0, "h"), **maps)["t"]
    if not steps:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected at least 1 step")
    dtype = x.dtype
    wide = torch.promote_types(dtype, torch.float32)
    with torch.enable_grad():
        x, y, h0 = (tensor.detach().to(wide) for tensor in (x, y, h0))
        w_hx, w_hh, w_qh = (tensor.detach().to(wide).requires_grad_() for tensor in (w_hx, w_hh, w_qh))
        weights = dict(zip(WEIGHTS, (w_hh, w_hx, w_qh), strict=True))
        if truncate is not None and of in ("d_w_hh", "d_w_hx", "d_hidden"):
            return _truncated(of, x, y, h0, weights, truncate).to(dtype)
        states = _unrolled(x, h0, w_hx, w_hh, keep)
        hidden = torch.stack(states[1:])
        output = hidden @ w_qh.T
        loss = ((output - y) ** 2).sum() / 2 / steps
        if of == "d_hidden":
            return torch.stack(torch.autograd.grad(loss, states[1:])).to(dtype)
        if of == "d_output" or of in weights:
            return torch.autograd.grad(loss, output if of == "d_output" else weights[of])[0].to(dtype)
    return {"hidden": hidden, "output": output, "loss": loss}[of].detach().to(dtype)


def _unrolled(x: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor, keep: float | None = None) -> list[Tensor]:
    """The hidden states from h0 on. Where one is kept by chance, so is the gradient that flows back to it."""
    states = [h0]
    chances = [None] * len(x) if keep is None else [1.0, *torch.rand(len(x) - 1).tolist()]
    for row, chance in zip(x, chances, strict=True):
        before = states[-1]
        if chance is not None and keep is not None:
            factor = 1 / keep if chance < keep else 0.0
            before = before.detach() + factor * (before - before.detach())
        states.append(w_hx @ row + w_hh @ before)
    return states


def _truncated(of: str, x: Tensor, y: Tensor, h0: Tensor, weights: dict[str, Tensor], truncate: int) -> Tensor:
    """Each step's loss by itself, differentiated through the last steps alone."""
    w_hh, w_hx, w_qh = weights.values()
    values = [state.detach() for state in _unrolled(x, h0, w_hx, w_hh)]
    total = torch.zeros_like(torch.stack(values[1:]) if of == "d_hidden" else weights[of])
    for step in range(len(x)):
        start = max(0, step + 1 - truncate)
        states = _unrolled(x[start : step + 1], values[start], w_hx, w_hh)
        loss = ((w_qh @ states[-1] - y[step]) ** 2).sum() / 2 / len(x)
        if of == "d_hidden":
            total[start : step + 1] += torch.stack(torch.autograd.grad(loss, states[1:]))
        else:
            total += torch.autograd.grad(loss, weights[of])[0]
    return total
