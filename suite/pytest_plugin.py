"""`pytest --attention module:function`: a test item per case and dtype; `conformance(function)`: the same in one's own tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from suite.contracts.base import Case
    from suite.records import Outcome
    from suite.registry import Declaration, Loaded
    from suite.runner import Check

_processes = ExitStack()
"""The processes that answer bad input; they end with the test run."""


class NotConforming(AssertionError):
    """The implementation does not keep the contract: the message is the whole story."""


def conformance(
    function: Callable[..., Any],
    contract: str = "attention",
    *,
    cases: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    device: str = "cpu",
) -> Callable[..., None]:
    """A test function with one parameter set per case and dtype, for one's own test module:

        from suite.pytest_plugin import conformance
        from my_package import attention
        test_attention = conformance(attention)

    What the function declines is skipped with the reason. Raises UsageError for an unknown contract, case or dtype.
    """
    from suite import registry

    check = _check(registry.from_function(function, contract), cases, dtypes, device)

    @pytest.mark.parametrize(
        ("case", "dtype"), check.asked, ids=[f"{case.name}-{dtype}" for case, dtype in check.asked]
    )
    def test_conformance(case: Case, dtype: str) -> None:
        _judge(_outcome(check, case, dtype))

    return test_conformance


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attnsuite", "conformance of attention implementations")
    add = group.addoption
    add("--attention", action="append", default=[], metavar="TARGET", help="check module:function, file.py or a name")
    add("--attention-case", action="append", default=[], metavar="PATTERN", help="only these cases")
    add("--attention-dtype", action="append", default=[], metavar="D", help="only this dtype")
    add("--attention-device", default="cpu", metavar="D", help="cpu, cuda or cuda:N")


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    targets = config.getoption("--attention")
    if not targets:
        return
    from suite import registry
    from suite.records import UsageError

    try:
        for declaration in registry.find(targets):
            chosen = (config.getoption(f"--attention-{option}") for option in ("case", "dtype", "device"))
            name = declaration.full_name
            collector = Implementation.from_parent(session, name=name, nodeid=name, check=_check(declaration, *chosen))
            items.extend(collector.collect())
    except UsageError as error:
        raise pytest.UsageError(f"attnsuite: {error}") from None


def pytest_unconfigure(config: pytest.Config) -> None:
    _processes.close()


class Implementation(pytest.Collector):
    """One implementation; its children are its questions, and one about its declarations as a whole."""

    def __init__(self, *, check: Check, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.check = check

    def collect(self) -> Iterator[pytest.Item]:
        for case, dtype in self.check.asked:
            yield Question.from_parent(self, name=f"{case.name}[{dtype}]", case=case, dtype=dtype)
        yield Declarations.from_parent(self, name="declarations")


class _Item(pytest.Item):
    parent: Implementation

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, NotConforming) else super().repr_failure(excinfo)


class Question(_Item):
    """One case in one dtype."""

    def __init__(self, *, case: Case, dtype: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.case, self.dtype = case, dtype

    def runtest(self) -> None:
        _judge(_outcome(self.parent.check, self.case, self.dtype))

    def reportinfo(self) -> tuple[str, None, str]:
        return self.parent.name, None, f"{self.name}: {self.case.why}"


class Declarations(_Item):
    """What the implementation declares: in words that exist, and no gap that it does not have."""

    def runtest(self) -> None:
        for outcome in self.parent.check.misdeclared():
            _judge(outcome)


def _check(implementation: Declaration | Loaded, cases: Sequence[str], dtypes: Sequence[str], device: str) -> Check:
    from suite.checking import Request, Session
    from suite.records import Outcome, UsageError

    session = Session(Request(tuple(cases), tuple(dtypes), device), several=False)
    check = session.check(implementation, _processes)
    if isinstance(check, Outcome):
        raise UsageError(f"{check.implementation} {check.status}: {check.detail}")
    return check


def _outcome(check: Check, case: Case, dtype: str) -> Outcome:
    from suite.checking import one_thread

    with one_thread(check.subject.device):
        return check.outcome(case, dtype)


def _judge(outcome: Outcome) -> None:
    if outcome.status == "declined":
        pytest.skip(f"declined: {outcome.detail}")
    if outcome.known:
        pytest.xfail(f"known as {outcome.known}: {outcome.detail}")
    if outcome.fails:
        raise NotConforming(
            f"{outcome.implementation} {outcome.case} ({outcome.dtype}): {outcome.status}: {outcome.detail}"
        )
