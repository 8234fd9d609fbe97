"""Files of an export: atomic replacement, weights and configs, and refusals."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commanded import SUBMISSIONS, environment

pytest.importorskip("onnxscript")
import onnx
import onnxruntime

from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.export import Request, export
from attnsuite.export.exporter import find_exporter
from attnsuite.export.files import NEW, replacing
from attnsuite.export.inputs import drawn_weights, read_config, read_weights
from attnsuite.implementations import _export
from attnsuite.model import UsageError

CONFIG: dict[str, Any] = {
    "image_height": 8, "image_width": 8, "patch": 4, "channels": 1, "width": 16, "heads": 4, "mlp_width": 24,
    "blocks": 1, "classes": 3, "pooling": "mean",
}  # fmt: skip
SHAPES = shapes(CONFIG)


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    return Request("vision_transformer", tmp_path / "model.onnx", config=CONFIG)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export equal graphs once: PyTorch's exporter takes seconds."""
    original = _export.Exports.graph

    def graph(self: Any, config: Any, dtype: Any, opset: int, part: str) -> Any:
        key = repr((self.shapes(config), config, dtype, opset, part))
        if key not in CACHE:
            CACHE[key] = original(self, config, dtype, opset, part)
        found = onnx.ModelProto()
        found.CopyFrom(CACHE[key].model)
        return CACHE[key]._replace(model=found)

    monkeypatch.setattr(_export.Exports, "graph", graph)


CACHE: dict[str, Any] = {}


def refused(request: Request) -> str:
    """The message of a refused request, which leaves the folder unchanged."""
    before = contents(request.file.parent)
    with pytest.raises(UsageError) as caught:
        export(request)
    assert contents(request.file.parent) == before
    said = str(caught.value)
    assert "\n" not in said
    return said


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()} | {
        each.name: b"a folder" for each in folder.iterdir() if each.is_dir()
    }


def logits(file: Path) -> np.ndarray[Any, Any]:
    images = np.linspace(-1, 1, 2 * 64, dtype=np.float32).reshape(2, 1, 8, 8)
    (found,) = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"]).run(None, {"images": images})
    return np.asarray(found)


# Whole or not at all


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("with_data", [False, True])
def test_of_two_exports_at_once_the_later_needs_force(tmp_path: Path, force: bool, with_data: bool) -> None:
    file, later = (
        tmp_path / "model.onnx",
        nullcontext() if force else pytest.raises(UsageError, match="--force replaces"),
    )

    with later, replacing(file, force) as second:
        second.write_bytes(b"second")
        if with_data:
            second.with_name("model.onnx.data").write_bytes(b"weights of the second")
        with replacing(file, force) as first:
            first.write_bytes(b"first")

    assert file.read_bytes() == (b"second" if force else b"first")
    assert file.with_name("model.onnx.data").exists() == (force and with_data)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_an_existing_file_is_replaced_with_force_only(request_: Request) -> None:
    request_.file.write_bytes(b"something dear")

    assert refused(request_) == f"{request_.file} exists; --force replaces it"
    export(replace(request_, force=True))

    assert logits(request_.file).shape == (2, 3)
    assert contents(request_.file.parent).keys() == {"model.onnx"}


def wrong(model: Any, weights: dict[str, Any]) -> dict[str, Any]:
    return {**weights, "b_head": weights["b_head"] + 0.01}


def nonsense(model: Any, weights: dict[str, Any]) -> dict[str, Any]:
    model.graph.node[0].op_type = "Nonsense"
    return weights


def interrupt(model: Any, weights: dict[str, Any]) -> dict[str, Any]:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(wrong, "the graph's output is wrong, and nothing was written: output[", marks=pytest.mark.slow),
        (nonsense, "the graph is refused: "),
        (interrupt, ""),
    ],
)
def test_a_wrong_refused_or_interrupted_graph_leaves_the_former_files(
    request_: Request, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any, Any], Any], message: str
) -> None:
    original = _export.Exports.write
    for file in (request_.file, request_.file.with_name("model.onnx.data")):
        file.write_bytes(b"something dear")
    before = contents(request_.file.parent)

    def spoiling(self: Any, model: Any, weights: Any, file: Path, above: int) -> None:
        original(self, model, spoil(model, weights), file, above)

    monkeypatch.setattr(_export.Exports, "write", spoiling)
    with pytest.raises(UsageError if message else KeyboardInterrupt) as caught:
        export(replace(request_, force=True))

    assert str(caught.value).startswith(message)
    assert contents(request_.file.parent) == before


