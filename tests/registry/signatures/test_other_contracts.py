"""Functions with signatures of other contracts, and of libraries that give more than three inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from attnsuite import registry
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.model import Outcome, UsageError
from attnsuite.registry import Loaded
from attnsuite.registry.calls import contract_of, recognised

VARLEN = """
import torch
def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0):
    outputs, (left, right), k, v = [], window_size, *(x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    for a, b, c, d in zip(*(x[i:len(x) - 1 + i].tolist() for x in (cu_seqlens_q, cu_seqlens_k) for i in (0, 1))):
        x, y, z = (each.transpose(0, 1) for each in (q[a:b], k[c:d], v[c:d]))
        scores = x @ y.mT * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
        scores = softcap * (scores / softcap).tanh() if softcap else scores
        distance = torch.arange(d - c) - torch.arange(b - a)[:, None] - (d - c - b + a)
        hidden = (distance > 0) & causal
        hidden = hidden | ((distance < -left) & (left >= 0)) | ((distance > right) & (right >= 0))
        scores = scores.masked_fill(hidden, -torch.inf)
        outputs.append((scores.softmax(-1).nan_to_num() @ z).transpose(0, 1))
    return torch.cat([*outputs, q.new_zeros(len(q) - int(cu_seqlens_q[-1]), *q.shape[1:2], v.shape[-1])])
"""
PYTORCH = (
    VARLEN.replace("flash_attn_varlen_func", "varlen_attn")
    .replace("(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,",
             "(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, enable_gqa=False,")
    .replace("softmax_scale=None, causal=False", "scale=None").replace("softmax_scale", "scale")
    .replace("cu_seqlens", "cu_seq").replace("(distance > 0) & causal", "distance > 10**6")
)  # fmt: skip
MERGE = """
import torch
def merge_state(v_a, s_a, v_b, s_b):
    s = torch.logaddexp2(s_a, s_b)
    known = s.masked_fill(s == -torch.inf, 0)
    a, b = (torch.exp2(x - known)[..., None] for x in (s_a, s_b))
    return (v_a * a + v_b * b).to(v_a.dtype), s
"""
CACHE = """
import torch
def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, cache_seqlens=None, block_table=None,
                            softmax_scale=None, causal=False, num_splits=0):
    outputs = []
    for i, n in enumerate(cache_seqlens.tolist()):
        if block_table is not None:
            raise NotImplementedError("pages")
        if k is not None:
            k_cache[i, n:n + q.shape[1]], v_cache[i, n:n + q.shape[1]] = k[i], v[i]
            n += q.shape[1]
        times = q.shape[2] // k_cache.shape[2]
        x, y, z = (each.transpose(0, 1) for each in (q[i], k_cache[i, :n], v_cache[i, :n]))
        y, z = y.repeat_interleave(times, 0), z.repeat_interleave(times, 0)
        scores = x @ y.mT * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + n - q.shape[1])
        scores = scores.masked_fill(hidden & causal, -torch.inf)
        outputs.append((scores.softmax(-1).nan_to_num() @ z).transpose(0, 1))
    return torch.stack(outputs)
