"""From the options of `check` to outcomes: what the command line prints, and what Python gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

from msgspec import structs

from attnsuite.cli import campaign, github, json_rows, junit, last_failed, sharding
from attnsuite.cli.checking import (
    Tell,
    asked_again,
    chosen,
    refuse_broken,
    row,
    single_threaded,
    status,
    told,
)
from attnsuite.cli.interrupting import heed
from attnsuite.cli.json_rows import JsonRows
from attnsuite.cli.progress import Shown, how_it_starts
from attnsuite.cli.reporting import report
from attnsuite.conformance import gaps
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import Facts, Outcome, Reason, Run, UsageError
from attnsuite.model.options import (
    COMBINED,
    check_dtypes,
    check_jobs,
    check_name_of_device,
    check_profile,
    check_seconds,
    check_seed,
)
from attnsuite.model.uncollected import importing
from attnsuite.registry import Declaration, Loaded
from attnsuite.report import refuse_foreign_index
from attnsuite.results.store import Results, RunWriter
from attnsuite.worker import expect
from attnsuite.worker.allocator import keep_freed_memory
from attnsuite.worker.sandbox import begin_to_look

if TYPE_CHECKING:
    from attnsuite.cli.declared.check import Check
    from attnsuite.conformance.session import CheckRequest, Session


def check(options: Check) -> int:
    """Check the targets and return the exit status. UsageError if the only target named is missing.

    KeyboardInterrupt ends it after what was found until then is reported.
    """
    tell = nobody if options.quiet else told
    declarations = chosen(options.targets, options.except_, options.contract, options.signature or "")
    refuse_broken(options.targets, declarations)
    refuse_values(options)
    refuse_places(options)
    single_threaded()
    # a check allocates and frees arrays of some hundred kilobytes all the time: by default their pages go back to the
    # system and come anew, 150,000 times in a check of attention
    keep_freed_memory()
    if strangers := not all(declaration.shipped for declaration in declarations):
        begin_to_look()
    if options.device == "cpu" and (options.isolate or not options.cases or strangers):
        expect({})  # whoever answers in a process of its own needs PyTorch, which is imported here meanwhile
    with importing():  # to look through libraries for garbage takes some per cent of a check
        import attnsuite.conformance.session  # noqa: F401  with all that it needs
    heed()
    outcomes = outcomes_of(options, declarations, sys.stderr if options.json == "-" else sys.stdout, tell)
    named = {outcome.implementation for outcome in outcomes}
    return status(outcomes, alone=bool(options.targets) and len(named) == 1, in_part=options.shard is not None)


def outcomes_of(
    options: Check,
    declarations: Sequence[Declaration],
    lines: TextIO | None,
    tell: Tell,
    loaded: Mapping[str, Loaded] = MappingProxyType({}),
) -> list[Outcome]:
    """Ask these implementations what the options say; print, write and store what they ask for.

    Lines for people go to `lines`, hints to `tell`. Implementations in `loaded` are asked in this process. After Ctrl-C
    all this is done with what was found until then, and KeyboardInterrupt raised.
    """
    from attnsuite.cases import tensors

    request = requested(options, declarations, tell)
    explains = lines is not None and not options.quiet
    session = session_for(options, request, declarations, explains)
    declarations = askable(session, declarations, tell)
    session.refuse_idle_gaps(declarations)
    here = in_shard(session, declarations, tell)
    there = answered(options, declarations, tell)
    is_named = lines is not None or options.junit is not None or options.results is not None
    again = asked_again(declarations, request, options.signature or "") if is_named else {}
    say_seed(request, lines if explains else None)
    with (
        tensors.seed(request.seed),
        session,
        github.no_commands(lines or sys.stdout, options.github and lines is not None),
        JsonRows(options.json) as rows,
        stored(options, declarations, again, tell, request.sampled) if there is None else nullcontext() as writer,
        shown_to(lines, options, session, here, again, rows) as shown,
    ):
        outcomes, stopped = asked_now(session, here, shown, writer, loaded, there)
        if writer and not stopped and not session.is_decided(outcomes):
            whole = [] if narrows(options) else declarations
            campaign.finish(writer, checked=whole, operators=session.ran, lacks=session.lacks)
    interrupted = say_stopped(outcomes, sum(map(session.count, here)), writer, lines) if stopped else ""
    say_how_to_run_fewer(session, here, outcomes, tell)
    if not stopped:
        make_tables(options, writer, lines if explains else StringIO())
    if options.github and lines is not None:
        github.announce(outcomes, declarations, session.explanations, again, lines)
    if options.junit is not None:
        junit.write(Path(options.junit), outcomes, again, interrupted)
    remember(declarations, outcomes, request.device)
    if stopped:
        raise stopped
    return outcomes


def session_for(options: Check, request: CheckRequest, declarations: Sequence[Declaration], explains: bool) -> Session:
    """The session that tests these implementations, in as many processes as the options say."""
    from attnsuite.conformance.divided import jobs_of, session_of

    jobs, looks = jobs_of(options.jobs, request, declarations), bool(options.results)
    return session_of(request, len(declarations), jobs, explains, options.fail_fast, looks)


def shown_to(
    lines: TextIO | None,
    options: Check,
    session: Session,
    declarations: Sequence[Declaration],
    again: Mapping[str, Sequence[str]],
    rows: JsonRows,
) -> Shown:
    """What shows the outcomes as they come, and writes a row of each."""
    return Shown(
        sum(map(session.count, declarations)),
        lines,
        again=again,
        reasons=len(declarations) == 1,
        sampled=session.request.sampled,
        quiet=options.quiet,
        verbose=options.verbose,
        outcome=lambda each: rows.write(row(each, session.walls.get(each.implementation))),
    )


def asked_now(
    session: Session,
    declarations: Sequence[Declaration],
    shown: Shown,
    writer: RunWriter | None,
    loaded: Mapping[str, Loaded],
    there: Sequence[Outcome] | None,
) -> tuple[list[Outcome], campaign.Interrupted | None]:
    """The outcomes that are stored, or of asking now, and what stopped it before its end."""
    if there is not None:
        return shown_again(there, shown), None
    try:
        return campaign.check(session, declarations, shown, writer, loaded), None
    except campaign.Interrupted as stopped:
        return stopped.outcomes, stopped


def say_stopped(outcomes: Sequence[Outcome], total: int, writer: RunWriter | None, lines: TextIO | None) -> str:
    """Print and return how many tests were not run, and that what is stored need not be run again."""
    goes_on = "; the same command goes on from there" if writer else ""
    asked = sum(outcome.reason != Reason.NOT_ASKED for outcome in outcomes)
    says = f"interrupted: {max(0, total - asked):,} of {total:,} questions were not asked{goes_on}"
    if lines is not None:
        print(says, file=lines, flush=True)
    return says


def say_how_to_run_fewer(
    session: Session, declarations: Sequence[Declaration], outcomes: Sequence[Outcome], tell: Tell
) -> None:
    """Say of each submission whose tests are slow which option runs fewer of them, unless the user has chosen some."""
    from attnsuite.conformance.hinting import how_to_run_fewer

    own = campaign.by_implementation(outcomes)
    for each in () if session.request.cases or session.request.shard else declarations:
        if each.full_name in own and not each.shipped and each.contract in contract_names():
            asked = session.asked_of(each, contract_named(each.contract))
            if hint := how_to_run_fewer(asked, own[each.full_name]):
                tell(f"{each.full_name}: {hint}")


def make_tables(options: Check, writer: RunWriter | None, lines: TextIO | None) -> None:
    """Make the tables of what was stored; of a shard there are none, for it is a part."""
    if writer and options.results and not options.shard:
        report(options.results, writer.run.machine.name, lines)


def remember(declarations: Sequence[Declaration], outcomes: Sequence[Outcome], device: str) -> None:
    """Keep for --last-failed what failed, of implementations that a next command line can name."""
    own = campaign.by_implementation(outcomes)
    for each in declarations:
        if each.full_name in own and (each.file or each.module):
            last_failed.remember(each, device, own[each.full_name])


def requested(options: Check, declarations: Sequence[Declaration], tell: Tell) -> CheckRequest:
    """What is asked of the implementations."""
    from attnsuite.cases.contract import QUICK
    from attnsuite.conformance.session import CheckRequest

    request = CheckRequest(
        tuple(options.cases),
        tuple(options.dtypes),
        options.device,
        options.isolate,
        options.time_limit,
        options.profile or QUICK,
        options.seed,
        shard=options.shard,
        gaps=gaps.read(options.known_gaps) if options.known_gaps is not None else (),
        strict=options.strict,
    )
    if options.sample:
        request = campaign.sampled(request, declarations)
    if not options.last_failed:
        return request
    failed = {each.full_name: last_failed.failed(each, request.device) for each in declarations}
    for name in (name for name, questions in failed.items() if not questions):
        tell(f"{name}: nothing is known to have failed, so everything is asked")
    return replace(request, only={**request.only, **{name: tests for name, tests in failed.items() if tests}})


def narrows(options: Check) -> bool:
    """Whether not all questions of a contract are asked."""
    return bool(options.cases or options.dtypes or options.last_failed or options.shard or options.sample)


def refuse_values(options: Check) -> None:
    """Raise UsageError for what is wrong whatever is asked, before torch is imported, which takes seconds."""
    check_dtypes(options.dtypes)
    check_name_of_device(options.device)
    check_seconds("time limit", options.time_limit)
    check_profile(options.profile or COMBINED[0], COMBINED)
    check_seed(options.seed)
    if options.jobs is not None:
        check_jobs(options.jobs)
    if options.known_gaps is not None:
        gaps.read(options.known_gaps)


def refuse_places(options: Check) -> None:
    """Raise UsageError for options that would write over each other, or over what was not written here."""
    if options.results is not None and options.seed:
        raise UsageError("--seed does not go with --results: rows there are answers to the numbers of seed 0")
    if options.json not in (None, "-"):
        json_rows.refuse_to_overwrite(Path(options.json))
    if options.junit is None:
        return
    if options.json is not None and Path(options.json).absolute() == Path(options.junit).absolute():
        raise UsageError(f"--json and --junit cannot both write {options.junit}")
    junit.refuse_to_overwrite(Path(options.junit))


@contextmanager
def stored(
    options: Check,
    declarations: Sequence[Declaration],
    again: Mapping[str, Sequence[str]],
    tell: Tell,
    sampled: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[RunWriter | None]:
    """The writer of the folder of results, if one is named: a run of conformance alone, resumed if interrupted."""
    if options.results is None:
        yield None
        return
    refuse_foreign_index(options.results)
    facts = structs.replace(campaign.conformance_facts(declarations, again), sampled=sampled)
    if options.shard and not narrows(replace(options, shard=None)):
        facts = structs.replace(facts, whole=tuple(each.full_name for each in declarations))
    new = new_run(options, declarations, facts)
    with Results(sharding.place(options.results, options.shard)).open_run(new) as writer:
        for line in how_it_starts(writer):
            tell(line)
        yield writer


def say_seed(request: CheckRequest, lines: TextIO | None) -> None:
    """Say which numbers are asked, where these are not the usual ones."""
    if request.seed and lines is not None:
        print(f"the numbers and the combinations of features are those of --seed {request.seed}", file=lines)


def in_shard(session: Session, declarations: Sequence[Declaration], tell: Tell) -> list[Declaration]:
    """The implementations of which anything falls into the shard that is asked; all where none is."""
    found = [each for each in declarations if session.falls_here(each)]
    if not found:
        units = sum(map(session.divided_into, declarations))
        tell(sharding.said_of_none(session.request.shard, "families of cases", units))
    return found


def answered(options: Check, declarations: Sequence[Declaration], tell: Tell) -> list[Outcome] | None:
    """The outcomes of a shard that is stored to its end; None where it is still to be asked."""
    if options.results is None or options.shard is None:
        return None
    folder, new = sharding.place(options.results, options.shard), new_run(options, declarations, Facts())
    there = sharding.outcomes_there(folder, new)
    if there is not None:
        tell(sharding.said_of_answered(folder, new, len(there)))
    return there


def shown_again(outcomes: Sequence[Outcome], shown: Shown) -> list[Outcome]:
    """Show outcomes that are stored as if they came now."""
    for of in campaign.by_implementation(outcomes).values():
        for outcome in of:
            shown.asked(outcome)
        shown.checked(of)
    return list(outcomes)


def new_run(options: Check, declarations: Sequence[Declaration], facts: Facts) -> Run:
    """The run of a check that is stored, with the request in words."""
    cases, dtypes = (" ".join(words) for words in (options.cases, options.dtypes))
    words = [f"check on {options.device}", cases, dtypes, options.profile, "what failed" * options.last_failed]
    words += ["a sample"] * options.sample + ["strict"] * options.strict
    return sharding.of(campaign.new_run(declarations, "; ".join(filter(None, words)), facts), options.shard)


def askable(session: Session, declarations: Sequence[Declaration], tell: Tell) -> list[Declaration]:
    """The implementations whose contract has the cases asked for; the others are named. UsageError if none has."""
    left_out: dict[str, UsageError] = {}
    for name in dict.fromkeys(each.contract for each in declarations if each.contract in contract_names()):
        try:
            session.asked(contract_named(name))
        except UsageError as error:
            left_out[name] = error
    found = [each for each in declarations if each.contract not in left_out]
    if left_out and not found:
        raise next(iter(left_out.values()))
    for name, reason in left_out.items():
        tell(f"{name} is left out: {reason}")
    return found


def nobody(line: str) -> None:
    """Takes what is said beside the results, and says it to nobody."""
