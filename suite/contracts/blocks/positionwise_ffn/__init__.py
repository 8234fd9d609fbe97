"""The feed-forward network that every position of a Transformer block goes through."""
