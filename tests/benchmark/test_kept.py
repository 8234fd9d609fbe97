"""Verdicts that are kept are believed only where nothing that they depend on has changed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attnsuite import registry
from attnsuite.benchmark import kept
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.kept import Keeping, Kept, needs_of
from attnsuite.conformance.case_tests import CaseTest
from attnsuite.conformance.check import Check
from attnsuite.contracts import contract
from attnsuite.model import Outcome, Status
from attnsuite.registry import Declaration

PASSED = Outcome("attention/mine", "attention", "plain/small", "float32", "cpu", Status.PASSED)
OTHER = Outcome("attention/mine", "attention", "plain/one", "float32", "cpu", Status.PASSED)
WRONG = Outcome("attention/mine", "attention", "keys/17", "float32", "cpu", Status.WRONG, "it is wrong")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declaration:
    """An implementation in a file, with a helper beside it that was changed long ago, and a cache of its own."""
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "BEGUN", time.time() + 1000)
    (tmp_path / "helper.txt").write_text("1")
    (tmp_path / "mine.py").write_text("def attention(query, key, value): ...\n")
    return registry.find([str(tmp_path / "mine.py")])[0]


def keep(declaration: Declaration) -> None:
    helper = str(Path(declaration.file).with_name("helper.txt"))
    Kept("cpu").keep(declaration, [PASSED, WRONG], [declaration.file, helper, "/no/such/file"])


def test_what_passed_is_kept_and_what_failed_is_not(mine: Declaration) -> None:
    keep(mine)
    assert Kept("cpu").outcomes(mine) == {("plain/small", "float32"): PASSED}
    assert not Kept("cpu", believes=False).outcomes(mine)


def test_a_changed_source_helper_or_environment_is_asked_again(
    mine: Declaration, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(mine)
    helper = Path(mine.file).with_name("helper.txt")
    helper.write_text("2")
    assert not Kept("cpu").outcomes(mine)
    helper.write_text("1")
    assert Kept("cpu").outcomes(mine), "the same again"
    Path(mine.file).write_text("def attention(query, key, value): return value\n")
    assert not Kept("cpu").outcomes(mine)
    keep(mine)
    monkeypatch.setenv("MY_KERNEL_TILE", "64")
    assert not Kept("cpu").outcomes(mine)


@pytest.mark.parametrize("what", ["suite_hash", "here"])
def test_another_suite_or_machine_is_asked_again(mine: Declaration, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    keep(mine)
    found = getattr(kept.machine, what)()
    other = (
        "another"
        if what == "suite_hash"
        else kept.machine.here().__class__(**{**kept.structs.asdict(found), "cores": 99})
    )
    monkeypatch.setattr(kept.machine, what, lambda: other)
    assert not Kept("cpu").outcomes(mine)


def test_other_versions_are_asked_again(mine: Declaration, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(mine)
    monkeypatch.setattr(kept, "installed", lambda: ["torch==0"])
    assert not Kept("cpu").outcomes(mine)


def test_what_changed_during_the_run_or_is_not_known_is_not_kept(
    mine: Declaration, monkeypatch: pytest.MonkeyPatch
) -> None:
    Kept("cpu").keep(mine, [PASSED], None)
    assert not Kept("cpu").outcomes(mine)
    monkeypatch.setattr(kept, "BEGUN", 0.0)
    keep(mine)
    assert not Kept("cpu").outcomes(mine)


def test_more_files_than_a_kernel_has_are_not_read(mine: Declaration, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(mine)
    assert Kept("cpu").outcomes(mine)
    read: list[Path] = []
    monkeypatch.setattr(Path, "read_bytes", lambda self: read.append(self) or b"")
    monkeypatch.setattr(kept, "MOST_HASHED", Path(mine.file).stat().st_size)
    keep(mine)
    assert not [each for each in read if each.name == "helper.txt"]


def test_a_damaged_file_is_asked_again(mine: Declaration) -> None:
    keep(mine)
    (file,) = Path(os.environ["ATTNSUITE_CACHE"]).glob("verdicts/*")
    file.write_bytes(b"no gzip")
    assert not Kept("cpu").outcomes(mine)


@pytest.mark.parametrize(
    "damaged", ["null", "{}", "[]", '{"needs": {}, "digest": "0"}', '{"needs": {"plain/small": []}}', "{'", "short"]
)
def test_a_damaged_list_of_questions_leaves_none_out(
    damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))

    def asked() -> list[str]:
        return list(needs_of("attention", "float32", "cpu", lambda: {"plain/small": {"b", "a"}, "plain/one": set()}))

    assert asked() == ["plain/small", "plain/one"]
    (file,) = (tmp_path / "cache").glob("needs/*")
    whole = file.read_text()
    file.write_text(whole.replace(', "plain/one": []', "") if damaged == "short" else damaged)
    assert asked() == ["plain/small", "plain/one"]
    assert file.read_text() == whole, "what is damaged is written anew"


def test_a_process_that_loaded_something_else_is_not_what_was_asked(mine: Declaration, tmp_path: Path) -> None:
    keep(mine)
    assert Kept("cpu").holds_for(mine, [mine.file, sys.executable.replace("bin", "lib"), pytest.__file__])
    (tmp_path / "faster.py").write_text("")
    assert not Kept("cpu").holds_for(mine, [mine.file, str(tmp_path / "faster.py")])
    assert not Kept("cpu").holds_for(mine, None)


@pytest.mark.slow
def test_a_gate_asks_what_has_not_changed_once(mine: Declaration, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "from attnsuite import implementation\nimport torch\n\n\n@implementation()\ndef attention(query, key, value):\n"
    )
    Path(mine.file).write_text(
        f"{body}    return torch.nn.functional.scaled_dot_product_attention(query, key, value)\n"
    )
    declared = registry.find([mine.file])[0]
    features = frozenset({"float32", "large"})

    def gate() -> Gate:
        found = Gate(contract("attention"), "cpu", 60.0, kept=Kept("cpu"))
        needed = found._needed("float32")
        found._needs["float32"] = {key: words for key, words in needed.items() if key[0].startswith("plain/")}
        return found

    first = gate()
    first.ask([declared], [("float32", features)])
    assert first.refusal(declared.full_name, "float32", features) is None

    asked: list[str] = []
    ask = Check.result
    monkeypatch.setattr(
        Check,
        "result",
        lambda check, question, *more: (asked.append(question.case.name), ask(check, question, *more))[1],
    )
    second = gate()
    second.ask([declared], [("float32", features)])
    assert not asked
    second.confirm(declared, lambda: [declared.file])
    assert not asked, "the process that is timed has loaded the same"

    Path(declared.file).with_name("other.py").write_text("")
    third = gate()
    third.ask([declared], [("float32", features)])
    third.confirm(declared, lambda: [declared.file, str(Path(declared.file).with_name("other.py"))])
    assert asked


def test_answers_of_a_benchmark_that_is_killed_are_not_asked_again(
    mine: Declaration, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "from attnsuite import implementation\nimport torch\n\n\n@implementation()\ndef attention(query, key, value):\n"
    )
    Path(mine.file).write_text(
        f"{body}    return torch.nn.functional.scaled_dot_product_attention(query, key, value)\n"
    )
    declared = registry.find([mine.file])[0]
    asked: list[str] = []
    ask, killed_at = Check.result, 4

    def answered(check: Check, question: CaseTest, *more: Any) -> Any:
        if len(asked) == killed_at:
            raise SystemExit
        asked.append(question.case.name)
        return ask(check, question, *more)

    def gate() -> Gate:
        found = Gate(contract("attention"), "cpu", 60.0, kept=Kept("cpu"))
        needed = found._needed("float32")
        found._needs["float32"] = {key: words for key, words in needed.items() if key[0].startswith("plain/")}
        return found

    monkeypatch.setattr(kept, "WRITTEN_EVERY", 0.0)
    monkeypatch.setattr(Check, "result", answered)
    with pytest.raises(SystemExit):
        gate().ask([declared], [("float32", frozenset({"float32", "large"}))])
    first, killed_at = list(asked), -1
    asked.clear()

    second = gate()
    second.ask([declared], [("float32", frozenset({"float32", "large"}))])

    assert len(first) == 4
    assert asked
    assert not set(first) & set(asked)
    assert second.before[declared.full_name] == 4
    assert second.refusal(declared.full_name, "float32", frozenset({"float32", "large"})) is None


def test_answers_are_written_now_and_then_as_they_arrive(mine: Declaration, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[str] | None = [mine.file]
    keeping = Keeping(Kept("cpu"), mine, {}, lambda: files)

    keeping.add(PASSED)
    assert not Kept("cpu").outcomes(mine), "not after each"
    monkeypatch.setattr(kept, "WRITTEN_EVERY", 0.0)
    keeping.add(OTHER)
    assert set(Kept("cpu").outcomes(mine).values()) == {PASSED, OTHER}

    files = None
    keeping.write()
    assert not Kept("cpu").outcomes(mine), "it has started a program, which may have read other files"


def test_earlier_answers_stay_beside_those_that_arrive_unless_something_else_was_loaded(mine: Declaration) -> None:
    helper = str(Path(mine.file).with_name("helper.txt"))
    for files, stays in (([mine.file], True), ([mine.file, helper], False)):
        Kept("cpu").keep(mine, [PASSED], [mine.file])
        keeping = Keeping(Kept("cpu"), mine, {("plain/small", "float32"): PASSED}, lambda files=files: files)  # type: ignore[misc]
        keeping.add(OTHER)
        for _ in range(2):
            keeping.write()

        assert (PASSED in Kept("cpu").outcomes(mine).values()) == stays
        assert OTHER in Kept("cpu").outcomes(mine).values()
