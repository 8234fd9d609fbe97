"""Shards are started until the store has their answers: killed ones again, refused ones not, timed ones alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from stored import outcome, record
from swept import EXPECTED, Shards

from attnsuite.cli.sweep.carrying import Carried, carry_out
from attnsuite.cli.sweep.command import Expected, ShardCommand
from attnsuite.cli.sweep.engines import Local, Started
from attnsuite.model import Shard, UsageError
from attnsuite.results.store import Results

pytest.importorskip("submitit")


def carried(shards: Shards, tmp_path: Path, attempts: int = 3) -> tuple[Carried, list[str]]:
    lines: list[str] = []
    of = Carried(shards.commands(), lines.append, attempts)
    for each in of.commands:
        of.look(each)
    if of.left:
        carry_out(of, Local(tmp_path / "logs", 2, alone=True))
    return of, lines


def test_a_killed_shard_is_started_again_and_an_answered_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    shards = Shards(tmp_path, 2, {"1/2": ["killed"]})

    first, lines = carried(shards, tmp_path)
    again, said = carried(shards, tmp_path)

    assert [len(shards.starts(part)) for part in ("1/2", "2/2")] == [2, 1]
    assert "check 1/2: killed by SIGKILL; it goes on with what is missing" in lines
    assert "check 1/2: begun, attempt 2 of 3" in lines
    assert not first.unanswered
    assert {each.case for rows in first.answers.values() for each in rows} == {"family_1/case", "family_2/case"}
    assert (again.begun.total(), said) == (0, [])
    assert shards.starts("2/2")[0][1] == "3", "a command sees the GPUs that its launcher sees"


def test_a_shard_is_given_up_after_the_last_attempt_with_what_its_command_said(tmp_path: Path) -> None:
    shards = Shards(tmp_path, 1, {"1/1": ["killed", "nothing", "nothing"]})

    of, lines = carried(shards, tmp_path, attempts=2)

    (given_up,) = of.unanswered
    assert (given_up.attempts, given_up.why) == (2, "exit status 0")
    assert lines[-1] == "check 1/1: given up, exit status 0"
    assert len(shards.starts("1/1")) == 2


def test_a_request_that_is_refused_is_not_asked_again_in_any_shard(tmp_path: Path) -> None:
    shards = Shards(tmp_path, 4, {f"{index}/4": ["refuse"] * 3 for index in range(1, 5)})

    of, lines = carried(shards, tmp_path)

    assert sum(len(shards.starts(f"{index}/4")) for index in range(1, 5)) <= 2, "those that ran at once"
    assert len(of.unanswered) == 4
    assert "given up, and 2 more of the same request, exit status 2, attnsuite: there is no such thing" in "\n".join(
        lines
    )


def test_only_a_finished_run_of_these_sources_and_versions_answers(tmp_path: Path) -> None:
    shards = Shards(tmp_path, 1)
    (command,) = shards.commands()

    def of(expected: Expected) -> ShardCommand:
        return ShardCommand("check", "python", ("check",), tmp_path / "ready", Shard(1, 1), expected)

    assert of(EXPECTED).answers() is not None
    assert of(Expected("another suite", EXPECTED.sources, EXPECTED.versions)).answers() is None
    assert of(Expected(EXPECTED.suite, {"attention/loops": "2b"}, EXPECTED.versions)).answers() is None
    assert of(Expected(EXPECTED.suite, EXPECTED.sources, {"torch": "2.12.0"})).answers() is None
    assert command.answers() is None, "nothing is there"
    begun = next(iter(Results(shards.home / "ready" / "shard-1-of-1").read("amd-epyc-2-cores").runs.values()))
    record(command.results, begun, outcome(), finish=False)
    assert command.answers() is None, "it is begun, and not finished"


def test_results_that_cannot_be_read_are_said_and_left_alone(tmp_path: Path) -> None:
    shards = Shards(tmp_path, 1)
    (command,) = shards.commands()
    record(command.results, next(iter(Results(tmp_path / "ready/shard-1-of-1").read("amd-epyc-2-cores").runs.values())))
    (damaged,) = command.results.glob("*/runs.jsonl")
    damaged.write_text("{}\n")

    with pytest.raises(UsageError, match=r"runs\.jsonl"):
        carried(shards, tmp_path)
    assert damaged.read_text() == "{}\n"
    assert shards.starts("1/1") == []


def test_so_many_run_at_once_and_one_that_times_runs_alone(tmp_path: Path) -> None:
    shards = Shards(tmp_path, 3)
    checks, benches = shards.commands(), shards.commands("bench")
    local, crowded = Local(tmp_path / "logs", 2, alone=True), Local(tmp_path / "logs", 2, alone=False)
    one, timed = Started(checks[0], None), Started(benches[0], None)

    assert local.ready([*benches, *checks], []) == checks[:2], "what times nothing first"
    assert local.ready([*benches, *checks[1:]], [one]) == checks[1:2]
    assert local.ready(benches, [one]) == []
    assert local.ready(benches, []) == benches[:1]
    assert local.ready([*benches[1:], *checks], [timed]) == []
    assert crowded.ready([*benches, *checks], [timed]) == benches[:1]


LAUNCHER = """
import sys
sys.path[:0] = {tests!r}
from pathlib import Path
from attnsuite.cli.sweep.carrying import Carried, carry_out
from attnsuite.cli.sweep.engines import Local
from swept import Shards
home = Path({home!r})
shards = Shards(home, 2, {{"1/2": ["wait"], "2/2": ["wait"]}})
carry_out(Carried(shards.commands(), print), Local(home / "logs", 2, True))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with another")
def test_a_launcher_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    program = LAUNCHER.format(home=str(tmp_path), tests=[str(Path(__file__).parents[2])])
    launcher = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    shards, until = tmp_path, time.monotonic() + 120
    while len(list(shards.glob("starts-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    family = psutil.Process(launcher.pid).children(recursive=True)

    launcher.kill()
    launcher.wait()

    assert len(family) >= 6, "two commands, and submitit's two processes around each"
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == [], "they end by themselves"
