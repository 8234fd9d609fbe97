"""flashinfer's `merge_state`: two parts of (positions, heads, width), log-sum-exps in base 2, no backward.

More parts are merged one after another, and one part with an empty one, (0, −∞).
"""

from collections.abc import Callable, Mapping
from typing import Any

from attnsuite.registry.signatures.layout import NO_BACKWARD
from attnsuite.registry.signatures.signature import Parameters, Signature


def call(function: Callable[..., Any], given: Mapping[str, Any], own: Parameters) -> Any:
    """A chain of merges, all axes before the positions as heads."""
    import torch

    outputs, lses = given["outputs"], given["lses"]
    if outputs.dim() < 3 or lses.dim() < 2 or len(outputs) != len(lses):
        raise NotImplementedError("merge_state takes two outputs and two log-sum-exps, with positions and heads")
    if torch.is_grad_enabled() and (outputs.requires_grad or lses.requires_grad):
        raise NotImplementedError(NO_BACKWARD)
    stacked = outputs.flatten(1, -3) if outputs.dim() > 3 else outputs[:, None]  # n h s d
    logs = lses.flatten(1, -2) if lses.dim() > 2 else lses[:, None]
    parts: list[Any] = list(zip(stacked.transpose(1, 2), logs.transpose(1, 2), strict=True))
    if len(parts) == 1:
        parts.append((torch.zeros_like(parts[0][0]), torch.full_like(parts[0][1], -torch.inf)))
    merged: Any = parts[0]
    for part in parts[1:]:
        merged = function(*merged, *part)
        if not isinstance(merged, tuple | list) or len(merged) != 2:
            return merged
    if not all(isinstance(tensor, torch.Tensor) for tensor in merged) or merged[0].dim() != 3 or merged[1].dim() != 2:
        return merged
    output, lse = (tensor.transpose(0, 1) for tensor in merged)
    return output.reshape(*outputs.shape[1:-1], output.shape[-1]), lse.reshape(lses.shape[1:])


SIGNATURE = Signature(
    function="flashinfer.merge_state",
    contract="merge_states",
    axes="s h d",
    options={},
    required=frozenset({"v_a", "s_a", "v_b", "s_b"}),
    call=call,
    inputs=("v_a", "s_a", "v_b", "s_b"),
    lacks={"gradient": NO_BACKWARD},
    conventions={"base": "2"},
    says="two parts in each call, log-sum-exps in base 2, no backward pass",
)
