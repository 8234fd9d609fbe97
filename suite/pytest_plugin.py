"""The pytest plugin: `pytest --attention module:function`, and `conformance` for your own test modules."""

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
from typing import TYPE_CHECKING, Any

import pytest

from attnsuite.model import Outcome, UsageError

if TYPE_CHECKING:
    from attnsuite.cases import Case
    from attnsuite.conformance.session import Session
    from attnsuite.registry import Declaration, Loaded

_processes = ExitStack()
"""The workers that receive bad input. They end with the test run."""


class InputValidationWarning(UserWarning):
    """Bad input was accepted, and the check is not strict."""


DECLARED = "declarations"
"""The name of the test of an implementation's declarations."""


def conformance(
    function: Callable[..., Any],
    contract: str = "attention",
    *,
    cases: str | Iterable[str] = (),
    dtypes: str | Iterable[str] = (),
    device: str = "cpu",
    xfails: str | Path | None = None,
    strict: bool = False,
) -> Callable[..., None]:
    """Return a test function with one parameter set per case and dtype, for your own test module.

        from attnsuite.pytest_plugin import conformance
        from my_package import attention
        test_attention = conformance(attention)

    An unsupported case is skipped with the reason. The last parameter set checks the declarations. `xfails` is a
    file of expected failures, in lines `case pattern: reason`; a case that passes in spite of it fails the test.
    Accepted bad input is an InputValidationWarning, and with `strict` a failure. Raises UsageError for an unknown
    contract, case, dtype or device, and for an invalid file.
    """
    from attnsuite import registry
    from attnsuite.conformance.request import requested
    from attnsuite.conformance.session import Session
    from attnsuite.contracts import contract as contract_named

    contract_named(contract)
    session = Session(requested(cases, dtypes, device, xfails, strict), keep_inputs=False)
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


def __getattr__(name: str) -> Any:
    if name == "benchmarks":
        raise ImportError("`benchmarks` was removed: `attnsuite.bench` and `attnsuite bench` time implementations")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, in a group of their own in `pytest --help`."""
    group = parser.getgroup("attnsuite", "conformance of attention implementations")
    add = group.addoption
    targets = "check module:function, file.py or a name; TARGET+BACKEND uses an attention inside it"
    add("--attention", action="append", default=[], metavar="TARGET", help=targets)
    add(
        "--attention-contract",
        metavar="C",
        help="the contract of files and modules; default: what their folder is named after",
    )
    add("--attention-case", action="append", default=[], metavar="PATTERN", help="only these cases")
    add("--attention-dtype", action="append", default=[], metavar="D", help="only this dtype")
    add("--attention-device", default="cpu", metavar="D", help="cpu, cuda or cuda:N")
    add("--attention-xfails", metavar="FILE", help="expected failures, as lines `case pattern: reason`")
    add("--attention-strict", action="store_true", help="fail if bad input is accepted, instead of a warning")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse invalid options in one line before collection, which with xdist only workers do."""
    if not config.getoption("--attention"):
        if contract := config.getoption("--attention-contract"):
            raise pytest.UsageError(
                f"attnsuite: --attention-contract {contract} needs a target: add --attention TARGET"
            )
        return
    from attnsuite import registry

    try:
        declarations = registry.find(config.getoption("--attention"), config.getoption("--attention-contract"))
        for declaration in declarations:
            if missing := registry.missing_library(declaration):
                raise UsageError(f"{declaration.full_name} is missing: {missing.reason}")
        if config.getoption("benchmark_only", False):
            raise UsageError("--benchmark-only does not apply to --attention; use `attnsuite bench`")
        session = _session(config)
        session.refuse_unmatched_xfails(declarations)
        for declaration in declarations:
            session.count(declaration)
    except UsageError as error:
        raise pytest.UsageError(f"attnsuite: {error}") from None


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the cases to the tests that were collected from files."""
    if not config.getoption("--attention"):
        return
    from attnsuite import registry

    declarations = registry.find(config.getoption("--attention"), config.getoption("--attention-contract"))
    try:  # a function that a module does not have is known after the import
        collectors = list(_collectors(session, declarations))
    except UsageError as error:
        raise pytest.UsageError(f"attnsuite: {error}") from None
    for collector in collectors:
        report = config.hook.pytest_make_collect_report(collector=collector)
        config.hook.pytest_collectreport(report=report)  # so that they are counted where collected items are
        items.extend(report.result)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers."""
    _processes.close()


