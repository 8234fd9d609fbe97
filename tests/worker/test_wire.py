"""What comes back from a worker is not trusted: messages and replies that no honest one sends."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from workers import (
    answered,
    call,
    same,
)

from attnsuite.cases import Reply
from attnsuite.worker import Died, Ready, Worker
from attnsuite.worker.files import MOST_FILES, files_from
from attnsuite.worker.greeting import Import, greeting_from
from attnsuite.worker.replies import LONGEST_WORDS, MOST_NAMES, replies_from
from attnsuite.worker.wire import DTYPES, Garbage, TooLarge, pack, unpack


def layouts() -> dict[str, Tensor]:
    base = torch.arange(60.0)
    return {
        "transposed": base.reshape(3, 4, 5).transpose(0, 2),
        "offset": base[7:19].reshape(3, 4),
        "strided": base[::7],
        "expanded": base[:5].expand(4, 3, 5),
        "empty": base[5:5],
        "empty rows": torch.empty(0, 3),
        "scalar": base[9],
        "padded": torch.as_strided(base, (2, 3), (20, 5), 3),
        "overlapping": torch.as_strided(base, (4, 4), (1, 1), 2),
        "conjugate": torch.complex(base, base).conj(),
        "learning": base.clone().requires_grad_(),
    }


@pytest.mark.parametrize("name", layouts())
def test_every_layout_crosses_with_its_storage(name: str) -> None:
    tensor = layouts()[name]
    message = {"tensor": tensor, "more": [{"x": (1, 2.5, True, None, "ü", float("-inf"))}]}
    arrived = through_bytes(b"".join(pack(message)))
    assert same(arrived["tensor"], tensor.detach().resolve_conj())
    assert arrived["more"] == message["more"]


def through_bytes(content: bytes) -> Any:
    position = 0

    def read_into(buffer: memoryview) -> None:
        nonlocal position
        piece = content[position : position + buffer.nbytes]
        if len(piece) < buffer.nbytes:
            raise EOFError
        buffer[:] = piece
        position += buffer.nbytes

    return unpack(read_into)


def forged(header: object, rest: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">Q", len(text)) + text + rest


def tensor(*place: object, sizes: object = (16,)) -> bytes:
    return forged({"sizes": sizes, "message": {"$tensor": place}}, bytes(16))


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">Q", 1 << 40),
        forged(b"no json"),
        forged(b"[" * 100_000),
        forged(b"1" * 100_000),
        forged([]),
        forged({"sizes": [-1], "message": 0}),
        forged({"sizes": [1 << 60], "message": 0}),
        forged({"sizes": [True], "message": 0}),
        forged({"sizes": 3, "message": 0}),
        forged({"sizes": [0] * 100_001, "message": 0}),
        tensor(),
        tensor(0, "float32", [4], [1]),
        tensor(1, "float32", [4], [1], 0),
        tensor(-1, "float32", [4], [1], 0),
        tensor(0, "qint8", [4], [1], 0),
        tensor(0, [], [4], [1], 0),
        tensor(0, "float32", [5], [1], 0),
        tensor(0, "float32", [4], [1], 1),
        tensor(0, "float32", [2], [1 << 61], 0),
        tensor(0, "float32", [4], [-1], 3),
        tensor(0, "float32", [4], [1, 1], 0),
        tensor(0, "float32", "4", "1", 0),
        tensor(0, "float32", [1] * 65, [1] * 65, 0),
        tensor(0, "float64", [1], [1], 0, sizes=[15]),
        tensor(0, "float32", [1.0], [1], 0),
    ],
)
def test_a_forged_message_is_garbage(content: bytes) -> None:
    with pytest.raises(Garbage):
        through_bytes(content)


def test_a_forged_tensor_keeps_within_its_storage() -> None:
    arrived = through_bytes(tensor(0, "float32", [2, 2], [2, 1], 0))
    assert arrived.tolist() == [[0, 0], [0, 0]]


class Forger:
    """Stands in for a process, and answers what it is told."""

    printed = ""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def forget(self) -> None: ...
    def send(self, message: Any, deadline: float, replies: int) -> None: ...
    def end(self, grace: float = 0) -> str:
        return ""

    def is_silent(self, until: float) -> bool:
        return False

    def receive(self, deadline: float) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "no answer to this question"),
        ({"id": 2, "answer": []}, "no answer to this question"),
        ({"id": 1, "answer": []}, "not 1 replies"),
        ({"id": 1, "answer": [{}]}, "a reply that is none"),
        ({"id": 1, "answer": [{"output": 3}]}, "a reply whose output is none"),
        ({"id": 1, "answer": [{"seconds": float("nan")}]}, "a reply whose seconds is none"),
        ({"id": 1, "answer": [{"changed": ["query"]}]}, "a reply whose changed is none"),
        ({"id": 1, "answer": [{"gradients": {"query": 0}}]}, "a reply whose gradients is none"),
        ({"id": 1, "answer": [{"gradients": {"query": torch.ones(1)}}]}, "gradients of a call that has none"),
    ],
)
def test_a_forged_reply_is_garbage(answer: Any, complaint: str) -> None:
    honest = Reply().__dict__
    if answer and answer.get("answer") and answer["answer"][0]:
        answer = answer | {"answer": [honest | answer["answer"][0]]}
    worker = Worker("attention/matmul")
    worker._state, worker._process = Ready(worker.declaration), Forger(answer)  # type: ignore[assignment]
    assert worker.ask([call()]) == Died(f"answered garbage: {complaint}")


def test_a_number_that_is_repeated_takes_as_much_as_it_would_in_full() -> None:
    with pytest.raises(TooLarge):
        through_bytes(tensor(0, "float32", [1 << 20, 1 << 20], [0, 0], 0))


def test_a_reply_has_the_gradients_that_were_asked_for() -> None:
    asked = replace(call(), gradient_of=("query",), output_gradient=torch.ones(2))
    honest = Reply().__dict__ | {"output": torch.ones(2), "gradients": {"query": None}}

    assert replies_from([honest], [asked])[0].gradients == {"query": None}
    with pytest.raises(Garbage, match="gradients of other inputs than were asked for"):
        replies_from([honest | {"gradients": {}}], [asked])


def test_no_answer_takes_longer_than_it_was_waited_for() -> None:
    worker = Worker("attention/matmul")
    answer = {"id": 1, "answer": [Reply().__dict__ | {"raised": "no", "seconds": 1e300}]}
    worker._state, worker._process = Ready(worker.declaration), Forger(answer)  # type: ignore[assignment]

    (reply,) = answered(worker.ask([call()]))

    assert 0 < reply.seconds < 60


def test_words_are_cut_where_no_honest_ones_are_as_long() -> None:
    said = {"raised": "x" * 50_000_000, "operators": ("y" * 50_000_000, "aten::mm"), "declined": "short"}
    (reply,) = replies_from([Reply().__dict__ | said], [call()])

    assert (len(reply.raised), reply.raised[-1], reply.declined) == (LONGEST_WORDS + 1, "…", "short")
    assert (len(reply.operators[0]), reply.operators[1]) == (LONGEST_WORDS + 1, "aten::mm")
    with pytest.raises(Garbage, match="a list of 1001 names"):  # the last of them might be PyTorch's attention
        replies_from([Reply().__dict__ | {"operators": ("mine::op",) * (MOST_NAMES + 1)}], [call()])


def nested(times: int) -> Any:
    """A dictionary in a dictionary, so many times."""
    value: Any = "x"
    for _ in range(times):
        value = {"causal": value}
    return value


HELLO = {
    "ended": "ready",
    "reason": "",
    "parameters": ("query",),
    "requires": (),
    "lacks": {},
    "conventions": {},
    "style": "",
    "unasked": (),
    "rewritten": False,
    "variant": "",
    "signature": "",
    "signature_by": (),
}


def test_a_greeting_says_what_the_import_alone_could_tell() -> None:
    greeting = greeting_from({**HELLO, "lacks": {"causal": "not yet"}})

    assert (greeting.ended, greeting.parameters, greeting.lacks) == (Import.READY, ("query",), {"causal": "not yet"})
    assert len(greeting_from({**HELLO, "style": "x" * 1_000_000}).style) == LONGEST_WORDS + 1


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {**HELLO, "ended": "splendid"},
        {**HELLO, "parameters": "query"},
        {**HELLO, "parameters": (1,)},
        {**HELLO, "unasked": None},
        {**HELLO, "unasked": ("mask\n::error::",)},
        {**HELLO, "rewritten": "yes"},
        {**HELLO, "requires": "torch"},
        {**HELLO, "lacks": {"causal": ""}},
        {**HELLO, "conventions": 3},
        {**HELLO, "conventions": {"causal": torch.zeros(2)}},
        {**HELLO, "conventions": {"empty_row": {"causal": [torch.zeros(2)]}}},
        {**HELLO, "signature": torch.zeros(2)},
        {**HELLO, "parameters": ("query\n::error::",)},
        {**HELLO, "parameters": ("query",) * (MOST_NAMES + 1)},
        {**HELLO, "lacks": {f"f{number}": "x" for number in range(MOST_NAMES + 1)}},
        {**HELLO, "requires": ("torch",) * (MOST_NAMES + 1)},
        {**HELLO, "conventions": nested(100_000)},
        {name: value for name, value in HELLO.items() if name != "style"},
    ],
)
def test_a_forged_greeting_is_garbage(data: Any) -> None:
    with pytest.raises(Garbage):
        greeting_from(data)


@pytest.mark.parametrize("name", DTYPES)
def test_what_crosses_can_be_computed_with(name: str) -> None:
    dtype = DTYPES[name]
    tensor = torch.zeros(2 * dtype.itemsize, dtype=torch.uint8).view(dtype)

    assert torch.ones(2).to(dtype).dtype == dtype
    assert tensor[[0, 1]].to(torch.complex128).tolist() == [0.0, 0.0] or name == "float8_e8m0fnu", "which has no zero"


@pytest.mark.parametrize(
    "said", [None, 3, "/kernel.py", [1], ["kernel.py"], ["/a\0b"], ["/\ud800"], ["/kernel.py"] * (MOST_FILES + 1)]
)
def test_files_that_no_system_has_are_not_known(said: Any) -> None:
    assert files_from(said) is None


def test_files_are_named_once_and_only_those_that_lie_somewhere() -> None:
    assert files_from(["/b.py", "/a.py", "/b.py", "/proc/kmsg", "/dev/zero"]) == ["/a.py", "/b.py"]
