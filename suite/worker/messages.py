"""Messages between the suite and a worker: typed structs as MessagePack, then the raw storages of their tensors.

Nothing is pickled. A worker runs a submission, so its messages are validated by the annotations of these structs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, TypeVar, get_type_hints

import torch
from msgspec import Meta, MsgspecError, Raw, Struct, convert, defstruct, msgpack
from msgspec.structs import asdict
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.registry import Declaration
from attnsuite.registry.declaration import implementation_arguments
from attnsuite.registry.signatures import names
from attnsuite.registry.signatures.signature import BY_AUTHOR, BY_USER

HEADER_LIMIT = 1 << 24
"""Bytes of MessagePack in a message at most: a hundred thousand tensors take about as many."""
MAX_TENSORS = 100_000
"""Tensors in a message at most: a model has hundreds of weights, and a test has a few calls."""
STORAGE_LIMIT = 1 << 35
"""Bytes of tensors in a message at most: more than any test needs, and less than exhausts memory."""
TOKEN = 16
"""Bytes of the random number that follows a request and precedes its reply, so that nothing can reply without one."""
MAX_TEXT = 10_000
"""Characters of a stored text: a message is shown in one line and stored with each outcome."""
MAX_NAMES = 1_000
"""Entries of a list or a dictionary in a reply at most: a call runs a few dozen operators, and the largest model has
some hundred weights. Longer ones are refused, because a cut could hide the entry that matters."""
MAX_DEPTH = 10
"""Nested lists in a reply at most: gradients by name in replies in a list have three."""
TENSOR = 1
"""The MessagePack extension type of a tensor."""

_EXACT = ("bool", "complex64", "complex128", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
DTYPES: Mapping[str, torch.dtype] = {
    name: dtype
    for name, dtype in vars(torch).items()
    if isinstance(dtype, torch.dtype) and str(dtype) == f"torch.{name}" and (dtype.is_floating_point or name in _EXACT)
    if not name.endswith("_x2")
}
"""The dtypes of messages, by name: not quantised ones, nor those narrower than a byte, in which PyTorch cannot
compute."""

Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
Sizes = Annotated[list[Natural], Meta(max_length=64)]
Kind = TypeVar("Kind")


class InvalidMessage(Exception):
    """A process sent a message that the suite's own worker never sends."""


class MessageTooLarge(Exception):
    """A message exceeds this process's memory limit, which the text states."""


class Envelope(Struct, array_like=True):
    """The header of each message. The storages follow it, in order."""

    sizes: Annotated[list[Natural], Meta(max_length=MAX_TENSORS)]
    """Bytes of each storage."""
    message: Raw


class Place(Struct, array_like=True):
    """The place of a tensor in the storages of its message."""

    storage: Natural
    dtype: str
    shape: Sizes
    stride: Sizes
    offset: Natural


class Setup(Struct):
    """The first message to a worker. `path` is where the suite looks for modules."""

    declaration: Declaration
    device: str
    path: list[str]
    service: str


class ImportStatus(StrEnum):
    """The result of an import: ready, a missing library, an exception, or an uncallable function."""

    READY = "ready"
    MISSING = "missing"
    BROKEN = "broken"
    UNUSABLE = "unusable"


class ImportReport(Struct):
    """The first message of a worker: the result of the import, and the declaration that it completed."""

    status: ImportStatus
    reason: str
    declaration: Declaration


class Request(Struct):
    """One request to a worker: a verb of its own or of its service, with data and tensors."""

    id: int
    verb: str
    arguments: dict[str, Any]


class Response(Struct, forbid_unknown_fields=True):
    """The result of a request, or the traceback of the suite's own error; and why the device is lost, if it is."""

    id: int
    result: Any = None
    failed: str = ""
    lost: str = ""


