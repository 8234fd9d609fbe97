"""The contract `attention`: scaled dot-product attention with PyTorch's signature."""
