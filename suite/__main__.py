"""The command line, its subcommands in workflow order."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.records import UsageError
from suite.records.limits import TIME_LIMIT

if TYPE_CHECKING:
    from suite.benchmark import Request

app = typer.Typer(
    name="attnsuite",
    help="A conformance and benchmark suite for attention.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def seconds(text: str) -> float:
    """Read a number of seconds. Raises UsageError for anything else."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"a number of seconds is due, not {text!r}") from None


def count(text: str) -> int:
    """Read a whole number. Raises UsageError for anything else."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"a whole number is due, not {text!r}") from None


Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TARGET]...",
        help="attention/chunked, chunked, file.py, file.py:function, or package.module:function; TARGET+PLUG plugs an "
        "attention, named in any of these ways, into another: transformer/eager+chunked; all by default",
    ),
]
ContractName = Annotated[
    str | None,
    typer.Option(
        "--contract", metavar="C", help="the contract; of a file it is attention, unless its folder names another"
    ),
]
SignatureName = Annotated[
    str,
    typer.Option(
        "--signature",
        metavar="S",
        help="the library whose signature a file or module has: sdpa, flash_attn, xformers, jax, flashinfer, mlx or "
        "numpy; by default told by its parameters",
    ),
]
CasePatterns = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="PATTERN", help="only cases of this name, family or shell pattern; may be repeated"),
]
Dtypes = Annotated[list[str] | None, typer.Option("--dtype", metavar="D", help="only this dtype; may be repeated")]
Device = Annotated[str, typer.Option("--device", metavar="D", help="cpu, cuda or cuda:N")]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="write a JSON row per outcome; - is standard output")
]
Isolate = Annotated[
    bool, typer.Option("--isolate", help="ask every implementation in a process of its own, those that ship too")
]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        parser=seconds,
        help="the most that an answer from a process of its own may take",
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", metavar="N", parser=count, help="processes that ask at once; outcomes are those of one (the default)"
    ),
]
ArrayProfile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="P",
        help="how features are combined: quick (the default), in which every pair meets, or full, triples too",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", parser=count, help="ask other numbers, and other combinations of features; 0 by default"
    ),
]
Except = Annotated[
    list[str] | None, typer.Option("--except", metavar="TARGET", help="leave these out; may be repeated")
]
WorkloadPatterns = Annotated[
    list[str] | None,
    typer.Option("--workload", metavar="PATTERN", help="only workloads of this name or group; may be repeated"),
]
Profile = Annotated[
    str | None, typer.Option("--profile", metavar="P", help="quick (the default), standard, or full (for GPUs)")
]
Threads = Annotated[
    list[int] | None,
    typer.Option("--threads", metavar="N", parser=count, help="threads and cores on a CPU; may be repeated"),
]
Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="C",
        help="hot (default on CPU) or cold (default on CUDA); cold flushes it before each call, and takes longer",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        parser=seconds,
        help="of timed calls per implementation and table; more if a verdict needs more rounds",
    ),
]
BenchJson = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="write a JSON row per measurement; - is standard output")
]
Folder = Annotated[Path, typer.Option("--results", metavar="DIR", help="the folder of results")]

Model = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="a model, as transformer, or an export of it, transformer/onnx_export.opset18"
    ),
]
Opset = Annotated[
    int | None, typer.Option("--opset", metavar="N", parser=count, help="the implementation's own by default")
]
Part = Annotated[
    str, typer.Option("--part", metavar="P", help="full (the default), or encoder and decoder, which keep a cache")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="JSON: what the config has otherwise than usual")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="the same, one by one; may be repeated")
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="FILE", help=".npz, .safetensors or .pt: tensors named as the contract names them"
    ),
]
WeightSeed = Annotated[
    int, typer.Option("--seed", metavar="N", parser=count, help="of weights that are drawn; 0 by default")
]
GraphDevice = Annotated[
    str,
    typer.Option(
        "--device", metavar="D", help="where the graph is run once: cpu or cuda; by default CUDA if it is there"
    ),
]
DataAbove = Annotated[
    int | None,
    typer.Option(
        "--data-above", metavar="BYTES", parser=count, help="weights of more go to FILE.data; 2 GiB by default"
    ),
]


@app.command("list")
def list_(
    targets: Targets = None,
    contract: ContractName = None,
    workloads: Annotated[
        bool, typer.Option("--workloads", help="list what `bench` times of each contract instead")
    ] = False,
) -> None:
    """List implementations: what each supports, why some are missing. Or the workloads that are timed."""
    from suite.commands import listing

    (listing.show_workloads if workloads else listing.show)(targets or [], contract)


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="of the file that is written, NAME.py; a path to another folder, too")
    ],
    contract: Annotated[
        str, typer.Option("--contract", metavar="C", help="what it is to compute; attention by default")
    ] = "attention",
    signature: Annotated[
        str, typer.Option("--signature", metavar="S", help="the library whose signature it has; sdpa is the default")
    ] = "",
) -> None:
    """Begin an implementation: write a file that runs at once, with the contract's words as comments."""
    from suite.commands import beginning

    beginning.begin(name, contract, signature)


