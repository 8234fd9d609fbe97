"""The contract `varlen_attention`: attention over packed items of different lengths."""