def storage_of(tensor: Tensor) -> Tensor:
    """The whole storage behind a tensor as one flat tensor of its dtype."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return torch.as_strided(tensor.detach(), (count,), (1,), 0)


def buffer(flat: Tensor) -> memoryview:
    """The bytes of a flat tensor, without a copy."""
    array: Any = flat.view(torch.uint8).numpy()
    return memoryview(array)


def pack(message: Any) -> Iterator[memoryview]:
    """The message's bytes in order, without copying tensors, whose storage, strides and offset are preserved.

    TypeError for an object that cannot be sent.
    """
    storages: list[memoryview] = []
    content = msgpack.encode(message, enc_hook=partial(_encoded, storages))
    header = msgpack.encode(Envelope([storage.nbytes for storage in storages], Raw(content)))
    yield memoryview(len(header).to_bytes(8, "big") + header)
    yield from storages


def unpack(read_into: Callable[[memoryview], None], kind: type[Kind] | Any = Any, most: int = STORAGE_LIMIT) -> Any:
    """Read one message of a kind with a function that fills a buffer. Raises `InvalidMessage` for anything else.

    Raises `MessageTooLarge` before a tensor is read if all have more than `most` bytes, and for an expanded tensor that
    would have more bytes as a dense one.
    """
    length = bytearray(8)
    read_into(memoryview(length))
    if (size := int.from_bytes(length, "big")) > HEADER_LIMIT:
        raise InvalidMessage(f"a header of {size} bytes")
    header = bytearray(size)
    read_into(memoryview(header))
    envelope = _decoded(header, Envelope)
    if sum(envelope.sizes) > STORAGE_LIMIT:
        raise InvalidMessage(f"tensors of {sum(envelope.sizes)} bytes")
    if sum(envelope.sizes) > most:
        raise MessageTooLarge(f"{most / (1 << 30):.2g} GiB")
    try:  # memory is allocated as it is filled
        storages = [torch.empty(size, dtype=torch.uint8) for size in envelope.sizes]
    except RuntimeError as error:
        raise InvalidMessage(f"tensors of {sum(envelope.sizes)} bytes") from error
    for storage in storages:
        if storage.numel():
            read_into(buffer(storage))
    return _decoded(envelope.message, kind, partial(_tensor, storages, most))


def calls_from(data: Any) -> list[Call]:
    """The calls in a request."""
    return [Call(**asdict(call)) for call in convert(data, list[_CALL])]  # type: ignore[valid-type]


def replies_from(result: Any, calls: Sequence[Call]) -> list[Reply]:
    """The replies in a response, one to each call. Raises `InvalidMessage` for anything else."""
    try:
        structs: list[Any] = convert(shortened(result), list[_REPLY])  # type: ignore[valid-type]
    except MsgspecError as error:
        raise InvalidMessage(str(error)) from error
    replies = [Reply(**asdict(struct)) for struct in structs]
    if len(replies) != len(calls):
        raise InvalidMessage(f"{len(replies)} replies to {len(calls)} calls")
    for reply, call in zip(replies, calls, strict=True):
        if not 0 <= reply.seconds < math.inf:
            raise InvalidMessage(f"a call that took {reply.seconds} s")
        if call.output_gradient is None and any(gradient is not None for gradient in reply.gradients.values()):
            raise InvalidMessage("gradients of a call without a backward pass")
        if reply.output is not None and not reply.error and set(reply.gradients) != set(call.gradient_of):
            raise InvalidMessage("gradients of other inputs than the call names")
    return replies


FROM_IMPORT = (
    *("function", "parameters", "requires", "lacks", "conventions"),
    *("conversion", "untested", "rewrites_calls", "guessed", "owns_weights"),
)
"""The fields of a declaration that only an import can determine."""


def declared_by(report: ImportReport, known: Declaration) -> Declaration:
    """The declaration with the fields that the import determined. Raises `InvalidMessage` for impossible fields."""
    reported = report.declaration
    fields = {name: shortened(getattr(reported, name)) for name in FROM_IMPORT}
    if not known.signature:
        fields |= {"signature": reported.signature, "signature_by": reported.signature_by}
    parameters = (
        *(reported.parameters or ()),
        *reported.untested,
        *reported.signature_by,
        *filter(None, reported.function.split(".")),
    )
    if not all(name.isidentifier() or name in (BY_USER, BY_AUTHOR) for name in parameters):
        raise InvalidMessage("parameters without names")
    if reported.signature and reported.signature not in names():
        raise InvalidMessage("an unknown signature")
    try:
        implementation_arguments(requires=reported.requires, lacks=reported.lacks, conventions=reported.conventions)
    except TypeError as error:
        raise InvalidMessage(str(error)) from error
    return replace(known, **fields)


def shortened(value: Any, depth: int = 0) -> Any:
    """The value with long texts cut. Raises `InvalidMessage` for more than `MAX_NAMES` entries, or deep nesting."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if not isinstance(value, list | tuple | dict):
        return value
    if len(value) > MAX_NAMES:
        raise InvalidMessage(f"a list of {len(value)} entries")
    if depth > MAX_DEPTH:
        raise InvalidMessage("lists nested too deep")
    if isinstance(value, dict):
        return {shortened(name): shortened(item, depth + 1) for name, item in value.items()}
    return type(value)(shortened(item, depth + 1) for item in value)


