"""What a benchmark will time is said before it starts, and `full` is planned to fit into two hours on a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stored import MACHINE, RUN, measurement, record

from attnsuite import registry
from attnsuite.__main__ import app
from attnsuite.benchmark import request as asking
from attnsuite.benchmark.plan import plan_lines, plan_of, recorded_rates
from attnsuite.benchmark.request import Request
from attnsuite.cases.case import list_tests
from attnsuite.cli import campaign
from attnsuite.contracts import contract

TWO_HOURS = 7200.0


@pytest.fixture
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether this machine has one."""
    monkeypatch.setattr(asking, "check_device", lambda _: None)


def of(*targets: str, **asked: object) -> list[str]:
    declarations = campaign.with_baseline(campaign.with_workloads(registry.find(targets)), [])
    return list(plan_lines(campaign.benchmarks_of(declarations, Request(**asked))))  # type: ignore[arg-type]


@pytest.mark.usefixtures("_a_gpu")
def test_full_is_planned_to_fit_into_two_hours_on_a_gpu() -> None:
    declarations = campaign.with_baseline(campaign.with_workloads(registry.find([])), [])
    benchmarks = campaign.benchmarks_of(declarations, Request(profile="full", device="cuda"))

    plans = [plan_of(each) for each in benchmarks]

    assert sum(plan.seconds for plan in plans) <= TWO_HOURS
    assert sum(len(plan.rows) for plan in plans) > 500, "and it is no plan to time next to nothing"


@pytest.mark.usefixtures("_a_gpu")
def test_an_estimate_that_no_gpu_has_confirmed_says_so() -> None:
    lines = of("attention/matmul", profile="full", device="cuda")

    assert lines[0].startswith("attention: ")
    assert any(line.startswith("  flash: ") and "bfloat16; forward, forward and backward" in line for line in lines)
    assert "an estimate that no GPU has confirmed" in lines[-1]


@pytest.mark.usefixtures("_a_gpu")
@pytest.mark.parametrize(("recorded_on", "requested", "known"), [("cuda", "cuda:1", True), ("cpu", "cuda", False)])
def test_recorded_times_replace_estimates(recorded_on: str, requested: str, known: bool, tmp_path: Path) -> None:
    key = {"dtype": "bfloat16", "device": recorded_on, "threads": 0, "cache": "cold"}
    record(tmp_path, RUN, measurement("flash/16k-e64", name="attention/matmul", first_call=50.0, calls=1, **key))
    request = Request(("flash/16k-e64",), device=requested)
    (benchmark,) = campaign.benchmarks_of(registry.find(["attention/matmul"]), request)

    rates = recorded_rates(tmp_path, "cuda")
    last = list(plan_lines([benchmark], rates))[-1]

    assert (f"1 of 1 rows by times recorded on {MACHINE.name}" in last) == known
    assert (plan_of(benchmark, rates).seconds > 50.0 > plan_of(benchmark).seconds) == known


@pytest.mark.parametrize("command", ["bench", "run"])
def test_a_dry_run_starts_and_writes_nothing(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"

    words = [command, "attention/matmul", "--dry-run", "--results", str(results)]
    assert app(words, prog_name="attnsuite", standalone_mode=False) == 0

    said = capsys.readouterr().out
    assert "ladder: 2 tables of 2 workloads, float32; forward; 1 thread" in said
    assert "nothing is started" in said
    tests = f"{len(list_tests(contract('attention').cases(), 'cpu')):,}"
    assert bool(re.match(rf"{tests} tests of 1 implementation: about \d+ (s|min) on", said)) == (command == "run")
    assert not results.exists()
