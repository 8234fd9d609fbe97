"""PyTorch's `scaled_dot_product_attention`: the contract's own signature, which needs no adapter."""

from attnsuite.registry.signatures.layout import as_it_is
from attnsuite.registry.signatures.signature import Signature

TEMPLATE = """\
def attention(
    query: Tensor,  # ... h l e
    key: Tensor,  # ... g s e
    value: Tensor,  # ... g s v
    *,
    attn_mask: Tensor | None = None,  # broadcastable to ... h l s
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
) -> Tensor:  # ... h l v
    refuse(key.shape[-2] != value.shape[-2], "key and value differ in length")
    refuse(query.shape[-1] != key.shape[-1], "query and key differ in width")
    refuse(query.shape[:-2] != key.shape[:-2] and not enable_gqa, "query and key differ in heads or items")
    refuse(attn_mask is not None and attn_mask.dtype not in (torch.bool, query.dtype), "attn_mask has another dtype")
    refuse(window is not None and (len(window) != 2 or min(side or 0 for side in window) < 0), "window is no window")
    wide = torch.promote_types(query.dtype, torch.float32)  # half types are computed in float32
    if enable_gqa and query.dim() > 2:
        refuse(key.shape[-3] == 0 or query.shape[-3] % max(key.shape[-3], 1) != 0, "heads do not divide")
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scores = (query.to(wide) @ key.to(wide).mT) * (query.shape[-1] ** -0.5 if scale is None else scale)
    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool, device=query.device)
    if is_causal:
        hidden = hidden | torch.ones_like(hidden).triu(1)
    if window is not None:
        left, right = window
        hidden = hidden if left is None else hidden | torch.ones_like(hidden).tril(-left - 1)
        hidden = hidden if right is None else hidden | torch.ones_like(hidden).triu(right + 1)
    if attn_mask is not None:
        refuse(torch.broadcast_shapes(attn_mask.shape, scores.shape) != scores.shape, "attn_mask enlarges the scores")
        is_bool = attn_mask.dtype == torch.bool
        scores = scores if is_bool else scores + attn_mask.to(wide)
        hidden = hidden | (~attn_mask if is_bool else attn_mask == -torch.inf)
    return (softmax(scores, hidden) @ value.to(wide)).to(query.dtype)
"""

SIGNATURE = Signature(
    name="sdpa",
    function="torch.nn.functional.scaled_dot_product_attention",
    axes="… h l e",
    options={name: (name,) for name in ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa", "window")},
    layout=as_it_is,
    template=TEMPLATE,
)