class Tested:
    """One implementation under test, and the explanations of its failures."""

    def __init__(self, session: Session, implementation: Declaration | Loaded) -> None:
        from attnsuite.conformance.explanation import Explainer
        from attnsuite.registry import Loaded

        self.declaration = implementation.declaration if isinstance(implementation, Loaded) else implementation
        self.device = session.request.device
        self.check = session.check(implementation, _processes)
        if not isinstance(self.check, Outcome):
            self.explainer = Explainer(self.check)

    def tests(self) -> Sequence[tuple[Case, str]]:
        """The cases, each with a dtype; empty for an implementation that cannot be imported."""
        return () if isinstance(self.check, Outcome) else self.check.tests

    def judge(self, case: Case | None, dtype: str) -> None:
        """Run a test or, without a case, check the declarations. Fail, skip or xfail without a traceback.

        A failure ends with the command that repeats it; the first one of a cause adds the smallest failing input.
        """
        from attnsuite.conformance.session import single_threaded

        with single_threaded(self.device):
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
        """The outcome, and one for each known bug or expected failure that is outdated because the case passes."""
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
            yield Group(failures[0], 1, target=tuple(words)).rerun
        if isinstance(self.check, Outcome):
            return
        for outcome in failures:
            if reproduction := self.explainer.reproduction(outcome):
                yield from reproduction.pasted


class ImplementationCollector(pytest.Collector):
    """One implementation. Its children are its cases, and one item for its declarations."""

    def __init__(self, *, tested: Tested, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.tested = tested

    def collect(self) -> Iterator[pytest.Item]:
        if isinstance(self.tested.check, Outcome):
            yield CaseItem.from_parent(self, name="import", why=self.tested.declaration.summary)
            return
        for case, dtype in self.tested.tests():
            yield CaseItem.from_parent(self, name=f"{case.name}[{dtype}]", why=case.why, case=case, dtype=dtype)
        why = "features declared in `lacks` are unsupported, and declared names exist"
        yield CaseItem.from_parent(self, name=DECLARED, why=why)


class CaseItem(pytest.Item):
    """One case in one dtype, or the check of the import or of the declarations."""

    def __init__(self, *, why: str, case: Case | None = None, dtype: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.why, self.case, self.dtype = why, case, dtype

    def runtest(self) -> None:
        assert isinstance(self.parent, ImplementationCollector)
        self.parent.tested.judge(self.case, self.dtype)

    def reportinfo(self) -> tuple[str, None, str]:
        assert self.parent is not None
        return self.parent.name, None, f"{self.name}: {self.why}" if self.why else self.name


def _collectors(session: pytest.Session, declarations: Sequence[Declaration]) -> Iterator[pytest.Collector]:
    testing = _session(session.config)
    for declaration in declarations:
        name, tested = declaration.full_name, Tested(testing, declaration)
        yield ImplementationCollector.from_parent(session, name=name, nodeid=name, tested=tested)


def _session(config: pytest.Config) -> Session:
    from attnsuite.conformance.request import requested
    from attnsuite.conformance.session import Session

    options = ("case", "dtype", "device", "xfails", "strict")
    wanted = requested(*(config.getoption(f"--attention-{option}") for option in options))
    return Session(wanted, keep_inputs=len(config.getoption("--attention")) > 1)


def _words(declaration: Declaration) -> Sequence[str]:
    """The words that name it for `attnsuite check`; empty for a function that other processes cannot import."""
    from attnsuite import registry

    if not (declaration.module or declaration.file):
        return ()
    if declaration.module and declaration.file and not _is_found_by_commands(declaration.module.partition(".")[0]):
        declaration = replace(declaration, module="", named=True)
    return registry.command_words([declaration])[declaration.full_name]


@cache
def _is_found_by_commands(package: str) -> bool:
    """Whether a command in this folder imports the same module by this name.

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
