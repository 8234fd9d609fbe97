"""FlexAttention over the whole pack: a document mask hides the keys of other items. It runs uncompiled."""

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

from attnsuite import implementation
from attnsuite.implementations.attention._checks import check_softcap
from attnsuite.implementations.varlen_attention._items import Window, band, check_inputs

flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # PyTorch would trace the functions for each new shape, in seconds


@implementation(
    variant="eager",
    lacks={
        "gradient": "FlexAttention has no backward pass on a CPU",
        "sink_gradient": "FlexAttention has no backward pass on a CPU",
        "cuda": "not tried: on a GPU FlexAttention is meant to be compiled",
    },
)
def varlen_attention(
    query: Tensor,  # q h e
    key: Tensor,  # k g e
    value: Tensor,  # k g v
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    window: Window | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,  # h
) -> Tensor:  # q h v
    """FlexAttention over the whole pack, with a document mask that hides the keys of other items; uncompiled.

    Compiled for a CPU, each class of dtypes, widths and heads would take 10 s; uncompiled, PyTorch computes all scores.
    Raises ValueError, before any work, for inputs that the contract does not define.
    """
    check_inputs(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, window)
    check_softcap(softcap)
    if sinks is not None and sinks.shape != query.shape[1:2]:
        raise ValueError(f"sinks must be of {query.shape[1]} heads, not {tuple(sinks.shape)}")
    output = query.new_zeros(*query.shape[:2], value.shape[-1])
    ends, key_ends = cu_seqlens_q.long(), cu_seqlens_k.long()
    used, keys = int(ends[-1]), int(key_ends[-1])
    if used and keys:  # FlexAttention refuses empty axes
        inputs = [x[:rows].transpose(0, 1)[None] for x, rows in ((query, used), (key, keys), (value, keys))]
        documents = _documents(ends, key_ends, *band(is_causal, window))
        output[:used] = _attend(*inputs, documents=documents, scale=scale, softcap=softcap, sinks=sinks).transpose(0, 1)
    return output


def _attend(
    query: Tensor,  # 1 h q e
    key: Tensor,  # 1 g k e
    value: Tensor,  # 1 g k v
    *,
    documents: BlockMask,
    scale: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:  # h q v
    def capped(score: Tensor, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return score if softcap is None else softcap * (score / softcap).tanh()

    options = capped, documents, scale, query.shape[1] != key.shape[1]
    output, further = flex_attention(query, key, value, *options, return_aux=AuxRequest(lse=True))
    if sinks is not None and further.lse is not None:  # exp(lse) is the sum of exponentials without the sink
        output = output * torch.sigmoid(further.lse - sinks[:, None]).unsqueeze(-1)
    return output[0]


def _documents(ends: Tensor, key_ends: Tensor, left: int | None, right: int | None) -> BlockMask:
    """A token sees the keys of its own item, from `left` before its position to `right` behind it."""
    item = torch.arange(len(ends) - 1).repeat_interleave(ends.diff())
    position = torch.arange(len(item)) - ends[item + 1] + key_ends[item + 1]  # of a key, aligned at the lower right
    first, last = key_ends[item], key_ends[item + 1] - 1
    first = first if left is None else first.maximum(position - left)
    last = last if right is None else last.minimum(position + right)

    def seen(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return (first[row] <= column) & (column <= last[row])

    return create_block_mask(seen, None, None, len(item), int(key_ends[-1]), "cpu")
