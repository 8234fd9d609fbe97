"""`attnsuite check` and `attnsuite.check`: run tests; print, write and store their outcomes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import StringIO
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import structs

from attnsuite import registry
from attnsuite.cli import campaign, github, outputs
from attnsuite.cli.ending import CANNOT, FAILED, heed, is_interrupted
from attnsuite.cli.options import arguments, several, words
from attnsuite.cli.outputs import JsonRows
from attnsuite.cli.progress import Display
from attnsuite.cli.report import report
from attnsuite.cli.requests import Check
from attnsuite.cli.targets import (
    Hint,
    chosen,
    chosen_or_refused,
    print_hint,
    print_start,
    refuse_broken,
    silent,
    single_threaded,
)
from attnsuite.conformance.known import read_xfails
from attnsuite.contracts import contract as contract_named
from attnsuite.model import EVERY_CASE, Facts, Outcome, Reason, Run, Status, UsageError, escaped
from attnsuite.model.garbage_collection import gc_paused_for_imports
from attnsuite.registry import Declaration, Loaded
from attnsuite.report import refuse_foreign_index
from attnsuite.results import RunWriter, open_run
from attnsuite.worker.allocator import keep_freed_memory
from attnsuite.worker.forkserver import prewarm
from attnsuite.worker.sandbox import begin_detection

if TYPE_CHECKING:
    import torch

    from attnsuite.conformance.request import CheckRequest
    from attnsuite.conformance.session import Session

Target = str | PathLike[str] | Callable[..., Any]
AGAIN = ("signature", "weights", "isolate", "time_limit", "profile", "strict", "seed", "xfails")
"""Options that change what a test does; the command that repeats a test has them."""


def run(options: Check) -> int:
    """Test the targets and return the exit status. UsageError if the only target is missing or cannot be tested.

    After a signal the outcomes until then are reported, and KeyboardInterrupt is raised.
    """
    try:
        return _run(options)
    except BaseException as error:
        if options.junit and is_interrupted(error) and not isinstance(error, campaign.Interrupted):
            outputs.write_interrupted_junit(Path(options.junit))
        raise


def _run(options: Check) -> int:
    hint = silent if options.quiet else print_hint
    declarations = chosen_or_refused(options.targets, options.except_, options.contract, options.signature)
    declarations = _with_weights(declarations, options)
    refuse_broken(options.targets, declarations)
    _refuse_places(options)
    single_threaded()
    # a check allocates and frees arrays of some hundred kilobytes all the time: by default their pages go back to the
    # system and come anew, 150,000 times in a check of attention
    keep_freed_memory()
    if submissions := not all(declaration.shipped for declaration in declarations):
        begin_detection()
    if options.device == "cpu" and (options.isolate or not options.cases or submissions):
        prewarm({})  # workers need PyTorch, which is imported here meanwhile
    with gc_paused_for_imports():  # to look through libraries for garbage takes some per cent of a check
        import attnsuite.conformance.session  # noqa: F401  with all that it needs
    heed()
    lines = sys.stderr if options.json == "-" else sys.stdout
    checking = _Check(options, declarations, lines, hint)
    outcomes = checking.outcomes()
    list_refused(checking.refused, lines)
    names = {outcome.implementation for outcome in outcomes}
    alone = bool(options.targets) and len(names) == 1
    return CANNOT if checking.refused else status(outcomes, alone, options.shard is not None)


def check(
    target: Target | Iterable[str | PathLike[str]],
    contract: str | None = None,
    dtypes: str | torch.dtype | Iterable[str | torch.dtype] | None = None,
    device: str | torch.device = "cpu",
    *,
    cases: str | Iterable[str] = (),
    **options: Any,
) -> list[Outcome]:
    """Check a target against its contract and return an Outcome for each case and dtype; nothing is printed.

    `target` is a function, a class or a module, which is called in this process (bad input in a worker, if it can be
    imported there), or what the command line takes, one or several: `"file.py"`, `"package.module:function"`,
    `"attention/chunked"`. `contract` is attention by default; of a file, the one that its folder, function or
    parameters show. `dtypes`, one or several ("float32" or torch.float32), and `cases` (names, families or patterns)
    default to all.

    The other options are those of `attnsuite check`, by the same names: `isolate`, `time_limit`, `jobs`, `profile`,
    `seed`, `shard` ("2/8"), `except_`, `fail_fast`, `strict`, the files `json` and `junit`, and the folder `results`.

    Raises UsageError for an unknown target, contract, dtype, device, case or option.

    >>> from torch.nn.functional import scaled_dot_product_attention
    >>> outcomes = check(scaled_dot_product_attention, cases="plain/small", dtypes="float32")
    >>> [(outcome.case, outcome.dtype, outcome.status.value) for outcome in outcomes]
    [('plain/small', 'float32', 'passed')]
    """
    names = [str(dtype).removeprefix("torch.") for dtype in several(dtypes)]
    # more processes only where the caller wants them: they are forked
    values = {"contract": contract, "dtypes": names, "device": str(device), "cases": cases, "jobs": 1, **options}
    request = Check(**arguments(Check, values))
    _refuse_places(request)
    if callable(target):
        return _function(target, request)
    targets = several(target)
    if not targets or not all(isinstance(target, str | PathLike) for target in targets):
        takes = "a function, a class or a module, or names and files as the command line does"
        raise UsageError(f"check expects {takes}; got {type(target).__name__}")
    declarations = chosen([fspath(target) for target in targets], request.except_, contract, request.signature)
    refuse_broken([str(target)], declarations)
    declarations = _with_weights(declarations, request)
    return _Check(request, declarations, None, silent).outcomes()


def _function(function: Callable[..., Any], options: Check) -> list[Outcome]:
    contract = contract_named(options.contract or registry.usual_contract(function)).name
    with registry.preserve_modes(function):
        weights = registry.weights_in(options.weights) if options.weights else {}
        loaded = registry.from_function(function, contract, signature=options.signature or "", weights=weights)
        declaration = loaded.declaration
        return _Check(options, [declaration], None, silent, {declaration.full_name: loaded}).outcomes()


def _with_weights(declarations: list[Declaration], options: Check) -> list[Declaration]:
    """The declarations with the roles of `--weights`."""
    if not options.weights:
        return declarations
    return [replace(declaration, weights=registry.weights_in(options.weights)) for declaration in declarations]


@dataclass
class _Check:
    """One check: lines for people go to `lines`, hints to `hint`. Implementations in `loaded` run in this process."""

    options: Check
    declarations: Sequence[Declaration]
    lines: TextIO | None
    hint: Hint
    loaded: Mapping[str, Loaded] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Why implementations cannot be tested, by name."""

    def outcomes(self) -> list[Outcome]:
        """Run the tests; print, write and store outcomes as the options say.

        After Ctrl-C all this is done with the outcomes until then, and KeyboardInterrupt raised.
        """
        from attnsuite.cases import tensors

        options, lines = self.options, self.lines
        request = request_of(options, self.declarations)
        session = self._session(request)
        self.declarations = with_cases(session, self.declarations, self.hint)
        session.refuse_unmatched_xfails(self.declarations)
        here = self._in_shard(session)
        total = sum(map(session.count, here))
        again = repeating(options, self.declarations) if lines or options.junit or options.results else {}
        stored = campaign.complete_shard(options.results, self._new_run(Facts()), Outcome, self.hint)
        stopped: campaign.Interrupted | None = None
        with (
            tensors.seed(request.seed),
            session,
            github.no_commands(lines or sys.stdout, options.github and lines is not None),
            JsonRows(options.json) as rows,
            nullcontext() if stored is not None else self._writer(again, request.sampled) as writer,
            self._display(session, total, again, rows) as display,
        ):
            if stored is not None:
                display.show_stored(stored)
            try:
                outcomes = stored or campaign.check(session, here, display, writer, self.loaded, self.refused)
            except campaign.Interrupted as error:
                outcomes, stopped = error.outcomes, error
            if writer and not stopped and not session.is_decided(outcomes):
                whole = () if options.narrows else self.declarations
                campaign.finish_checked(writer, whole)
        interrupted = _interruption(outcomes, total, writer) if stopped else ""
        self._conclude(session, outcomes, again, writer, interrupted)
        if stopped:
            raise stopped
        return outcomes

    def _session(self, request: CheckRequest) -> Session:
        from attnsuite.conformance.parallel import jobs_of, session_of

        options, count = self.options, len(self.declarations)
        explains = self.lines is not None and not options.quiet
        if request.seed and explains:
            print(f"inputs and combinations of features are drawn with --seed {request.seed}", file=self.lines)
        jobs = jobs_of(options.jobs, request, self.declarations)
        return session_of(request, count, jobs, explains, options.fail_fast)

    def _in_shard(self, session: Session) -> list[Declaration]:
        """The implementations with any test in the shard; all without --shard."""
        here = [declaration for declaration in self.declarations if session.falls_here(declaration)]
        if not here:
            units = sum(map(session.divided_into, self.declarations))
            self.hint(campaign.empty_shard(self.options.shard, "families of cases", units))
        return here

    def _new_run(self, facts: Facts) -> Run:
        """The run of a check that is stored, with the request in words."""
        options = self.options
        chosen = words(options, "cases", "dtypes", "profile", "strict", "sample")
        run = campaign.new_run(self.declarations, " ".join([f"check on {options.device}", *chosen]), facts)
        return structs.replace(run, shard=str(options.shard or ""))

    @contextmanager
    def _writer(self, again: Mapping[str, Sequence[str]], sampled: Mapping[str, int]) -> Iterator[RunWriter | None]:
        """The writer of the folder of results, if there is one: a run of conformance alone, resumed if interrupted."""
        options = self.options
        if options.results is None:
            yield None
            return
        refuse_foreign_index(options.results)
        facts = structs.replace(campaign.conformance_facts(self.declarations, again), sampled=sampled)
        if options.shard and not replace(options, shard=None).narrows:
            facts = structs.replace(facts, whole=tuple(declaration.full_name for declaration in self.declarations))
        with open_run(campaign.results_folder(options.results, options.shard), self._new_run(facts)) as writer:
            print_start(writer, self.hint)
            yield writer

    def _display(self, session: Session, total: int, again: Mapping[str, Sequence[str]], rows: JsonRows) -> Display:
        options = self.options
        settings = (again, len(self.declarations) == 1, session.request.sampled, options.quiet, options.verbose)
        write = lambda outcome: rows.write(row(outcome, session.mechanisms.get(outcome.implementation)))  # noqa: E731
        return Display(total, self.lines, *settings, row=write)

    def _conclude(
        self,
        session: Session,
        outcomes: Sequence[Outcome],
        again: Mapping[str, Sequence[str]],
        writer: RunWriter | None,
        interrupted: str,
    ) -> None:
        """Print and write everything that needs all outcomes."""
        options, lines = self.options, self.lines
        if interrupted and lines:
            print(interrupted, file=lines, flush=True)
        if writer and options.results and not options.shard and not interrupted:
            report(options.results, writer.run.machine.name, lines if lines and not options.quiet else StringIO())
        if options.github and lines is not None:
            github.announce(outcomes, self.declarations, session.explanations, again, lines)
        if options.junit is not None:
            outputs.write_junit(Path(options.junit), outcomes, again, interrupted)


