"""`attnsuite export`: a model written as an ONNX file, and one line that says what was written and how it answered."""

from __future__ import annotations

import os

from attnsuite.cli.checking import single_threaded
from attnsuite.export import Request, Written
from attnsuite.export import export as run


def export(request: Request) -> None:
    """Write the file and say so. UsageError where that cannot be done; what was there before is then unharmed."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    single_threaded()
    for line in said(request, run(request)):
        print(line)


def said(request: Request, written: Written) -> list[str]:
    """What was written, and what was found when it ran."""
    ran, size = written.verified, f"{written.bytes / 2**20:.1f} MiB"
    what = f"{written.name}, part {written.part}, opset {written.opset}, {request.dtype}"
    error = f"errors of {ran.largest:.2g} at most and {ran.rms:.2g} (root mean square), relative to the oracle"
    judged = f"{ran.error_ratio:.2g} of what the contract allows" if ran.error_ratio <= 1 else "no limit is promised"
    return [
        f"{request.file}: {what}, {written.nodes} nodes, {size}",
        f"run by {ran.ran_by}: {error}; {judged}",
    ]
