"""What each subcommand takes: one request per subcommand, whose fields are its options and its Python arguments.

`attnsuite.cli.NAME` carries out the request of the subcommand NAME. The class's docstring is its help.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from attnsuite.cli.options import argument, checked, file, folder, jobs, one_of, option, path, positive, seconds, whole
from attnsuite.model import PROFILES, RESULTS, Shard, UsageError
from attnsuite.model.comparison import FAIL_ON
from attnsuite.model.faster import MARGIN
from attnsuite.model.limits import COMPILE_LIMIT, IMPORT_LIMIT, TIME_LIMIT
from attnsuite.model.options import (
    COMBINED,
    check_cache,
    check_dtypes,
    check_name_of_device,
    check_processes,
    check_profile,
    check_seed,
    check_short_seed,
)

Many = tuple[str, ...]
T = TypeVar("T")


def _own_fields(request: type[T]) -> type[T]:
    """The class with fields of its own: a dataclass names its fields, and requests share options."""
    for name in request.__annotations__:
        setattr(request, name, copy(vars(request)[name]))
    return request


def _signature(word: str, text: str) -> str:
    from attnsuite.registry.signatures import signature

    return signature(text).name


def _check_shape(text: str) -> None:
    from attnsuite.contracts.attention.shapes import read  # no other contract has shapes

    read(text)


def _threads(word: str, text: str | int) -> int:
    from attnsuite.benchmark.processes import check_threads

    check_threads([number := whole(word, text)])
    return number


def _share(word: str, text: str | float) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(f"{word} expects a share from 0 to below 1, got {str(text)!r:.80}")
    return share


TARGETS = argument(
    (),
    "[TARGET]...",
    "attention/chunked, chunked, file.py, file.py:function, or package.module:function; TARGET+BACKEND uses an "
    "attention, named in any of these ways, inside another: transformer/eager+chunked; all by default",
)
CONTRACT = option(None, "--contract C", "the contract; of a file it is attention, unless its folder names another")
SIGNATURE = option(
    None,
    "--signature S",
    "the library whose signature a file or module has: sdpa, flash_attn, xformers, jax, flashinfer, triton, mlx or "
    "numpy; by default its parameters tell",
    _signature,
)
SHAPES = option(
    (),
    "--shape SHAPE",
    "a workload of your own: b=4,h=32,g=8,l=2048,e=128,causal; further s, v, window=LEFT:RIGHT, softcap=C, mask=bool "
    "or mask=float; may be repeated",
    checked(_check_shape),
)
WORKLOADS = option((), "--workload PATTERN", "only workloads of this name or group; may be repeated")
DTYPES = option(
    (),
    "--dtype D",
    "float64, float32, float16 or bfloat16; may be repeated",
    checked(lambda dtype: check_dtypes([dtype])),
)
DEVICE = option("cpu", "--device D", "cpu, cuda or cuda:N", checked(check_name_of_device))
RESULTS_FOLDER = option(RESULTS, "--results DIR", "the folder of results", folder)
JOBS = option(None, "--jobs N", "parallel processes; auto, the default: one per core, fewer for few tests", jobs)
TIME_LIMITS = option(
    TIME_LIMIT,
    "--time-limit SECONDS",
    f"the timeout of a test in a worker; an import may take {IMPORT_LIMIT:g} at least, and where a compiler is loaded "
    f"an import and the first call of each shape {COMPILE_LIMIT:g}",
    seconds,
)
SKIPPED = option((), "--except TARGET", "skip these targets; may be repeated")
SHARD = option(
    None, "--shard I/N", "only the part I of N, as 2/8; has its own folder under --results", lambda _, s: Shard.read(s)
)
JSON = option(None, "--json FILE", "write a JSON row per result; - is standard output", file)
ISOLATE = option(False, "--isolate", "run every implementation in its own process, shipped ones too")
BACKWARD = option(False, "--backward", "time backward, and forward and backward together, too")
BUDGET = option(None, "--budget SECONDS", "timed calls per row; more if a verdict needs more rounds", seconds)
DRY_RUN = option(False, "--dry-run", "print what would run and about how long it takes; start and write nothing")
CHECK_PROFILE = checked(lambda text: check_profile(text, COMBINED))
BENCH_PROFILE = checked(lambda text: check_profile(text, PROFILES))
PROCESSES = checked(check_processes, whole)
SHORT_SEED = checked(check_short_seed, whole)


@dataclass(frozen=True)
@_own_fields
class List:
    """List implementations: what each supports, why some are missing. Or the cases tested, the workloads timed."""

    targets: Many = TARGETS
    contract: str | None = CONTRACT
    workloads: bool = option(False, "--workloads", "list what `bench` times of each contract instead")
    cases: bool = option(False, "--cases", "list what `check` tests of each contract instead")
    patterns: Many = option((), "--case PATTERN", "the same, only cases of this name, family or pattern")


@dataclass(frozen=True)
@_own_fields
class New:
    """Begin an implementation: a file with the contract's words as comments. One of attention runs at once."""

    name: str = argument(..., "NAME", "the file to write, NAME.py; a path to another folder, too")
    contract: str = option("attention", "--contract C", "what it computes; attention by default")
    signature: str | None = SIGNATURE


