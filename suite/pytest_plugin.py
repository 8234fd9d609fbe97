"""`pytest --attention module:function`: a test per case and dtype, or per workload; also for one's own test modules."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from attnsuite.model import Outcome, UsageError

if TYPE_CHECKING:
    from attnsuite.benchmark.fixture import Plan
    from attnsuite.cases import Case
    from attnsuite.conformance.session import Session
    from attnsuite.registry import Declaration, Loaded

_processes = ExitStack()
"""The processes that are asked bad input. They end with the test run."""
_run: list[pytest.Config] = []
"""The configuration of the test run, if this module is one of its plugins; else empty."""


class InputValidationWarning(UserWarning):
    """Bad input was accepted, in a check that is not strict."""


DECLARED = "declarations"
"""The name of the test of an implementation's declarations."""
NO_BENCHMARKS = (
    "nothing is timed without pytest-benchmark: python -m pip install pytest-benchmark (and no -p no:benchmark)"
)
"""The failure of every benchmark if the plugin that times is missing."""


def conformance(
    function: Callable[..., Any],
    contract: str = "attention",
    *,
    cases: str | Iterable[str] = (),
    dtypes: str | Iterable[str] = (),
    device: str = "cpu",
    known_gaps: str | Path | None = None,
    strict: bool = False,
) -> Callable[..., None]:
    """A test function with one parameter set per case and dtype, for one's own test module.

        from attnsuite.pytest_plugin import conformance
        from my_package import attention
        test_attention = conformance(attention)

    A case that the function declines is skipped with the reason; the last parameter set checks its declarations.
    `known_gaps` is a file with lines `case pattern: reason`: these cases are expected to fail, and one that passes
    fails the test. Bad input that is accepted is a warning, InputValidationWarning, and with `strict` a failure. Raises
    UsageError for an unknown contract, case, dtype or device, and for a file that is no such.
    """
    from attnsuite import registry
    from attnsuite.conformance.request import requested
    from attnsuite.conformance.session import Session
    from attnsuite.contracts import contract as contract_named

    contract_named(contract)
    session = Session(requested(cases, dtypes, device, known_gaps, strict), several=False)
    loaded = registry.from_function(function, contract)
    session.refuse_unmatched_xfails([loaded.declaration])
    tested = Tested(session, loaded)
    tests = tested.tests()

    @pytest.mark.parametrize(
        ("case", "dtype"), [*tests, (None, "")], ids=[*(f"{c.name}-{d}" for c, d in tests), DECLARED]
    )
    def test_conformance(case: Case | None, dtype: str) -> None:
        tested.judge(case, dtype)

    return test_conformance


