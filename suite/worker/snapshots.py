"""Copies, fingerprints and memory addresses of tensors, and the inputs that a call has changed."""

import ctypes
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.worker.messages import DTYPES, storage_of

_NAMES = "detach as_subclass to clone reshape resolve_conj resolve_neg untyped_storage"
METHODS = SimpleNamespace(**{name: getattr(torch._C.TensorBase, name) for name in _NAMES.split()})
"""PyTorch's own methods of tensors, bound before a submission is imported, which may replace them."""
SUBCLASS = "a subclass of Tensor"
"""The first words of the kind of a tensor whose class is not PyTorch's own."""


def placed(tensor: Tensor, device: str) -> Tensor:
    """A copy on `device` with the same strides and storage offset, padding included."""
    return view_like(storage_of(tensor).to(device, copy=True), tensor)


def fingerprint(tensor: Tensor) -> bytes:
    """A hash of every bit of the tensor's storage and of its layout there."""
    hashed = hashlib.sha256(layout(tensor).encode())  # processors have instructions for it
    storage = tensor.untyped_storage().cpu()
    if size := storage.nbytes():  # read where it lies: a view of it in numpy takes longer than hashing a small one
        hashed.update((ctypes.c_char * size).from_address(storage.data_ptr()))
    return hashed.digest()


def layout(tensor: Tensor) -> str:
    """The layout of a tensor in its storage, as text."""
    return repr((tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()))


def view_like(storage: Tensor, tensor: Tensor) -> Tensor:
    """A view of this storage with the shape, strides and offset of the tensor."""
    return torch.as_strided(storage.detach(), tensor.shape, tensor.stride(), tensor.storage_offset())


def kind_of(output: Any) -> str | None:
    """The kind of an output in words; None for a plain dense tensor. A lazy tensor is not evaluated."""
    with as_it_lies():
        return _kind_of(output)


def _kind_of(output: Any) -> str | None:
    if not isinstance(output, Tensor):
        kind = type(output)
        return "None" if output is None else f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
    is_dense = output.layout == torch.strided and not (output.is_nested or output.is_quantized or output.is_meta)
    if not is_dense or str(output.dtype).removeprefix("torch.") not in DTYPES:
        kinds = {"nested": output.is_nested, "quantised": output.is_quantized, "without data": output.is_meta}
        words = [kind for kind, is_so in kinds.items() if is_so] or [str(output.layout).removeprefix("torch.")]
        return f"a tensor of {output.dtype}, {words[0]}"
    if type(output) not in (Tensor, torch.nn.Parameter):
        if _has_no_data(output):
            return f"a tensor without data ({type(output).__module__}.{type(output).__qualname__})"
        return f"{SUBCLASS}, {type(output).__module__}.{type(output).__qualname__}"
    return None


def _has_no_data(output: Tensor) -> bool:
    """Whether no memory holds the numbers of a tensor."""
    try:
        return output.numel() > 0 and bool(METHODS.untyped_storage(output).data_ptr() == 0)
    except RuntimeError:
        return True


@contextmanager
def as_it_lies() -> Iterator[None]:
    """Read tensors as they lie in memory, without calling a class, mode or method of a submission, which may compute.

    Call `METHODS` inside: `torch.Tensor` and the tensor itself may have other methods of the same names.
    """
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def plain_tensor(output: Tensor) -> Tensor:
    """The tensor in memory, without its gradient and without a class of its own."""
    with as_it_lies():
        plain = METHODS.detach(output)
        return plain if type(plain) is Tensor else METHODS.as_subclass(plain, Tensor)


def snapshot_of(output: Tensor) -> Tensor:
    """A copy on the CPU, which nothing that runs later can change."""
    plain = plain_tensor(output)
    with as_it_lies():
        copied = METHODS.to(plain, "cpu", copy=True)
        return METHODS.resolve_neg(METHODS.resolve_conj(copied))  # type: ignore[no-any-return]


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors agree in every bit, so that NaN equals itself."""
    return first.shape == second.shape and torch.equal(_bits(first), _bits(second))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)


def place_of(tensor: Tensor) -> tuple[str, int, int]:
    """The address of the tensor's storage: device, first byte, and the byte after the last."""
    storage = tensor.untyped_storage()
    return tensor.device.type, storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def overlap(first: tuple[str, int, int], second: tuple[str, int, int]) -> bool:
    """Whether two such ranges share a byte."""
    return first[0] == second[0] and max(first[1], second[1]) < min(first[2], second[2])


OUTPUT_GRADIENT = "output_gradient"
Fingerprints = Mapping[str, str]
"""Fingerprints by name."""


def fingerprints_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The fingerprints of tensors, in hexadecimal."""
    return {name: fingerprint(tensor).hex() for name, tensor in tensors.items()}


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
