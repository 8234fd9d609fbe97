"""The Transformer: encoder and decoder, as Vaswani et al. describe it."""