def _typed(record: type, **hints: Any) -> type[Struct]:
    """A struct with the fields of a dataclass, and other annotations for some of them."""
    annotations = get_type_hints(record, localns={"Tensor": Tensor}) | hints
    return defstruct(record.__name__, list(annotations.items()), forbid_unknown_fields=True)


_Option = float | int | bool | str | None
_CALL = _typed(
    Call, options=dict[str, _Option | tuple[_Option, ...]]
)  # MessagePack has no tuples, and options no lists
_REPLY = _typed(Reply)


def _encoded(storages: list[memoryview], value: Any) -> Any:
    """The MessagePack form of a value of another type."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float):  # a subclass
        return float(value)
    if not isinstance(value, Tensor):
        raise TypeError(f"a {type(value).__name__} cannot be sent")
    tensor = value.detach().resolve_conj().resolve_neg()
    if tensor.device.type != "cpu":
        tensor = torch.as_strided(storage_of(tensor).cpu(), tensor.shape, tensor.stride(), tensor.storage_offset())
    storages.append(buffer(storage_of(tensor)))
    dtype = str(tensor.dtype).removeprefix("torch.")
    place = Place(len(storages) - 1, dtype, list(tensor.shape), list(tensor.stride()), int(tensor.storage_offset()))
    return msgpack.Ext(TENSOR, msgpack.encode(place))


def _decoded(
    content: bytes | bytearray | Raw, kind: Any, tensor: Callable[[int, memoryview], Any] | None = None
) -> Any:
    try:
        return msgpack.decode(content, type=kind, ext_hook=tensor)
    except (MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise InvalidMessage(str(error)) from error


def _tensor(storages: list[Tensor], most: int, code: int, content: memoryview) -> Tensor:
    """The tensor at a place, which may be invalid: memory outside the storage is never touched.

    It has `most` bytes at most as a dense tensor, because a comparison allocates that memory.
    """
    place: Place = _decoded(content, Place)  # type: ignore[arg-type]
    if code != TENSOR or place.storage >= len(storages) or place.dtype not in DTYPES:
        raise InvalidMessage("a tensor without a storage or a dtype")
    storage, dtype = storages[place.storage], DTYPES[place.dtype]
    if len(place.shape) != len(place.stride):
        raise InvalidMessage("a tensor of impossible layout")
    last = place.offset + sum((size - 1) * step for size, step in zip(place.shape, place.stride, strict=True))
    if storage.numel() % dtype.itemsize or (0 not in place.shape and (last + 1) * dtype.itemsize > storage.numel()):
        raise InvalidMessage("a tensor that reaches beyond its storage")
    if math.prod(place.shape) * dtype.itemsize > most:
        raise MessageTooLarge(f"{most / (1 << 30):.2g} GiB")
    try:
        return torch.as_strided(storage.view(dtype), place.shape, place.stride, place.offset)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise InvalidMessage("a tensor of impossible layout") from error
