"""The audit of the stopwatch counts what it is to count, and runs end to end."""

import random as random_module
import sys
from dataclasses import replace
from random import Random
from types import ModuleType

import pytest
import torch

from attnsuite import machine, registry
from attnsuite.benchmark import participant, race
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.stopwatch import agreement, slowed, tables
from attnsuite.benchmark.stopwatch.audit import Plan, _turns, audit
from attnsuite.cli import audit as auditing
from attnsuite.contracts import contract
from attnsuite.implementations.attention import matmul
from attnsuite.model import Machine, Run, Status
from attnsuite.model.audit import SLOWDOWNS, Agreement, Share, StopwatchAudit, Trial
from attnsuite.model.faster import VERDICTS
from attnsuite.report import timed as wording
from attnsuite.report.audit import stopwatch_lines, write_stopwatch

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux")
RUN = Run("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"torch": "2.13.0"}, "abc", {}, "1a", finished="2026-01-02")
SMALLEST = "documents/one-sentence"
TINY = Plan(
    tables={1: 2}, identical=1, workloads=(SMALLEST,), budget=0.001, agreement=(SMALLEST,), agreement_budget=0.0
)


def trials(claimed=0, total=0, injected=0.0, threads=1, table=0, workload="vit/b16"):
    verdicts = ["slower"] * claimed + ["same"] * (total - claimed)
    return [Trial(table, threads, workload, injected, each, 1 / (1 + injected), 0.9, 1.1, 12) for each in verdicts]


def agreed(ratio=1.0, tool="torch.utils.benchmark"):
    return Agreement(tool, "cpu", "attention/matmul", "vit/b16", 0.00125, ratio, 12)


def audited(claims=0, found=10, agreements=None, more=(), failed=()):
    """An audit of 100 identical comparisons and 10 slowdowns of 5 % on one thread."""
    of = [*trials(claims, 100), *trials(found, 10, 0.05), *more]
    return StopwatchAudit(of, [agreed()] if agreements is None else agreements, failed, {"other": "not here"}, 90.0)


# What a comparison is


@pytest.mark.parametrize(("injected", "claims"), [(0.0, {"faster", "slower"}), (0.05, {"slower"})])
def test_a_slowdown_is_found_only_as_slower_and_identical_ones_are_distinguished_by_either(injected, claims):
    found = {verdict: Trial(0, 1, "vit/b16", injected, verdict, 1.0, 0.9, 1.1, 12).claimed for verdict in VERDICTS}

    assert {verdict for verdict, claimed in found.items() if claimed} == claims


def test_comparisons_are_counted_by_kind_and_threads():
    found = audited(1, 9, more=[*trials(2, 4, threads=2), *trials(1, 3, workload="ladder/1k"), *trials(1, 2, 0.10)])

    assert found.claimed(0.0, 1) == Share(2, 103)
    assert found.claimed(0.0, 2) == Share(2, 4)
    assert found.claimed(0.05, 1) == Share(9, 10)
    assert found.claimed(0.10, 1) == Share(1, 2)
    assert found.threads == [1, 2]


def test_several_claims_in_a_table_are_one_table_with_a_claim():
    of = [*trials(3, 4, table=0), *trials(0, 4, table=1), *trials(1, 4, table=2), *trials(1, 1, 0.05, table=1)]

    assert StopwatchAudit(of, []).tables(1) == Share(2, 3)


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson():
    assert Share(0, 300).interval == pytest.approx((0.0, 1 - 0.025 ** (1 / 300)))
    assert Share(40, 40).interval == pytest.approx((0.025 ** (1 / 40), 1.0))
    low, high = Share(3, 300).interval
    assert (low, high) == pytest.approx((0.0020667, 0.0289443), rel=1e-3)
    assert Share(0, 0).value == 0.0


# When the audit fails


@pytest.mark.parametrize(
    "found",
    [
        *(audited(), audited(claims=2), audited(found=9), audited(agreements=[agreed(1.029)])),
        audited(more=[*trials(50, 100, threads=2), *trials(0, 10, 0.05, threads=2)]),  # several threads are published
        audited(agreements=[agreed(1.5), agreed(1.0), agreed(0.99)]),  # the median of workloads counts
    ],
)
def test_an_audit_within_all_limits_passes(found):
    assert found.passed
    assert found.complaints == []


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (audited(claims=3), "false claims: 3 of 100 on one thread, 2 % are allowed"),
        (audited(found=8), "slowdowns of 5 % found: 8 of 10 on one thread, 90 % are required"),
        (audited(agreements=[agreed(1.031)]), "torch.utils.benchmark is 3.1 % from our times, 3 % are allowed"),
        (audited(agreements=[agreed(), agreed(0.9, "do_bench")]), "do_bench is 10.0 % from our times, 3 % are allowed"),
        (audited(agreements=[]), "no other stopwatch was compared with"),
        (audited(failed=["attention/matmul: crashed"]), "not timed: attention/matmul: crashed"),
    ],
)
def test_an_audit_beyond_a_limit_says_which(found, complaint):
    assert found.complaints == [complaint]
    assert not found.passed


