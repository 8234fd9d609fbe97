"""How a Transformer tells positions apart: sines and cosines of different frequencies."""
