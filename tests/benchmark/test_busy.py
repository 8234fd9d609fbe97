"""Other processes' load explains calls that take longer than claimed; a submission's own load explains nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from clocks import Time
from racers import CEILINGS, Fake, race

from attnsuite import registry
from attnsuite.benchmark.busy import Disturbance, Load, LoadMeter
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark
from attnsuite.contracts import contract
from attnsuite.model import Outcome

LOADED = Load(share=0.93, cores=2, average=14.2)
"""The load under which an honest function of 43 ms a call took 2.44 times as long on new numbers."""
SAYS = "the machine was busy (load 14 on 2 cores)"
UNSTEADY = [0.0261, 0.0261, *(0.0686 + 1e-4 * number for number in range(-4, 5)), 0.199, 0.199]
"""Samples of a baseline in seconds, whose 99 % interval is as wide as it was then: −62 % +190 %."""


@pytest.mark.parametrize(
    ("load", "threads", "slowdown"),
    [
        (Load(), 1, 1),
        (Load(0.05, 1), 1, 1),
        (Load(0.05, 2), 2, 1),
        (Load(0.5, 2), 1, 1),
        (Load(0.65, 2), 1, 1 / 0.7),
        (Load(0.5, 2), 2, 2),
        (Load(0.75, 64), 8, 1),
        (Load(0.93, 2), 0, 1 / 0.14),
        (Load(1.0, 2), 1, 25),
    ],
)
def test_calls_take_longer_where_others_leave_less_than_they_need(load: Load, threads: int, slowdown: float) -> None:
    assert load.slowdown(threads) == pytest.approx(slowdown)
    assert bool(load.note(threads)) == (slowdown > 1)


@pytest.mark.parametrize(
    ("load", "times", "explained"),
    [(LOADED, 2.44, True), (LOADED, 10.7, True), (LOADED, 10.8, False), (Load(0.05, 2, 14.2), 2.44, False)],
)
def test_a_load_explains_what_it_makes_of_a_call_and_no_more(load: Load, times: float, explained: bool) -> None:
    assert Disturbance(lambda: load).explains(times, 1.5, threads=1) == (SAYS if explained else "")


@pytest.mark.parametrize(("times", "explained"), [(2.44, True), (7.5, True), (7.7, False)])
def test_a_baseline_that_varies_by_more_than_that_explains_it(times: float, explained: bool) -> None:
    why = Disturbance(Load, UNSTEADY).explains(times, 1.5, threads=1)

    assert why == ("the machine was unsteady (the baseline's own interval is −62 % +190 %)" if explained else "")


def test_a_baseline_of_too_few_samples_explains_nothing() -> None:
    assert not Disturbance(Load, UNSTEADY[:1]).explains(2.44, 1.5, threads=1)
    assert not Disturbance(Load, UNSTEADY[::5]).explains(2.44, 1.5, threads=1)


def test_samples_that_wait_for_the_suite_are_explained_as_well(now: Time) -> None:
    liar = Fake("a", now, claims=0.4, shipped=False)

    _, idle = race(Fake("base", now), liar)
    _, busy = race(Fake("base", now), liar, load=LOADED)

    assert "for the calls in its samples" in str(idle.failed)
    assert busy.failed is None
    assert busy.unbounded.startswith(f"{SAYS}: ")


SPINS = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def test_what_this_process_has_started_is_no_load_of_others() -> None:
    meter, before = LoadMeter(), cores_used()
    done = [subprocess.Popen([sys.executable, "-c", SPINS.format(seconds=0.5)]) for _ in range(2)]
    for each in done:
        each.wait()
    own, began = 1.0, meter._started

    load = meter.load()

    whole = (time.monotonic() - began) * len(meter._logical)
    assert load.share * whole <= cores_used() - before - own + 0.2


def cores_used() -> float:
    """Seconds of processor time that all processes have used on all cores."""
    return sum(sum(of) - of.idle - getattr(of, "iowait", 0.0) for of in psutil.cpu_times(percpu=True))


OUTSIDE = """
import subprocess, sys
for _ in range({count}):
    spinning = subprocess.Popen([sys.executable, "-c", {spins!r}], start_new_session=True, stdout=-3, stderr=-3)
    print(spinning.pid)
"""
"""Starts processes that belong to nobody: who started them ends at once."""


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Two other processes for each core that do nothing but compute."""
    spins = SPINS.format(seconds=30)
    count = 2 * (psutil.cpu_count() or 1)
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE.format(count=count, spins=spins)], capture_output=True, text=True, check=True
    )
    yield
    for number in map(int, done.stdout.split()):
        with suppress(psutil.NoSuchProcess):
            psutil.Process(number).kill()


@pytest.mark.slow
@pytest.mark.usefixtures("busy_machine")
def test_an_honest_function_on_a_busy_machine_is_not_refused(
    tmp_path: Path, passed: Callable[..., list[Outcome]]
) -> None:
    (tmp_path / "fast.py").write_text(
        "from torch.nn.functional import scaled_dot_product_attention\n\n\ndef attention(query, key, value):\n"
        "    return scaled_dot_product_attention(query, key, value)\n"
    )
    declarations = registry.find([str(tmp_path / "fast.py"), "attention/matmul"])
    known = {each.full_name: passed(each.full_name) for each in declarations}
    of = Benchmark(contract("attention"), declarations, Request(shapes=("h=8,l=512",)), known, ceilings=CEILINGS)

    rows = {row.implementation: row for _, news in of.run() for row in news}

    assert of.busy[0].startswith("the machine was busy (load ")
    assert {row.status for row in rows.values()} == {"measured"}, rows
