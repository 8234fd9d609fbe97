"""What is said of a function stands in its signature's own words."""

from __future__ import annotations

import pytest
import torch

from attnsuite.cases import Call
from attnsuite.contracts import contract
from attnsuite.registry.signatures import in_signature, recognition_note, signature
from attnsuite.registry.signatures.reproduction import call_lines
from attnsuite.registry.signatures.translation import translate

FLASH = signature("flash_attn")


@pytest.mark.parametrize(
    ("said", "due"),
    [
        ("takes no is_causal and no scale", "takes no causal and no softmax_scale"),
        ("a given scale is ignored, 1/√d is always used", "a given softmax_scale is ignored, 1/√d is always used"),
        ("failed only where is_causal and a width above 64 meet", "failed only where causal and a width above 64 meet"),
        ("output[0, 1, 3, 7] is 1.5, should be 2", "output[0, 3, 1, 7] (b, s, h, d) is 1.5, should be 2"),
        ("gradient of key[0, 1, 3, 7] is 1", "gradient of k[0, 3, 1, 7] (b, s, h, d) is 1"),
        ("output has shape (2, 5, 4, 8), should have (2, 4)", "output has shape (2, 4, 5, 8), should have (2, 4)"),
        ("a window is aligned at the lower right", "a window is aligned at the lower right"),
        ("a query that may attend to nothing gives NaN", "a query that may attend to nothing gives NaN"),
    ],
)  # fmt: skip
def test_arguments_and_axes_have_the_library_s_names(said: str, due: str) -> None:
    assert translate(FLASH, said) == due


@pytest.mark.parametrize(
    ("said", "due"),
    [
        ("takes no is_causal", "takes no causal attn_bias"),
        ("takes no attn_mask and no scale and no window", "takes no attn_bias and no scale and no windowed attn_bias"),
        ("given is_causal", "given a causal attn_bias"),
    ],
)
def test_the_gaps_of_xformers_have_no_article(said: str, due: str) -> None:
    assert translate(signature("xformers"), said) == due


def test_the_complaint_names_the_library_of_the_expected_arrays() -> None:
    returned = "returned a list, should return a Tensor"

    assert translate(signature("numpy"), returned) == "returned a list, should return an array of numpy"
    assert translate(signature("flash_attn"), returned) == returned


def test_the_contract_s_own_signature_changes_nothing() -> None:
    attention = contract("attention")

    assert in_signature(attention, "") is attention
    assert in_signature(attention, "sdpa") is attention
    assert in_signature(contract("add_norm"), "flash_attn") is contract("add_norm")


def test_an_introduction_says_which_signature_and_why() -> None:
    asked = recognition_note("attention/mine", "xformers", ("--signature",))

    assert asked.startswith("attention/mine is tested with the signature xformers, as --signature says: ")
    assert recognition_note("attention/mine", "", ()) == recognition_note("attention/mine", "sdpa", ()) == ""


# Reproductions

LINES = ["query, key = torch.ones(2, 8), torch.ones(3, 8)", "value = key"]
LINES.append("actual = attention(query, key, value, is_causal=True)")
T = ".transpose(1, 2)"
S = ".transpose(0, 1)"
FOUR = f"[None, None]{T}"


def call(rank: int, **options: float | bool) -> Call:
    shape = (1,) * (rank - 2)
    return Call({name: torch.ones(*shape, 3, 8) for name in ("query", "key", "value")}, options)


@pytest.mark.parametrize(
    ("name", "rank", "due"),
    [
        ("flash_attn", 4, f"attention(query{T}, key{T}, value{T}, causal=True){T}"),
        ("flash_attn", 2, f"attention(query{FOUR}, key{FOUR}, value{FOUR}, causal=True){T}[0, 0]"),
        ("flashinfer", 3, f"attention(query{S}, key{S}, value{S}, causal=True){S}"),
        ("numpy", 2, "torch.from_numpy(attention(query.numpy(), key.numpy(), value.numpy(), is_causal=True))"),
    ],
)  # fmt: skip
def test_a_call_to_paste_is_one_of_the_function_itself(name: str, rank: int, due: str) -> None:
    assert call_lines(signature(name), call(rank, is_causal=True), LINES) == [*LINES[:2], f"actual = {due}"]


def test_what_is_made_for_the_call_cannot_be_pasted_and_is_left_out() -> None:
    assert call_lines(signature("xformers"), call(4, is_causal=True), LINES) == ()
    assert call_lines(signature("flashinfer"), call(4, is_causal=True), LINES) == ()


def test_a_written_call_without_gradients_stays_one() -> None:
    lines = ["came = torch.no_grad()(attention)(query, key, value)"]

    (found,) = call_lines(FLASH, call(4), lines)

    assert found.startswith("came = torch.no_grad()(lambda: attention(query.transpose(1, 2), ")


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_a_written_call_computes_what_the_adapter_computes(rank: int) -> None:
    from attnsuite.registry.signatures import in_contract_signature

    def flash(q, k, v, softmax_scale=None, causal=False):  # type: ignore[no-untyped-def]
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * (softmax_scale or 1.0)
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)

    shape = (2, 3)[4 - rank :]
    tensors = {name: torch.rand(*shape, 5, 4) for name in ("query", "key", "value")}
    asked = Call(tensors, {"scale": 0.3})

    (line,) = call_lines(FLASH, asked, ["attention(query, key, value, scale=0.3)"])

    assert torch.equal(
        eval(line, {"attention": flash, **tensors}), in_contract_signature(flash, "flash_attn")(**tensors, scale=0.3)
    )


def test_a_mask_in_the_contract_s_own_axes_is_written_as_it_is() -> None:
    tensors = {name: torch.ones(3, 8) for name in ("query", "key", "value")}
    masked = Call({**tensors, "attn_mask": torch.ones(3, 3, dtype=torch.bool)}, {})

    (line,) = call_lines(signature("numpy"), masked, ["attention(query, key, value, attn_mask)"])

    assert "attn_mask=attn_mask.numpy()" in line
