"""The Vision Transformer: images as sequences of patches."""
