"""A graph that was written: its form checked, run once, and its answer held to what its contract allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite.contracts import contract as contract_named
from attnsuite.export.exporter import Exporter
from attnsuite.model import UsageError
from attnsuite.registry.loading import in_one_line

if TYPE_CHECKING:
    from attnsuite.cases.model import Model

REFERENCE = "onnx's reference evaluator"
"""What runs bfloat16, for which onnxruntime has no kernels on a CPU."""


@dataclass(frozen=True)
class Verified:
    """What ran the graph, and how far its answer lay from the truth: in what its contract allows, and relatively.

    The largest relative error is that of the position which is farthest off; `rms` is over all positions.
    """

    ran_by: str
    error_ratio: float
    largest: float
    rms: float


def held(
    found: Exporter, file: Path, part: str, config: Mapping[str, Any], weights: Mapping[str, Any], device: str
) -> Verified:
    """Check and run the graph. UsageError if onnx or onnxruntime refuses it, or its answer is wrong.

    It answers a question of its contract, other parts computed by PyTorch. One that is quantised may be off by any
    error, which is only measured.
    """
    import onnx

    try:
        onnx.checker.check_model(str(file), full_check=True)
        run, ran_by = _run(found, file, weights, device)
    except NotImplementedError as error:
        raise UsageError(f"the graph cannot be run on {device}: {str(error).partition(': ')[2] or error}") from error
    except Exception as error:  # neither onnx nor onnxruntime has one base for its exceptions
        raise UsageError(f"the graph is refused: {in_one_line(error)[:300]}") from error
    model = _model_of(found.declaration.contract)
    return _judged(found, model, {part: run}, ran_by, config, weights)


def _run(found: Exporter, file: Path, weights: Mapping[str, Any], device: str) -> tuple[Callable[..., Any], str]:
    """What runs the graph, and its name. Raises NotImplementedError where there is no provider for the device."""
    import torch

    if next(iter(weights.values())).dtype == torch.bfloat16 and not device.startswith("cuda"):
        return _reference(file), REFERENCE
    session = found.exports.open(file, device or _best())
    return session, f"onnxruntime's {session.provider}"


def _best() -> str:
    """The device on which a graph runs by default: CUDA where there is one that onnxruntime has a provider for."""
    import onnxruntime
    import torch

    there = "CUDAExecutionProvider" in onnxruntime.get_available_providers() and torch.cuda.is_available()
    return "cuda" if there else "cpu"


def _reference(file: Path) -> Callable[..., Any]:
    import torch
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(file), new_ops=[_matrix_product()])

    def run(**tensors: Any) -> tuple[Any, ...]:
        given = {name: _to_numpy(tensors[name]) for name in evaluator.input_names}
        outputs: Any = evaluator.run(None, given)
        return tuple(torch.from_numpy(each.astype("float32")).bfloat16() for each in outputs)

    return run


def _matrix_product() -> Any:
    """The operator MatMul with sums in float32, as hardware has them; onnx's own rounds every partial sum."""
    from onnx.reference.op_run import OpRun

    def product(self: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return ((a.astype("float32") @ b.astype("float32")).astype(a.dtype),)

    return type("MatMul", (OpRun,), {"op_domain": "", "_run": product})


def _to_numpy(tensor: Any) -> Any:
    """numpy has no bfloat16; the library ml_dtypes, which onnx brings, gives it one."""
    import ml_dtypes
    import torch

    return tensor.float().numpy().astype(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _model_of(contract: str) -> Model:
    """What all cases of a contract have in common: how inputs are drawn, and what is true of them."""
    from attnsuite.cases.model import ModelCase

    return next(case.model for case in contract_named(contract).cases() if isinstance(case, ModelCase))


def _judged(
    found: Exporter,
    model: Model,
    runs: Mapping[str, Any],
    ran_by: str,
    config: Mapping[str, Any],
    weights: Mapping[str, Any],
) -> Verified:
    """The error of one answer. UsageError where it is more than the contract allows, of what promises a limit."""
    import torch

    from attnsuite.cases import Call, Reply
    from attnsuite.cases.tensors import as_tensors, generator

    dtype = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    tensors = as_tensors(model.draw(generator("export"), config=config), dtype)
    call = Call(tensors, {}, model.positional, config=config, weights=weights)
    (due,) = model.dues([call])
    with torch.no_grad():
        answer = found.exports.answering(config, weights, runs)(*(tensors[n] for n in model.positional if n in tensors))
    verdict = due.verdict(Reply(answer))
    if verdict.status != "passed" and not found.exports.quantised:
        raise UsageError(f"the graph's answer is wrong, and nothing was written: {verdict.detail}")
    return Verified(ran_by, verdict.error_ratio or 0.0, **due.relative(answer))
