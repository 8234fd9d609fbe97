"""PyTorch's own attention."""

from torch.nn.functional import scaled_dot_product_attention

from attnsuite import implementation


@implementation
def attention(query, key, value):
    return scaled_dot_product_attention(query, key, value)
