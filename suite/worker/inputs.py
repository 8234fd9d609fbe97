"""Whether inputs are as they were: whoever made a call compares what is left of them with what it has sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.worker.snapshots import fingerprint, is_copy, placed

OUTPUT_GRADIENT = "output_gradient"
Left = Mapping[str, str]
"""Fingerprints by name."""
AS_SENT = "as it was sent"
"""What stands for the fingerprint of an input that was compared itself."""


def left_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The fingerprints of tensors, in writing."""
    return {name: fingerprint(tensor).hex() for name, tensor in tensors.items()}


def compared_itself(tensors: Mapping[str, Tensor], sent: Mapping[str, Tensor]) -> dict[str, str]:
    """The same where what was sent is at hand: comparing takes a twentieth of the time of two fingerprints.

    Of what was not sent, the fingerprint.
    """
    known = {name: AS_SENT if is_copy(tensor, sent[name]) else "" for name, tensor in tensors.items() if name in sent}
    return known | left_of({name: tensor for name, tensor in tensors.items() if name not in sent})


def name_of_weight(name: str) -> str:
    """What a model's weight is called beside inputs."""
    return f"weights[{name!r}]"


def sent_with(calls: Sequence[Call]) -> list[dict[str, Tensor]]:
    """What inputs and weights of each call have to be afterwards: what they were when they were sent."""

    def sent(number: int) -> dict[str, Tensor]:
        call = calls[number]
        given = call if call.backward_of is None else calls[call.backward_of]
        roles = dict.fromkeys(given.same_tensor, next(iter(given.same_tensor), ""))
        inputs = {name: given.tensors[roles.get(name, name)] for name in given.tensors}
        weights = _built(calls, number).weights
        return inputs | {name_of_weight(name): tensor for name, tensor in weights.items()}

    return [sent(number) for number in range(len(calls))]


def fingerprints(sent: Sequence[Mapping[str, Tensor]]) -> list[Left]:
    """The fingerprints of what was sent with each call. Calls may share tensors."""
    once = {id(tensor): tensor for tensors in sent for tensor in tensors.values()}
    known = {key: fingerprint(tensor).hex() for key, tensor in once.items()}
    return [{name: known[id(tensor)] for name, tensor in tensors.items()} for tensors in sent]


def _built(calls: Sequence[Call], number: int) -> Call:
    """The call whose model a call was made of. Those that are made at once have the models of the last one."""
    while calls[number].at_once and number + 1 < len(calls) and calls[number + 1].at_once:
        number += 1
    of = calls[number].model_of
    return calls[number if of is None else of]


def compared(calls: Sequence[Call], replies: Sequence[Reply], sent: Sequence[Left]) -> tuple[Reply, ...]:
    """The replies, saying which inputs the calls have changed. What is not said to be left has changed, too."""
    return tuple(
        replace(reply, changed=tuple(sorted(_changed(call, reply, due))), left={})
        for call, reply, due in zip(calls, replies, sent, strict=True)
    )


def _changed(call: Call, reply: Reply, sent: Left) -> set[str]:
    if not reply.left and (reply.raised or reply.declined or reply.no_model):
        return set()  # it did not come to that
    due = dict(sent)
    if reply.output is not None and any(each is not None for each in reply.gradients.values()):
        assert call.output_gradient is not None
        given = placed(call.output_gradient, "cpu").to(reply.output.dtype)
        due |= left_of({OUTPUT_GRADIENT: given})
    return {name for name, fingerprint in due.items() if reply.left.get(name) != fingerprint}
