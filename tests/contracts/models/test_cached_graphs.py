"""The cache of exported graphs: a graph is read if nothing that it depends on has changed, and else exported again."""

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

@_export.cached
def export(name, opset):
    calls.append((name, opset))
    return _export.Graph(make(name, opset), 2.5)
"""
A = ("a", 18)


def graph(name: str, opset: int) -> object:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy")
    node = helper.make_node("Identity", ["x"], ["y"], name=name)
    return helper.make_model(
        helper.make_graph([node], "graph", [x], [y]), opset_imports=[helper.make_opsetid("", opset)]
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an implementation that exports, and a cache of its own."""
    monkeypatch.setattr(_export, "FOLDER", tmp_path / "cache" / "graphs")
    folder = tmp_path / "implementations" / "somewhat"
    folder.mkdir(parents=True)
    (folder / "exporter.py").write_text(EXPORTER)
    return folder


@pytest.fixture
def imported(folder: Path) -> Callable[[], ModuleType]:
    """Imports the exporter again, as every process does; `calls` are the exports."""

    def load() -> ModuleType:
        spec = importlib.util.spec_from_file_location("exporter", folder / "exporter.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.make = graph
        spec.loader.exec_module(module)
        return module

    return load


def files() -> list[Path]:
    return sorted(_export.FOLDER.glob("*"))


def test_another_process_reads_a_graph_and_the_seconds_of_its_export(imported: Callable[[], ModuleType]) -> None:
    first, second = imported(), imported()

    exported, read = first.export(*A), second.export(*A)

    assert (first.calls, second.calls) == ([A], [])
    assert exported.model.SerializeToString() == read.model.SerializeToString()
    assert exported.seconds == read.seconds == 2.5
    assert first.export(*A) is exported, "one process does not read it again"


def test_other_arguments_have_graphs_of_their_own(imported: Callable[[], ModuleType]) -> None:
    for arguments in (A, ("b", 18), ("a", 23)):
        assert imported().export(*arguments).model.graph.node[0].name == arguments[0]

    assert len(files()) == 3


@pytest.mark.parametrize(
    ("changed", "exports"),
    [("exporter.py", 1), ("eager.py", 1), ("../_sessions.py", 1), ("version", 1), ("../other/eager.py", 0)],
)
def test_a_graph_is_exported_again_if_its_sources_or_the_exporter_change(
    imported: Callable[[], ModuleType], folder: Path, monkeypatch: pytest.MonkeyPatch, changed: str, exports: int
) -> None:
    imported().export(*A)
    if changed == "version":
        monkeypatch.setattr(_export, "version", lambda name: "99.0")
    else:
        (folder / changed).parent.mkdir(exist_ok=True)
        with (folder / changed).open("a") as source:
            source.write("# changed\n")

    after = imported()
    after.export(*A)

    assert after.calls == [A] * exports


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0], ids=["empty", "half", "garbage at the end"])
def test_a_damaged_file_is_replaced(imported: Callable[[], ModuleType], share: float) -> None:
    complete = imported().export(*A).model.SerializeToString()
    (file,) = files()
    file.write_bytes((complete + b"\xff" * len(complete))[: int(share * len(complete))])

    after = imported()

    assert after.export(*A).model.SerializeToString() == complete
    assert after.calls == [A]
    assert file.read_bytes() == complete
    assert files() == [file], "no other file is left"


def test_graphs_are_exported_without_a_writable_cache(imported: Callable[[], ModuleType], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in place of the folder")

    for _ in range(2):
        module = imported()
        assert module.export(*A).seconds == 2.5
        assert module.calls == [A]