@dataclass(frozen=True)
@_own_fields
class Check:
    """Is it right? Runs every case in every dtype, and names the mistakes."""

    targets: Many = TARGETS
    contract: str | None = CONTRACT
    cases: Many = option((), "--case PATTERN", "only cases of this name, family or pattern; may be repeated")
    dtypes: Many = DTYPES
    device: str = DEVICE
    json: str | None = JSON
    isolate: bool = ISOLATE
    time_limit: float = TIME_LIMITS
    jobs: int | None = JOBS
    sample: bool = option(False, "--sample", "test a sample: every feature and every dtype once")
    profile: str = option(COMBINED[0], "--profile P", "quick: pairs of features; full: triples, too", CHECK_PROFILE)
    seed: int = option(0, "--seed N", "of inputs and combinations of features", checked(check_seed, whole))
    except_: Many = SKIPPED
    results: Path | None = option(None, "--results DIR", "store the outcomes there and write pages; resumes", folder)
    shard: Shard | None = SHARD
    fail_fast: bool = option(False, "--fail-fast -x", "stop at the first failure that is not a known bug")
    junit: str | None = option(None, "--junit FILE", "write the outcomes as JUnit XML", file)
    signature: str | None = SIGNATURE
    known_gaps: str | None = option(None, "--known-gaps FILE", "lines `case pattern: reason`: expected failures", file)
    strict: bool = option(False, "--strict", "fail for bad input that is accepted, as what ships here does")
    github: bool = option(False, "--github", "in GitHub Actions: annotate files that fail, add to the job's summary")
    quiet: bool = option(False, "--quiet -q", "print failures only")
    verbose: bool = option(False, "--verbose -v", "list the bad input that is accepted, too")

    @property
    def narrows(self) -> bool:
        """Whether not all tests of a contract run."""
        return bool(self.cases or self.dtypes or self.shard or self.sample)


@dataclass(frozen=True)
@_own_fields
class Bench:
    """How fast, how frugal? Times rounds next to the baseline, stores rows in results/ and writes the pages."""

    targets: Many = TARGETS
    contract: str | None = CONTRACT
    workloads: Many = WORKLOADS
    shapes: Many = SHAPES
    dtypes: Many = DTYPES
    baseline: str = option("", "--baseline TARGET", "compare with this instead of the contract's baseline")
    profile: str | None = option(None, "--profile P", "quick, the default, standard, or full (GPUs)", BENCH_PROFILE)
    device: str = DEVICE
    backward: bool = BACKWARD
    step: bool = option(False, "--step", "time training steps, too: of models and their blocks")
    threads: tuple[int, ...] = option((), "--threads N", "threads and cores on a CPU; may be repeated", _threads)
    cache: str | None = option(None, "--cache C", "hot or cold; cold is flushed before each call", checked(check_cache))
    budget: float | None = BUDGET
    json: str | None = JSON
    anew: bool = option(False, "--ask-again", "check conformance again, also where nothing has changed since")
    time_limit: float = TIME_LIMITS
    except_: Many = SKIPPED
    results: Path = RESULTS_FOLDER
    shard: Shard | None = SHARD
    signature: str | None = SIGNATURE
    dry_run: bool = DRY_RUN
    processes: int | None = option(None, "--processes N", "per implementation, timed in turns", PROCESSES)


