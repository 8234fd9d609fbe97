"""Asking an implementation in this process: what it returns, raises and does to its inputs."""

import runpy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from workers import SUBMISSIONS, answered, call, without_place

from attnsuite.cases import Call, Reply
from attnsuite.cases.backends import BackendCall
from attnsuite.worker.calling import LOST_BEFORE, run_calls
from attnsuite.worker.recording import lost
from attnsuite.worker.snapshots import fingerprint
from attnsuite.worker.worker import Worker


def reply_to(function: Callable[..., Any], *calls: Call) -> Reply:
    return run_calls(function, calls or [call()])[-1]


def test_nothing_is_called_in_a_process_whose_device_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("attnsuite.worker.calling.lost", lambda device: f"{device} says an error")

    reply = run_calls(lambda query, key, value: calls.append("called"), [call()], "cuda")[0]

    assert reply.error == f"{LOST_BEFORE}: cuda says an error"
    assert not calls


def test_a_device_that_works_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    assert [lost(device) for device in ("cpu", "cuda", "cuda:1")] == ["", "", ""]


def spoiled(tensor: Tensor, byte: int) -> Tensor:
    """The same tensor with another bit in one byte of its storage."""
    storage = tensor.untyped_storage().clone()
    storage[byte] ^= 1
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


BASE = torch.arange(24.0)
VIEW = BASE[2:14].view(3, 4)
UNEQUAL = {
    "a bit": (VIEW, spoiled(VIEW, 17)),
    "a bit in front": (VIEW, spoiled(VIEW, 3)),
    "the last bit behind": (VIEW, spoiled(VIEW, 95)),
    "strides": (VIEW, BASE[2:14].view(4, 3).mT),
    "offset": (VIEW, BASE[3:15].view(3, 4)),
    "dtype": (VIEW, BASE.view(torch.int32)[2:14].view(3, 4)),
    "bytes behind": (VIEW, torch.arange(25.0)[2:14].view(3, 4)),
    "the sign of zero": (torch.zeros(2), -torch.zeros(2)),
}
EQUAL = {
    "itself": (VIEW, VIEW),
    "a copy": (VIEW, BASE.clone()[2:14].view(3, 4)),
    "not a number": (torch.tensor([torch.nan]), torch.tensor([torch.nan])),
    "nothing": (torch.ones(0, 3), torch.ones(0, 3)),
}


@pytest.mark.parametrize("of", [*UNEQUAL, *EQUAL])
def test_comparing_tells_what_fingerprints_tell(of: str) -> None:
    one, other = (UNEQUAL | EQUAL)[of]
    assert (fingerprint(one) == fingerprint(other)) == (of in EQUAL)


def learning() -> Call:
    return call(gradient_of=("query", "value"), output_gradient=torch.ones(2, 3, 4))


class Marked(Tensor):
    pass


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (None, "None"),
        (3.5, "a float"),
        ((1, 2), "a tuple"),
        (torch.eye(2).numpy(), "a numpy.ndarray"),
        (torch.eye(2).to_sparse(), "a tensor of torch.float32, sparse_coo"),
        (torch.empty(2, device="meta"), "a tensor of torch.float32, without data"),
    ],
)
def test_an_output_that_is_no_tensor_is_named(output: object, kind: str) -> None:
    for question in (call(), learning()):
        reply = reply_to(lambda query, key, value, mode: output, question)
        assert (reply.output, reply.kind, reply.error) == (None, kind, "")


@pytest.mark.filterwarnings("ignore")  # quantisation is deprecated, nested tensors are a prototype
def test_exotic_tensors_are_named() -> None:
    outputs = [
        torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ]
    kinds = [reply_to(lambda query, key, value, mode, output=output: output).kind for output in outputs]
    assert kinds == ["a tensor of torch.qint8, quantised", "a tensor of torch.float32, nested"]