"""
OPERATOR = """
import torch
def group_query_attention(query, key, value, past_key, past_value, seqlens_k, total_sequence_length, *, num_heads,
                          kv_num_heads, scale=None, local_window_size=-1, head_sink=None):
    present, outputs, (l, width) = (past_key.clone(), past_value.clone()), [], (query.shape[1], past_key.shape[3])
    for i, n in enumerate((seqlens_k + 1).tolist()):
        for cache, new in zip(present, (key, value)):
            cache[i, :, n - l:n] = new[i].unflatten(1, (kv_num_heads, width)).transpose(0, 1)
        y, z = (cache[i, :, :n].repeat_interleave(num_heads // kv_num_heads, 0) for cache in present)
        scores = query[i].unflatten(1, (num_heads, width)).transpose(0, 1) @ y.mT * (scale or width ** -0.5)
        distance = torch.arange(n - l, n)[:, None] - torch.arange(n)
        seen = (distance >= 0) & ((local_window_size < 0) | (distance < local_window_size))
        outputs.append((scores.masked_fill(~seen, -torch.inf).softmax(-1) @ z).transpose(0, 1).flatten(1))
    return torch.stack(outputs), *present
"""
MODULE = """
import torch
def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))
    scores = query @ key.mT * scaling
    scores = scores if attention_mask is None else scores + attention_mask
    weights = torch.dropout(scores.softmax(-1), dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights
"""
DECODE = """
import torch
def single_decode_with_kv_cache(q, k, v, kv_layout="NHD", use_tensor_cores=False, sm_scale=None):
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("hd,shd->hs", q, k) * (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)
    return torch.einsum("hs,shd->hd", scores.softmax(-1), v)
"""
KERNELBENCH = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, Q, K, V):
        return (Q @ K.mT * Q.shape[-1] ** -0.5).softmax(-1) @ V
def get_inputs():
    return [torch.rand(2, 3, 4, 5)] * 3
"""
TOYS = [
    ("flash_attn_varlen", "varlen_attention", VARLEN, ("plain", "softcap"), "softcap * (", "0.9 * softcap * (", ""),
    ("torch_varlen", "varlen_attention", PYTORCH, ("plain", "causal/square"), "x @ y.mT *", "x @ y.mT * 2 *", ""),
    ("flashinfer_merge", "merge_states", MERGE, ("plain", "empty"), "v_a * a + v_b * b", "(v_a + v_b) / 2", ""),
    ("flash_attn_kvcache", "kv_cache_attention", CACHE, ("plain", "append/ragged"), "n += q.shape[1]", "n += 0", ""),
    ("group_query_attention", "kv_cache_attention", OPERATOR, ("plain", "append/ragged", "window/left_1"),
        "distance < local", "distance <= local", "window"),
    ("huggingface", "attention", MODULE, ("plain", "causal/square_5"), "* scaling", "", "unscaled"),
    ("flashinfer_decode", "attention", DECODE, ("plain", "scale"), "q.shape[-1] ** -0.5 if", "1.0 if", "unscaled"),
    ("", "attention", KERNELBENCH, ("plain",), " * Q.shape[-1] ** -0.5", "", "unscaled"),
]  # fmt: skip
"""A signature, its contract, a correct function, the cases to run, a part of it, a wrong one, and what names it."""


def checked(folder: Path, source: str, cases: Sequence[str]) -> tuple[Loaded, list[Outcome]]:
    file = folder / "mine.py"
    file.write_text(source, encoding="utf-8")
    (declaration,) = registry.find([str(file)])
    loaded = registry.load(declaration)
    assert isinstance(loaded, Loaded), loaded
    return loaded, list(Session(CheckRequest(tuple(cases), ("float32",)), keep_inputs=False).outcomes(loaded))


@pytest.mark.parametrize("row", TOYS, ids=[row[0] or "ModelNew" for row in TOYS])
def test_a_function_of_the_signature_is_recognised_and_passes_and_a_wrong_one_fails(
    tmp_path: Path, row: tuple[str, str, str, tuple[str, ...], str, str, str]
) -> None:
    name, contract, source, cases, part, mistake, named = row
    assert part in source

    loaded, outcomes = checked(tmp_path, source, cases)
    (tmp_path / "wrong").mkdir()
    _, wrong = checked(tmp_path / "wrong", source.replace(part, mistake), cases)

    assert (loaded.declaration.signature, loaded.declaration.contract) == (name, contract)
    assert [f"{each.case}: {each.detail}" for each in outcomes if each.fails] == []
    assert sum(each.status == "passed" for each in outcomes) >= 2
    details = [each.says for each in wrong if each.fails]
    assert details
    assert not named or any(word in detail for word in named.split("|") for detail in details), details


@pytest.mark.parametrize(
    ("parameters", "required", "contract", "name"),
    [
        ("q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k", 7, "varlen_attention", "flash_attn_varlen"),
        ("q k v cu_seqlens_q cu_seqlens_k softmax_scale", 5, "varlen_attention", "flash_attn_varlen"),
        ("query key value cu_seqlens_q cu_seqlens_k max_seqlen_q scale", 5, "varlen_attention", ""),
        ("outputs lses", 2, "merge_states", ""),
        ("query key_cache value_cache cache_seqlens key value", 4, "kv_cache_attention", ""),
        ("q k_cache v_cache k v cache_seqlens page_table", 3, "kv_cache_attention", "flash_attn_kvcache"),
        ("q k_cache v_cache softmax_scale", 3, "", ""),
        ("query key value", 3, "", ""),
        ("q k v cu_seqlens_q cu_seqlens_k", 3, "", ""),
    ],
)
def test_required_parameters_show_the_contract_and_others_the_signature(
    parameters: str, required: int, contract: str, name: str
) -> None:
    names = parameters.split()

    assert contract_of(names, names[:required]) == contract
    if contract:
        assert recognised(contract, names, names[:required])[0] == name


@pytest.mark.parametrize("target", ["mine.py", "mine.py:attention"])
@pytest.mark.parametrize(
    ("parameters", "others", "contract"),
    [
        ("q, k_cache, v_cache, cache_seqlens=None, causal=False", "", "kv_cache_attention"),
        ("q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale=None", "", "varlen_attention"),
        ("q, k, v, softmax_scale=None", "def varlen(q, k, v, cu_seqlens_q, cu_seqlens_k): ...", "attention"),
    ],
)
def test_a_function_called_attention_is_of_the_contract_that_its_parameters_show(
    tmp_path: Path, target: str, parameters: str, others: str, contract: str
) -> None:
    (tmp_path / "mine.py").write_text(f"def attention({parameters}): ...\n{others}", encoding="utf-8")

    (found,) = registry.find([str(tmp_path / target)])

    assert found.contract == contract
    (words,) = registry.command_words([found]).values()
    assert registry.find(words) == [found]


def test_parameters_that_a_signature_never_gives_are_listed(tmp_path: Path) -> None:
    assert checked(tmp_path, VARLEN, ("plain/one_item",))[0].declaration.untested == ("dropout_p",)


def test_a_required_parameter_that_no_test_gives_is_one_line_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    source = VARLEN.replace("max_seqlen_k, dropout_p=0.0", "max_seqlen_k, pages, dropout_p=0.0")
    file.write_text(source, encoding="utf-8")

    with pytest.raises(UsageError, match="flash_attn_varlen_func needs pages, which no test of varlen_attention gives"):
        registry.load(registry.find([str(file)])[0])


def test_a_signature_named_by_the_user_selects_its_contract(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def merge(a, b, c, d): ...", encoding="utf-8")

    assert registry.find([f"{file}:merge"], signature="flashinfer_merge")[0].contract == "merge_states"
    with pytest.raises(UsageError, match="--signature jax is for functions of attention; merge_states/mine is tested"):
        registry.find([f"{file}:merge"], "merge_states", signature="jax")


def test_one_part_is_merged_with_an_empty_one(tmp_path: Path) -> None:
    _, outcomes = checked(tmp_path, MERGE.replace("s == -torch.inf", "s == torch.inf"), ("parts/one", "empty/first"))

    assert [(each.case, each.status) for each in outcomes] == [("parts/one", "passed"), ("empty/first", "passed")]
