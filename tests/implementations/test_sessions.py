"""Execution providers of onnxruntime: a session has that of its device, or raises."""

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
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubled", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    data: bytes = model.SerializeToString()
    return data


def test_a_session_names_its_provider() -> None:
    session = Session(doubled())

    assert session.provider == session.session.get_providers()[0] == "CPUExecutionProvider"
    assert session(x=torch.arange(3.0))[0].tolist() == [0, 2, 4]


@pytest.mark.skipif("CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is CUDA")
def test_a_missing_provider_is_an_error() -> None:
    with pytest.raises(NotImplementedError) as caught:
        Session(doubled(), "cuda")

    available = ", ".join(onnxruntime.get_available_providers())
    expected = f"lacks cuda: onnxruntime {onnxruntime.__version__} has no CUDAExecutionProvider; it has {available}"
    assert str(caught.value) == expected


@pytest.mark.filterwarnings("ignore:Specified provider 'CUDAExecutionProvider' is not in available")
def test_a_provider_that_fails_to_load_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Onnxruntime falls back to the CPU, as it does without a driver."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])

    with pytest.raises(NotImplementedError, match="lacks cuda: onnxruntime loaded CPU"):
        Session(doubled(), "cuda")


def test_cuda_is_selected_by_number_and_without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = []

    class Recorder:
        def __init__(self, *_: object, providers: object) -> None:
            requested.append(providers)

        disable_fallback = get_inputs = get_outputs = lambda self: []

        def get_providers(self) -> list[str]:
            return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", Recorder)

    assert Session(doubled(), "cuda:1").provider == "CUDAExecutionProvider"
    assert requested == [[("CUDAExecutionProvider", {"device_id": "1", "use_tf32": "0"})]]


@pytest.mark.parametrize("length", [0, 1, 5])
def test_bound_tensors_have_the_same_output(length: int) -> None:
    """As on CUDA; a CPU binds tensors, too."""
    session, x = Session(doubled()), torch.arange(float(length))

    (bound,) = session.bound({"x": x})

    assert torch.equal(bound, session(x=x)[0])
    assert torch.equal(bound, 2 * x)


def test_the_profiler_sees_the_provider() -> None:
    session = Session(doubled())
    with profile() as profiler:
        session(x=torch.ones(2))

    assert "onnxruntime CPUExecutionProvider" in {event.key for event in profiler.key_averages()}


def test_every_dtype_has_one_number_of_onnx() -> None:
    assert _sessions.ELEMENTS[torch.bfloat16] == TensorProto.BFLOAT16
    assert len(set(_sessions.ELEMENTS.values())) == len(_sessions.ELEMENTS)


@pytest.mark.parametrize(
    ("device", "reason", "status"),
    [
        ("cuda", "lacks cuda: onnxruntime has no CUDAExecutionProvider", "unsupported"),
        ("cuda", "not today", "failed"),
        ("cpu", "lacks cpu: it wants a GPU", "failed"),
    ],
)
def test_a_device_that_a_library_lacks_is_unsupported_at_run_time(device: str, reason: str, status: str) -> None:
    """The core must be supported on the CPU, and on CUDA if the library has it."""
    transformer = contract("transformer")
    replies = (Reply(None, unsupported=reason),)
    declaration = Declaration("transformer", "a", "a")
    subject = Implementation(declaration, transformer, lambda calls: replies, lambda calls: replies, device=device)
    case = next(case for case in transformer.cases() if case.name == "plain/usual")
    check = Check(subject, CaseTests(transformer, keep=False), [(case, "float32")])

    outcome = check.outcome(case, "float32")

    assert outcome.status == status
    assert reason in outcome.detail
