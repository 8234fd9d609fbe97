"""The submissions that try to fool the suite: a file and a verdict each, and what a verdict holds of what happened."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import outcome

from suite.cheats import catalogue as catalogue_module
from suite.cheats.catalogue import CONTROL, FOLDER, HONEST, catalogue
from suite.cheats.verdicts import of_bench, of_check
from suite.records import Cheat, Measurement, Status
from suite.records.bounded import NOT_BOUNDED

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