@app.command()
def check(
    targets: Targets = None,
    contract: ContractName = None,
    case: CasePatterns = None,
    dtype: Dtypes = None,
    device: Device = "cpu",
    json: Json = None,
    isolate: Isolate = False,
    time_limit: TimeLimit = TIME_LIMIT,
    jobs: Jobs = 1,
    profile: ArrayProfile = None,
    seed: Seed = 0,
    except_: Except = None,
    signature: SignatureName = "",
) -> None:
    """Is it right? Every case is asked, and mistakes are named. Each case is asked in every dtype."""
    from suite.commands import checking

    raise typer.Exit(
        checking.check(
            targets or [],
            contract,
            case or [],
            dtype or [],
            device,
            json,
            isolate,
            time_limit,
            except_ or [],
            jobs,
            profile,
            seed,
            signature,
        )
    )


@app.command()
def bench(
    targets: Targets = None,
    contract: ContractName = None,
    workload: WorkloadPatterns = None,
    profile: Profile = None,
    device: Device = "cpu",
    backward: Annotated[bool, typer.Option("--backward", help="time backward, and both together, too")] = False,
    step: Annotated[bool, typer.Option("--step", help="time training steps, too: of models and their blocks")] = False,
    threads: Threads = None,
    cache: Cache = None,
    budget: Budget = None,
    json: BenchJson = None,
    time_limit: TimeLimit = TIME_LIMIT,
    except_: Except = None,
    results: Folder = Path("results"),
    signature: SignatureName = "",
) -> None:
    """How fast, how frugal? Timed in rounds beside the baseline. Rows are added to results/, tables made of them."""
    from suite.commands import benching

    def asked() -> Request:
        from suite.benchmark import Request

        chosen, counts = tuple(workload or ()), tuple(threads or ())
        return Request(chosen, profile, device, backward, cache, counts, time_limit, budget, step)

    raise typer.Exit(benching.bench(targets or [], contract, asked, json, results, except_ or [], signature))


@app.command()
def export(
    target: Model,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the ONNX file to write")],
    opset: Opset = None,
    dtype: Annotated[str, typer.Option("--dtype", metavar="D", help="of the weights and what is computed")] = "float32",
    part: Part = "",
    config: ConfigFile = None,
    set_: Settings = None,
    weights: Weights = None,
    seed: WeightSeed = 0,
    device: GraphDevice = "",
    force: Annotated[bool, typer.Option("--force", help="replace a file that exists")] = False,
    data_above: DataAbove = None,
) -> None:
    """Write a model as an ONNX file, which is checked, run and held against its contract before it is there."""
    from suite.commands import exporting
    from suite.export import DATA_ABOVE, Request
    from suite.export.config import read

    chosen, above = read(config, set_ or []), DATA_ABOVE if data_above is None else data_above
    exporting.export(Request(target, file, opset, dtype, part, chosen, weights, seed, device, force, above))


@app.command()
def audit(
    contract: Annotated[
        str | None, typer.Option("--contract", metavar="C", help="only this contract; writes nothing")
    ] = None,
    results: Folder = Path("results"),
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", parser=count, help="processes; one per core by default")
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            metavar="N",
            parser=count,
            help="ask whoever is correct with the numbers of N other seeds, too; each takes minutes",
        ),
    ] = 0,
    arrays: Annotated[
        int,
        typer.Option(
            "--arrays",
            metavar="N",
            parser=count,
            help="draw N other combinations of features, and ask each of somebody who is correct, too",
        ),
    ] = 0,
    benchmark: Annotated[
        bool,
        typer.Option(
            "--benchmark", help="audit the stopwatch instead: false claims, slowdowns found, other stopwatches"
        ),
    ] = False,
) -> None:
    """Audit the suite: deviations caught, nobody accused falsely. Writes results/audit.md."""
    from suite.commands import auditing

    if benchmark and contract:
        raise UsageError("--contract does not go with --benchmark: the stopwatch is audited, not a contract")
    if benchmark and (seeds or arrays):
        raise UsageError("--seeds and --arrays do not go with --benchmark: nothing is drawn there")
    if benchmark:
        raise typer.Exit(auditing.audit_stopwatch(results, jobs))
    raise typer.Exit(auditing.audit(results, jobs, contract, seeds, arrays))


