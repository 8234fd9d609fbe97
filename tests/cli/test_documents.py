"""The documents' own code, as readers type it: what it gets wrong is exactly what the contracts decide otherwise."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from attnsuite.model import FAILURES

HOME = Path(__file__).parents[2] / "examples" / "documents"
StatusOf = Callable[..., object]


@dataclass(frozen=True)
class Own:
    """One function or class of a document, and what it does otherwise than its contract."""

    target: str
    contract: str
    otherwise: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why, by a pattern of cases and what their detail has to say: each failure is one of these, and each occurs."""
    cases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()


CHECKS = "what broadcasts, or is cut off, is refused"
EMPTY = "an empty row gives zeros, unless the convention is declared"
CORE = "does not support the core, which is required: "
FEW = ("plain", "documents", "bool_mask", "float_mask", "causal", "empty_row", "gradients/plain", "bad_input")
"""Families of attention that take a few seconds together."""

OWN = (
    Own(
        "doc_000.py:by_library",
        "attention",
        {("bool_mask/rank_1", "IndexError"): "a mask of one axis, which PyTorch does not take (a known finding)"},
        ("plain", "documents", "bool_mask", "empty_row"),
        ("float32",),
    ),
    Own(
        "doc_000.py:by_hand",
        "attention",
        {
            ("*", "a boolean mask is added to the scores as 0 and 1"): "True may attend: it is no number",
            ("empty_row/*", "is nan, should be 0"): EMPTY,
            ("bad_input/*", "validation: a mask"): CHECKS,
        },
        FEW,
        ("float32",),
    ),
    Own(
        "doc_000.py:without_scale",
        "attention",
        {("*", 'equals "unscaled": the scores are not divided by √d'): "the scores are divided by √d"},
        ("plain", "documents"),
        ("float32",),
    ),
    Own(
        "doc_001.py:ScaledDotProductAttention",
        "attention",
        {},
        ("plain", "documents", "half", "numerics", "gradients/plain"),
    ),
    Own(
        "doc_001.py:attention",
        "attention",
        {
            ("*", "a float mask is read as boolean: not zero means may attend"): "a float mask is added",
            ("*", "no gradient reached attn_mask"): "a float mask is added",
            ("*", "so that an empty row attends to all"): EMPTY,
            ("*", "adds_most_negative_number"): EMPTY,
            ("documents/doc-001/sdpa-empty-row/*", "should be 0 within 0"): EMPTY,
            ("*", "value cannot be converted to type c10::Half without overflow"): "−∞ is written, which float16 has",
            ("bad_input/*", "validation: a mask"): CHECKS,
        },
        FEW,
        ("float32", "float16"),
    ),
    Own(
        "doc_001.py:MultiHeadAttention(128, 4)",
        "multi_head_attention",
        {("*", "the scores are divided by the root of the width of all heads together"): "the scale is a head's"},
        ("plain/one_sequence", "heads/many", "documents/doc-001/*"),
        ("float32",),
    ),
    Own(
        "doc_002.py:attention",
        "attention",
        {("*", 'equals "unscaled": the scores are not divided by √d'): "the scores are divided by √d"},
        ("plain", "documents"),
        ("float32",),
    ),
    Own(
        "doc_003.py:attention_weights",
        "attention_weights",
        {
            ("numerics/*", "is nan, should be"): "the largest score is subtracted before the exponential",
            ("plain/minus_infinity", "is nan, should be"): "the largest score is subtracted before the exponential",
        },
    ),
    Own("doc_003.py:SelfAttention_v1(3, 2)", "multi_head_attention", {}, ("documents/doc-003/*",)),
    Own("doc_003.py:SelfAttention_v2(3, 2)", "multi_head_attention", {}, ("documents/doc-003/*",)),
    Own("doc_003.py:CausalAttention", "multi_head_attention", {}, ("documents/doc-003/*", "causal")),
    Own("doc_003.py:MultiHeadAttentionWrapper", "multi_head_attention", {}, ("documents/doc-003/*", "causal")),
    Own("doc_003.py:MultiHeadAttention", "multi_head_attention", {}, ("documents/doc-003/*", "causal")),
    Own(
        "doc_004.py:attention_weights",
        "attention_weights",
        {
            ("*", "changed its input scores"): "inputs are never modified",
            ("numerics/minus_infinity", "is nan, should be 0"): EMPTY,
            ("bad_input/*", "a length of"): "lengths are whole numbers, and not negative",
        },
    ),
    Own(
        "doc_004.py:kernel_pooling",
        "kernel_pooling",
        {
            ("support/no_*", "a query without support gives NaN"): EMPTY,
            ("documents/doc-004/11.2-no-support/*", "a query without support gives NaN"): EMPTY,
            ("*", "is nan, should be"): "a Gaussian is never zero, however far away",
            ("width/narrow", "weights[2, 1] is 0, should be"): "a Gaussian is never zero, however far away",
            ("bad_input/*", "was accepted"): CHECKS,
        },
    ),
    Own(
        "doc_004.py:AdditiveAttention",
        "additive_attention",
        {
            ("numerics/very_low_scores", "masked scores are −1,000,000"): "−∞ hides, and no finite number",
            ("*", "cannot reshape tensor of 0 elements"): "without keys the output is zeros",
            ("bad_input/one_feature", "of a query and 1 of a key was accepted"): CHECKS,
        },
    ),
    Own(
        "doc_004.py:attention",
        "attention",
        {},
        ("plain", "documents", "half", "numerics", "no_keys"),
        ("float32", "float16"),
    ),
    Own(
        "doc_004.py:dot_product",
        "attention",
        {("*", ""): "any rank from 2 to 4: torch.bmm takes matrices in batches alone"},
        ("plain", "ranks"),
        ("float32",),
    ),
    Own(
        "doc_004.py:MultiHeadAttention",
        "multi_head_attention",
        {
            ("causal/low_scores", "so that an empty row attends to all"): "−∞ hides, and no finite number",
            ("numerics/low_scores", "an empty row attends to all"): EMPTY,
        },
        ("plain/one_sequence", "heads", "mask", "causal", "numerics", "documents/doc-004/11.5.2-mha-literal-*"),
        ("float32",),
    ),
    Own(
        "doc_004.py:positional_encoding",
        "positional_encoding",
        {
            ("*", "angles are computed in float32 for float64"): "float64 has angles of its own",
            ("*", "float64 is computed in float32"): "float64 has angles of its own",
            ("*", "output is float32, should be"): "the output has the input's dtype",
            ("*", "The expanded size of the tensor"): "odd widths end with a sine",
            ("*", "(1000)"): "there is no table to run out of",
        },
    ),
    Own("doc_004.py:PositionWiseFFN", "positionwise_ffn", {("bad_input/*", "which would broadcast"): CHECKS}),
    Own("doc_004.py:AddNorm", "add_norm", {("bad_input/*", "would broadcast was accepted"): CHECKS}),
    Own("doc_004.py:PatchEmbedding", "patch_embedding", {("bad_input/*", "was accepted"): CHECKS}),
)
"""The documents' code by contract."""