def benchmarks(
    function: Callable[..., Any] | Declaration | Iterable[Callable[..., Any] | Declaration],
    *,
    contract: str = "attention",
    workloads: str | Iterable[str] = (),
    profile: str | None = None,
    device: str = "cpu",
    directions: str | Iterable[str] = ("forward",),
    dtypes: str | Iterable[str] | None = None,
) -> Callable[..., None]:
    """A test with one parameter set per workload, dtype and direction, timed by pytest-benchmark's fixture.

        from attnsuite.pytest_plugin import benchmarks
        from my_package import attention
        test_speed = benchmarks(attention)

    `workloads` are names, groups or patterns, by default those of the profile `quick`; `directions` are `forward`,
    `backward` and `forward_backward`, and for models `step`, a training step; `dtypes` default to those of each
    workload. Several functions stand side by side in pytest-benchmark's tables. Calls are made in this process, on a
    CPU with one of PyTorch's threads.

    A function that fails the contract on what a workload uses, or whose answer is wrong after it was timed, fails the
    test and gets no time; a workload that it declines is skipped with the reason. Raises UsageError for an unknown
    contract, workload, profile, device, direction or dtype.
    """
    from attnsuite import registry
    from attnsuite.benchmark.fixture import Plan, speed_test
    from attnsuite.registry import Declaration

    words = [(each,) if isinstance(each, str) else tuple(each) for each in (workloads, directions, dtypes or ())]
    plan = Plan(words[0], profile, str(device), words[1], words[2])
    plan.tables(contract)  # raises for what does not exist, also without pytest-benchmark
    can_time = _run[0].getoption("benchmark_only", None) is not None if _run else find_spec("pytest_benchmark")
    if not can_time:
        return _untimed
    given = [function] if callable(function) or isinstance(function, Declaration) else list(function)
    found = [each if isinstance(each, Declaration) else registry.from_function(each, contract) for each in given]
    return speed_test(found, plan, contract)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, in a group of their own in `pytest --help`."""
    group = parser.getgroup("attnsuite", "conformance of attention implementations")
    add = group.addoption
    targets = "check module:function, file.py or a name; +PLUG plugs an attention into it"
    add("--attention", action="append", default=[], metavar="TARGET", help=targets)
    add("--attention-contract", metavar="C", help="the contract of files and modules, unless their folder names it")
    add("--attention-case", action="append", default=[], metavar="PATTERN", help="only these cases")
    add("--attention-dtype", action="append", default=[], metavar="D", help="only this dtype")
    add("--attention-device", default="cpu", metavar="D", help="cpu, cuda or cuda:N")
    add("--attention-known-gaps", metavar="FILE", help="lines `case pattern: reason`: cases that are known to fail")
    add("--attention-strict", action="store_true", help="fail for bad input that is accepted, not only warn")
    only = "with --benchmark-only, which times instead of checking:"
    add("--attention-workload", action="append", default=[], metavar="PATTERN", help=f"{only} only these workloads")
    add("--attention-profile", metavar="P", help=f"{only} quick, standard or full")
    ways = "forward (unless said), backward or forward_backward; of models step"
    add("--attention-direction", action="append", default=[], metavar="D", help=f"{only} {ways}")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a request that cannot be carried out, in one line: before collection, which with xdist only workers do."""
    _run[:] = [config]
    if not config.getoption("--attention"):
        if contract := config.getoption("--attention-contract"):
            raise pytest.UsageError(
                f"attnsuite: --attention-contract {contract} is about a target: add --attention TARGET"
            )
        return
    from attnsuite import registry

    try:
        declarations = registry.find(config.getoption("--attention"), config.getoption("--attention-contract"))
        for declaration in declarations:
            if missing := registry.absent(declaration):
                raise UsageError(f"{declaration.full_name} is missing: {missing.reason}")
        if _is_timing(config):
            for contract in {declaration.contract for declaration in declarations}:
                _plan(config).tables(contract)
        else:
            session = _session(config)
            session.refuse_unmatched_xfails(declarations)
            for declaration in declarations:
                session.count(declaration)
    except UsageError as error:
        raise pytest.UsageError(f"attnsuite: {error}") from None


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the cases, or with --benchmark-only the workloads, to the tests that were collected from files."""
    if not config.getoption("--attention"):
        return
    from attnsuite import registry

    declarations = registry.find(config.getoption("--attention"), config.getoption("--attention-contract"))
    try:  # a function that a module does not have is known after the import
        collectors = list(_timed(session, declarations) if _is_timing(config) else _asked(session, declarations))
    except UsageError as error:
        raise pytest.UsageError(f"attnsuite: {error}") from None
    for collector in collectors:
        report = config.hook.pytest_make_collect_report(collector=collector)
        config.hook.pytest_collectreport(report=report)  # so that they are counted where collected items are
        items.extend(report.result)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes that were asked."""
    _processes.close()
    _run.clear()


class Tested:
    """One implementation under test, and what explains its failures."""

    def __init__(self, session: Session, implementation: Declaration | Loaded) -> None:
        from attnsuite.conformance.explanation import Explainer
        from attnsuite.registry import Loaded

        self.declaration = implementation.declaration if isinstance(implementation, Loaded) else implementation
        self.device = session.request.device
        self.check = session.check(implementation, _processes)
        if not isinstance(self.check, Outcome):
            self.explainer = Explainer(self.check)

    def tests(self) -> Sequence[tuple[Case, str]]:
        """The cases, each with a dtype; none of an implementation that cannot be imported."""
        return () if isinstance(self.check, Outcome) else self.check.tests

    def judge(self, case: Case | None, dtype: str) -> None:
        """Run a test, or without a case check the declarations. Fail, skip or expect the failure, without a traceback.

        A failure ends with the command that repeats it, and the first of a cause with the smallest input that shows it.
        """
        from attnsuite.conformance.session import alone

        with alone(self.device):
            outcomes = self._outcomes(case, dtype)
            if failures := [outcome for outcome in outcomes if outcome.fails]:
                pytest.fail("\n".join(self._lines(failures)), pytrace=False)
        for outcome in outcomes:
            if outcome.lenient:
                warnings.warn(f"{outcome.implementation} {outcome.case}: {outcome.detail}", InputValidationWarning, 1)
            if outcome.status == "unsupported":
                pytest.skip(f"unsupported: {outcome.detail}")
            if outcome.known:
                pytest.xfail(f"known as {outcome.known}: {outcome.detail}")

    def _outcomes(self, case: Case | None, dtype: str) -> list[Outcome]:
        """The outcome, and one for each known bug and gap that says it fails although it passes."""
        if isinstance(self.check, Outcome):
            return [self.check]
        if case is None:
            return list(self.check.misdeclared())
        outcome = self.check.outcome(case, dtype)
        return [outcome, *self.check.outdated([outcome])]

    def _lines(self, failures: Sequence[Outcome]) -> Iterator[str]:
        from attnsuite.report.tally import Group

        for outcome in failures:
            yield f"{outcome.implementation} {outcome.case} ({outcome.dtype}): {outcome.says}"
        if words := _words(self.declaration):
            yield Group(failures[0], 1, asked=tuple(words)).rerun
        if isinstance(self.check, Outcome):
            return
        for outcome in failures:
            if reproduction := self.explainer.reproduction(outcome):
                yield from reproduction.pasted


