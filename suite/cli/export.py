"""`attnsuite export`: write a model as an ONNX file, and print the results of its test run."""

import os

from attnsuite.cli import campaign
from attnsuite.cli.requests import Export
from attnsuite.cli.targets import single_threaded


def run(options: Export) -> None:
    """Write the file and describe it. UsageError if that is impossible; an existing file then stays as it was."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    single_threaded()
    from attnsuite.export import Request, export
    from attnsuite.export.inputs import read_config

    written = export(campaign.request_of(Request, options, config=read_config(options.config, options.settings)))
    ran = written.verification
    what = f"{written.name}, part {written.part}, opset {written.opset}, {written.dtype}"
    error = f"errors of {ran.largest:.2g} at most and {ran.rms:.2g} (root mean square), relative to the oracle"
    judged = f"{ran.error_ratio:.2g} of what the contract allows" if ran.error_ratio <= 1 else "no limit is promised"
    print(f"{options.file}: {what}, {written.nodes} nodes, {written.bytes / 2**20:.1f} MiB")
    print(f"run by {ran.ran_by}: {error}; {judged}")
