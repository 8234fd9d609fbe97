"""About how long the main job takes: one estimate at its start, from a recorded run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnsuite.benchmark.plan import duration, planned

if TYPE_CHECKING:
    from attnsuite.benchmark import Benchmark
    from attnsuite.conformance.session import Session
    from attnsuite.registry import Declaration

START, REPORT = 12.0, 12.0
"""Seconds of imports and of what contracts' cases need; seconds of tables, charts and report.html."""
TEST = 0.0035
"""Seconds of a processor for a test of what compiles nothing, its expected values included: 26,000 tests took 90."""
COMPILING: Mapping[str, tuple[float, float]] = {
    "attention/flex": (1300.0, 50.0),
    "attention/jax_nn": (90.0, 4.0),
    "seq2seq_attention/onnx_export": (107.0, 15.0),
    "transformer/eager+jax_nn": (23.0, 8.0),
    "transformer/onnx_export.opset18": (31.0, 8.0),
    "transformer/onnx_export.opset23": (25.0, 8.0),
    "vision_transformer/onnx_export.opset18": (31.0, 8.0),
    "vision_transformer/onnx_export.opset23": (19.0, 8.0),
}
"""Processor seconds that an implementation compiles where no kernels are cached: in all tests, by the rows of the run
of 2026-11-25 on an AMD EPYC (family 25, model 17), and in a sample, by the number of its kernels or graphs (of
FlexAttention 10 of 5 s)."""
LONG = 20.0
"""Seconds from which on the estimate names what compiles."""


def estimated(
    declarations: Sequence[Declaration], session: Session, benchmarks: Sequence[Benchmark], processes: int
) -> str:
    """About how long a run takes, and what of it compiles."""
    tests = TEST * sum(map(session.count, declarations)) / processes
    compiling = {each.full_name: _compiling(each, session) / processes for each in declarations}
    timing = sum(planned(each).seconds for each in benchmarks)
    total = START + tests + sum(compiling.values()) + timing + REPORT
    cores = f"{processes} core{'s' * (processes != 1)}"
    long = [
        f"{name} compiles for {duration(spent)} of them, unless its kernels are cached"
        for name, spent in compiling.items()
        if spent >= LONG
    ]
    return "; ".join([f"about {duration(total)} on {cores}", *long])


def _compiling(declaration: Declaration, session: Session) -> float:
    """Seconds of processors that an implementation compiles."""
    full, sample = COMPILING.get(declaration.full_name, (0.0, 0.0))
    return sample if declaration.full_name in session.request.sampled else full
