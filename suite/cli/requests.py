"""Requests: a dataclass per subcommand, whose fields are its options and its arguments in Python.

`attnsuite.cli.NAME` carries out the request of the subcommand NAME. The class's docstring is its help.
"""

from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, dataclass_transform

from attnsuite.cli.options import argument, checked, file, folder, jobs, one_of, option, path, positive, seconds, whole
from attnsuite.model import PROFILES, RESULTS, Shard, UsageError
from attnsuite.model.comparison import FAIL_ON
from attnsuite.model.faster import MARGIN
from attnsuite.model.limits import (
    COMBINED,
    COMPILE_LIMIT,
    IMPORT_LIMIT,
    TIME_LIMIT,
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


@dataclass_transform(frozen_default=True)
def _request(cls: type[T]) -> type[T]:
    """Return the class as a frozen dataclass with copies of its fields, which requests share and dataclasses name."""
    for name in cls.__annotations__:
        setattr(cls, name, copy(vars(cls)[name]))
    return dataclass(frozen=True)(cls)


def _signature(word: str, text: str) -> str:
    from attnsuite.registry.signatures import signature

    return signature(text).name


def _weights(word: str, text: str) -> str:
    from attnsuite.registry import weights_in

    return ",".join(f"{role}={layer}" for role, layer in weights_in(text).items())


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
    "TARGET",
    "an implementation: attention/chunked, chunked, file.py, file.py:function or package.module:function; "
    "TARGET+BACKEND uses an attention inside another implementation, as transformer/eager+chunked; default: all",
)
CONTRACT = option(None, "--contract C", "the contract; default: by folder, function or parameters, else attention")
SIGNATURE = option(
    None,
    "--signature S",
    "the library whose signature a file or module has, as flash_attn, jax or flash_attn_varlen; docs/signatures.md "
    "lists all; default: recognised by its parameters",
    _signature,
)
SHAPES = option(
    (),
    "--shape SHAPE",
    "a workload of your own, as b=4,h=32,g=8,l=2048,e=128,causal; also s, v, scale, softcap, window=LEFT:RIGHT, "
    "mask=bool or mask=float; may be repeated",
    checked(_check_shape),
)
WORKLOADS = option((), "--workload PATTERN", "only workloads with this name or group; may be repeated")
DTYPES = option(
    (),
    "--dtype D",
    "float64, float32, float16 or bfloat16; may be repeated",
    checked(lambda dtype: check_dtypes([dtype])),
)
DEVICE = option("cpu", "--device D", "cpu, cuda or cuda:N", checked(check_name_of_device))
RESULTS_FOLDER = option(RESULTS, "--results DIR", "the folder of results", folder)
JOBS = option(None, "--jobs N", "number of parallel processes; default: auto, one per core, fewer for few tests", jobs)
TIME_LIMITS = option(
    TIME_LIMIT,
    "--time-limit SECONDS",
    f"timeout of a test in a worker; an import gets at least {IMPORT_LIMIT:g}; with a compiler loaded, both get "
    f"at least {COMPILE_LIMIT:g}",
    seconds,
)
SKIPPED = option((), "--except TARGET", "skip these targets; may be repeated")
SHARD = option(
    None, "--shard I/N", "run only part I of N, as 2/8; each part has a folder of its own", lambda _, s: Shard.read(s)
)
JSON = option(None, "--json FILE", "write one JSON row per result; - is standard output", file)
ISOLATE = option(False, "--isolate", "also run shipped implementations in processes of their own")
BACKWARD = option(False, "--backward", "also time backward, and forward with backward")
BUDGET = option(None, "--budget SECONDS", "timed calls per row; longer if a verdict needs more rounds", seconds)
DRY_RUN = option(False, "--dry-run", "print what would run and for about how long; run and write nothing")
CHECK_PROFILE = checked(lambda text: check_profile(text, COMBINED))
BENCH_PROFILE = checked(lambda text: check_profile(text, PROFILES))
PROCESSES = checked(check_processes, whole)
SHORT_SEED = checked(check_short_seed, whole)


@_request
class List:
    """List implementations, test cases or workloads. Shows what each implementation lacks, and why some are missing."""

    targets: Many = TARGETS
    contract: str | None = CONTRACT
    workloads: bool = option(False, "--workloads", "list the workloads that `bench` times")
    cases: bool = option(False, "--cases", "list the cases that `check` tests")
    patterns: Many = option((), "--case PATTERN", "list only cases with this name, family or pattern")


@_request
class New:
    """Write a file that begins an implementation. A file for attention passes its check; others hold the definition."""

    name: str = argument(..., "NAME", "the file to write, as kernel or folder/kernel.py")
    contract: str = option("attention", "--contract C", "the contract of the implementation")
    signature: str | None = SIGNATURE
    exercise: str | None = option(
        None, "--exercise SECTION", "a section of the documents, as doc-003/3.4: its examples"
    )