class ImplementationCollector(pytest.Collector):
    """One implementation, whose children are its cases, and one item about its declarations."""

    def __init__(self, *, tested: Tested, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.tested = tested

    def collect(self) -> Iterator[pytest.Item]:
        if isinstance(self.tested.check, Outcome):
            yield CaseItem.from_parent(self, name="import", why=self.tested.declaration.summary)
            return
        for case, dtype in self.tested.tests():
            yield CaseItem.from_parent(self, name=f"{case.name}[{dtype}]", why=case.why, case=case, dtype=dtype)
        why = "it declares only gaps that it has, and only words that exist"
        yield CaseItem.from_parent(self, name=DECLARED, why=why)


class CaseItem(pytest.Item):
    """One case in one dtype, or what is checked about the implementation as a whole."""

    def __init__(self, *, why: str, case: Case | None = None, dtype: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.why, self.case, self.dtype = why, case, dtype

    def runtest(self) -> None:
        assert isinstance(self.parent, ImplementationCollector)
        self.parent.tested.judge(self.case, self.dtype)

    def reportinfo(self) -> tuple[str, None, str]:
        assert self.parent is not None
        return self.parent.name, None, f"{self.name}: {self.why}" if self.why else self.name


def _asked(session: pytest.Session, declarations: Sequence[Declaration]) -> Iterator[pytest.Collector]:
    testing = _session(session.config)
    for declaration in declarations:
        name, tested = declaration.full_name, Tested(testing, declaration)
        yield ImplementationCollector.from_parent(session, name=name, nodeid=name, tested=tested)


def _timed(session: pytest.Session, declarations: Sequence[Declaration]) -> Iterator[pytest.Collector]:
    """For each implementation a module without a file, with one test named after it."""
    from attnsuite.benchmark.fixture import speed_test

    plan, testing = _plan(session.config), _session(session.config)
    for declaration in declarations:
        name = declaration.full_name
        testing.check(declaration, _processes)  # a function that its module does not have is refused here
        test = speed_test([declaration], plan, declaration.contract)
        test.__test__ = True  # type: ignore[attr-defined]  # also if the setting python_functions excludes its name
        collector = pytest.Module.from_parent(session, path=Path(__file__), name=name, nodeid=name)
        collector.obj = ModuleType(name)
        setattr(collector.obj, declaration.name, test)
        yield collector


def _untimed() -> None:
    """The test that replaces all benchmarks of a function where pytest-benchmark is missing."""
    pytest.fail(NO_BENCHMARKS, pytrace=False)


def _is_timing(config: pytest.Config) -> bool:
    """Whether to time. Raises UsageError if options say what to time, but nothing says to time it."""
    if config.getoption("benchmark_only", False):
        return True
    for option in ("workload", "profile", "direction"):
        if config.getoption(f"--attention-{option}"):
            raise UsageError(f"--attention-{option} says what to time: add --benchmark-only (of pytest-benchmark)")
    return False


def _plan(config: pytest.Config) -> Plan:
    from attnsuite.benchmark.fixture import Plan

    options = ("workload", "profile", "device", "direction", "dtype")
    workloads, profile, device, directions, dtypes = (config.getoption(f"--attention-{option}") for option in options)
    return Plan(tuple(workloads), profile, device, tuple(directions) or ("forward",), tuple(dtypes))


def _session(config: pytest.Config) -> Session:
    from attnsuite.conformance.request import requested
    from attnsuite.conformance.session import Session

    options = ("case", "dtype", "device", "known-gaps", "strict")
    wanted = requested(*(config.getoption(f"--attention-{option}") for option in options))
    return Session(wanted, several=len(config.getoption("--attention")) > 1)


def _words(declaration: Declaration) -> Sequence[str]:
    """The words that name it for `attnsuite check`; none for a function that no other process can import."""
    from attnsuite import registry

    if not (declaration.module or declaration.file):
        return ()
    if declaration.module and declaration.file and not _is_found_by_commands(declaration.module.partition(".")[0]):
        declaration = replace(declaration, module="", named=True)
    return registry.spelled([declaration])[declaration.full_name]


@cache
def _is_found_by_commands(package: str) -> bool:
    """Whether a command in this folder finds the module that this process imported by the name.

    pytest adds folders of tests to sys.path, which a command lacks.
    """
    program = (
        "import sys; from importlib.util import find_spec; spec = find_spec(sys.argv[1]); print(spec and spec.origin)"
    )
    command = [sys.executable, "-c", program, package]
    origin = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    with suppress(ValueError):  # a module without a spec
        spec = find_spec(package)
        return spec is not None and origin == str(spec.origin)
    return False
