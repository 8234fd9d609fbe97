"""What comes back from a worker is not trusted: messages and replies that no honest one sends."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from msgspec import Raw, msgpack
from torch import Tensor
from workers import answered, call, same

from attnsuite.cases import Reply
from attnsuite.registry import find
from attnsuite.worker.messages import (
    DTYPES,
    MAX_NAMES,
    MAX_TEXT,
    TENSOR,
    ImportReport,
    ImportStatus,
    InvalidMessage,
    MessageTooLarge,
    Request,
    Response,
    calls_from,
    declared_by,
    pack,
    replies_from,
    unpack,
)
from attnsuite.worker.worker import Crash, Ready, Worker


def through_bytes(content: bytes, kind: Any = Any) -> Any:
    position = 0

    def read_into(buffer: memoryview) -> None:
        nonlocal position
        piece = content[position : position + buffer.nbytes]
        if len(piece) < buffer.nbytes:
            raise EOFError
        buffer[:] = piece
        position += buffer.nbytes

    return unpack(read_into, kind)


BASE = torch.arange(60.0)
LAYOUTS = {
    "transposed": BASE.reshape(3, 4, 5).transpose(0, 2),
    "offset": BASE[7:19].reshape(3, 4),
    "strided": BASE[::7],
    "expanded": BASE[:5].expand(4, 3, 5),
    "empty": BASE[5:5],
    "empty rows": torch.empty(0, 3),
    "scalar": BASE[9],
    "padded": torch.as_strided(BASE, (2, 3), (20, 5), 3),
    "overlapping": torch.as_strided(BASE, (4, 4), (1, 1), 2),
    "conjugate": torch.complex(BASE, BASE).conj(),
    "learning": BASE.clone().requires_grad_(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_crosses_with_its_storage(name: str) -> None:
    tensor = LAYOUTS[name]
    message = {"tensor": tensor, "more": [{"x": [1, 2.5, True, None, "ü", float("-inf")]}]}

    arrived = through_bytes(b"".join(pack(message)))

    assert same(arrived["tensor"], tensor.detach().resolve_conj())
    assert arrived["more"] == message["more"]


def test_a_call_arrives_as_it_was_sent() -> None:
    options = {"window": (2, None), "scale": 2, "softcap": 1.5, "is_causal": True}
    sent = replace(call(options=options), gradient_of=("query",), factory_options={"greedy": {"most": 3}})

    request = through_bytes(b"".join(pack(Request(1, "run_calls", {"calls": [sent]}))), Request)
    (arrived,) = calls_from(request.arguments["calls"])

    assert all(same(arrived.tensors[name], sent.tensors[name]) for name in sent.tensors)
    assert replace(arrived, tensors={}) == replace(sent, tensors={})
    assert type(arrived.options["scale"]) is int


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_crosses_bit_by_bit_and_can_be_computed_with(name: str) -> None:
    dtype = DTYPES[name]
    content = torch.arange(96, dtype=torch.uint8) * 37
    bits = (content % 2 if dtype is torch.bool else content).view(dtype)  # NaNs with payloads among them
    zeros = torch.zeros(2 * dtype.itemsize, dtype=torch.uint8).view(dtype)

    assert same(through_bytes(b"".join(pack(bits))), bits)
    assert torch.ones(2).to(dtype).dtype == dtype
    assert zeros[[0, 1]].to(torch.complex128).tolist() == [0.0, 0.0] or name == "float8_e8m0fnu", "which has no zero"


def forged(header: object, rest: bytes = b"") -> bytes:
    content = header if isinstance(header, bytes) else msgpack.encode(header)
    return len(content).to_bytes(8, "big") + content + rest


def tensor(*place: object, sizes: object = (16,), code: int = TENSOR) -> bytes:
    return forged([sizes, msgpack.Ext(code, msgpack.encode(place))], bytes(16))


FORGED = {
    "a length": (1 << 40).to_bytes(8, "big"),
    "no MessagePack": forged(b"\xc1"),
    "text that is no UTF-8": forged([[], Raw(b"\xa1\xff")]),
    "a deep list": forged(b"\x92\x90" + b"\x91" * 100_000 + b"\x90"),
    "an empty header": forged([]),
    "a negative size": forged([[-1], 0]),
    "a huge size": forged([[1 << 60], 0]),
    "a truth for a size": forged([[True], 0]),
    "a number for sizes": forged([3, 0]),
    "many sizes": forged([[0] * 100_001, 0]),
    "no place": tensor(),
    "another extension": tensor(0, "float32", [4], [1], 0, code=2),
    "no offset": tensor(0, "float32", [4], [1]),
    "another storage": tensor(1, "float32", [4], [1], 0),
    "a negative storage": tensor(-1, "float32", [4], [1], 0),
    "a quantised dtype": tensor(0, "qint8", [4], [1], 0),
    "a list for a dtype": tensor(0, [], [4], [1], 0),
    "beyond its storage": tensor(0, "float32", [5], [1], 0),
    "an offset beyond": tensor(0, "float32", [4], [1], 1),
    "a huge stride": tensor(0, "float32", [2], [1 << 61], 0),
    "a negative stride": tensor(0, "float32", [4], [-1], 3),
    "more strides than axes": tensor(0, "float32", [4], [1, 1], 0),
    "a text for a shape": tensor(0, "float32", "4", "1", 0),
    "many axes": tensor(0, "float32", [1] * 65, [1] * 65, 0),
    "an odd storage": tensor(0, "float64", [1], [1], 0, sizes=[15]),
    "a fraction of an axis": tensor(0, "float32", [1.5], [1], 0),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_message_is_garbage(name: str) -> None:
    with pytest.raises(InvalidMessage):
        through_bytes(FORGED[name])


def test_a_forged_tensor_keeps_within_its_storage() -> None:
    assert through_bytes(tensor(0, "float32", [2, 2], [2, 1], 0)).tolist() == [[0, 0], [0, 0]]


def test_a_number_that_is_repeated_takes_as_much_as_it_would_in_full() -> None:
    with pytest.raises(MessageTooLarge):
        through_bytes(tensor(0, "float32", [1 << 20, 1 << 20], [0, 0], 0))


class Forger:
    """Stands in for a process, and sends this response."""

    printed, pid = "", 0

    def __init__(self, response: Any) -> None:
        self.response = response

    def forget(self) -> None: ...
    def send(self, message: Any, deadline: float, replies: int) -> None: ...
    def end(self, grace: float = 0) -> str:
        return ""

    def is_silent(self, until: float) -> bool:
        return False

    def receive(self, kind: Any, deadline: float) -> Any:
        return through_bytes(b"".join(pack(self.response)), kind)


def asked(response: object) -> Any:
    """What comes of a call where the process answers so."""
    worker = Worker("attention/matmul")
    worker._state, worker._process = Ready(worker.declaration), Forger(response)  # type: ignore[assignment]
    return worker.run_calls([call()])


def reply(**forged: Any) -> dict[str, Any]:
    return Reply().__dict__ | forged


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (None, "Expected `object`"),
        (Response(2, []), "the reply belongs to another request"),
        ({"id": True}, "Expected `int`, got `bool`"),
        ({"id": 1, "failed": torch.zeros(2)}, "Expected `str`"),
        ({"id": 1, "lost": torch.zeros(2)}, "Expected `str`"),
        (Response(1, lost="a device"), "it reports a lost device on a CPU"),
        (Response(1, []), "0 replies to 1 calls"),
        (Response(1, [{}]), "missing required field `output`"),
        (Response(1, [reply(more=1)]), "unknown field `more`"),
        (Response(1, [reply(output=3)]), "got `int`"),
        (Response(1, [reply(seconds=float("nan"))]), "a call that took nan s"),
        (Response(1, [reply(seconds=-1.0)]), "a call that took -1.0 s"),
        (Response(1, [reply(changed=[3])]), "Expected `str`, got `int`"),
        (Response(1, [reply(gradients={"query": 0})]), "got `int`"),
        (Response(1, [reply(gradients={"query": torch.ones(1)})]), "gradients of a call without a backward pass"),
    ],
)
def test_a_forged_response_is_garbage(response: object, complaint: str) -> None:
    crash = asked(response)
    assert isinstance(crash, Crash)
    assert crash.how.startswith("invalid reply: ")
    assert complaint in crash.how


def test_a_reply_has_the_gradients_that_were_asked_for() -> None:
    learning = replace(call(), gradient_of=("query",), output_gradient=torch.ones(2))
    honest = reply(output=torch.ones(2), gradients={"query": None})

    assert replies_from([honest], [learning])[0].gradients == {"query": None}
    with pytest.raises(InvalidMessage, match="gradients of other inputs than the call names"):
        replies_from([honest | {"gradients": {}}], [learning])


def test_no_answer_takes_longer_than_it_was_waited_for() -> None:
    (answer,) = answered(asked(Response(1, [reply(error="no", seconds=1e300)])))
    assert 0 < answer.seconds < 60


def test_texts_are_cut_where_no_honest_ones_are_as_long() -> None:
    forged = reply(error="x" * 50_000_000, operators=("y" * 50_000_000, "aten::mm"), unsupported="short")
    (answer,) = replies_from([forged], [call()])

    assert (len(answer.error), answer.error[-1], answer.unsupported) == (MAX_TEXT + 1, "…", "short")
    assert (len(answer.operators[0]), answer.operators[1]) == (MAX_TEXT + 1, "aten::mm")
    with pytest.raises(InvalidMessage, match="a list of 1001 entries"):  # the last of them might be PyTorch's attention
        replies_from([reply(operators=("mine::op",) * (MAX_NAMES + 1))], [call()])


def nested(times: int) -> Any:
    """A dictionary in a dictionary, so many times."""
    value: Any = "x"
    for _ in range(times):
        value = {"causal": value}
    return value


def greeted(**told: Any) -> Any:
    """The declaration that a worker's greeting leads to, where its declaration has other fields."""
    (known,) = find(["attention/matmul"])
    honest = msgpack.decode(msgpack.encode(ImportReport(ImportStatus.READY, "", known)))
    status = told.pop("status", "ready")
    forged = honest | {"status": status, "declaration": honest["declaration"] | told}
    return declared_by(through_bytes(b"".join(pack(forged)), ImportReport), known)


