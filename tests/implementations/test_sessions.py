"""Execution providers: the one of the device, or none; and what a session really has is seen where it runs."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("onnxruntime")
import onnxruntime
from onnx import TensorProto, helper
from torch.profiler import profile

from attnsuite.cases import Reply
from attnsuite.conformance.case_tests import CaseTests, Implementation
from attnsuite.conformance.check import Check
from attnsuite.contracts import contract
from attnsuite.implementations import _sessions
from attnsuite.implementations._sessions import Session
from attnsuite.registry import Declaration


def doubled() -> bytes:
    """y = x + x, any length."""
    given, due = (helper.make_tensor_value_info(each, TensorProto.FLOAT, ["n"]) for each in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubled", [given], [due])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    data: bytes = model.SerializeToString()
    return data


def test_a_session_says_which_provider_it_has() -> None:
    session = Session(doubled())

    assert session.provider == session.session.get_providers()[0] == "CPUExecutionProvider"
    assert session(x=torch.arange(3.0))[0].tolist() == [0, 2, 4]


@pytest.mark.skipif("CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is CUDA")
def test_cuda_that_is_absent_is_no_cpu() -> None:
    with pytest.raises(NotImplementedError) as caught:
        Session(doubled(), "cuda")

    there = ", ".join(onnxruntime.get_available_providers())
    due = f"lacks cuda: onnxruntime {onnxruntime.__version__} has no CUDAExecutionProvider; it has {there}"
    assert str(caught.value) == due


@pytest.mark.filterwarnings("ignore:Specified provider 'CUDAExecutionProvider' is not in available")
def test_a_provider_that_onnxruntime_gave_up_is_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one by name, fails to start it, and goes on with the CPU's; so it does where a driver is missing."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])

    with pytest.raises(NotImplementedError, match="lacks cuda: onnxruntime loaded CPU"):
        Session(doubled(), "cuda")


def test_cuda_is_asked_for_by_number_and_with_all_bits_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class MachineRecord:
        def __init__(self, *_: object, providers: object) -> None:
            asked.append(providers)

        disable_fallback = get_inputs = get_outputs = lambda self: []

        def get_providers(self) -> list[str]:
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", MachineRecord)

    assert Session(doubled(), "cuda:1").provider == "CUDAExecutionProvider"
    assert asked == [[("CUDAExecutionProvider", {"device_id": "1", "use_tf32": "0"})]]


@pytest.mark.parametrize("length", [0, 1, 5])
def test_tensors_that_are_bound_where_they_lie_have_the_same_answer(length: int) -> None:
    """So it goes on CUDA; here on the CPU, which is all that can be tried without one."""
    session, x = Session(doubled()), torch.arange(float(length))

    (bound,) = session.bound({"x": x})

    assert torch.equal(bound, session(x=x)[0])
    assert torch.equal(bound, 2 * x)


def test_the_profiler_sees_the_provider() -> None:
    session = Session(doubled())
    with profile() as seen:
        session(x=torch.ones(2))

    assert "onnxruntime CPUExecutionProvider" in {event.key for event in seen.key_averages()}


def test_every_dtype_that_onnx_and_torch_share_is_known() -> None:
    assert _sessions.ELEMENTS[torch.bfloat16] == TensorProto.BFLOAT16
    assert len(set(_sessions.ELEMENTS.values())) == len(_sessions.ELEMENTS)


@pytest.mark.parametrize(
    ("device", "said", "status"),
    [
        ("cuda", "lacks cuda: onnxruntime has no CUDAExecutionProvider", "unsupported"),
        ("cuda", "not today", "failed"),
        ("cpu", "lacks cpu: it wants a GPU", "failed"),
    ],
)
def test_a_device_that_a_library_lacks_may_be_declined_when_it_runs(device: str, said: str, status: str) -> None:
    """The core, which is otherwise nobody's to decline, the CPU's neither."""
    of = contract("transformer")
    replies = (Reply(None, unsupported=said),)
    declaration = Declaration("transformer", "a", "a")
    subject = Implementation(declaration, of, lambda calls: replies, lambda calls: replies, device=device)
    case = next(each for each in of.cases() if each.name == "plain/usual")
    check = Check(subject, CaseTests(of, keep=False), [(case, "float32")])

    outcome = check.outcome(case, "float32")

    assert outcome.status == status
    assert said in outcome.detail
