"""Every adapter: kernels in its signature are asked, right ones pass, and what cannot be said is unsupported."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from targets import EACH_ARGUMENT
from torch import Tensor

from attnsuite import registry
from attnsuite.cli.new import rendered
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import Outcome
from attnsuite.registry import Loaded, signatures
from attnsuite.registry.signatures.arrays import Arrays

SIGNED = Path(__file__).parents[2] / "submissions" / "signed.py"
Write = Callable[[str, str], Path]


def loaded(name: str, signature: str = "", arrays: Arrays | None = None) -> Loaded:
    """A kernel of the file; with `arrays`, the signature has another type of arrays than its library's."""
    (declaration,) = registry.find([f"{SIGNED}:{name}"], signature=signature)
    with pytest.MonkeyPatch.context() as patch:
        if arrays is not None:
            patch.setattr("attnsuite.registry.loading.library_of", lambda declaration: arrays.library)
        found = registry.load(declaration)
    assert isinstance(found, Loaded)
    if arrays is None:
        return found
    adapter = found.function
    assert isinstance(adapter, signatures.Adapter)
    changed = replace(adapter.signature, arrays=arrays)
    return replace(
        found, function=signatures.Adapter(adapter.function, changed, adapter.inputs, sorted(adapter.own or ()))
    )


def template(signature: str, write: Write) -> Loaded:
    """The file that `attnsuite new` writes in a signature."""
    found = registry.load(registry.find([str(write("mine.py", rendered(Path("mine.py"), "attention", signature)))])[0])
    assert isinstance(found, Loaded)
    return found


def asked(implementation: Loaded, cases: Iterable[str], dtypes: Sequence[str] = ("float32",)) -> list[Outcome]:
    return Session(CheckRequest(tuple(cases), tuple(dtypes)), keep_inputs=False).outcomes(implementation)


def failing(outcomes: Iterable[Outcome]) -> list[str]:
    return [f"{each.case}: {each.says}" for each in outcomes if each.fails]


def unsupported(outcomes: Iterable[Outcome]) -> Counter[str]:
    return Counter(each.detail.partition(";")[0] for each in outcomes if each.status == "unsupported")


@pytest.mark.parametrize(
    ("name", "signature", "by", "cases", "least"),
    [
        ("flash", "flash_attn", ("softmax_scale", "window_size"), EACH_ARGUMENT, 100),
        *(
            (name, "flash_attn", ("softmax_scale",), ("plain", "causal/square*", "gradients/plain"), 10)
            for name in ("flash_with_more", "FlashModule", "flash_instance")
        ),
    ],
)
def test_a_right_kernel_passes_in_its_own_signature(
    name: str, signature: str, by: tuple[str, ...], cases: tuple[str, ...], least: int
) -> None:
    implementation = loaded(name)

    outcomes = asked(implementation, cases)

    assert (implementation.declaration.signature, implementation.declaration.signature_by) == (signature, by)
    assert failing(outcomes) == []
    assert sum(each.status == "passed" for each in outcomes) > least


def test_half_types_cross_as_they_are() -> None:
    outcomes = asked(
        loaded("flash"), ("plain", "causal/square*", "gradients/causal"), ("float64", "float16", "bfloat16")
    )

    assert failing(outcomes) == []
    assert {each.dtype for each in outcomes} == {"float64", "float16", "bfloat16"}


@pytest.mark.slow
def test_mlx_s_signature_passes_on_a_stand_in_of_torch() -> None:
    outcomes = asked(loaded("fast", arrays=Arrays()), [each for each in EACH_ARGUMENT if "gradient" not in each])

    assert [says for says in failing(outcomes) if "lacks gradient" not in says] == []  # of torch's arrays it has them
    assert unsupported(outcomes)["takes no window"]


def test_an_object_of_another_type_is_returned_unchanged() -> None:
    answers = signatures.in_contract_signature(lambda query, key, value: query.tolist(), "numpy")

    assert isinstance(answers(*[torch.ones(2, 2)] * 3), list)


# Arrays of MLX


def test_mlx_s_arrays_are_made_and_read_with_its_own_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    core = ModuleType("mlx.core")
    core.array, core.float32, core.bfloat16 = _Array, "float32", "bfloat16"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlx", ModuleType("mlx"))
    monkeypatch.setitem(sys.modules, "mlx.core", core)
    seen: list[Any] = []

    def fast(q: Any, k: Any, v: Any, *, scale: float, mask: Any = None) -> Any:
        seen.append((type(q), q.dtype, scale, mask))
        return v

    tensors = [torch.rand(2, 3, 4).bfloat16() for _ in range(3)]
    output = signatures.in_contract_signature(fast, "mlx")(*tensors, is_causal=True)

    assert torch.equal(output, tensors[2])
    assert output.dtype == torch.bfloat16
    assert seen == [(_Array, "bfloat16", 0.5, "causal")]


