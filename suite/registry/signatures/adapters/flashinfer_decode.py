"""flashinfer's `single_decode_with_kv_cache`: one query of (heads, width), which sees all keys; no backward.

It is called once for each item and query. A window's position is that of the last key, so that only a single query has
one.
"""

from collections.abc import Callable
from typing import Any

from attnsuite.registry.signatures.layout import NO_BACKWARD, item_by_item
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks


def keywords(call: SignatureCall) -> dict[str, Any]:
    """Options by flashinfer's names."""
    options = call.renamed(scale="sm_scale")
    if "window" in call.options:
        if call.queries > 1:
            raise NotImplementedError("windows of several queries: a call has one, at the last key")
        options["window_left"] = call.window(-1)[0]
    return options


def query_by_query(theirs: Signature, function: Callable[..., Any], call: SignatureCall) -> Any:
    """h d in and out, with keys and values s h d: a call for each item and query."""
    import torch

    def of_item(queries: Any, keys: Any, values: Any, **options: Any) -> Any:
        outputs = [function(query, keys, values, **options) for query in queries]
        return torch.stack(outputs) if outputs and all(isinstance(o, torch.Tensor) for o in outputs) else outputs

    if not call.queries:
        raise NotImplementedError("the function takes one query, and the call has none")
    return item_by_item(theirs, of_item, call)


SIGNATURE = Signature(
    function="flashinfer.single_decode_with_kv_cache",
    axes="s h d",
    options=by_name(scale="sm_scale", enable_gqa="", window="window_left"),
    others=(
        *("kv_layout", "pos_encoding_mode", "use_tensor_cores", "q_scale", "k_scale", "v_scale", "logits_soft_cap"),
        *("rope_scale", "rope_theta", "return_lse"),
    ),
    identifying=marks("use_tensor_cores"),
    keywords=keywords,
    layout=query_by_query,
    heads_inside=True,
    inputs=("q", "k", "v"),
    lacks={"gradient": NO_BACKWARD, "mask_gradient": NO_BACKWARD},
    conventions={"window": "lower_right"},
    says="a call for each item and query, q (h, d), no backward pass",
)
