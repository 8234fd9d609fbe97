"""The corruption of tokens for a masked language model."""