class _Array:
    """As much of MLX's array as crosses: numbers of numpy, and a dtype of its own."""

    def __init__(self, numbers: Any, dtype: str = "") -> None:
        self.numbers, self.dtype = numbers, dtype or str(numbers.dtype)

    def astype(self, dtype: str) -> _Array:
        return _Array(self.numbers, dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numbers


def test_mlx_itself_passes() -> None:
    core = pytest.importorskip("mlx.core")
    fast = signatures.in_contract_signature(core.fast.scaled_dot_product_attention, "mlx")
    query, key = torch.rand(1, 2, 3, 8), torch.rand(1, 2, 5, 8)

    due = torch.nn.functional.scaled_dot_product_attention(query, key, key, torch.ones(3, 5).tril(2).bool())

    assert torch.allclose(fast(query, key, key, is_causal=True), due, atol=1e-5)


# What cannot be said


@pytest.mark.parametrize(
    ("name", "cases", "reason"),
    [
        ("flash", ("bool_mask/per_head",), "takes no attn_mask"),
        ("flash", ("bad_input/groups*",), "grouped heads need no flag in this signature"),
        ("flash", ("bad_input/window_negative_left",), "a negative side of a window is unbounded in this signature"),
        ("flashinfer", ("window/forwards",), "flashinfer's windows have no right side but that of causal"),
        ("flashinfer", ("bool_mask/per_head",), "custom_mask is the same for all heads"),
        ("flashinfer", ("gradients/plain",), "lacks gradient: the library has no backward pass"),
        ("flashinfer", ("float_mask/per_head",), "lacks float_mask: custom_mask is boolean"),
        ("xformers", ("heads/two_groups",), "takes no enable_gqa"),
    ],
)
def test_what_a_signature_cannot_express_is_unsupported_with_the_reason(
    name: str, cases: tuple[str, ...], reason: str, write: Write
) -> None:
    (outcome, *others) = asked(loaded("flash") if name == "flash" else template(name, write), cases)

    assert {each.status for each in (outcome, *others)} == {"unsupported"}
    assert reason in outcome.detail


def test_numpy_has_no_bfloat16(write: Write) -> None:
    (outcome,) = asked(template("numpy", write), ("plain/small",), ("bfloat16",))

    assert (outcome.status, outcome.detail) == ("unsupported", "lacks bfloat16: numpy has no bfloat16")


def test_a_mask_that_fits_nothing_is_not_refused_by_the_adapter_in_the_function_s_place(write: Write) -> None:
    asked_for = torch.ones(7, 7, dtype=torch.bool)
    tensors = [torch.rand(2, 3, 5, 4)] * 3

    for name in ("xformers", "flashinfer"):
        with pytest.raises(NotImplementedError, match="it is the caller who expands"):
            template(name, write).function(*tensors, attn_mask=asked_for)


def test_a_function_of_jax_without_a_bias_lacks_float_masks(write: Write) -> None:
    pytest.importorskip("jax")
    file = write("masks.py", "def attention(query, key, value, mask=None, is_causal=False): ...")
    found = registry.load(registry.find([str(file)], signature="jax")[0])

    assert found.declaration.lacks["float_mask"] == "takes no bias"


# How it is called


def test_inputs_that_were_contiguous_are_contiguous_in_the_signature_s_axes() -> None:
    tensors = {
        "query": torch.rand(2, 3, 5, 4),
        "key": torch.rand(2, 3, 5, 8)[..., :4],
        "attn_mask": torch.rand(3, 5, 5),
    }

    laid = signatures.with_layout(tensors, signatures.signature("flash_attn"))

    assert torch.equal(laid["query"], tensors["query"])
    assert laid["query"].transpose(1, 2).is_contiguous()
    assert laid["key"] is tensors["key"]
    assert laid["attn_mask"] is tensors["attn_mask"]


def test_so_are_those_that_lie_within_a_larger_storage() -> None:
    wide = torch.arange(7.0 + 2 * 3 * 5 * 4 + 9)
    query = wide[7:-9].view(2, 3, 5, 4)

    laid = signatures.with_layout({"query": query}, signatures.signature("flash_attn"))["query"]

    assert torch.equal(laid, query)
    assert laid.transpose(1, 2).is_contiguous()
    assert (laid.storage_offset(), laid.untyped_storage().nbytes()) == (7, wide.nbytes)
    around = laid.as_strided((len(wide),), (1,), 0)
    assert torch.equal(around[:7], wide[:7])
    assert torch.equal(around[-9:], wide[-9:])


def test_no_number_is_copied_on_the_way_to_a_function_of_tensors() -> None:
    places = []

    def flash(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None) -> Tensor:
        places.extend(each.data_ptr() for each in (q, k, v))
        return v

    tensors = [torch.rand(2, 3, 5, 4) for _ in range(3)]
    output = signatures.in_contract_signature(flash, "flash_attn")(*tensors)

    assert places == [each.data_ptr() for each in tensors]
    assert output.data_ptr() == tensors[2].data_ptr()


def test_xformers_own_object_stands_for_causal_where_xformers_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ModuleType("xformers.ops")
    ops.LowerTriangularMask = type("LowerTriangularMask", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xformers.ops", ops)
    given = []

    def xformers(query: Tensor, key: Tensor, value: Tensor, attn_bias: Any = None) -> Tensor:
        given.append(attn_bias)
        return query

    signatures.in_contract_signature(xformers, "xformers")(*[torch.rand(1, 2, 3, 4)] * 3, is_causal=True)

    assert type(given[0]).__name__ == "LowerTriangularMask"
