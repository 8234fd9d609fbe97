"""Written graphs: names, outputs in onnxruntime, and decoding with a cache."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import case_named

pytest.importorskip("onnxscript")
import onnx
import onnxruntime

import attnsuite
from attnsuite.cases.tensors import generator
from attnsuite.contracts.models.seq2seq_attention.contract import shapes as recurrent_shapes
from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.export import ExportedModel, Request, export
from attnsuite.export.inputs import drawn_weights

SMALL: Mapping[str, Mapping[str, Any]] = {
    "transformer": {"source_vocab": 11, "target_vocab": 13, "width": 16, "heads": 4, "ffn_width": 24,
                    "encoder_blocks": 1},
    "vision_transformer": {"image_height": 8, "image_width": 8, "patch": 4, "width": 16, "heads": 4, "mlp_width": 24,
                           "blocks": 1},
    "seq2seq_attention": {"source_vocab": 11, "target_vocab": 13, "embedding": 6, "hidden": 8, "layers": 1},
}  # fmt: skip
"""Small configs in place of the documents'."""
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="session")
def written(folder: Path) -> Any:
    """Exports a graph once, and returns its file and the result."""

    @cache
    def once(target: str, part: str, opset: int | None, more: str) -> tuple[Path, ExportedModel]:
        name = target.partition("/")[0]
        file = folder / f"{target.replace('/', '-')}.{part}.{opset}.{len(more)}.onnx"
        return file, export(Request(target, file, opset, part=part, config={**SMALL[name], **json.loads(more)}))

    def of(target: str, part: str = "full", opset: int | None = None, more: str = "{}") -> tuple[Path, ExportedModel]:
        return once(target, part, opset, more)

    return of