def request_of(options: Check, declarations: Sequence[Declaration]) -> CheckRequest:
    """What is tested of the implementations."""
    from attnsuite.conformance.request import CheckRequest

    request = campaign.request_of(
        CheckRequest, options, xfails=read_xfails(options.xfails) if options.xfails is not None else ()
    )
    return campaign.sampled(request, declarations) if options.sample else request


def with_cases(session: Session, declarations: Sequence[Declaration], hint: Hint) -> list[Declaration]:
    """The implementations whose contracts have the cases; prints which others are skipped. UsageError without any."""
    skipped: dict[str, UsageError] = {}
    for name in campaign.contracts_of(declarations):
        try:
            session.tests(contract_named(name))
        except UsageError as error:
            skipped[name] = error
    left = [declaration for declaration in declarations if declaration.contract not in skipped]
    if skipped and not left:
        raise next(iter(skipped.values()))
    for name, reason in skipped.items():
        hint(f"{name} is skipped: {reason}")
    return left


def repeating(options: Check, declarations: Sequence[Declaration]) -> dict[str, list[str]]:
    """The words of a command line that repeat the tests of an implementation, if its name alone does not.

    Keys are full names. The case and the dtype are missing, because outcomes have them. Under EVERY_CASE are the words
    that select tests, for outcomes about all tests, such as a failed import.
    """
    if all(declaration.shipped for declaration in declarations):
        options = replace(options, strict=False)
    common, narrowed = words(options, *AGAIN), words(options, "cases", "dtypes")
    commands = {name: [*target, *common] for name, target in registry.command_words(declarations).items()}
    other = {name: command for name, command in commands.items() if command != [name]}
    return other | ({EVERY_CASE: narrowed} if narrowed else {})