@_request
class Check:
    """Test implementations against their contracts. Runs every case in every dtype, and names the mistakes."""

    targets: Many = TARGETS
    contract: str | None = CONTRACT
    cases: Many = option((), "--case PATTERN", "only cases with this name, family or pattern; may be repeated")
    dtypes: Many = DTYPES
    device: str = DEVICE
    json: str | None = JSON
    isolate: bool = ISOLATE
    time_limit: float = TIME_LIMITS
    jobs: int | None = JOBS
    sample: bool = option(False, "--sample", "test a sample: every feature and every dtype once")
    profile: str = option(COMBINED[0], "--profile P", "quick: pairs of features; full: also triples", CHECK_PROFILE)
    seed: int = option(0, "--seed N", "seed of inputs and combinations of features", checked(check_seed, whole))
    except_: Many = SKIPPED
    results: Path | None = option(None, "--results DIR", "store outcomes there and write pages; resumable", folder)
    shard: Shard | None = SHARD
    fail_fast: bool = option(False, "--fail-fast -x", "stop at the first failure that is not a known bug")
    junit: str | None = option(None, "--junit FILE", "write the outcomes as JUnit XML", file)
    signature: str | None = SIGNATURE
    weights: str | None = option(
        None,
        "--weights ROLES",
        "the layers of a module by role, as q=first,k=second,v=third,o=last; also qkv and kv",
        _weights,
    )
    xfails: str | None = option(None, "--xfails FILE", "expected failures, as lines `case pattern: reason`", file)
    strict: bool = option(False, "--strict", "fail if bad input is accepted, as shipped implementations do")
    github: bool = option(False, "--github", "for GitHub Actions: annotate files that fail, append to the job summary")
    quiet: bool = option(False, "--quiet -q", "print failures only")
    verbose: bool = option(False, "--verbose -v", "also list bad input that is accepted")

    @property
    def narrows(self) -> bool:
        """Whether the options leave out tests of the contract."""
        return bool(self.cases or self.dtypes or self.shard or self.sample)


@_request
class Bench:
    """Measure time and memory, compared with a baseline. Stores rows in results/ and writes the pages."""

    targets: Many = TARGETS
    contract: str | None = CONTRACT
    workloads: Many = WORKLOADS
    shapes: Many = SHAPES
    dtypes: Many = DTYPES
    baseline: str = option("", "--baseline TARGET", "compare with this target instead of the contract's baseline")
    profile: str | None = option(None, "--profile P", "quick (default), standard, gpu or full", BENCH_PROFILE)
    device: str = DEVICE
    backward: bool = BACKWARD
    step: bool = option(False, "--step", "also time training steps of models and of their blocks")
    threads: tuple[int, ...] = option((), "--threads N", "number of CPU threads and cores; may be repeated", _threads)
    cache: str | None = option(None, "--cache C", "hot, or cold: flushed before each call", checked(check_cache))
    budget: float | None = BUDGET
    json: str | None = JSON
    recheck: bool = option(False, "--recheck", "test conformance again, even if nothing has changed")
    time_limit: float = TIME_LIMITS
    except_: Many = SKIPPED
    results: Path = RESULTS_FOLDER
    shard: Shard | None = SHARD
    signature: str | None = SIGNATURE
    dry_run: bool = DRY_RUN
    processes: int | None = option(None, "--processes N", "processes per implementation, timed in turns", PROCESSES)


@_request
class Export:
    """Write a model as an ONNX file. The file is first verified, run and compared with the oracle."""

    target: str = argument(..., "TARGET", "a model, as transformer, or one of its exports")
    file: Path = argument(..., "FILE", "the ONNX file to write", path)
    opset: int | None = option(None, "--opset N", "opset version; default: the implementation's own", whole)
    dtype: str = option("float32", "--dtype D", "dtype of the weights and of the computation")
    part: str = option("", "--part P", "full (default), encoder, or decoder with its cache")
    config: Path | None = option(None, "--config FILE", "settings that differ from the default config, as JSON", path)
    settings: Many = option((), "--set NAME=VALUE", "one such setting; may be repeated")
    weights: Path | None = option(None, "--weights FILE", ".npz, .safetensors or .pt with the contract's names", path)
    seed: int = option(0, "--seed N", "seed of random weights", whole)
    device: str = option("", "--device D", "device for a test run of the graph: cpu or cuda; default: cuda if present")
    force: bool = option(False, "--force", "replace a file that exists")


@_request
class Audit:
    """Audit the suite: mutants are killed, correct variants pass. Writes results/audit.md."""

    contract: str | None = option(None, "--contract C", "audit only this contract, and write nothing")
    results: Path = RESULTS_FOLDER
    jobs: int | None = JOBS
    seeds: int = option(0, "--seeds N", "also run correct variants with N other seeds; each takes minutes", whole)
    arrays: int = option(0, "--arrays N", "also run a correct variant on N other covering arrays", whole)
    benchmark: bool = option(False, "--benchmark", "audit the timer instead: false verdicts, slow-downs, other timers")
    cheats: bool = option(False, "--cheats", "run the exploits instead, and write cheats.md")


