"""`pytest --attention module:function`: a test per case and dtype; `conformance(function)`: one's own test of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from suite.records import Outcome, UsageError

if TYPE_CHECKING:
    from suite.checking import Session
    from suite.contracts.base import Case
    from suite.registry import Declaration
    from suite.runner import Check

_processes = ExitStack()
"""The processes that answer bad input; they end with the test run."""


def conformance(
    function: Callable[..., Any],
    contract: str = "attention",
    *,
    cases: str | Iterable[str] = (),
    dtypes: str | Iterable[str] = (),
    device: str = "cpu",
) -> Callable[..., None]:
    """A test function with one parameter set per case and dtype, for one's own test module.

        from suite.pytest_plugin import conformance
        from my_package import attention
        test_attention = conformance(attention)

    What the function declines is skipped with the reason; the last parameter set judges what it declares. Raises
    UsageError for an unknown contract, case, dtype or device.
    """
    from suite import registry
    from suite.checking import Session, requested
    from suite.contracts import contract as contract_named

    contract_named(contract)
    session = Session(requested(cases, dtypes, device), several=False)
    check = session.check(registry.from_function(function, contract), _processes)
    assert not isinstance(check, Outcome), "a function at hand can be asked"
    names = [f"{case.name}-{dtype}" for case, dtype in check.asked]

    @pytest.mark.parametrize(("case", "dtype"), [*check.asked, (None, "")], ids=[*names, "declarations"])
    def test_conformance(case: Case | None, dtype: str) -> None:
        _judge(_answered(check, case, dtype) if case else check.misdeclared())

    return test_conformance


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the options; they stand in `pytest --help` in a group of their own."""
    group = parser.getgroup("attnsuite", "conformance of attention implementations")
    add = group.addoption
    add("--attention", action="append", default=[], metavar="TARGET", help="check module:function, file.py or a name")
    add("--attention-case", action="append", default=[], metavar="PATTERN", help="only these cases")
    add("--attention-dtype", action="append", default=[], metavar="D", help="only this dtype")
    add("--attention-device", default="cpu", metavar="D", help="cpu, cuda or cuda:N")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse in one line what cannot be asked, before anything is collected: with xdist only its workers collect."""
    if not config.getoption("--attention"):
        return
    from suite import registry

    try:
        declarations = registry.find(config.getoption("--attention"))
        for declaration in declarations:
            if missing := registry.absent(declaration):
                raise UsageError(f"{declaration.full_name} is missing: {missing.reason}")
        session = _session(config)
        for declaration in declarations:
            session.count(declaration)
    except UsageError as error:
        raise pytest.UsageError(f"attnsuite: {error}") from None


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the questions to what was collected from files."""
    if not config.getoption("--attention"):
        return
    from suite import registry

    asking = _session(config)
    for declaration in registry.find(config.getoption("--attention")):
        name = declaration.full_name
        collector = Implementation.from_parent(
            session, name=name, nodeid=name, declaration=declaration, check=asking.check(declaration, _processes)
        )
        report = config.hook.pytest_make_collect_report(collector=collector)
        config.hook.pytest_collectreport(report=report)  # so that they are counted where collected items are
        items.extend(report.result)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes."""
    _processes.close()


class Implementation(pytest.Collector):
    """One implementation; its children are its questions, and one about what it declares."""

    def __init__(self, *, declaration: Declaration, check: Check | Outcome, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.summary, self.check = declaration.summary, check

    def collect(self) -> Iterator[pytest.Item]:
        check = self.check
        if isinstance(check, Outcome):  # it cannot be imported
            yield Question.from_parent(self, name="import", why=self.summary, ask=lambda: [check])
            return
        for case, dtype in check.asked:
            asked = (check, case, dtype)
            yield Question.from_parent(
                self, name=f"{case.name}[{dtype}]", why=case.why, ask=lambda asked=asked: _answered(*asked)
            )
        why = "it declares only gaps that it has, in words that exist"
        yield Question.from_parent(self, name="declarations", why=why, ask=check.misdeclared)


class Question(pytest.Item):
    """One case in one dtype, or a question about the whole."""

    def __init__(self, *, why: str, ask: Callable[[], Iterable[Outcome]], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.why, self.ask = why, ask

    def runtest(self) -> None:
        _judge(self.ask())

    def reportinfo(self) -> tuple[str, None, str]:
        assert self.parent is not None
        return self.parent.name, None, f"{self.name}: {self.why}" if self.why else self.name


def _session(config: pytest.Config) -> Session:
    from suite.checking import Session, requested

    cases, dtypes, device = (config.getoption(f"--attention-{option}") for option in ("case", "dtype", "device"))
    return Session(requested(cases, dtypes, device), several=len(config.getoption("--attention")) > 1)


def _answered(check: Check, case: Case, dtype: str) -> list[Outcome]:
    """The outcome of one question, and the findings that it shows not to hold any more."""
    from suite.checking import alone

    with alone(check.subject.device):
        outcome = check.outcome(case, dtype)
    return [outcome, *check.mended([outcome])]


def _judge(outcomes: Iterable[Outcome]) -> None:
    """Fail, skip or expect the failure; the message is the whole story, so no traceback follows."""
    outcomes = list(outcomes)
    if failures := [_said(outcome) for outcome in outcomes if outcome.fails]:
        pytest.fail("\n".join(failures), pytrace=False)
    for outcome in outcomes:
        if outcome.status == "declined":
            pytest.skip(f"declined: {outcome.detail}")
        if outcome.known:
            pytest.xfail(f"known as {outcome.known}: {outcome.detail}")


def _said(outcome: Outcome) -> str:
    """An outcome in one line: who, which case, what became of it and why."""
    status, detail = outcome.status, outcome.detail
    said = detail if detail.startswith(f"{status}:") else f"{status}: {detail}"
    return f"{outcome.implementation} {outcome.case} ({outcome.dtype}): {said}"