@app.command()
def learn(
    targets: Targets = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="only this task; may be repeated; all by default")
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option("--seed", metavar="N", parser=count, help="train from this seed; may be repeated; 0 by default"),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", parser=count, help="instead of the task's own number")
    ] = None,
    results: Folder = Path("results"),
    checkpoints: Annotated[
        Path | None,
        typer.Option("--checkpoints", metavar="DIR", help="the folder of checkpoints; the user's cache by default"),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="FILE", help="translate these pairs: lines of source, tab, target, as fra.txt"),
    ] = None,
    examples: Annotated[
        int | None, typer.Option("--examples", metavar="N", parser=count, help="only the first N pairs")
    ] = None,
) -> None:
    """Does it learn? Models are trained with an attention plugged in (attention/matmul by default), and scored."""
    from suite.commands import learning

    raise typer.Exit(
        learning.learn(targets or [], task or [], seed or [], epochs, results, checkpoints, pairs, examples)
    )


@app.command()
def claims(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CLAIM]...", help="claims of this name, topic or shell pattern; all by default"),
    ] = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option(
            "--evidence", metavar="E", help="only claims that are exact, drawn, trained or timed; may be repeated"
        ),
    ] = None,
    results: Folder = Path("results"),
) -> None:
    """What do the documents claim, and does it hold? Each claim is one number, measured here; a row for each."""
    from suite.commands import claiming

    raise typer.Exit(claiming.claim(patterns or [], evidence or [], results))


@app.command()
def report(results: Folder = Path("results")) -> None:
    """Write the tables and charts of every machine in results/."""
    from suite.commands import reporting

    reporting.report(results)


@app.command()
def run(
    targets: Targets = None,
    device: Device = "cpu",
    results: Folder = Path("results"),
    isolate: Isolate = False,
    jobs: Jobs = 1,
    except_: Except = None,
    contract: ContractName = None,
) -> None:
    """The main job: check everything, time it, write the tables. An interrupted run is resumed."""
    from suite.commands import running

    raise typer.Exit(running.run(targets or [], device, results, isolate, except_ or [], contract, jobs))


@app.command()
def draw(
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIGURE]...", help="names of figures, or shell patterns; all by default"),
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="the folder that gets the files")] = Path("figures"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="write over files that attnsuite has not drawn, too")
    ] = False,
    list_figures: Annotated[bool, typer.Option("--list", help="list the figures, and draw nothing")] = False,
    sentence: Annotated[
        str | None, typer.Option("--sentence", metavar="TEXT", help="the sentence of a figure that shows one")
    ] = None,
    attention: Annotated[
        str | None, typer.Option("--attention", metavar="TARGET", help="the attention that a figure shows or uses")
    ] = None,
    causal: Annotated[bool, typer.Option("--causal", help="no word attends to those after it")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", parser=count, help="for what a figure draws or trains")
    ] = None,
) -> None:
    """Draw the documents' figures with our numbers, each as SVG and PNG."""
    from suite.commands import drawing

    given = {"sentence": sentence, "attention": attention, "causal": causal or None, "seed": seed}
    options = {name: value for name, value in given.items() if value is not None}
    drawing.show(figures or []) if list_figures else drawing.draw(figures or [], to, overwrite, options)


@app.command()
def migrate(results: Folder = Path("results")) -> None:
    """Bring results/ of an earlier attnsuite into today's layout; nothing is lost, also where it is interrupted."""
    from suite.commands import migrating

    migrating.migrate(results)


def main() -> None:
    """Run the command line; a request that cannot be carried out is one line and exit status 2."""
    try:
        app()
    except UsageError as error:
        print(f"attnsuite: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # standard output is full or closed
        print(f"attnsuite: cannot write what was found: {error.strerror}", file=sys.stderr)
        os._exit(2)  # the interpreter would try to flush it again
    except SystemExit as end:
        if end.code == 130:  # how typer ends on Ctrl-C
            print("attnsuite: interrupted", file=sys.stderr)
        raise


if __name__ == "__main__":
    main()
