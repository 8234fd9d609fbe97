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
    h0               is given, and no weight: its gradient is not asked
    truncate         τ: the gradient of o_t flows back to h_t and the τ − 1 hidden states before it. 1 keeps the direct
                     term alone; T and more are the full gradient
    keep             π: ξ_t is 1/π with probability π and else 0, one draw for each step and for all that flows through
                     it, by `torch.manual_seed`; each call draws anew. Its mean is the full gradient, which π = 1 gives
    both at once     not defined: raises
    the rest         neither touches w_qh, whose gradient does not flow through time, nor what is no gradient
    rounding         sums may run in any order, in half types in float32: step by step, of powers of w_hh, or one
                     product of both matrices side by side with input and state. Each step's result may be rounded to
                     the dtype
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           x's dtype and device
    bad input        raises: an unknown quantity, other ranks, widths that do not chain, x and y of different lengths,
                     no steps at all, a truncation below 1, a probability outside (0, 1]

The document's probabilities may differ from step to step; here one serves all.
"""

from __future__ import annotations

from attnsuite.cases import declare

POSITIONAL = ("x", "y", "h0", "w_hx", "w_hh", "w_qh")
QUANTITIES = ("d_w_hh", "d_w_hx", "d_w_qh", "d_hidden", "d_output", "hidden", "output", "loss")
THROUGH_TIME = ("d_w_hh", "d_w_hx", "d_hidden")
"""What truncating and randomising change."""
FEATURES = {
    "d_w_hx": "the gradient of the input weights",
    "d_w_qh": "the gradient of the output weights",
    "d_hidden": "the gradients of the hidden states",
    "d_output": "the gradients of the outputs",
    "hidden": "the hidden states",
    "output": "the outputs",
    "loss": "the loss",
    "truncated": "truncated gradients",
    "randomised": "randomised gradients",
}

CONTRACT = declare(
    __name__,
    FEATURES,
    {"of": QUANTITIES[1:], "truncate": ("truncated",), "keep": ("randomised",)},
    by_value=("of",),
)