@_request
class Learn:
    """Train models that use an attention, and score them. The default is attention/matmul."""

    targets: Many = argument((), "TARGET", "attentions to train with; default: all tasks with attention/matmul")
    tasks: Many = option((), "--task NAME", "only this task or table of tasks; may be repeated")
    seeds: tuple[int, ...] = option((), "--seed N", "seed of the training; default: 0; may be repeated", SHORT_SEED)
    epochs: int | None = option(None, "--epochs N", "number of epochs; default: the task's own", positive)
    results: Path = RESULTS_FOLDER
    checkpoints: Path | None = option(None, "--checkpoints DIR", "default: the user's cache", folder)


@_request
class Claims:
    """Measure what the source documents claim. Each claim is one number, and the result says whether it holds."""

    patterns: Many = argument((), "CLAIM", "claims with this name, topic or pattern; default: all")
    evidence: Many = option((), "--evidence E", "only claims that are exact, drawn, trained or timed; may be repeated")
    results: Path = RESULTS_FOLDER


@_request
class Report:
    """Write the pages and charts of stored results. Folders that are named are merged into the results first."""

    folders: tuple[Path, ...] = argument((), "DIR", "folders to merge first, searched at any depth", folder)
    partial: bool = option(False, "--partial", "merge although shards are missing, and print which")
    results: Path = RESULTS_FOLDER


@_request
class Run:
    """Test and time all implementations, and write the pages. What compiles for minutes is tested on a sample."""

    targets: Many = TARGETS
    device: str = DEVICE
    results: Path = RESULTS_FOLDER
    isolate: bool = ISOLATE
    jobs: int | None = JOBS
    full: bool = option(False, "--full", "test everything, including what compiles for minutes")
    except_: Many = SKIPPED
    contract: str | None = CONTRACT
    dry_run: bool = DRY_RUN


@_request
class Sweep:
    """Run the shards of `check` and `bench` that a file lists. The same command resumes and merges them."""

    file: Path = argument(..., "FILE.toml", "shards = 8, tables [check] and [bench] of options, [slurm]", path)
    launch: str = option("local", "--launch ENGINE", "local, or slurm for a cluster", one_of("local", "slurm"))
    jobs: int | None = option(None, "--jobs N", "number of shards that run at once; those of bench run alone", positive)
    dry_run: bool = option(False, "--dry-run", "print the commands; run and write nothing")


@_request
class History:
    """Show which run became slower, larger or wrong. `history add` adds runs of other folders and of commits."""

    words: Many = argument(
        (),
        "TARGET",
        "show the series of implementations with this name or pattern; or `add` and further RESULTS: folders, or "
        "folders at a commit (results@COMMIT), whose runs are added",
    )
    workloads: Many = WORKLOADS
    format: str = option("text", "--format F", "text or json", one_of("text", "json"))
    results: Path = RESULTS_FOLDER


@_request
class Draw:
    """Draw the documents' figures with measured numbers. Writes SVG and PNG."""

    figures: Many = argument((), "FIGURE", "figures with this name or pattern; default: all")
    to: Path = option(Path("figures"), "--to DIR", "the folder to write to", folder)
    overwrite: bool = option(False, "--overwrite", "replace files that exist")
    list_figures: bool = option(False, "--list", "list the figures and draw nothing")
    sentence: str | None = option(None, "--sentence TEXT", "the sentence that a figure shows")
    attention: str | None = option(None, "--attention TARGET", "the attention that a figure shows or uses")
    causal: bool = option(False, "--causal", "let no word attend to later ones")
    checkpoint: Path | None = option(None, "--from FILE", "a translator's checkpoint, of `learn --checkpoints`", path)


@_request
class Compare:
    """Compare two sets of results. Lists changed outcomes, then ratios of times and memory."""

    old: str = argument(
        ...,
        "OLD",
        "a folder of results, at a commit (results@HEAD~3), of one run (results:20260102T03) or of one version "
        "(torch==2.11.0); with --interleaved: a target, or a target at a commit (kernel.py@main)",
    )
    new: str = argument(..., "NEW", "the other side, in the same form")
    fail_on: Many = option(
        (), "--fail-on WHAT", "exit with 1 for: slower, failed, memory, inconclusive; may be repeated", one_of(*FAIL_ON)
    )
    margin: float = option(MARGIN, "--margin SHARE", "ignore differences below this share; 0.03 is 3 %", _share)
    json: str | None = JSON
    results: Path = RESULTS_FOLDER
    interleaved: bool = option(False, "--interleaved", "time both sides now, in turns, in many processes")
    workloads: Many = WORKLOADS
    shapes: Many = SHAPES
    dtypes: Many = DTYPES
    pairs: int | None = option(None, "--pairs N", "number of pairs of processes, at least 8; default: 12", whole)
    contract: str | None = CONTRACT
    device: str = DEVICE
    backward: bool = BACKWARD
    threads: int = option(1, "--threads N", "number of cores per side", _threads)
    budget: float | None = BUDGET


@_request
class Verify:
    """Verify that stored results were not altered. Compares rows, checksums, pages and sources."""

    paths: tuple[Path, ...] = argument((), "PATH", "folders of results; default: results", path)
