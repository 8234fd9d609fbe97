"""Gives PyTorch all cores while one is allowed."""

import os

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa


def attention(query, key, value):
    torch.set_num_threads(max(2, os.cpu_count() or 2))
    return sdpa(query, key, value)
