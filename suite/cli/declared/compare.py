"""`attnsuite compare`: its options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from attnsuite.cli.declared.common import Device, Dtypes, Folder, Shapes, place, seconds, whole
from attnsuite.model.statistics import MARGIN


@dataclass(frozen=True)
class Compare:
    """What changed from OLD to NEW? Outcomes first, then times and memory as ratios with intervals."""

    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="a folder of results, as it was at a commit (results@HEAD~3), of one run (results:20260102T03), or of "
            "a version (torch==2.11.0). With --interleaved: a target, or a target at a commit (kernel.py@main)",
        ),
    ]
    new: Annotated[str, typer.Argument(metavar="NEW", help="the same, of what is compared with it")]
    fail_on: Annotated[
        list[str],
        typer.Option(
            "--fail-on",
            metavar="WHAT",
            help="exit with status 1 and list what is slower, wrong or takes more memory, or of which times that is "
            "unclear: slower, wrong, memory, unclear; may be repeated",
        ),
    ] = field(default_factory=list)
    margin: Annotated[
        float,
        typer.Option("--margin", metavar="SHARE", help="smaller differences count as none: 0.03 is 3 %"),
    ] = MARGIN
    json: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            parser=place("--json", "file"),
            help="write a JSON row per change and ratio; - is standard output",
        ),
    ] = None
    results: Folder = Path("results")
    interleaved: Annotated[
        bool,
        typer.Option("--interleaved", help="time both against each other now, in turns, in several processes each"),
    ] = False
    workloads: Annotated[
        list[str],
        typer.Option("--workload", metavar="PATTERN", help="interleaved: these workloads; may be repeated"),
    ] = field(default_factory=list)
    shapes: Shapes = field(default_factory=list)
    dtypes: Dtypes = field(default_factory=list)
    python: Annotated[
        list[str],
        typer.Option(
            "--python",
            metavar="PATH",
            help="interleaved: the interpreter of OLD, and given once more, that of NEW: other versions of libraries",
        ),
    ] = field(default_factory=list)
    pairs: Annotated[
        int | None,
        typer.Option(
            "--pairs",
            metavar="N",
            parser=whole("--pairs"),
            help="interleaved: pairs of processes, 8 or more; at least 12 by default",
        ),
    ] = None
    contract: Annotated[
        str | None, typer.Option("--contract", metavar="C", help="interleaved: the contract of both")
    ] = None
    device: Device = "cpu"
    backward: Annotated[bool, typer.Option("--backward", help="interleaved: time gradients, too")] = False
    threads: Annotated[
        int,
        typer.Option("--threads", metavar="N", parser=whole("--threads"), help="interleaved: cores for each"),
    ] = 1
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            parser=seconds("--budget"),
            help="interleaved: of timed calls for each side, workload and pair of processes",
        ),
    ] = None

    def run(self) -> int:
        from attnsuite.cli import comparing

        comparing.check_options(self)
        if self.interleaved:
            from attnsuite.cli import comparing_now
            from attnsuite.cli.interrupting import until_interrupted

            return until_interrupted(lambda: comparing_now.compare(self), None)
        return comparing.compare(self)