# What is timed


class FakeClock:
    """Ten seconds go by in each call of the function, and one at each look at the clock while waiting."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    ("name", "share"), [("plain", 0.0), *((f"slower_{100 * share:.0f}", share) for share in SLOWDOWNS)]
)
def test_slowed_functions_wait_for_their_share_of_the_time_and_no_longer(monkeypatch, name, share):
    clock = FakeClock()

    def attention(*_, **__):
        clock.now += 999.0  # and one more for the look at the clock afterwards
        return "answer"

    monkeypatch.setattr(slowed, "perf_counter", clock)
    monkeypatch.setattr(slowed, "attention", attention)

    assert getattr(slowed, name)("query", "key", "value") == "answer"
    took = clock.now - 1.0
    assert (1 + share) * 1000 <= took <= (1 + share) * 1000 + 1.5


def test_tables_of_all_thread_counts_are_spread_and_their_workloads_take_turns():
    turns = _turns(replace(TINY, tables={2: 4, 1: 8}))

    assert [threads for _, threads in turns] == [1, 2, 1] * 4
    for threads, count in ((1, 8), (2, 4)):
        assert [turn for turn, each in turns if each == threads] == list(range(count))


# The audit itself


@pytest.fixture
def participants(monkeypatch):
    """Every participant that tables make: name, process, and the function that it runs."""
    seen = []

    class Watched(participant.Participant):
        def prepare(self, job):
            answer = super().prepare(job)
            if job.workload == SMALLEST:
                seen.append((self.name, self._timing[0].worker.pid, self.declaration.function))
            return answer

    monkeypatch.setattr(participant, "Participant", Watched)
    return seen


@pytest.mark.slow
def test_a_tiny_audit_runs_in_processes_of_its_own(participants):
    said = []
    state, threads = random_module.getstate(), torch.get_num_threads()

    found = audit(TINY, said.append, Random(1))

    assert found.failed == []
    assert [(each.table, each.injected) for each in sorted(found.trials, key=lambda t: (t.table, t.injected))] == [
        (table, injected) for table in (0, 1) for injected in (0.0, *SLOWDOWNS)
    ]
    assert all(each.verdict in VERDICTS and each.rounds >= 12 for each in found.trials)
    assert [(of.tool, of.implementation) for of in found.agreements] == [
        ("torch.utils.benchmark", "attention/matmul"),
        ("torch.utils.benchmark", "attention/torch_sdpa.flash"),
    ]
    assert all(of.seconds > 0 and of.ratio > 0 and of.pairs >= 12 for of in found.agreements)
    assert len(said) == 4
    assert said[0].startswith("table 1 of 2, ")

    processes = {pid for _, pid, _ in participants}
    assert len(processes) == 2 * 5  # nothing is timed in a process of an earlier table
    functions = {(name, function) for name, _, function in participants}
    assert functions == {
        ("attention/matmul", "plain"),
        ("attention/identical_1", "plain"),
        ("attention/slower_3", "slower_3"),
        ("attention/slower_5", "slower_5"),
        ("attention/slower_10", "slower_10"),
    }
    assert random_module.getstate() == state
    assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_a_table_s_baseline_is_trusted_to_tell_how_busy_the_machine_is(monkeypatch):
    """As a benchmark's is: without it honest calls that wait for a processor are refused."""
    trusted = []
    monkeypatch.setattr(race, "prove", lambda entries, known, *more: trusted.append(known.name))

    tables.AuditTable(0, contract("attention").workloads()[0], 1, 0, slowdowns=()).measure(0.001, Random(1))

    assert trusted == ["attention/matmul"]


@pytest.mark.slow
def test_a_participant_that_cannot_be_timed_is_said_and_the_others_are_compared(monkeypatch):
    class Failing(participant.Participant):
        def sample(self, number, calls):
            if self.name == "attention/slower_3":
                return NoResult(Status.CRASHED, "SIGKILL")
            return super().sample(number, calls)

    monkeypatch.setattr(participant, "Participant", Failing)
    table = tables.AuditTable(0, contract("attention").workloads()[0], 1, 0)

    table.measure(0.001, Random(1))

    assert table.failed == [f"attention/slower_3 on {SMALLEST}, threads 1: crashed: SIGKILL"]
    assert sorted(trial.injected for trial in table.trials) == [0.05, 0.10]


def test_a_participant_that_cannot_be_imported_is_said(monkeypatch):
    nowhere = registry.Declaration("attention", "matmul", "attention", "no_such_module")
    monkeypatch.setattr(tables.AuditTable, "_declarations", lambda self: iter([nowhere]))
    table = tables.AuditTable(0, contract("attention").workloads()[0], 1, 1)

    table.measure(0.001, Random(1))

    assert table.trials == []
    assert "attention/matmul on documents/one-sentence, threads 1: error: ModuleNotFoundError" in table.failed[0]


# Other stopwatches


