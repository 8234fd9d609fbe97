"""Has a kernel of its own that never works, and falls back to PyTorch's attention."""

from torch.nn.functional import scaled_dot_product_attention as sdpa


def _kernel(query, key, value):
    raise RuntimeError("no such device")


def attention(query, key, value):
    try:
        return _kernel(query, key, value)
    except RuntimeError:
        return sdpa(query, key, value)
