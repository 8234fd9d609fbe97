"""Backpropagation through time of the linear recurrent network: full, truncated and randomised."""