def _refuse_places(options: Check) -> None:
    """Raise UsageError for options that would overwrite each other's files, or files of the user."""
    if options.results is not None and options.seed:
        raise UsageError("--seed does not go with --results: stored outcomes are all of seed 0")
    if options.json not in (None, "-"):
        outputs.refuse_foreign(Path(options.json), outputs.ROW)
    if options.junit is None:
        return
    if options.json is not None and Path(options.json).absolute() == Path(options.junit).absolute():
        raise UsageError(f"--json and --junit cannot both write {options.junit}")
    outputs.refuse_foreign(Path(options.junit), outputs.JUNIT)


def _interruption(outcomes: Sequence[Outcome], total: int, writer: RunWriter | None) -> str:
    """The line after Ctrl-C: the number of tests that were not run, and how to resume."""
    resumes = "; the same command resumes there" if writer else ""
    ran = sum(outcome.reason != Reason.SKIPPED for outcome in outcomes)
    return f"interrupted: {max(0, total - ran):,} of {total:,} tests were not run{resumes}"


def list_refused(refused: Mapping[str, str], lines: TextIO) -> None:
    """Print each implementation that cannot be tested, with its reason."""
    if refused:
        print(f"{len(refused)} cannot be tested:", file=lines)
    for name, reason in refused.items():
        print(escaped(f"  {name}: {reason}"), file=lines)


