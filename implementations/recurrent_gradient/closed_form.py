"""The gradients as sums over powers of w_hh, written out."""

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice

QUANTITIES = ("d_w_hh", "d_w_hx", "d_w_qh", "d_hidden", "d_output", "hidden", "output", "loss")


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

    Raises ValueError, before any work, for unknown quantities, sizes that do not fit, and options out of range.
    """
    check_choice("of", of, QUANTITIES)
    if truncate is not None and (truncate < 1 or keep is not None):
        raise ValueError(f"truncate is {truncate} with keep {keep}, expected 1 or more without keep")
    if keep is not None and not 0 < keep <= 1:
        raise ValueError(f"keep is {keep}, expected a probability above 0 and at most 1")
    maps = {"w_hx": (w_hx, "h d"), "w_hh": (w_hh, "h h"), "w_qh": (w_qh, "q h")}
    steps = check_axes(x=(x, "t d"), y=(y, "t q"), h0=(h0, "h"), **maps)["t"]
    if not steps:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected at least 1 step")
    dtype = x.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    x, y, h0, w_hx, w_hh, w_qh = (tensor.to(wide) for tensor in (x, y, h0, w_hx, w_hh, w_qh))
    states = [h0]
    for term in x @ w_hx.T:
        states.append(term + w_hh @ states[-1])
    hidden = torch.stack(states)  # T+1 h
    output = hidden[1:] @ w_qh.T
    d_output = (output - y) / steps
    if of == "hidden":
        return hidden[1:].to(dtype, copy=True)
    if of == "output":
        return output.to(dtype)
    if of == "loss":
        return (steps / 2 * d_output.square().sum()).to(dtype)
    if of == "d_output":
        return d_output.to(dtype)
    if of == "d_w_qh":
        return (d_output.T @ hidden[1:]).to(dtype)
    direct = d_output @ w_qh  # t h
    d_hidden = _through_time(direct, w_hh, min(truncate or steps, steps), _flowing(x, keep))
    if of == "d_hidden":
        return d_hidden.to(dtype)
    return (d_hidden.T @ (x if of == "d_w_hx" else hidden[:-1])).to(dtype)


def _through_time(direct: Tensor, w_hh: Tensor, terms: int, flowing: Tensor) -> Tensor:
    """Σ_k (w_hhᵀ)ᵏ direct_{t+k} for each step t, weighted by the factors of the steps from t + k back to t."""
    total, power, through = direct.clone(), torch.eye(len(w_hh)).to(w_hh), torch.ones_like(direct[:, 0])
    for later in range(1, terms):
        power = power @ w_hh
        through = through[:-1] * flowing[later - 1 :]
        total[:-later] += through.unsqueeze(1) * (direct[later:] @ power)
    return total


def _flowing(x: Tensor, keep: float | None) -> Tensor:
    """The factor of the gradient that flows from each step to the one before, from the second step on."""
    if keep is None:
        return torch.ones_like(x[1:, 0])
    return (torch.rand(len(x) - 1, device=x.device) < keep).to(x.dtype) / keep
