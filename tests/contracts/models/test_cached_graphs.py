"""Graphs that are kept in files: read where they are the same, made anew wherever they might not be."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper

from attnsuite.implementations import _export

EXPORTER = """
from attnsuite.implementations import _export

calls = []

def export(name, opset):
    calls.append((name, opset))
    return _export.Graph(make(name, opset), 2.5)
"""


@pytest.fixture
def exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ModuleType]:
    """A module as every process imports it anew, among others; `export` is kept, `calls` are those that were made."""
    monkeypatch.setattr(_export, "FOLDER", tmp_path / "cache" / "graphs")
    file = tmp_path / "implementations" / "somewhat" / "exporter.py"
    file.parent.mkdir(parents=True)
    file.write_text(EXPORTER)

    def imported() -> ModuleType:
        spec = importlib.util.spec_from_file_location("exporter", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.make = graph
        spec.loader.exec_module(module)
        module.cached = _export.cached(module.export)
        return module

    return imported


def graph(name: str, opset: int) -> object:
    given, due = (helper.make_tensor_value_info(each, TensorProto.FLOAT, [None]) for each in "xy")
    node = helper.make_node("Identity", ["x"], ["y"], name=name)
    return helper.make_model(
        helper.make_graph([node], "graph", [given], [due]), opset_imports=[helper.make_opsetid("", opset)]
    )


def files() -> list[Path]:
    return sorted(_export.FOLDER.glob("*"))


def test_another_process_reads_what_one_has_exported_with_the_seconds_that_it_took(
    exporter: Callable[[], ModuleType],
) -> None:
    first, second = exporter(), exporter()

    made, read = first.kept("a", 18), second.kept("a", 18)

    assert (first.calls, second.calls) == ([("a", 18)], [])
    assert made.model.SerializeToString() == read.model.SerializeToString()
    assert made.seconds == read.seconds == 2.5
    assert first.kept("a", 18) is made, "and one process does not even read it again"


def test_whatever_is_given_otherwise_is_exported_for_itself(exporter: Callable[[], ModuleType]) -> None:
    for given in (("a", 18), ("b", 18), ("a", 23)):
        assert exporter().kept(*given).model.graph.node[0].name == given[0]

    assert len(files()) == 3


@pytest.mark.parametrize("changed", ["source", "beside", "shared", "version"])
def test_what_may_change_a_graph_exports_it_anew(
    exporter: Callable[[], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    before = exporter()
    before.kept("a", 18)
    if changed == "source":
        with Path(before.__file__ or "").open("a") as source:
            source.write("# changed\n")
    elif changed == "beside":
        (tmp_path / "implementations" / "somewhat" / "eager.py").write_text("x = 1\n")
    elif changed == "shared":
        (tmp_path / "implementations" / "_sessions.py").write_text("x = 1\n")
    else:
        monkeypatch.setattr(_export, "version", lambda name: "99.0")

    after = exporter()
    after.kept("a", 18)

    assert after.calls == [("a", 18)]


def test_what_another_contract_s_implementations_say_changes_no_graph(
    exporter: Callable[[], ModuleType], tmp_path: Path
) -> None:
    exporter().kept("a", 18)
    other = tmp_path / "implementations" / "other" / "eager.py"
    other.parent.mkdir()
    other.write_text("x = 1\n")

    after = exporter()
    after.kept("a", 18)

    assert after.calls == []


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0], ids=["empty", "half", "nonsense after it"])
def test_a_file_that_is_not_whole_is_made_anew(exporter: Callable[[], ModuleType], share: float) -> None:
    whole = exporter().kept("a", 18).model.SerializeToString()
    (file,) = files()
    file.write_bytes((whole + b"\xff" * len(whole))[: int(share * len(whole))])

    mended = exporter()

    assert mended.kept("a", 18).model.SerializeToString() == whole
    assert mended.calls == [("a", 18)]
    assert file.read_bytes() == whole
    assert files() == [file], "and nothing lies beside it"


def test_where_nothing_can_be_written_graphs_are_exported_all_the_same(
    exporter: Callable[[], ModuleType], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")

    for _ in range(2):
        module = exporter()
        assert module.cached("a", 18).seconds == 2.5
        assert module.calls == [("a", 18)]