@pytest.mark.usefixtures("quick")
def test_a_graph_may_have_the_name_of_a_temporary_folder(request_: Request) -> None:
    named = replace(request_, file=request_.file.with_name(NEW), data_above=0)
    export(named)
    export(replace(named, force=True, seed=1))

    assert contents(request_.file.parent).keys() == {NEW, f"{NEW}.data"}


@pytest.mark.usefixtures("quick")
def test_files_of_a_killed_export_are_removed_by_the_next(request_: Request) -> None:
    folder = request_.file.parent
    program = (
        f"from pathlib import Path; from attnsuite.export.files import replacing\n"
        f"place = Path({str(request_.file)!r})\n"
        "with replacing(place, False) as file:\n    file.touch(); print('there', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (used,) = folder.iterdir()
        export(request_)
        assert contents(folder).keys() == {"model.onnx", used.name}, "a folder in use stays"
        process.kill()
    export(replace(request_, force=True))

    assert contents(folder).keys() == {"model.onnx"}


# Weights in a file of their own


@pytest.mark.usefixtures("quick")
def test_many_weights_have_their_own_file(request_: Request) -> None:
    """The limit is 1,000 bytes here instead of 2 GiB."""
    said = export(replace(request_, data_above=1000))
    beside, whole = contents(request_.file.parent), request_.file.with_name("whole.onnx")
    export(replace(request_, file=whole))

    assert beside.keys() == {"model.onnx", "model.onnx.data"}
    assert said.bytes == sum(map(len, beside.values()))
    assert len(beside["model.onnx"]) < whole.stat().st_size
    assert (logits(request_.file) == logits(whole)).all()
    places = [each.external_data for each in onnx.load(request_.file, load_external_data=False).graph.initializer]
    located = {entry.value for place in places for entry in place if entry.key == "location"}
    assert located == {"model.onnx.data"}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("above", [[0, 0], [0, 10**6], [10**6, 0]], ids=["both", "only before", "only after"])
def test_graph_and_weights_are_replaced_together(request_: Request, above: list[int]) -> None:
    export(replace(request_, data_above=above[0]))
    before = logits(request_.file)

    export(replace(request_, data_above=above[1], force=True, seed=1))

    assert contents(request_.file.parent).keys() == {"model.onnx"} | ({"model.onnx.data"} if above[1] == 0 else set())
    assert not np.allclose(logits(request_.file), before)


# Weights from a file


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_weights_are_read_from_each_format(request_: Request, suffix: str) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    file = saved(request_.file.with_name(f"weights{suffix}"), drawn_weights(SHAPES, 7, "float32"))
    export(replace(request_, weights=file))
    other = request_.file.with_name("drawn.onnx")
    export(replace(request_, file=other, seed=7))

    assert (logits(request_.file) == logits(other)).all()
    entries = {each.key: each.value for each in onnx.load(request_.file).metadata_props}
    assert entries["weights"] == f"from weights{suffix}"


def saved(file: Path, weights: dict[str, torch.Tensor]) -> Path:
    if file.suffix == ".npz":
        np.savez(file, **{name: tensor.numpy() for name, tensor in weights.items()})
    elif file.suffix == ".pt":
        torch.save(weights, file)
    else:
        from safetensors.torch import save_file

        save_file(weights, file)
    return file


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: {n: t for n, t in w.items() if n != "b_head"}, "b_head is missing, expected shape (3,)"),
        (lambda w: {**w, "b_head": w["b_head"][:2]}, "b_head has shape (2,), expected (3,)"),
        (
            lambda w: {**w, "bias": w["b_head"]},
            f"has bias, which is not one of the {len(SHAPES)} weights of this config",
        ),
        (lambda w: {**w, "b_head": w["b_head"].long()}, "b_head is torch.int64 of layout torch.strided on cpu, "),
        (lambda w: {**w, "b_head": w["b_head"].to_sparse()}, "b_head is torch.float32 of layout torch.sparse_coo"),
        (lambda w: {**w, "b_head": w["b_head"].to("meta")}, "of layout torch.strided on meta, expected dense"),
        (lambda w: {**w, "b_head": w["b_head"] * torch.nan}, "b_head has NaN or infinity in float32, expected finite"),
        (lambda w: {**w, "b_head": w["b_head"].double() + 1e300}, "b_head has NaN or infinity in float32"),
    ],
    ids=["missing", "misshapen", "extra", "integers", "sparse", "meta", "NaN", "infinity"],
)
def test_weights_that_do_not_fit_the_config_are_refused(
    tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    file = saved(tmp_path / "weights.pt", change(drawn_weights(SHAPES, 0, "float32")))

    with pytest.raises(UsageError) as caught:
        read_weights(file, SHAPES, "float32")

    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["weights.npz", "weights.pt", "weights.safetensors", "weights.bin", "absent.npz"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 half a file", bytes(range(256))], ids=["empty", "half", "bytes"])
def test_a_damaged_file_of_weights_is_one_line(tmp_path: Path, name: str, data: bytes) -> None:
    file = tmp_path / name
    if not name.startswith("absent"):
        file.write_bytes(data)

    with pytest.raises(UsageError) as caught:
        read_weights(file, SHAPES, "float32")

    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save({"b_head": Path("nothing")}, tmp_path / "weights.pt")

    with pytest.raises(UsageError, match=r"weights\.pt cannot be read as \.pt: .* as torch\.save writes them"):
        read_weights(tmp_path / "weights.pt", SHAPES, "float32")


# One line


@pytest.mark.slow  # it makes the graph
def test_an_opset_that_the_exporter_cannot_write_is_refused(request_: Request) -> None:
    said = refused(replace(request_, target="seq2seq_attention", config={}, opset=17))

    assert said.startswith(
        "seq2seq_attention, part full, cannot be written in opset 17: PyTorch's exporter made a graph"
    )


@pytest.mark.usefixtures("quick")
@pytest.mark.skipif("CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is CUDA")
def test_a_missing_device_is_refused(request_: Request) -> None:
    said = refused(replace(request_, device="cuda"))

    assert said.startswith("the graph cannot be run on cuda: onnxruntime ")
    assert "has no CUDAExecutionProvider; it has " in said


@pytest.mark.parametrize(
    ("text", "said"),
    [("[" * 200_000, "is not JSON, or too deep: maximum recursion depth exceeded"), ("[1]", "holds list, expected an")],
)
def test_a_config_that_cannot_be_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)

    with pytest.raises(UsageError, match=said):
        read_config(file, [])
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_config(tmp_path / "absent.json", [])


def test_settings_change_the_file_s_config_and_are_json_or_a_word(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"width": 8, "window": 3}))

    found = read_config(file, ["width=16", "window=null", "score=dot"])

    assert found == {"width": 16, "window": None, "score": "dot"}


def test_a_contract_s_name_means_its_newest_opset() -> None:
    assert find_exporter("transformer").declaration.name == "onnx_export.opset23"
    assert find_exporter("seq2seq_attention").declaration.name == "onnx_export"
    assert find_exporter("transformer/onnx_export.int8").exports.quantised


# The command


def test_a_library_that_is_missing_is_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_bytes((SUBMISSIONS / "without_onnxruntime.py").read_bytes())

    command = [sys.executable, "-m", "attnsuite", "export", "transformer", str(tmp_path / "model.onnx")]
    ended = subprocess.run(command, env=environment(blocked), capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "attnsuite: transformer/onnx_export.int8 cannot be exported: No module named 'onnxruntime'; the extra has it: "
        "pip install attnsuite[onnx]\n"
    )
    assert contents(tmp_path).keys() == {"blocked"}
