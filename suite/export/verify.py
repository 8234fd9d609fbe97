"""Verification of a graph: its form is checked, and the output of one run is compared with the oracle."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract as contract_named
from attnsuite.export.exporter import Exporter
from attnsuite.model import UsageError
from attnsuite.registry.loading import in_one_line

REFERENCE = "onnx's reference evaluator"
"""It supports bfloat16, for which onnxruntime has no CPU kernels."""


@dataclass(frozen=True)
class Verification:
    """The program that ran the graph, and the errors of its output.

    `error_ratio` is in units of the tolerance. The others are relative to the oracle: of the worst position, and the
    root mean square over all positions.
    """

    ran_by: str
    error_ratio: float
    largest: float
    rms: float


def verify(
    source: Exporter, file: Path, part: str, config: Mapping[str, Any], weights: Mapping[str, Any], device: str
) -> Verification:
    """Check a graph and run it on a case of its contract; PyTorch computes the other parts of the model.

    Raises UsageError if onnx or onnxruntime refuses it, or its output is wrong. The errors of a quantised graph are
    measured, without a limit.
    """
    import onnx

    try:
        onnx.checker.check_model(str(file), full_check=True)
        run, ran_by = _run(source, file, weights, device)
    except NotImplementedError as error:
        raise UsageError(f"the graph cannot be run on {device}: {str(error).partition(': ')[2] or error}") from error
    except Exception as error:  # neither onnx nor onnxruntime has a common exception
        raise UsageError(f"the graph is refused: {in_one_line(error)[:300]}") from error
    return _judged(source, {part: run}, ran_by, config, weights)


def _run(source: Exporter, file: Path, weights: Mapping[str, Any], device: str) -> tuple[Callable[..., Any], str]:
    """A function that runs the graph, and its name. Raises NotImplementedError without a provider for the device."""
    import onnxruntime
    import torch

    if next(iter(weights.values())).dtype == torch.bfloat16 and not device.startswith("cuda"):
        return _reference(file), REFERENCE
    cuda = "CUDAExecutionProvider" in onnxruntime.get_available_providers() and torch.cuda.is_available()
    session = source.exports.open(file, device or ("cuda" if cuda else "cpu"))
    return session, f"onnxruntime's {session.provider}"


def _reference(file: Path) -> Callable[..., Any]:
    import torch
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(file), new_ops=[_matrix_product()])

    def run(**tensors: Any) -> tuple[Any, ...]:
        outputs: Any = evaluator.run(None, {name: _to_numpy(tensors[name]) for name in evaluator.input_names})
        return tuple(torch.from_numpy(output.astype("float32")).bfloat16() for output in outputs)

    return run


def _matrix_product() -> Any:
    """The operator MatMul with sums in float32, as on hardware; onnx's own rounds each partial sum."""
    from onnx.reference.op_run import OpRun

    def product(self: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return ((a.astype("float32") @ b.astype("float32")).astype(a.dtype),)

    return type("MatMul", (OpRun,), {"op_domain": "", "_run": product})


def _to_numpy(tensor: Any) -> Any:
    """The tensor as a numpy array; bfloat16 comes from ml_dtypes, a dependency of onnx."""
    import ml_dtypes
    import torch

    return tensor.float().numpy().astype(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _judged(
    source: Exporter, runs: Mapping[str, Any], ran_by: str, config: Mapping[str, Any], weights: Mapping[str, Any]
) -> Verification:
    """The errors of the output. Raises UsageError beyond the tolerance, unless the graph is quantised."""
    import torch

    from attnsuite.cases import Call, Reply
    from attnsuite.cases.model import ModelCase
    from attnsuite.cases.tensors import as_tensors, generator

    cases = contract_named(source.declaration.contract).cases()
    model = next(case.model for case in cases if isinstance(case, ModelCase))  # all cases have the same
    dtype = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    tensors = as_tensors(model.draw(generator("export"), config=config), dtype)
    call = Call(tensors, {}, model.positional, config=config, weights=weights)
    (expected,) = model.expected_results([call])
    with torch.no_grad():
        output = source.exports.assemble(config, weights, runs)(*(tensors[n] for n in model.positional if n in tensors))
    verdict = expected.verdict(Reply(output))
    if verdict.status != "passed" and not source.exports.quantised:
        raise UsageError(f"the graph's output is wrong, and nothing was written: {verdict.detail}")
    return Verification(ran_by, verdict.error_ratio or 0.0, **expected.relative(output))