class Filled(Tensor):
    """Zeros, which become ones as soon as PyTorch is asked anything about them."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            for each in args:
                if isinstance(each, Filled):
                    each.fill_(1.0)
            return function(*args, **(kwargs or {}))


def test_a_lazy_subclass_comes_as_it_lies() -> None:
    reply = reply_to(lambda query, key, value, mode: torch.zeros(2, 2).as_subclass(Filled), learning())

    assert reply.output is not None
    assert (reply.output == 0).all()


class Bare(Tensor):
    """A class whose tensors need no memory: operators would compute what they need."""

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def test_a_subclass_without_memory_is_no_tensor() -> None:
    def made(*_: object, **__: object) -> Tensor:
        return Tensor._make_wrapper_subclass(Bare, (2, 2))  # type: ignore[attr-defined]

    reply = reply_to(made, learning())

    assert reply.output is None
    assert reply.kind == f"a tensor without data ({__name__}.Bare)"


def test_a_subclass_comes_as_plain_numbers_and_is_named() -> None:
    reply = reply_to(lambda query, key, value, mode: value.as_subclass(Marked), learning())
    assert reply.kind == f"a subclass of Tensor, {__name__}.Marked"
    assert type(reply.output) is Tensor
    parameter = reply_to(lambda query, key, value, mode: torch.nn.Parameter(value))
    assert (parameter.kind, type(parameter.output)) == ("Tensor", Tensor)


def test_an_output_without_gradients_says_none_came() -> None:
    for function in (
        lambda query, key, value, mode: value.detach().clone(),
        lambda query, key, value, mode: (value > 0).to(torch.int64),
        lambda query, key, value, mode: value[:1] * query[:1],
    ):
        reply = reply_to(function, learning())
        assert reply.output is not None
        assert reply.gradients == {"query": None, "value": None}


def test_a_gradient_that_does_not_flow_is_none_and_the_others_come() -> None:
    reply = reply_to(lambda query, key, value, mode: value * 2, learning())
    assert reply.gradients["query"] is None
    assert torch.equal(reply.gradients["value"], torch.full((2, 3, 4), 2.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("two\nlines"), "ValueError: two lines"),
        (SystemExit(3), "SystemExit: 3"),
        (MemoryError(), "MemoryError"),
        (GeneratorExit("odd"), "GeneratorExit: odd"),
    ],
)
@pytest.mark.parametrize("own_thread", [False, True])
def test_whatever_is_raised_here_is_an_answer(error: BaseException, raised: str, own_thread: bool) -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> None:
        raise error

    line = function.__code__.co_firstlineno + 1
    assert reply_to(function, call(own_thread=own_thread)).error == f"{raised} (test_calling.py, line {line})"


def test_declining_gives_the_reason() -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> None:
        raise NotImplementedError("only: on Tuesdays")

    reply = reply_to(function)
    assert (reply.unsupported, reply.error) == ("only: on Tuesdays", "")


@pytest.mark.parametrize("own_thread", [False, True])
def test_the_user_may_interrupt(own_thread: bool) -> None:
    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_calls(function, [call(own_thread=own_thread)])


def test_inputs_that_were_changed_are_named() -> None:
    def writes(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        key += 0.5
        value.transpose_(0, 1)
        return query.clone()

    assert reply_to(writes).changed == ("key", "value")


def test_an_output_in_an_input_s_storage_is_named() -> None:
    assert reply_to(lambda query, key, value, mode: value[1:]).aliased == ("value",)
    assert reply_to(lambda query, key, value, mode: torch.from_dlpack(key)[1:]).aliased == ("key",)
    assert reply_to(lambda query, key, value, mode: value.clone()).aliased == ()


def test_an_output_that_a_later_call_changes_is_named() -> None:
    workspace = torch.zeros(40)

    def shared(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        return workspace[8:32].reshape(2, 3, 4).copy_(value)

    value = torch.zeros(2, 3, 4)
    first, second = run_calls(shared, [call(), call(value=value)])
    assert (first.overwritten, second.overwritten) == (True, False)
    assert torch.equal(first.output, call().tensors["value"])  # type: ignore[arg-type]
    assert not any(reply.overwritten for reply in run_calls(shared, [call(), call()]))


def test_the_same_storage_is_written_again_whatever_its_layout() -> None:
    pointers = []

    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        pointers.append(value.data_ptr())
        return value.clone()

    one, two = (torch.full((1, 4), number).expand(3, 4) for number in (1.0, 2.0))
    replies = run_calls(function, [call(value=one), call(value=two, same_storage=True)])
    assert pointers[0] == pointers[1]
    assert torch.equal(replies[1].output, two)  # type: ignore[arg-type]


def test_other_numbers_come_in_the_very_same_tensors() -> None:
    given = []

    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        given.append(value)
        return value.clone()

    run_calls(function, [call(), call(same_storage=True), call()])
    assert [value is given[0] for value in given] == [True, True, False]


def test_one_tensor_is_given_under_several_names() -> None:
    given = []

    def function(query: Tensor, key: Tensor, value: Tensor, mode: str) -> Tensor:
        given.append((query, key, value))
        return value.clone()

    one = torch.ones(2, 3, 4)
    several = replace(call(), tensors=dict.fromkeys(("query", "key", "value"), one))
    run_calls(function, [several, replace(several, same_tensor=("query", "key", "value"))])
    assert [len({id(tensor) for tensor in tensors}) for tensors in given] == [3, 1]


def scaler() -> Callable[..., Any]:
    """The factory of `scaler.py`, which has built nothing yet."""
    factory: Callable[..., Any] = runpy.run_path(str(SUBMISSIONS / "scaler.py"))["transformer"]
    return factory


@pytest.mark.parametrize("apart", [False, True], ids=["in this process", "in its own"])
def test_a_factory_s_model_is_built_once_and_called_again(apart: bool) -> None:
    x, weights = {"x": torch.ones(2)}, {"scale": torch.tensor(2.0)}
    first, other = (Call(x, {}, ("x",), config={"times": times}, weights=weights) for times in (3, 5))
    calls = [first, other, Call({"x": 2 * x["x"]}, {}, ("x",), model_of=0), first]
    with Worker(f"{SUBMISSIONS / 'scaler.py'}:transformer") as worker:
        replies = answered(worker.run_calls(calls) if apart else run_calls(scaler(), calls))

    assert [reply.output.tolist() for reply in replies if reply.output is not None] == [
        [7, 7],
        [12, 12],
        [14, 14],
        [9, 9],
    ]


def test_a_model_that_cannot_be_built_raises_in_every_call() -> None:
    x = {"x": torch.ones(2)}
    calls = [Call(x, {}, ("x",), config={"times": 3}), Call(x, {}, ("x",), model_of=0)]

    assert [without_place(reply.error) for reply in run_calls(scaler(), calls)] == [
        "ValueError: weights lack scale; there are 0",
        "RuntimeError: the model could not be built",
    ]
    (reply,) = run_calls(lambda config, weights: None, [calls[0]])
    assert (reply.error, reply.kind, reply.no_model) == ("", "None", True)


def test_a_probe_attends_to_the_values_negatives_and_records_each_call() -> None:
    def function(x: Tensor, *, times: int, attention: Callable[..., Tensor]) -> Tensor:
        for _ in range(times - 1):
            attention(x.double(), x.double(), x.double(), is_causal=True)
        return attention(x, x, x[..., :1], attn_mask=None)

    x = torch.randn(1, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    calls = [Call({"x": x}, {"times": times}, ("x",), probed=True) for times in (1, 2)]

    once, twice = run_calls(function, calls)

    assert "attention" in calls[0].arguments
    expected = -scaled_dot_product_attention(x, x, x[..., :1])
    assert once.output is not None
    assert torch.allclose(once.output, expected, atol=1e-6)
    (plain,) = map(BackendCall.read, once.attended)
    assert plain.shapes == {"query": [1, 1, 3, 4], "key": [1, 1, 3, 4], "value": [1, 1, 3, 1]}
    assert (plain.options, plain.seen) == ({"attn_mask": None}, "")
    causal = BackendCall.read(twice.attended[0])
    assert set(causal.dtypes.values()) == {"float64"}
    assert (causal.options, causal.seen) == ({"is_causal": True}, "100110111")
    assert twice.attended[1:] == once.attended


def test_what_a_call_that_raised_gave_the_probe_is_not_counted_in_the_next() -> None:
    def function(x: Tensor, *, fails: bool, attention: Callable[..., Tensor]) -> Tensor:
        output = attention(x, x, x)
        if fails:
            raise ValueError("as asked")
        return output

    calls = [Call({"x": torch.ones(2, 3)}, {"fails": fails}, ("x",), probed=True) for fails in (True, False)]

    failed, right = run_calls(function, calls)

    assert without_place(failed.error) == "ValueError: as asked"
    assert len(right.attended) == 1


def test_gradients_of_a_second_output_are_added_to_those_of_the_output() -> None:
    ones = torch.ones(2, 2)
    two = Call({"query": ones}, positional=("query",), gradient_of=("query",), output_gradient=ones, second="lse")

    def both(query: Tensor) -> tuple[Tensor, Tensor]:
        return 3 * query, 5 * query.sum(-1)

    alone, together = (reply_to(both, each) for each in (two, replace(two, second_gradient=torch.ones(2))))

    assert together.attention_weights["lse"].tolist() == [10, 10]  # type: ignore[union-attr]
    assert [reply.gradients["query"].unique().tolist() for reply in (alone, together)] == [[3], [8]]  # type: ignore[union-attr]


def test_a_second_output_is_never_a_dictionary() -> None:
    two = Call({"query": torch.ones(2, 2)}, positional=("query",), second="lse")
    reply = reply_to(lambda query: (query * 2, {"lse": query * 2}), two)

    assert reply.attention_weights == {"lse": None}
