"""`attnsuite export`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import path, whole


@dataclass(frozen=True)
class Export:
    """Write a model as an ONNX file, which is checked, run and held against its contract before it is there."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="a model, as transformer, or an export of it, transformer/onnx_export.opset18"
        ),
    ]
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=path("FILE", "file"), help="the ONNX file to write")]
    opset: Annotated[
        int | None,
        typer.Option("--opset", metavar="N", parser=whole("--opset"), help="the implementation's own by default"),
    ] = None
    dtype: Annotated[str, typer.Option("--dtype", metavar="D", help="of the weights and what is computed")] = "float32"
    part: Annotated[
        str, typer.Option("--part", metavar="P", help="full (the default), or encoder and decoder, which keep a cache")
    ] = ""
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            parser=path("--config", "file"),
            help="JSON: what the config has otherwise than usual",
        ),
    ] = None
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="the same, one by one; may be repeated")
    ] = field(default_factory=list)
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            parser=path("--weights", "file"),
            help=".npz, .safetensors or .pt: tensors named as the contract names them",
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", parser=whole("--seed"), help="of weights that are drawn; 0 by default"),
    ] = 0
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="D",
            help="where the graph is run once: cpu or cuda; by default CUDA if it is there",
        ),
    ] = ""
    force: Annotated[bool, typer.Option("--force", help="replace a file that exists")] = False
    data_above: Annotated[
        int | None,
        typer.Option(
            "--data-above",
            metavar="BYTES",
            parser=whole("--data-above"),
            help="weights of more go to FILE.data; 2 GiB by default",
        ),
    ] = None

    def run(self) -> None:
        from attnsuite.cli import exporting
        from attnsuite.export import DATA_ABOVE, Request
        from attnsuite.export.config import read

        request = Request(
            self.target,
            self.file,
            self.opset,
            self.dtype,
            self.part,
            read(self.config, self.settings),
            self.weights,
            self.seed,
            self.device,
            self.force,
            DATA_ABOVE if self.data_above is None else self.data_above,
        )
        exporting.export(request)