def session(file: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def axes(values: Any) -> dict[str, list[str | int]]:
    return {value.name: list(value.shape) for value in values}


def tokens(name: str, shape: tuple[int, ...], vocabulary: int) -> Array:
    return generator(name).integers(vocabulary, size=shape)


def inputs_of(target: int = 5) -> dict[str, Array]:
    """Two sentences of 9 tokens, the second one padded."""
    source, translation = tokens("source", (2, 9), 11), tokens("target", (2, target), 13)
    return {"source": source, "lengths": np.array([9, 4]), "target": translation}


def test_inputs_outputs_and_axes_have_the_contract_s_names_and_weights_are_constants(written: Any) -> None:
    file, _ = written("transformer")
    run = session(file)

    assert axes(run.get_inputs()) == {
        "source": ["batch", "source_length"],
        "lengths": ["batch"],
        "target": ["batch", "target_length"],
    }
    assert axes(run.get_outputs()) == {"logits": ["batch", "target_length", 13]}
    graph = onnx.load(file).graph
    assert {"source_embedding", "decoder.1.cross_attention.w_key", "b_logits"} <= {i.name for i in graph.initializer}
    assert "torch" not in str(graph), "the exporter's notes of its own sources are left out"


def test_a_graph_has_metadata_of_its_origin(written: Any) -> None:
    file, said = written("transformer")
    model = onnx.load(file)
    entries = {each.key: each.value for each in model.metadata_props}

    assert model.producer_name == "attnsuite"
    assert entries["contract"] == "transformer"
    assert entries["implementation"] == said.name == "transformer/onnx_export.opset23"
    assert json.loads(entries["config"])["width"] == 16
    assert (entries["opset"], entries["dtype"], entries["part"]) == ("23", "float32", "full")
    assert entries["weights"] == "drawn, seed 0"
    assert "BSD-3-Clause" in entries["licence"]
    assert f"torch {torch.__version__.partition('+')[0]}" in entries["made with"]


def test_the_opset_is_the_requested_one(written: Any) -> None:
    file, said = written("vision_transformer", opset=18)
    (actual,) = (each.version for each in onnx.load(file).opset_import if not each.domain)

    assert (actual, said.opset, said.name) == (18, 18, "vision_transformer/onnx_export")
    assert axes(session(file).get_inputs()) == {"images": ["batch", 1, 8, 8]}


def test_any_batch_and_length_has_the_eager_model_s_output(written: Any) -> None:
    from attnsuite.implementations.transformer.eager import transformer

    file, _ = written("transformer")
    config = json.loads({e.key: e.value for e in onnx.load(file).metadata_props}["config"])
    model = transformer(config, drawn_weights(shapes(config), 0, "float32"))
    given = inputs_of(target=3)

    (logits,) = session(file).run(None, given)

    expected = model(*map(torch.from_numpy, given.values())).numpy()
    assert logits.shape == (2, 3, 13)
    assert np.linalg.norm(logits - expected) < 1e-5 * np.linalg.norm(expected)


# Decoding with a cache


@pytest.mark.slow
@pytest.mark.parametrize("steps", [[1, 1, 1, 1, 1], [3, 2], [5], [4, 1]], ids=str)
def test_tokens_decoded_with_a_cache_have_the_logits_of_the_whole_target(written: Any, steps: list[int]) -> None:
    whole, encoder, decoder = (session(written("transformer", part)[0]) for part in ("full", "encoder", "decoder"))
    given = inputs_of()
    (expected,) = whole.run(None, given)

    sources = named(encoder, given)
    past = dict.fromkeys(sources, np.zeros((2, 4, 0, 4), np.float32))
    past = {name.replace("source", "past"): nothing for name, nothing in past.items()}
    found = []
    for part in np.split(given["target"], np.cumsum(steps)[:-1], 1):
        out = named(decoder, {"target": part, "lengths": given["lengths"], **sources, **past})
        found.append(out.pop("logits"))
        past = {name.replace("present", "past"): kept for name, kept in out.items()}

    assert {kept.shape for kept in past.values()} == {(2, 4, 5, 4)}
    assert np.linalg.norm(np.concatenate(found, 1) - expected) < 1e-5 * np.linalg.norm(expected)
    assert (np.concatenate(found, 1).argmax(-1) == expected.argmax(-1)).all()


@pytest.mark.slow
def test_a_cache_of_other_tokens_gives_other_logits(written: Any) -> None:
    """Otherwise the test above could not fail for a graph that ignores its cache."""
    encoder, decoder = (session(written("transformer", part)[0]) for part in ("encoder", "decoder"))
    given, logits = inputs_of(), []
    sources = named(encoder, given)
    for size in (0.0, 1.0):
        past = {name.replace("source", "past"): np.full((2, 4, 3, 4), size, np.float32) for name in sources}
        logits.append(named(decoder, {"target": given["target"], "lengths": given["lengths"], **sources, **past}))

    assert np.abs(logits[0]["logits"] - logits[1]["logits"]).max() > 0.01


@pytest.mark.slow
def test_a_recurrent_model_is_one_graph_or_two_that_decode_token_by_token(written: Any) -> None:
    more = '{"cell": "lstm", "layers": 2, "window": 2}'
    whole, encoder, decoder = (
        session(written("seq2seq_attention", part, more=more)[0]) for part in ("full", "encoder", "decoder")
    )
    given = inputs_of()
    (expected,) = whole.run(None, given)

    kept, found = named(encoder, given), []
    memory = kept.pop("memory")
    for step in range(5):
        token = {"target": given["target"][:, step : step + 1], "lengths": given["lengths"], "step": np.array(step)}
        out = named(decoder, {**token, "memory": memory, **kept})
        found.append(out.pop("logits"))
        kept = {name.removesuffix(".after"): each for name, each in out.items()}

    assert np.linalg.norm(np.concatenate(found, 1) - expected) < 1e-5 * np.linalg.norm(expected)
    assert axes(whole.get_inputs()) == {
        "source": ["batch", "source_length"],
        "lengths": ["batch"],
        "target": ["batch", "target_length"],
    }
    graph = onnx.load(written("seq2seq_attention", "full", more=more)[0]).graph
    assert "Scan" in {node.op_type for node in graph.node}


def named(run: onnxruntime.InferenceSession, given: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name, for those of the arrays that are inputs."""
    wanted = {each.name: np.ascontiguousarray(given[each.name]) for each in run.get_inputs()}
    return dict(zip((each.name for each in run.get_outputs()), run.run(None, wanted), strict=True))


# WithError to 8 bits


@pytest.mark.slow
def test_the_errors_of_8_bits_are_measured_without_a_limit(written: Any) -> None:
    more = '{"width": 64, "heads": 4, "mlp_width": 64}'
    file, rounded = written("vision_transformer/onnx_export.int8", more=more)
    whole, exact = written("vision_transformer", opset=18, more=more)

    assert exact.verification.error_ratio <= 1 < rounded.verification.error_ratio
    assert exact.verification.largest < 1e-5 < 1e-3 < rounded.verification.rms <= rounded.verification.largest < 0.2
    assert file.stat().st_size < 0.6 * whole.stat().st_size
    model = onnx.load(file)
    assert "MatMulInteger" in {node.op_type for node in model.graph.node}
    assert (rounded.dtype, rounded.nodes) == ("int8", len(model.graph.node))
    assert {entry.key: entry.value for entry in model.metadata_props}["dtype"] == "int8"
    assert (exact.dtype, exact.nodes) == ("float32", len(onnx.load(whole).graph.node))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "vision_transformer"])
def test_8_bits_are_unsupported_by_the_contract(name: str) -> None:
    module = import_module(f"attnsuite.implementations.{name}.onnx_export")
    outcomes = attnsuite.check(module.int8, name, "float32", cases=("plain/usual", "bad_input"))

    statuses = {outcome.case.split("/")[0]: set[str]() for outcome in outcomes}
    for outcome in outcomes:
        statuses[outcome.case.split("/")[0]].add(outcome.status)
    assert statuses["plain"] == {"unsupported"}
    assert "passed" in statuses["bad_input"] <= {"passed", "unsupported"}
    says = {outcome.detail for outcome in outcomes if outcome.status == "unsupported"}
    assert says - {"takes no attention"} == {"no limit of its errors is promised: accuracy is measured"}


def test_another_implementation_cannot_use_that_reason_for_the_core() -> None:
    def transformer(config: Any, weights: Any) -> Any:
        raise NotImplementedError("no limit of its errors is promised: accuracy is measured")

    outcomes = attnsuite.check(transformer, contract="transformer", cases="plain", dtypes="float32")

    assert {outcome.status for outcome in outcomes} == {"failed"}


@pytest.mark.slow
def test_a_model_of_another_dtype_is_not_quantised() -> None:
    from attnsuite.implementations.vision_transformer import onnx_export

    case = case_named("vision_transformer", "plain/usual")
    (call, *_) = case.calls("float16")

    model = onnx_export.int8(dict(call.config or {}), dict(call.weights))

    with pytest.raises(NotImplementedError, match="onnxruntime quantises graphs of float32 alone"):
        model(call.tensors["images"])


# Other dtypes


@pytest.mark.slow
def test_bfloat16_runs_in_onnx_s_reference_evaluator(folder: Path) -> None:
    file = folder / "bfloat16.onnx"

    config = {**SMALL["transformer"], "decoder_blocks": 1}  # the reference evaluator is slow

    said = export(Request("transformer", file, dtype="bfloat16", config=config))

    assert said.verification.ran_by == "onnx's reference evaluator"
    assert said.verification.error_ratio <= 1
    assert {i.data_type for i in onnx.load(file).graph.initializer if i.name == "w_logits"} == {
        onnx.TensorProto.BFLOAT16
    }


def test_implementations_have_the_contract_s_shapes() -> None:
    from attnsuite.implementations.seq2seq_attention._checks import shapes as own_shapes

    config = {**SMALL["seq2seq_attention"], "score": "additive", "cell": "lstm", "window": None}

    assert own_shapes(config) == recurrent_shapes(config)


@pytest.mark.slow
def test_numbers_between_operators_are_as_precise_as_the_graph() -> None:
    """PyTorch's exporter rounds Python numbers to float32; √d must not be one."""
    found = attnsuite.check("seq2seq_attention/onnx_export", cases="score/scaled_dot", dtypes="float64")

    assert [outcome.status for outcome in found] == ["passed"]