@pytest.mark.slow
@pytest.mark.parametrize("own", OWN, ids=lambda own: f"{own.contract} by {own.target}")
def test_what_a_document_s_code_gets_wrong_is_what_the_contract_decides_otherwise(
    own: Own, status_of: StatusOf, tmp_path: Path
) -> None:
    rows = checked(own, status_of, tmp_path)
    failed = [row for row in rows if row["status"] in FAILURES]

    met = Counter(why_of(own, row) for row in failed)
    unexpected = [(row["case"], row["dtype"], row["detail"]) for row in failed if not why_of(own, row)]
    assert unexpected == []
    assert set(met) == set(own.otherwise.values())
    assert any(row["status"] != "unsupported" for row in rows)


def checked(own: Own, status_of: StatusOf, folder: Path) -> list[dict[str, str]]:
    """The outcomes of a real check."""
    options = [word for case in own.cases for word in ("--case", case)]
    options += [word for dtype in own.dtypes for word in ("--dtype", dtype)]
    file = folder / "rows.json"
    status = status_of(
        "check", str(HOME / own.target), "--contract", own.contract, "--strict", "--json", str(file), *options
    )
    rows: list[dict[str, str]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert status == (1 if own.otherwise else 0)
    return rows


def why_of(own: Own, row: Mapping[str, str]) -> str:
    """What the contract decides otherwise, or empty where that was unexpected."""
    for (pattern, words), why in own.otherwise.items():
        if fnmatchcase(row["case"], pattern) and words in row["detail"]:
            return why
    return ""
