"""The gradients as sums over powers of w_hh, written out."""

import torch
from torch import Tensor

from attnsuite import implementation

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
    _check(x, y, h0, w_hx, w_hh, w_qh, of, truncate, keep)
    dtype = x.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    x, y, h0, w_hx, w_hh, w_qh = (tensor.to(wide) for tensor in (x, y, h0, w_hx, w_hh, w_qh))
    steps = len(x)
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


def _check(
    x: Tensor, y: Tensor, h0: Tensor, w_hx: Tensor, w_hh: Tensor, w_qh: Tensor,
    of: str, truncate: int | None, keep: float | None,
) -> None:  # fmt: skip
    if of not in QUANTITIES:
        raise ValueError(f"of should be one of {len(QUANTITIES)}, {', '.join(QUANTITIES)}, not {of!r}")
    if truncate is not None and keep is not None:
        raise ValueError(f"either truncate or keep, not both, {truncate} and {keep}")
    if truncate is not None and truncate < 1:
        raise ValueError(f"truncate should be 1 or more, not {truncate}")
    if keep is not None and not 0 < keep <= 1:
        raise ValueError(f"keep should lie above 0 and be at most 1, not {keep}")
    if x.dim() != 2 or w_qh.dim() != 2 or len(x) == 0:
        raise ValueError(
            f"x should be t d with a step at least, and w_qh q h, not {tuple(x.shape)}, {tuple(w_qh.shape)}"
        )
    (steps, inputs), (outputs, hidden) = x.shape, w_qh.shape
    expected = {"y": (steps, outputs), "h0": (hidden,), "w_hx": (hidden, inputs), "w_hh": (hidden, hidden)}
    for (name, shape), tensor in zip(expected.items(), (y, h0, w_hx, w_hh), strict=True):
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} should have shape {shape}, not {tuple(tensor.shape)}")