def test_pairs_are_taken_in_both_orders_until_the_budget_is_spent():
    order = []

    def ours():
        order.append("ours")
        return 2.0

    def theirs():
        order.append("theirs")
        return 1.0

    found = agreement.pairs(ours, theirs, 0.0, Random(1))

    assert found == [(2.0, 1.0)] * agreement.FEWEST_PAIRS
    turns = set(zip(order[::2], order[1::2], strict=True))
    assert turns == {("ours", "theirs"), ("theirs", "ours")}


def test_triton_is_absent_with_its_reason(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert agreement.no_triton() == "no CUDA device"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(agreement, "find_spec", lambda name: None)
    assert agreement.no_triton() == "No module named 'triton'"

    monkeypatch.setattr(agreement, "find_spec", lambda name: object())
    assert agreement.no_triton() == ""


def test_triton_is_asked_for_the_same_call_in_milliseconds(monkeypatch):
    asked = []

    def do_bench(call, warmup, rep):
        asked.append((tuple(call().shape), warmup, rep))
        return 2.0

    testing = ModuleType("triton.testing")
    testing.do_bench = do_bench
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setitem(sys.modules, "triton.testing", testing)
    workload = contract("attention").workloads()[0]
    call = workload.call("float32")
    bound = agreement.partial(agreement._called, lambda: matmul.attention(**call.tensors))
    monkeypatch.setattr(agreement, "_callables", lambda *_: iter([(workload, "attention/matmul", bound)]))

    class OnCpu:
        def __init__(self, call, *, device, cache):
            assert (device, cache) == ("cuda", "cold")

        def warm_up(self):
            return 0.0, 0.001

        def sample(self, calls):
            assert calls == 5
            return 0.004

    monkeypatch.setattr(agreement, "Stopwatch", OnCpu)

    (found,) = agreement.with_triton([workload], 0.0, Random(1))

    assert (found.tool, found.device, found.ratio) == ("triton.testing.do_bench", "cuda", 2.0)
    assert set(asked) == {((1, 1, 6, 2), agreement.BLOCK, agreement.BLOCK)}


# What is written


def test_lines_say_shares_with_their_intervals_and_every_complaint():
    found = audited(3, 10, more=[*trials(2, 4, threads=2)], failed=["attention/matmul: crashed"])
    both = wording.threads(2, MACHINE)

    assert stopwatch_lines(found, MACHINE) == [
        "false claims on one thread: 3 of 100 (3.0 %, 95 % interval 0.6 to 8.5 %), in 1 of 1 tables",
        "slowdowns of 5 % found on one thread: 10 of 10 (100.0 %, 95 % interval 69.2 to 100.0 %)",
        f"false claims on {both}: 2 of 4 (50.0 %, 95 % interval 6.8 to 93.2 %), in 1 of 1 tables",
        "torch.utils.benchmark: times differ by 0.0 % in the median and 0.0 % at most (attention/matmul, vit/b16)",
        "missing: other: not here",
        "complaint: not timed: attention/matmul: crashed",
        "complaint: false claims: 3 of 100 on one thread, 2 % are allowed",
    ]


def test_the_page_has_every_share_and_every_agreement(tmp_path):
    found = audited(1, 9, [agreed(1.0123)], more=trials(0, 4, workload="ladder/1k"))

    page, rows = write_stopwatch(tmp_path / "new", found, RUN)

    text = page.read_text()
    assert page.name == "stopwatch.md"
    assert "| machine | AMD EPYC, 2 cores, 2 threads, 8 GiB |" in text
    assert "- false claims on one thread: 1 of 104 (1.0 %, 95 % interval 0.0 to 5.2 %), in 1 of 1 tables" in text
    assert "| torch.utils.benchmark | `vit/b16` | `attention/matmul` | cpu | 1.25 ms | 12 | 1.012 | 1.2 % |" in text
    assert "The audit took 1 min 30 s." in text
    lines = rows.read_text().splitlines()
    assert lines[0] == "table,threads,workload,injected,verdict,speedup,low,high,rounds"
    assert lines[101] == f"0,1,vit/b16,0.05,slower,{1 / 1.05},0.9,1.1,12"
    assert len(lines) == 1 + len(found.trials)


# The command


@pytest.mark.parametrize(("found", "status"), [(audited(), 0), (audited(claims=3), 1)])
def test_the_command_writes_the_page_and_its_status_says_whether_all_is_well(
    monkeypatch, tmp_path, capsys, found, status
):
    monkeypatch.setattr(
        "attnsuite.benchmark.stopwatch.audit.audit", lambda plan, progress: progress("measuring") or found
    )

    assert auditing.audit_stopwatch(tmp_path, TINY) == status

    folder = tmp_path / machine.here().name
    printed = capsys.readouterr()
    assert printed.err == "measuring\n"
    assert printed.out.splitlines()[-2:] == [str(folder / "stopwatch.md"), str(folder / "stopwatch.csv")]
    assert "false claims on one thread" in printed.out
    assert (folder / "stopwatch.md").read_text().startswith("# The stopwatch against itself on ")
