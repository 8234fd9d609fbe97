"""Detection of changed inputs: their fingerprints after a call are compared with those of the sent tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.worker.snapshots import fingerprint, is_copy, placed

OUTPUT_GRADIENT = "output_gradient"
Fingerprints = Mapping[str, str]
"""Fingerprints by name."""
UNCHANGED = "as it was sent"
"""The mark, in place of a fingerprint, of an input that was compared directly and is unchanged."""


def fingerprints_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The fingerprints of tensors, in hexadecimal."""
    return {name: fingerprint(tensor).hex() for name, tensor in tensors.items()}


def compared_directly(tensors: Mapping[str, Tensor], sent: Mapping[str, Tensor]) -> dict[str, str]:
    """Marks of tensors by comparison with the sent ones, which takes a twentieth of the time of two fingerprints."""
    same = {name: UNCHANGED if is_copy(tensor, sent[name]) else "" for name, tensor in tensors.items() if name in sent}
    return same | fingerprints_of({name: tensor for name, tensor in tensors.items() if name not in sent})


def weight_name(name: str) -> str:
    """The name of a model's weight next to inputs."""
    return f"weights[{name!r}]"


def sent_with(calls: Sequence[Call]) -> list[dict[str, Tensor]]:
    """The inputs and weights of each call as they were sent, which it must leave unchanged."""

    def sent(number: int) -> dict[str, Tensor]:
        call = calls[number]
        forward = call if call.backward_of is None else calls[call.backward_of]
        roles = dict.fromkeys(forward.same_tensor, next(iter(forward.same_tensor), ""))
        inputs = {name: forward.tensors[roles.get(name, name)] for name in forward.tensors}
        return inputs | {weight_name(name): tensor for name, tensor in _built(calls, number).weights.items()}

    return [sent(number) for number in range(len(calls))]


def fingerprints(sent: Sequence[Mapping[str, Tensor]]) -> list[Fingerprints]:
    """The fingerprints of the tensors of each call. Calls may share tensors."""
    tensors = {id(tensor): tensor for named in sent for tensor in named.values()}
    known = {key: fingerprint(tensor).hex() for key, tensor in tensors.items()}
    return [{name: known[id(tensor)] for name, tensor in named.items()} for named in sent]


def _built(calls: Sequence[Call], number: int) -> Call:
    """The call that built the model of a call. Simultaneous calls use the model of the last of them."""
    while calls[number].at_once and number + 1 < len(calls) and calls[number + 1].at_once:
        number += 1
    earlier = calls[number].model_of
    return calls[number if earlier is None else earlier]


def compared(calls: Sequence[Call], replies: Sequence[Reply], sent: Sequence[Fingerprints]) -> tuple[Reply, ...]:
    """The replies with the inputs that the calls have changed. An input without a mark counts as changed."""
    return tuple(
        replace(reply, changed=tuple(sorted(_changed(call, reply, expected))), left={})
        for call, reply, expected in zip(calls, replies, sent, strict=True)
    )


def _changed(call: Call, reply: Reply, sent: Fingerprints) -> set[str]:
    if not reply.left and (reply.error or reply.unsupported or reply.no_model):
        return set()  # no call was made
    expected = dict(sent)
    if reply.output is not None and any(gradient is not None for gradient in reply.gradients.values()):
        assert call.output_gradient is not None
        expected |= fingerprints_of({OUTPUT_GRADIENT: placed(call.output_gradient, "cpu").to(reply.output.dtype)})
    return {name for name, mark in expected.items() if name not in call.state and reply.left.get(name) != mark}
