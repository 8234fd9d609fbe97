"""Stored verdicts are valid only while nothing that their digest covers has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite import machine, registry
from attnsuite.benchmark import verdict_cache
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.verdict_cache import VerdictCache, needs_of
from attnsuite.conformance.check import Check
from attnsuite.contracts import contract
from attnsuite.model import Outcome, Status
from attnsuite.registry import Declaration

PASSED = Outcome("attention/mine", "attention", "plain/small", "float32", "cpu", Status.PASSED)
WRONG = Outcome("attention/mine", "attention", "keys/17", "float32", "cpu", Status.FAILED, "it is wrong")
SDPA = "    return torch.nn.functional.scaled_dot_product_attention(query, key, value)\n"
SOURCE = f"import torch\n\nfrom helper import SCALE\n\n\ndef attention(query, key, value):\n{SDPA}"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declaration:
    """An implementation in a file that imports another one, and an empty cache."""
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "helper.py").write_text("SCALE = 1\n")
    (tmp_path / "mine.py").write_text(SOURCE)
    return registry.find([str(tmp_path / "mine.py")])[0]


def store(declaration: Declaration) -> None:
    cache = VerdictCache("cpu")
    cache.outcomes(declaration)
    cache.store(declaration, [PASSED, WRONG])


def test_what_passed_is_stored_and_what_failed_is_not(mine: Declaration) -> None:
    store(mine)

    assert VerdictCache("cpu").outcomes(mine) == {("plain/small", "float32"): PASSED}
    assert not VerdictCache("cpu", reads=False).outcomes(mine)
    assert not VerdictCache("cuda").outcomes(mine)


def change_versions(mine: Declaration, patch: pytest.MonkeyPatch) -> None:
    (Path(mine.file).parent / "torch-0.dist-info").mkdir()
    patch.syspath_prepend(Path(mine.file).parent)


def damage_file(mine: Declaration, patch: pytest.MonkeyPatch) -> None:
    (file,) = Path(os.environ["ATTNSUITE_CACHE"]).glob("verdicts/*")
    file.write_bytes(file.read_bytes().replace(b"plain/small", b"plain/other"))


CHANGES: dict[str, Callable[[Declaration, pytest.MonkeyPatch], object]] = {
    "file": lambda mine, patch: Path(mine.file).write_text(SOURCE.replace("value)\n", "value) * 1\n")),
    "imported file": lambda mine, patch: Path(mine.file).with_name("helper.py").write_text("SCALE = 2\n"),
    "environment": lambda mine, patch: patch.setenv("MY_KERNEL_TILE", "64"),
    "suite": lambda mine, patch: patch.setattr(machine, "suite_hash", lambda: "another"),
    "versions": change_versions,
    "damaged file": damage_file,
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_nothing_stored_is_valid(
    mine: Declaration, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store(mine)
    assert VerdictCache("cpu").outcomes(mine)

    CHANGES[change](mine, monkeypatch)

    assert not VerdictCache("cpu").outcomes(mine)


def test_a_file_that_changes_while_it_is_tested_is_not_stored(mine: Declaration) -> None:
    cache = VerdictCache("cpu")
    cache.outcomes(mine)
    Path(mine.file).write_text(SOURCE + "\n")

    cache.store(mine, [PASSED])

    assert not VerdictCache("cpu").outcomes(mine)


@pytest.mark.parametrize("damaged", ["null", "{}", '{"digest": "0", "value": {}}', "{'", "short"])
def test_a_damaged_list_of_cases_leaves_none_out(damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))

    def names() -> list[str]:
        return list(needs_of("attention", "float32", "cpu", lambda: {"plain/small": {"b", "a"}, "plain/one": set()}))

    assert names() == ["plain/small", "plain/one"]
    (file,) = (tmp_path / "cache").glob("needs/*")
    whole = file.read_text()
    file.write_text(whole.replace(',"plain/one":[]', "") if damaged == "short" else damaged)

    assert names() == ["plain/small", "plain/one"]
    assert file.read_text() == whole, "a damaged file is written anew"


@pytest.mark.slow
def test_a_gate_tests_once_what_has_not_changed_also_after_an_interrupt(
    mine: Declaration, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[str] = []
    answered = Check.result

    def counted(check: Check, question: object, *more: object) -> object:
        if len(tested) == 4:
            raise SystemExit
        tested.append(question.case.name)  # type: ignore[attr-defined]
        return answered(check, question, *more)  # type: ignore[arg-type]

    def gate() -> Gate:
        few = {name: words for name, words in needs.items() if name.startswith("plain/")}
        monkeypatch.setattr("attnsuite.benchmark.gate.needs_of", lambda *_: few)
        return Gate(contract("attention"), "cpu", 60.0, cache=VerdictCache("cpu"))

    features = frozenset({"float32", "large"})
    drawn = Gate(contract("attention"), "cpu", 60.0)
    needs = {name: words for (name, _), words in drawn._needed("float32").items()}
    monkeypatch.setattr(Check, "result", counted)
    with pytest.raises(SystemExit):
        gate().test([mine], [("float32", features)])
    first, tested[:] = list(tested), ["none"] * 5

    second = gate()
    second.test([mine], [("float32", features)])

    assert len(first) == 4
    assert second.reused[mine.full_name] == 4
    assert not set(first) & set(tested[5:])
    assert second.refusal(mine.full_name, "float32", features) is None
    third = gate()
    third.test([mine], [("float32", features)])
    assert third.reused[mine.full_name] == third.wanted > 4


def test_without_a_cache_folder_nothing_is_stored(mine: Declaration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_cache, "cache_folder", lambda: Path("/proc/nowhere"))

    store(mine)

    assert not VerdictCache("cpu").outcomes(mine)
