"""The residual connection of a post-norm Transformer block: a sum, normalised."""