def test_a_greeting_tells_what_the_import_alone_could_tell() -> None:
    declaration = greeted(lacks={"causal": "not yet"}, parameters=("query",), name="another", file="/elsewhere")

    assert (declaration.parameters, declaration.lacks) == (("query",), {"causal": "not yet"})
    assert declaration.full_name == "attention/matmul", "what is known before is not told"
    assert len(greeted(conversion="x" * 1_000_000).conversion) == MAX_TEXT + 1


@pytest.mark.parametrize(
    "forged",
    [
        {"status": "splendid"},
        {"parameters": "query"},
        {"parameters": (1,)},
        {"parameters": ("query\n::error::",)},
        {"parameters": ("query",) * (MAX_NAMES + 1)},
        {"untested": None},
        {"untested": ("mask\n::error::",)},
        {"function": "mine\n::error::"},
        {"rewrites_calls": "yes"},
        {"requires": "torch"},
        {"requires": ("torch",) * (MAX_NAMES + 1)},
        {"lacks": {"causal": ""}},
        {"lacks": {f"f{number}": "x" for number in range(MAX_NAMES + 1)}},
        {"conventions": 3},
        {"conventions": {"causal": torch.zeros(2)}},
        {"conventions": {"empty_row": {"causal": [torch.zeros(2)]}}},
        {"conventions": nested(900)},
        {"signature": torch.zeros(2)},
        {"signature": "unheard_of"},
        {"signature_by": ("a b",)},
    ],
)
def test_a_forged_greeting_is_garbage(forged: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        greeted(**forged)


def test_tensors_of_parameters_cross_as_tensors() -> None:
    arrived = through_bytes(b"".join(pack(torch.nn.Parameter(torch.ones(2)))))
    assert type(arrived) is Tensor