@dataclass(frozen=True)
@_own_fields
class Export:
    """Write a model as an ONNX file, which is verified, run and compared with the oracle before it is there."""

    target: str = argument(..., "TARGET", "a model, as transformer, or an export of it")
    file: Path = argument(..., "FILE", "the ONNX file to write", path)
    opset: int | None = option(None, "--opset N", "the implementation's own by default", whole)
    dtype: str = option("float32", "--dtype D", "of the weights and the computation")
    part: str = option("", "--part P", "full (the default), or encoder and decoder, which keep a cache")
    config: Path | None = option(None, "--config FILE", "JSON: the settings of the config that differ", path)
    settings: Many = option((), "--set NAME=VALUE", "the same, one by one; may be repeated")
    weights: Path | None = option(None, "--weights FILE", ".npz, .safetensors or .pt with the contract's names", path)
    seed: int = option(0, "--seed N", "of random weights; 0 by default", whole)
    device: str = option("", "--device D", "where the graph is run once: cpu or cuda; by default CUDA if it is there")
    force: bool = option(False, "--force", "replace a file that exists")
    data_above: int | None = option(None, "--data-above BYTES", "larger weights go to FILE.data; 2 GiB", whole)


@dataclass(frozen=True)
@_own_fields
class Audit:
    """Audit the suite: mutants are killed, correct variants pass. Writes results/audit.md."""

    only: str | None = argument(None, "[CONTRACT]", "only this contract; writes nothing")
    contract: str | None = option(None, "--contract C", "the same as CONTRACT")
    results: Path = RESULTS_FOLDER
    jobs: int | None = JOBS
    seeds: int = option(0, "--seeds N", "run correct variants with N other seeds, too; each takes minutes", whole)
    arrays: int = option(0, "--arrays N", "run a correct variant on N other covering arrays, too", whole)
    benchmark: bool = option(False, "--benchmark", "audit the timer: false verdicts, slow-downs found, other timers")
    between_runs: int = option(0, "--between-runs N", "time the same code in N more runs", whole)
    pause: float | None = option(None, "--pause SECONDS", "between two of those runs: 3600 is an hour", seconds)
    cheats: bool = option(False, "--cheats", "run the exploits instead; writes cheats.md")


@dataclass(frozen=True)
@_own_fields
class Learn:
    """Does it learn? Models are trained with an attention as backend (attention/matmul by default), and scored."""

    targets: Many = argument((), "[TARGET]...", "the attentions to use; without one, all tasks run")
    tasks: Many = option((), "--task NAME", "only this task, or those of this table; may be repeated; all by default")
    seeds: tuple[int, ...] = option((), "--seed N", "train from this seed; may be repeated", SHORT_SEED)
    epochs: int | None = option(None, "--epochs N", "instead of the task's own number", positive)
    results: Path = RESULTS_FOLDER
    checkpoints: Path | None = option(None, "--checkpoints DIR", "by default in the user's cache", folder)


@dataclass(frozen=True)
@_own_fields
class Claims:
    """What do the documents claim, and does it hold? Each claim is one number, measured here; a row for each."""

    patterns: Many = argument((), "[CLAIM]...", "claims of this name, topic or shell pattern; all by default")
    evidence: Many = option((), "--evidence E", "only claims that are exact, drawn or trained; may be repeated")
    results: Path = RESULTS_FOLDER


@dataclass(frozen=True)
@_own_fields
class Report:
    """Write the pages and charts of every machine in results/, after merging other folders of results into it."""

    folders: tuple[Path, ...] = argument((), "[DIR]...", "merge these first: shards and machines, at any depth", folder)
    partial: bool = option(False, "--partial", "merge what is there, and print which shards are missing")
    results: Path = RESULTS_FOLDER