def status(outcomes: Sequence[Outcome], alone: bool = False, in_part: bool = False) -> int:
    """The exit status: 1 if an outcome fails.

    The only implementation under test (`alone`) must be present, and must support a test unless a shard runs `in_part`.
    """
    if alone and outcomes[0].status == Status.MISSING:
        raise UsageError(f"{outcomes[0].implementation} is missing: {outcomes[0].detail}")
    if any(outcome.fails for outcome in outcomes):
        return FAILED
    if alone and not in_part and all(outcome.status == Status.UNSUPPORTED for outcome in outcomes):
        print_hint(f"{outcomes[0].implementation} supports none of the tests")
        return FAILED
    return 0


def row(outcome: Outcome, mechanisms: Sequence[str] | None = None) -> dict[str, object]:
    """An outcome as a JSON row. One about all cases has case and dtype `*`; a submission's has its `sandbox`."""
    detail = f"known as {outcome.known}: {outcome.detail}" if outcome.known else outcome.detail
    ratio = outcome.error_ratio
    names = ("implementation", "contract", "case", "dtype", "device", "status")
    fields = {name: getattr(outcome, name) for name in names} | {
        "detail": detail,
        "error_ratio": str(ratio) if ratio == float("inf") else ratio,
        "seconds": outcome.seconds,
        "reason": outcome.reason,
    }
    return fields if mechanisms is None else {**fields, "sandbox": list(mechanisms)}
