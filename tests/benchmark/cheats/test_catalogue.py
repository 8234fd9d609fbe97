"""The submissions that try to fool the suite: a file and a verdict each, and what a verdict holds of what happened."""

from __future__ import annotations

import ast
import runpy
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import outcome
from clocks import Time

from attnsuite.benchmark import measure
from attnsuite.benchmark.cheats import catalogue as catalogue_module
from attnsuite.benchmark.cheats.catalogue import CONTROL, FOLDER, HONEST, catalogue
from attnsuite.benchmark.cheats.verdicts import of_bench, of_check
from attnsuite.benchmark.measure import bench, clock
from attnsuite.model import Cheat, Measurement, Status
from attnsuite.model.bounded import NOT_BOUNDED, UNBELIEVED

KINDS = {
    "control", "the clock", "work after the return", "lazy results", "caches", "drift", "behind the suite's back",
    "the truth", "the judge", "precision", "work",
}  # fmt: skip


def cheat(check: str = "passes", bench: str = "caught") -> Cheat:
    return Cheat("some", "the clock", "does something", check, bench)


def row(status: str = "measured", **known: Any) -> Measurement:
    key = ("attention/some", "attention", "vit/b16", "float32", "cpu", 1, "forward", "hot")
    return Measurement(*key, Status(status), **known)


def test_there_are_forty_at_least_of_every_class_beside_honest_and_wrong_controls() -> None:
    kinds = Counter(each.kind for each in catalogue())

    assert set(kinds) == KINDS
    assert sum(kinds.values()) - kinds[CONTROL] >= 40
    controls = {each.check for each in catalogue() if each.kind == CONTROL}
    assert controls == {"passes", "caught"}
    assert HONEST in {each.name for each in catalogue()}


def test_each_is_a_small_file_that_says_what_it_does() -> None:
    for each in catalogue():
        text = (FOLDER / f"{each.name}.py").read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 60, each.name
        assert each.says.endswith("."), each.name
        assert "attention" in {of.name for of in ast.parse(text).body if isinstance(of, ast.FunctionDef)}, each.name


HEADS, OF_A_HEAD = 12, 1e-3
"""The heads of an attention on a slow machine, and the seconds that each takes: no two calls of it make a sample."""


class Batched:
    """`calls_batched` as it is timed, by a clock that its heads turn. `heads` are those that each call computed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.heads: list[int] = []
        self._now = Time()
        patch.setattr(measure, "perf_counter", self._now)
        patch.setattr(clock, "perf_counter", self._now)
        self._function = runpy.run_path(str(FOLDER / "calls_batched.py"))["attention"]
        patch.setitem(sys.modules, bench.__name__, bench)  # as it is where it is timed
        patch.setitem(self._function.__globals__, "sdpa", self._computes)
        self.stopwatch = measure.Stopwatch(self._call)
        self.stopwatch.first_call()
        self.heads.clear()

    def _call(self, _: object) -> Any:
        query = torch.zeros(1, HEADS, 2, 1)
        return self._function(query, query, query)

    def _computes(self, query: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        self._now.now += query.shape[1] * OF_A_HEAD
        self.heads.append(query.shape[1])
        return query


@pytest.mark.parametrize("calls", [2, 3, 8])
def test_of_few_calls_as_of_many_the_last_alone_is_computed(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Were it the last two, nothing would be gained where two make a sample, and the time would be true."""
    batched = Batched(monkeypatch)

    for _ in range(2):
        batched.stopwatch.time_once()  # computes a quarter as well
        batched.stopwatch.sample(calls)

    assert batched.heads == 2 * [*calls * [HEADS // 4], HEADS]


def test_several_calls_make_a_sample_of_what_is_batched_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    batched = Batched(monkeypatch)
    truth = HEADS * OF_A_HEAD
    assert measure.calls_per_sample(truth) == 1

    _, expected = batched.stopwatch.warm_up()
    calls, _ = batched.stopwatch.pace(expected)

    assert calls > 1
    assert truth / batched.stopwatch.sample(calls) > UNBELIEVED


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        ("", "a file without a verdict, or a verdict without a file: some"),
        ('some = { class = "drift", check = "passes", bench = "nice" }', "no verdict is called nice; there are: "),
    ],
)
def test_a_file_and_its_verdict_are_a_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: str, says: str
) -> None:
    monkeypatch.setattr(catalogue_module, "FOLDER", tmp_path)
    (tmp_path / "some.py").write_text('"""Does something."""\n')
    (tmp_path / "verdicts.toml").write_text(verdicts)

    with pytest.raises(ValueError, match=says):
        catalogue()


@pytest.mark.parametrize(
    ("must", "status", "held"),
    [("passes", "passed", True), ("passes", "wrong", False), ("caught", "passed", False), ("caught", "wrong", True),
     ("either", "passed", True), ("either", "wrong", True)],
)  # fmt: skip
def test_a_check_holds_or_not(must: str, status: str, held: bool) -> None:
    trial = of_check(cheat(check=must), [outcome("a/b"), outcome("a/c", status, detail="off by one")])

    assert trial.held == held
    assert trial.happened == ("passes all 2" if status == "passed" else "caught in 1 of 2: a/c: off by one")


@pytest.mark.parametrize(
    ("must", "of", "held"),
    [
        ("caught", row("refused", detail="it claims 1 s"), True),
        ("caught", row(own_clock=1.0), False),
        ("caught", row(detail="no memory: none"), False),
        ("caught", row(detail=f"{NOT_BOUNDED}: calls took long", own_clock=1.4), True),
        ("harmless", row(own_clock=1.05), True),
        ("harmless", row(own_clock=1.2), False),
        ("harmless", row(), False),
        ("harmless", row("refused"), False),
        ("no gain", row("refused"), True),
        ("no gain", row(own_clock=2.0), False),
        ("measured", row(), True),
        ("measured", row("refused"), False),
        ("shown", row(kernel="aten::_scaled_dot_product_flash_attention_for_cpu 96%"), True),
        ("shown", row(kernel="aten::bmm 90%"), False),
        ("shown", row("died", kernel=""), False),
    ],
)
def test_a_time_holds_or_not(tmp_path: Path, must: str, of: Measurement, held: bool) -> None:
    assert of_bench(cheat(bench=must), of, None, tmp_path).held == held


@pytest.mark.parametrize(("walls", "held"), [((), True), (("mount namespace",), False), (("Landlock",), False)])
def test_what_was_written_is_said_and_must_not_be_where_a_wall_keeps_files(
    tmp_path: Path, walls: Sequence[str], held: bool
) -> None:
    stopped = of_bench(cheat(bench="walled"), row(), None, tmp_path, walls)
    (tmp_path / "results" / "forged").mkdir(parents=True)
    written = of_bench(cheat(bench="walled"), row(), None, tmp_path, walls)

    assert stopped.happened.endswith("; it wrote nothing")
    assert stopped.held
    assert written.happened.endswith("; nothing stopped it from writing")
    assert written.held == held