@dataclass(frozen=True)
@_own_fields
class Run:
    """The main job: test what ships, time it, write the pages. What compiles for minutes is tested on a sample."""

    targets: Many = TARGETS
    device: str = DEVICE
    results: Path = RESULTS_FOLDER
    isolate: bool = ISOLATE
    jobs: int | None = JOBS
    full: bool = option(False, "--full", "test everything, also what compiles for minutes")
    except_: Many = SKIPPED
    contract: str | None = CONTRACT
    dry_run: bool = DRY_RUN


@dataclass(frozen=True)
@_own_fields
class Sweep:
    """Many shards of `check` and `bench`, listed in a file: started, merged, resumed by the same command."""

    file: Path = argument(..., "FILE.toml", "shards = 8, tables [check] and [bench] with their options, [slurm]", path)
    launch: str = option("local", "--launch ENGINE", "local, or slurm: a cluster", one_of("local", "slurm"))
    jobs: int | None = option(None, "--jobs N", "shards at once; those of bench run alone", positive)
    dry_run: bool = option(False, "--dry-run", "print the commands; start and write nothing")


@dataclass(frozen=True)
@_own_fields
class History:
    """What became slower, larger or wrong, in which run? `history add` stores runs of other folders and of commits."""

    words: Many = argument(
        (),
        "[TARGET]...|add [RESULTS]...",
        "implementations, by name or shell pattern, whose series are shown one by one. After `add`: folders, "
        "or results@COMMIT, whose runs are added",
    )
    workloads: Many = WORKLOADS
    machines: Many = option((), "--machine M", "only machines of this name or shell pattern")
    baseline: str = option("", "--baseline NAME", "ratios to this implementation; else the contract's own")
    all: bool = option(False, "--all", "show every series, also those without a step")
    format: str = option("text", "--format F", "text, json or csv", one_of("text", "json", "csv"))
    results: Path = RESULTS_FOLDER


@dataclass(frozen=True)
@_own_fields
class Draw:
    """Draw the documents' figures with our numbers, each as SVG and PNG."""

    figures: Many = argument((), "[FIGURE]...", "names of figures, or shell patterns; all by default")
    to: Path = option(Path("figures"), "--to DIR", "the folder that gets the files", folder)
    overwrite: bool = option(False, "--overwrite", "replace files that exist")
    list_figures: bool = option(False, "--list", "list the figures, and draw nothing")
    sentence: str | None = option(None, "--sentence TEXT", "the sentence of a figure that shows one")
    attention: str | None = option(None, "--attention TARGET", "the attention that a figure shows or uses")
    causal: bool = option(False, "--causal", "no word attends to those after it")
    seed: int | None = option(None, "--seed N", "for figures with random numbers", SHORT_SEED)


@dataclass(frozen=True)
@_own_fields
class Compare:
    """What changed from OLD to NEW? Outcomes first, then times and memory as ratios with intervals."""

    old: str = argument(
        ...,
        "OLD",
        "a folder of results, as it was at a commit (results@HEAD~3), of one run (results:20260102T03), or of a "
        "version (torch==2.11.0). With --interleaved: a target, or a target at a commit (kernel.py@main)",
    )
    new: str = argument(..., "NEW", "the same, of the other side")
    fail_on: Many = option((), "--fail-on WHAT", "exit with 1 for: slower, failed, memory, unclear", one_of(*FAIL_ON))
    margin: float = option(MARGIN, "--margin SHARE", "ignore smaller differences: 0.03 is 3 %", _share)
    json: str | None = JSON
    results: Path = RESULTS_FOLDER
    interleaved: bool = option(False, "--interleaved", "time both against each other now, in turns, in many processes")
    workloads: Many = WORKLOADS
    shapes: Many = SHAPES
    dtypes: Many = DTYPES
    pairs: int | None = option(None, "--pairs N", "interleaved: pairs of processes, 8 or more; 12 by default", whole)
    contract: str | None = CONTRACT
    device: str = DEVICE
    backward: bool = BACKWARD
    threads: int = option(1, "--threads N", "interleaved: cores for each", _threads)
    budget: float | None = BUDGET


@dataclass(frozen=True)
@_own_fields
class Verify:
    """Are these results as they were written? Compares rows, checksums, pages and sources."""

    paths: tuple[Path, ...] = argument((), "[PATH]...", "folders of results; results by default", path)
