"""Which signature a function has, told by its parameters; where they leave a doubt, both are named."""

from __future__ import annotations

import re

import pytest

from attnsuite.model import UsageError
from attnsuite.registry.signatures import OWN, AmbiguousSignature, names, recognise, signature
from attnsuite.registry.signatures.signature import INPUTS

ALL = (
    *(
        "sdpa",
        "flash_attn",
        "xformers",
        "jax",
        "flashinfer",
        "flashinfer_decode",
        "triton",
        "huggingface",
        "mlx",
        "numpy",
    ),
    *("flash_attn_kvcache", "flash_attn_varlen", "flashinfer_merge", "group_query_attention", "torch_varlen"),
)


def test_the_signatures_are_the_files_in_the_folder() -> None:
    assert names() == ALL
    assert [signature(name).name for name in names()] == list(ALL)
    with pytest.raises(UsageError, match="unknown signature 'flash'; there are: sdpa, flash_attn, xformers, jax, "):
        signature("flash")


@pytest.mark.parametrize(
    ("parameters", "due"),
    [
        ("q k v softmax_scale", "flash_attn"),
        ("query key value dropout_p softmax_scale causal window_size deterministic my_block", "flash_attn"),
        ("q k v causal alibi_slopes", "flash_attn"),
        ("query key value attn_bias p scale op", "xformers"),
        ("query key value bias mask scale is_causal", "jax"),
        ("query key value is_causal local_window_size", "jax"),
        ("q k v custom_mask causal sm_scale window_left", "flashinfer"),
        ("q k v scale mask sinks", "mlx"),
        ("q k v softmax_scale temperature my_block", "flash_attn"),
        ("q k v softmax_scale mask", "flash_attn"),
    ],
)
def test_a_signature_is_recognised_by_names_that_no_other_has(parameters: str, due: str) -> None:
    found, by = recognise(parameters.split())

    assert found == due
    assert by
    assert set(by) <= set(parameters.split()[len(INPUTS) :])


@pytest.mark.parametrize(
    "parameters",
    [
        "query key value",
        "query key value attn_mask dropout_p is_causal scale enable_gqa window",
        "query key value scale",
        "query key value mask",
        "q k v bias",
        "query key value attn_mask causal",
        "query key value temperature",
        "softmax_scale causal window_size",
        "query key value attn_mask is_causal window_size",
        "query key value attn_mask dropout_p is_causal scale enable_gqa window_size",
    ],
)
def test_the_contract_s_own_signature_is_taken_where_nothing_points_away_from_it(parameters: str) -> None:
    assert recognise(parameters.split()) == ("", ())


def test_a_function_that_takes_anything_tells_nothing() -> None:
    assert recognise(None) == ("", ())


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ("q k v causal", "flash_attn flashinfer triton sdpa"),
        ("q k v causal sm_scale", "flashinfer triton sdpa"),
        ("q k v softmax_scale attn_bias", "flash_attn xformers sdpa"),
        ("q k v attn_bias causal", "xformers flash_attn flashinfer triton sdpa"),
        ("q k v attn_mask softmax_scale", "flash_attn sdpa"),
    ],
)
def test_where_several_fit_all_are_named(parameters: str, named: str) -> None:
    with pytest.raises(AmbiguousSignature) as error:
        recognise(parameters.split())

    assert re.findall(r"--signature (\w+)", str(error.value)) == named.split()


@pytest.mark.parametrize(
    "name", [name for name in names("attention") if name not in (OWN, "numpy", "mlx", "huggingface")]
)
def test_all_parameters_of_a_library_identify_it(name: str) -> None:
    found, _ = recognise(["q", "k", "v", *signature(name).parameters])

    assert found == name


def test_numpy_s_parameters_are_the_contract_s_and_identify_nothing() -> None:
    assert recognise(["query", "key", "value", *signature("numpy").parameters]) == ("", ())


def test_triton_s_is_known_by_what_has_no_default() -> None:
    assert recognise(["q", "k", "v", "causal", "sm_scale"], ["q", "k", "v", "causal", "sm_scale"]) == (
        "triton",
        ("causal", "sm_scale"),
    )
